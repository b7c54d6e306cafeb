"""The web application from outside: who may do what, and what a hostile request achieves (nothing)."""

from __future__ import annotations

import io
import json
import string
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import hypothesis.strategies as st
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from hypothesis import example, given, settings
from itsdangerous import URLSafeTimedSerializer
from PIL import Image, PngImagePlugin

from annotate.conftest import SignIn, signing_in
from annotate.world import SENTENCE, join, make_competition
from captrial.annotate import accounts
from captrial.annotate.rounds.qualification import set_images
from captrial.annotate.service import Room
from captrial.annotate.settings import Settings, write_settings
from captrial.annotate.web.app import create_app
from captrial.annotate.web.context import Context
from captrial.annotate.web.sessions import COOKIE
from captrial.cli import main
from captrial.data.image_source import find_image
from captrial.web.security import CLIENT_HEADER, MAX_BODY, RateLimit

Site = tuple[Room, SignIn]
ROLES = ("stranger", "annotator", "inspector", "lead")
EVERYBODY, MEMBERS, WORKERS = set(ROLES), {"annotator", "inspector", "lead"}, {"annotator", "inspector"}
ROUNDS = ("write", "inspect", "judge")
KEY = "a-key-of-a-submission"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"

# (method, path, body) -> who may; a permitted request may still be too early (409) or about nothing (404, 422)
API = [
    ("GET", "/api/me", None, MEMBERS),
    ("POST", "/api/consent", {}, MEMBERS),
    ("GET", "/api/next/write", None, {"annotator"}),
    ("GET", "/api/next/inspect", None, {"inspector"}),
    ("GET", "/api/next/judge", None, WORKERS),
    ("POST", "/api/write", {"item": 1, "text": "a dog", "key": KEY}, {"annotator"}),
    ("POST", "/api/refuse", {"item": 2, "key": KEY + "2"}, {"annotator"}),
    ("POST", "/api/vote", {"item": 1, "right": True, "key": KEY}, {"inspector"}),
    ("POST", "/api/judge", {"item": 1, "winner": "tie", "key": KEY}, WORKERS),
    ("POST", "/api/undo/write", {"key": "undo-0000"}, {"annotator"}),
    ("POST", "/api/undo/inspect", {"key": "undo-0001"}, {"inspector"}),
    ("POST", "/api/undo/judge", {"key": "undo-0002"}, WORKERS),
    ("PUT", "/api/draft", {"item": 3, "text": "a d"}, {"annotator"}),
    ("POST", "/api/check", {"text": "a dog"}, MEMBERS),
    ("GET", "/api/qualification", None, {"annotator"}),
    ("POST", "/api/qualification", {"item": 1, "text": "a dog"}, {"annotator"}),
    ("GET", "/image/1", None, MEMBERS),
    ("GET", "/api/lead/overview", None, {"lead"}),
    ("GET", "/api/lead/ranking", None, {"lead"}),
    ("POST", "/api/lead/invite", {"name": "x", "role": "annotator"}, {"lead"}),
    ("POST", "/api/lead/people/999/renew", {}, {"lead"}),
    ("POST", "/api/lead/people/999/qualify", {}, {"lead"}),
    ("DELETE", "/api/lead/people/999", None, {"lead"}),
    ("PATCH", "/api/lead/settings", {"writers": 3}, {"lead"}),
    ("GET", "/api/lead/export/coco", None, {"lead"}),
]
PAGES = [
    ("GET", "/", EVERYBODY),
    ("GET", "/consent", MEMBERS),
    ("GET", "/qualify", {"annotator"}),
    ("GET", "/write", {"annotator"}),
    ("GET", "/inspect", {"inspector"}),
    ("GET", "/judge", WORKERS),
    ("GET", "/lead", {"lead"}),
    ("POST", "/password", MEMBERS),
    ("POST", "/logout", EVERYBODY),
]


