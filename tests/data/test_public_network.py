"""Addresses from files reach public hosts only: by number, by name, after redirects."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from captrial.data import public_network
from captrial.data.public_network import (
    ALLOW_PRIVATE,
    PrivateAddressError,
    is_public,
    public_async_client,
    public_client,
)


class Redirect(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        target = self.path.partition("?to=")[2]
        self.send_response(302 if target else 200)
        if target:
            self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server on all addresses of this machine."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", ALLOW_PRIVATE):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("0.0.0.0", 0), Redirect)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def status(url: str, **options: Any) -> int:
    """The status by the synchronous and by the asynchronous client, which must agree."""

    async def asynchronous() -> int:
        async with public_async_client(follow_redirects=True, timeout=5, **options) as client:
            return (await client.get(url)).status_code

    with public_client(follow_redirects=True, timeout=5, **options) as client:
        found = client.get(url).status_code
    assert asyncio.run(asynchronous()) == found
    return found


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0.0.0.0", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_private_hosts_are_refused(host: str, port: int) -> None:
    with pytest.raises(PrivateAddressError, match="is not a public address; allow it with --allow-private"):
        status(f"http://{host}:{port}/")


def test_private_hosts_are_reached_if_allowed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert status(f"http://127.0.0.1:{port}/", allow_private=True) == 200
    monkeypatch.setenv(ALLOW_PRIVATE, "1")
    assert status(f"http://127.0.0.1:{port}/") == 200


def test_redirects_are_checked(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_network, "is_public", lambda address: address == "127.0.0.1")
    assert status(f"http://127.0.0.1:{port}/") == 200
    assert status(f"http://127.0.0.1:{port}/?to=http://127.0.0.1:{port}/") == 200
    for target in ("127.0.0.2", "[::1]"):
        with pytest.raises(PrivateAddressError):
            status(f"http://127.0.0.1:{port}/?to=http://{target}:{port}/")


def test_the_address_that_was_checked_is_the_one_that_is_reached(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers differently every time cannot lead to another address."""
    asked, resolve = [], socket.getaddrinfo

    def rebinding(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "photos.example":
            asked.append(host)
            host = "127.0.0.1" if len(asked) % 2 else "127.0.0.2"
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    monkeypatch.setattr(public_network, "is_public", lambda address: address == "127.0.0.1")
    with public_client(timeout=5) as client:
        assert client.get(f"http://photos.example:{port}/").status_code == 200
    assert len(asked) == 1
    with public_client(timeout=5) as client, pytest.raises(PrivateAddressError, match=r"photos.example \(127.0.0.2\)"):
        client.get(f"http://photos.example:{port}/")


def test_unknown_names_are_connection_errors(port: int) -> None:
    with pytest.raises(httpx.ConnectError):
        status("http://no-such-host.invalid/")


def test_behind_a_proxy_hosts_are_checked_before_they_are_asked_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert status("http://93.184.216.34/") == 200  # the proxy's answer
    with pytest.raises(PrivateAddressError):
        status("http://10.0.0.1/")


@pytest.mark.parametrize(
    "address",
    ["10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255", "::",
     "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:192.168.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "ff02::1", "x"],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)
