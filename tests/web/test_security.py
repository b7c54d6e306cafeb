"""Rate limits, hosts, origins, unexpected errors and security headers."""

from __future__ import annotations

from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from captrial.web.security import HEADERS, RateLimit, protect


def test_our_own_forms_keep_their_origin() -> None:
    """With `no-referrer` a browser sends `Origin: null` from our own forms, and over plain HTTP nothing else."""
    assert HEADERS["Referrer-Policy"] == "same-origin"


def test_a_bucket_fills_again() -> None:
    now = [0.0]
    limit = RateLimit(rate=2, burst=3, clock=lambda: now[0])

    def asked() -> bool:
        try:
            limit.check("key")
        except HTTPException as error:
            return error.status_code != 429
        return True

    assert [asked() for _ in range(4)] == [True, True, True, False]
    now[0] += 1.0
    assert [asked() for _ in range(3)] == [True, True, False]
    for number in range(10_001):
        limit.check(str(number))
    now[0] += 10
    limit.check("one more")
    assert len(limit._buckets) == 1  # full buckets are forgotten: memory stays flat


def guarded() -> TestClient:
    app = FastAPI()

    def fail() -> None:
        raise RuntimeError("a secret of the server")

    app.get("/")(lambda: "hello")
    app.post("/")(lambda: "changed")
    app.get("/page")(fail)
    app.get("/api/fail")(fail)
    protect(app, lambda message: f"<p>{message}</p>", hosts={"localhost", "annotate.example.org"})
    return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)


def test_a_host_name_that_is_not_ours_is_refused() -> None:
    with guarded() as client:
        for host in ("localhost:8765", "LOCALHOST", "127.0.0.1:1", "[::1]:80", "annotate.example.org", "192.168.1.7"):
            assert client.get("/", headers={"host": host}).status_code == 200, host
        for host in ("evil.example.com", "evil.example.com:80", "", "localhost.evil.com", "<b>", "127.0.0.1.evil.com"):
            answer = client.get("/", headers={"host": host})
            assert answer.status_code == 421, host
            assert "<b>" not in answer.text
        assert "--host-name evil.example.com" in client.get("/", headers={"host": "evil.example.com"}).text


def test_an_origin_that_is_no_address_is_refused() -> None:
    """`Origin: http://[` was an internal error."""
    with guarded() as client:
        for origin in ("http://[", "http://[::1", "null", "//", "http://localhost.evil.com"):
            assert client.post("/", headers={"origin": origin}).status_code == 403, origin
        assert client.post("/", headers={"origin": "http://localhost"}).status_code == 200


def test_an_unexpected_error_is_a_page_with_our_headers_and_no_secret() -> None:
    with guarded() as client:
        page, answer = client.get("/page"), client.get("/api/fail")
    assert page.status_code == answer.status_code == 500
    assert "try again" in page.text
    assert "try again" in answer.json()["detail"]
    assert "secret" not in page.text + answer.text
    assert all(page.headers[name] == value for name, value in HEADERS.items())