def context_of(client: TestClient) -> Context:
    assert isinstance(client.app, FastAPI)
    context: Context = client.app.state.context
    return context


def use_settings(room: Room, chosen: Settings) -> None:
    with room.store.change() as connection:
        write_settings(room.store, connection, chosen)
        room.refresh_images(connection)


def test_the_matrix_covers_every_route_of_the_api(site: Site) -> None:
    _, sign_in = site
    described = sign_in("", "stranger").get("/openapi.json").json()["paths"]
    routes = {(method.upper(), path) for path, methods in described.items() for method in methods}
    replaced = [("999", "{number}"), ("/coco", "/{form}"), ("/image/1", "/image/{number}")]
    replaced += [(f"/{verb}/{name}", f"/{verb}/{{round_}}") for verb in ("next", "undo") for name in ROUNDS]
    covered = set()
    for method, path, _, _ in API:
        for found, name in replaced:
            path = path.replace(found, name)
        covered.add((method, path))
    assert covered == routes


@pytest.mark.parametrize("role", ROLES)
def test_one_roles_actions_are_refused_to_another(site: Site, role: str) -> None:
    room, sign_in = site
    use_settings(room, Settings(judges=1))
    client = sign_in("somebody", role)
    for method, path, body, allowed in API:
        answer = client.request(method, path, json=body)
        if role in allowed:
            assert answer.status_code in (200, 404, 409, 422), (method, path, answer.text)
        else:
            assert answer.status_code == (401 if role == "stranger" else 403), (method, path, answer.text)
            assert set(answer.json()) == {"detail"}


@pytest.mark.parametrize("role", ROLES)
def test_pages_are_for_those_they_are_for(site: Site, role: str) -> None:
    room, sign_in = site
    use_settings(room, Settings(judges=1))
    client = sign_in("somebody", role)
    for method, path, allowed in PAGES:
        answer = client.request(
            method, path, data={"password": "a good long password"} if path == "/password" else None
        )
        refused = 401 if role == "stranger" else 403
        assert answer.status_code in ((200, 303) if role in allowed else (refused,)), (path, answer.text)


def test_nobody_works_before_consent_and_qualification(site: Site) -> None:
    room, sign_in = site
    with room.store.change() as connection:
        set_images(room.store, connection, {"practice": [SENTENCE]})
    client = sign_in("", "stranger")
    client.get(f"/join/{join(room, 'ann', 'annotator', ready=False)[1]}")
    assert client.get("/", follow_redirects=True).url.path == "/consent"
    assert client.get("/api/next/write").status_code == 403
    assert client.get("/api/qualification").status_code == 403
    assert client.get("/write").status_code == 403
    client.post("/api/consent", json={})
    assert client.get("/", follow_redirects=True).url.path == "/qualify"
    assert client.get("/api/next/write").status_code == 403


# Requests that should not have been made ------------------------------------------------------------------------------


@pytest.mark.parametrize("forged", ["", "1", "eyJhbGciOiJub25lIn0.MQ.", "MQ.aaaaaa.bbbbbb", "\x01", "x" * 5000])
def test_a_forged_cookie_is_a_stranger(site: Site, forged: str) -> None:
    room, sign_in = site
    join(room, "lead", "lead")
    client = sign_in("", "stranger")
    own = URLSafeTimedSerializer("another key", salt="captrial-session").dumps(1)
    for cookie in (forged, own):
        assert client.get("/api/me", headers={"Cookie": f"{COOKIE}={cookie}"}).status_code == 401


def test_the_session_cookie_is_kept_from_scripts_and_other_sites(site: Site) -> None:
    room, sign_in = site
    answer = sign_in("", "stranger").get(f"/join/{join(room, 'ann', 'annotator')[1]}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


def test_a_session_ends_with_its_account_and_a_link_with_its_renewal(site: Site) -> None:
    room, sign_in = site
    lead, ann = sign_in("lead", "lead"), sign_in("", "stranger")
    person, token = join(room, "ann", "annotator")
    ann.get(f"/join/{token}")
    renewed = lead.post(f"/api/lead/people/{person.id}/renew", json={}).json()["path"]
    assert sign_in("", "stranger").get(f"/join/{token}").status_code == 404
    assert sign_in("", "stranger").get(renewed).status_code == 303
    assert lead.delete(f"/api/lead/people/{person.id}").status_code == 200
    assert ann.get("/api/me").status_code == 401
    assert sign_in("", "stranger").get(renewed).status_code == 404
    assert (
        lead.delete(f"/api/lead/people/{lead.get('/api/lead/overview').json()['people'][0]['id']}").status_code == 422
    )


@pytest.mark.parametrize(
    ("headers", "trusted"),
    [
        ({}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://testserver"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"}, False),
        ({"Sec-Fetch-Site": "cross-site", CLIENT_HEADER: "evil"}, False),
        ({"Origin": "http://testserver.evil.example"}, False),
        ({CLIENT_HEADER: "a program"}, True),
    ],
)
def test_requests_from_other_sites_change_nothing(site: Site, headers: dict[str, str], trusted: bool) -> None:
    _, sign_in = site
    bare = sign_in("ann", "annotator")
    del bare.headers[CLIENT_HEADER]
    for method, path in (("POST", "/api/consent"), ("POST", "/logout"), ("PUT", "/api/draft")):
        answer = bare.request(method, path, headers=headers, json={"item": 1, "text": "x"})
        assert (answer.status_code != 403) == trusted, (path, answer.text)


def test_our_own_forms_keep_their_origin() -> None:
    """With `no-referrer` a browser sends `Origin: null` from our own forms, and over plain HTTP nothing else."""
    from captrial.web.security import HEADERS

    assert HEADERS["Referrer-Policy"] == "same-origin"


def test_a_submission_sent_twice_is_taken_once(site: Site) -> None:
    _, sign_in = site
    client = sign_in("ann", "annotator")
    item = client.get("/api/next/write").json()["item"]
    body = {"item": item, "text": SENTENCE, "key": KEY}
    first, again = (client.post("/api/write", json=body) for _ in range(2))
    assert first.json()["taken"]
    assert again.json()["taken"]
    assert first.json()["next"]["item"] == again.json()["next"]["item"] != item
    assert again.json()["next"]["done"] == 1
    other = client.post("/api/write", json={**body, "key": KEY + "b"})
    assert other.status_code == 409


def test_somebody_who_asks_too_often_waits(site: Site) -> None:
    _, sign_in = site
    client = sign_in("ann", "annotator")
    limit = context_of(client).requests
    limit.rate, limit.burst = 0.001, 20  # however slow this machine is
    answers = [client.get("/api/me").status_code for _ in range(25)]
    assert answers == [200] * 20 + [429] * 5
    assert int(client.get("/api/me").headers["retry-after"]) >= 1
    assert sign_in("ben", "annotator").get("/api/me").status_code == 200  # others do not


def test_passwords_cannot_be_tried_for_long(site: Site) -> None:
    _, sign_in = site
    ann = sign_in("ann", "annotator")
    limit = context_of(ann).passwords
    limit.burst, limit.rate = 5, 0.001
    assert ann.post("/password", data={"password": "short"}).status_code == 422
    assert ann.post("/password", data={"password": "correct horse battery"}).status_code == 303
    client = sign_in("", "stranger")
    assert client.post("/login", data={"name": "ann", "password": "wrong password"}).status_code == 401
    assert client.post("/login", data={"name": "nobody", "password": "wrong password"}).status_code == 401
    assert client.post("/login", data={"name": "ann", "password": "correct horse battery"}).status_code == 303
    assert client.get("/api/me").json()["name"] == "ann"
    found = {client.post("/login", data={"name": "ann", "password": "wrong"}).status_code for _ in range(4)}
    assert found == {401, 429}


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


@pytest.mark.parametrize("role", ["annotator", "stranger"])
def test_large_bodies_and_bodies_without_length_are_refused(site: Site, role: str) -> None:
    _, sign_in = site
    client = sign_in("ann", role)
    large = client.post("/api/check", json={"text": "x" * MAX_BODY})
    assert large.status_code == 413
    assert client.post("/api/check", content=iter([b'{"text": ', b'"x"}'])).status_code == 411
    assert client.post("/api/check", content=b"{}", headers={"Content-Length": "-1"}).status_code == 400
    assert client.post("/api/check", content=b"{}", headers={"Content-Length": "9" * 5000}).status_code == 413


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"text": 5}', b'{"text": "a", "more": 1}', b'{"text": "\\ud800"}', b"\xff"]
)
def test_nonsense_is_refused_in_one_sentence(site: Site, content: bytes) -> None:
    _, sign_in = site
    answer = sign_in("ann", "annotator").post(
        "/api/check", content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (400, 422), answer.text
    assert isinstance(answer.json()["detail"], str)


# What people wrote is text, never markup ------------------------------------------------------------------------------


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[Room, SignIn]]:
    """A competition whose models, captions and file names are attacks."""
    name = "<img src=x onerror=alert(1)>.png"
    source = tmp_path / "source"
    (source / "images").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(source / "images" / name)
    files = {}
    for model in ("<b>evil</b>", "fine"):
        files[model] = source / f"{len(files)}.json"
        files[model].write_text(json.dumps([{"image_id": name, "caption": f"{EVIL} by {len(files)}"}]))
    from captrial.compete.competition import Competition
    from captrial.compete.storage.manifest import SelectionSettings

    made = Competition.create(tmp_path / "competition", files, images=source / "images")
    made.select(SelectionSettings(1, 0))
    with signing_in(create_app(tmp_path / "competition")) as found:
        yield found


def test_attacks_arrive_as_text_in_every_page(hostile: Site) -> None:
    room, sign_in = hostile
    use_settings(room, Settings(judges=1, consent=EVIL, writers=1, inspectors=1, discards=1, min_sentences=1))
    name = f"{EVIL}"[:80]
    ann, ivy, lead = (sign_in(name, role) for role in ("annotator", "inspector", "lead"))
    item = ann.get("/api/next/write").json()["item"]
    assert ann.post("/api/write", json={"item": item, "text": EVIL, "key": KEY}).status_code == 200
    following = ivy.get("/api/next/inspect").json()
    assert following["sentence"] == EVIL
    body = {"item": following["item"], "right": False, "reason": EVIL, "key": KEY}
    assert ivy.post("/api/vote", json=body).status_code == 200
    pages = {ann: ("/", "/consent", "/write", "/judge"), ivy: ("/inspect", "/judge", "/consent"), lead: ("/lead",)}
    for client, paths in pages.items():
        for path in (*paths, f"/{EVIL}", f"/join/{EVIL}"):
            page = client.get(path)
            assert page.headers["content-type"].startswith("text/html")
            for attack in ("<script>alert", "<img src=x", "{{7*7}}49", "<b>evil"):
                assert attack not in page.text, path
    for path in ("/api/lead/overview", "/api/lead/export/sentences", "/api/lead/export/coco", "/api/lead/export/audit"):
        answer = lead.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"] in ("application/json", "application/octet-stream")  # never a page


def test_scripts_put_answers_into_pages_as_text_only() -> None:
    static = Path(create_app.__code__.co_filename).parent / "static"
    for script in static.glob("*.js"):
        code = script.read_text()
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "srcdoc",
        ):
            assert way not in code, (script.name, way)


def test_every_answer_carries_the_security_headers(site: Site) -> None:
    _, sign_in = site
    clients = [sign_in(role, role) for role in ROLES]
    paths = [path for _, path, _ in PAGES] + ["/nothing/here", "/static/style.css", "/static/none", "/image/1"]
    for client in clients:
        for path in [*paths, "/api/me", "/api/lead/overview", "/openapi.json"]:
            answer = client.get(path)
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            if answer.headers.get("content-type", "").startswith("text/html"):
                assert " style=" not in answer.text
                assert "<script>" not in answer.text
                assert not any(f" on{event}=" in answer.text for event in ("click", "load", "error", "submit"))


def test_an_annotator_never_sees_others_sentences_or_models(site: Site) -> None:
    room, sign_in = site
    use_settings(room, Settings(judges=1))
    ann, ben = sign_in("ann", "annotator"), sign_in("ben", "annotator")
    secret = "a zebra that only ann has seen walks over the road"
    following = ann.get("/api/next/write").json()
    while following["item"] is not None:
        body = {"item": following["item"], "text": secret, "key": f"{KEY}{following['item']}"}
        following = ann.post("/api/write", json=body).json()["next"]
    asked = ["/", "/consent", "/write", "/judge", "/api/me", "/api/next/write", "/api/next/judge", "/api/qualification"]
    seen = " ".join(ben.get(path).text for path in asked)
    assert "zebra" not in seen
    assert not any(model in seen for model in room.competition.models)
    assert not any(image in seen for image in room.competition.selected_images())  # nor file names
    judged = ben.get("/api/next/judge").json()
    assert set(judged) >= {"item", "image", "captions"}


# Images -------------------------------------------------------------------------------------------------------------


def test_images_are_reencoded_without_metadata(tmp_path: Path) -> None:
    directory = make_competition(tmp_path)
    exif = Image.Exif()
    exif[0x010E] = "taken at a secret place"
    information = PngImagePlugin.PngInfo()
    information.add_text("Comment", "a secret caption of this image")
    for path in (tmp_path / "source" / "images").iterdir():
        Image.new("RGB", (2400, 30), (200, 10, 10)).save(path, pnginfo=information, exif=exif)
    application = create_app(directory)
    with TestClient(application, headers={CLIENT_HEADER: "test"}) as client:
        client.get(f"/join/{join(application.state.context.room, 'ann', 'annotator')[1]}")
        answer = client.get("/image/1")
        assert answer.headers["content-type"] == "image/jpeg"
        assert b"secret" not in answer.content
        image = Image.open(io.BytesIO(answer.content))
        assert image.format == "JPEG"
        assert image.size == (1600, 20)
        assert not image.getexif()
        kept = list((directory / "served").iterdir())
        assert [file.read_bytes() for file in kept] == [answer.content]  # encoded once
        assert client.get("/image/1").content == answer.content
        assert not set(image.info) & {"exif", "comment", "icc_profile", "xmp"}


traps = st.lists(
    st.sampled_from(
        ["..", ".", "/", "\\", "%2e%2e", "%2f", "secret.png", "a.png", "images", "\0", "~", "link", "é", "x" * 300]
    ),
    max_size=8,
).map("".join) | st.text(max_size=40)


@pytest.fixture(scope="module")
def trap() -> Iterator[Path]:
    """An image root with a secret beside it and a link that leads there."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "images"
        root.mkdir()
        Image.new("RGB", (4, 4)).save(root / "a.png")
        Image.new("RGB", (4, 4)).save(Path(folder) / "secret.png")
        (root / "link").symlink_to(Path(folder) / "secret.png")
        (root / "up").symlink_to(folder)
        yield root


@settings(max_examples=150, deadline=None)
@given(name=traps)
@example(name="../secret.png")
@example(name="../secret")
@example(name="link")
@example(name="up/secret")
@example(name="x" * 5000)
@example(name="9" * 5000)
@example(name="\ud800")
@example(name="a\0.png")
def test_no_id_leads_out_of_the_image_root(trap: Path, name: str) -> None:
    found = find_image(trap, name)
    assert found is None or found.resolve() == (trap / "a.png").resolve()


def test_ids_of_images_inside_are_found(trap: Path) -> None:
    assert find_image(trap, "a.png") == find_image(trap, "a") == (trap / "a.png").resolve()


def test_no_address_leads_to_a_file(site: Site) -> None:
    room, sign_in = site
    client = sign_in("ann", "annotator")
    limit = context_of(client).requests
    limit.rate = limit.burst = 1e9
    (room.directory.parent / "secret.png").write_bytes(b"a secret")

    @settings(max_examples=60, deadline=None)
    @given(name=traps | st.text(string.printable, max_size=20))
    @example(name="../secret.png")
    @example(name="..%2fsecret.png")
    @example(name="%2e%2e/%2e%2e/etc/passwd")
    def ask(name: str) -> None:
        for path in ("/image/", "/static/"):
            address = path + quote(name.encode(errors="replace"), safe="/%~")
            answer = client.get(address)
            assert b"a secret" not in answer.content
            assert b"root:" not in answer.content
            assert answer.status_code in (200, 303, 307, 401, 404, 405, 422), address

    ask()


def test_a_image_that_is_not_there_is_not_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    room, sign_in = site
    client = sign_in("ann", "annotator")
    assert client.get("/image/1").status_code == 200
    assert client.get("/image/99999").status_code == 404
    (room.directory / "broken.png").write_bytes(b"not an image")
    monkeypatch.setattr(room.competition.image_source, "path", lambda _: room.directory / "broken.png")
    assert client.get("/image/2").status_code == 404
    monkeypatch.setattr(room.competition.image_source, "path", lambda _: room.directory / "gone.png")
    assert client.get("/image/3").status_code == 404


# The command line -----------------------------------------------------------------------------------------------------


def serve(directory: Path, *options: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    import uvicorn

    started: list[dict[str, object]] = []

    def run(application: FastAPI, **options: object) -> None:
        started.append(options)
        application.state.context.close()

    monkeypatch.setattr(uvicorn, "run", run)
    with pytest.raises(SystemExit) as ended:
        main(["annotate", "serve", str(directory), *options])
    return started if not ended.value.code else []


def test_other_machines_are_let_in_only_when_asked_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not serve(directory, "--host", "0.0.0.0", monkeypatch=monkeypatch)
    assert "--allow-remote" in capsys.readouterr().err
    assert not (directory / "annotations.sqlite").exists()
    started = serve(directory, monkeypatch=monkeypatch)
    assert started[0]["host"] == "127.0.0.1"
    assert "HTTPS" not in capsys.readouterr().err


def test_remote_needs_accounts_and_warns_without_tls(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(directory, "--host", "0.0.0.0", "--allow-remote", monkeypatch=monkeypatch)
    said = capsys.readouterr()
    assert "HTTPS" in said.err
    assert "/join/" in said.out  # the first account, which everything else needs
    started = serve(directory, "--host", "0.0.0.0", "--allow-remote", "--https", monkeypatch=monkeypatch)
    assert started[0]["proxy_headers"] is True
    assert "HTTPS" not in capsys.readouterr().err
    application = create_app(directory, secure=True)
    with TestClient(application, base_url="https://testserver", follow_redirects=False) as client:
        for method, path, _, _ in API:
            assert client.request(method, path, json={}, headers={CLIENT_HEADER: "x"}).status_code == 401
        answer = client.get(f"/join/{join(application.state.context.room, 'ann', 'annotator')[1]}")
        assert "secure" in answer.headers["set-cookie"].lower()


def test_removed_people_leave_no_name(site: Site) -> None:
    room, sign_in = site
    lead = sign_in("lead", "lead")
    person, _ = join(room, "Ann Onymous", "annotator")
    lead.delete(f"/api/lead/people/{person.id}")
    everything = "".join(lead.get(f"/api/lead/export/{form}").text for form in ("sentences", "audit", "coco"))
    assert "Onymous" not in everything
    with room.store.read() as connection:
        assert accounts.by_id(connection, person.id) is None
