"""The web application from outside: who may do what, and what a hostile request achieves (nothing)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image

import captrial.web
from annotate.annotation_world import CAPTION, context_of, join, use_settings
from annotate.conftest import SignIn, signing_in
from captrial.annotate import accounts
from captrial.annotate.rounds.qualification import set_images
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings
from captrial.annotate.web.app import create_app
from captrial.web.security import CLIENT_HEADER, MAX_BODY

Site = tuple[AnnotationService, SignIn]
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
    ("GET", "/qualification", {"annotator"}),
    ("GET", "/write", {"annotator"}),
    ("GET", "/inspect", {"inspector"}),
    ("GET", "/judge", WORKERS),
    ("GET", "/lead", {"lead"}),
    ("POST", "/password", MEMBERS),
    ("POST", "/logout", EVERYBODY),
]


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
    service, sign_in = site
    use_settings(service, AnnotationSettings(judges=1, annotators_inspect=0))
    client = sign_in("somebody", role)
    for method, path, body, allowed in API:
        answer = client.request(method, path, json=body)
        if role in allowed:
            assert answer.status_code in (200, 404, 409, 422), (method, path, answer.text)
        else:
            assert answer.status_code == (401 if role == "stranger" else 403), (method, path, answer.text)
            assert set(answer.json()) == {"detail"}


@pytest.mark.parametrize("role", ROLES)
def test_pages_are_refused_to_other_roles(site: Site, role: str) -> None:
    service, sign_in = site
    use_settings(service, AnnotationSettings(judges=1, annotators_inspect=0))
    client = sign_in("somebody", role)
    for method, path, allowed in PAGES:
        answer = client.request(
            method, path, data={"password": "a good long password"} if path == "/password" else None
        )
        refused = 401 if role == "stranger" else 403
        assert answer.status_code in ((200, 303) if role in allowed else (refused,)), (path, answer.text)


def test_nobody_works_before_consent_and_qualification(site: Site) -> None:
    service, sign_in = site
    with service.store.change() as connection:
        set_images(service.store, connection, {"practice": [CAPTION]})
    client = sign_in("", "stranger")
    client.get(f"/join/{join(service, 'ann', 'annotator', ready=False)[1]}")
    assert client.get("/", follow_redirects=True).url.path == "/consent"
    assert client.get("/api/next/write").status_code == 403
    assert client.get("/api/qualification").status_code == 403
    assert client.get("/write").status_code == 403
    client.post("/api/consent", json={})
    assert client.get("/", follow_redirects=True).url.path == "/qualification"
    assert client.get("/api/next/write").status_code == 403


# Requests that should not have been made ------------------------------------------------------------------------------


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


def test_a_submission_sent_twice_is_taken_once(site: Site) -> None:
    _, sign_in = site
    client = sign_in("ann", "annotator")
    item = client.get("/api/next/write").json()["item"]
    body = {"item": item, "text": CAPTION, "key": KEY}
    first, again = (client.post("/api/write", json=body) for _ in range(2))
    assert first.json()["taken"]
    assert again.json()["taken"]
    assert first.json()["next"]["item"] == again.json()["next"]["item"] != item
    assert again.json()["next"]["done"] == 1
    other = client.post("/api/write", json={**body, "key": KEY + "b"})
    assert other.status_code == 409


def test_too_many_requests_are_refused(site: Site) -> None:
    _, sign_in = site
    client = sign_in("ann", "annotator")
    limit = context_of(client).requests
    limit.rate, limit.burst = 0.001, 20  # however slow this machine is
    answers = [client.get("/api/me").status_code for _ in range(25)]
    assert answers == [200] * 20 + [429] * 5
    assert int(client.get("/api/me").headers["retry-after"]) >= 1
    assert sign_in("ben", "annotator").get("/api/me").status_code == 200  # others do not


def test_passwords_cannot_be_guessed_for_long(site: Site) -> None:
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
def hostile(tmp_path: Path) -> Iterator[tuple[AnnotationService, SignIn]]:
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
    service, sign_in = hostile
    use_settings(
        service, AnnotationSettings(judges=1, consent=EVIL, writers=1, inspectors=1, discards=1, min_captions=1)
    )
    name = f"{EVIL}"[:80]
    ann, ivy, lead = (sign_in(name, role) for role in ("annotator", "inspector", "lead"))
    item = ann.get("/api/next/write").json()["item"]
    assert ann.post("/api/write", json={"item": item, "text": EVIL, "key": KEY}).status_code == 200
    following = ivy.get("/api/next/inspect").json()
    assert following["caption"] == EVIL
    body = {"item": following["item"], "right": False, "reason": EVIL, "key": KEY}
    assert ivy.post("/api/vote", json=body).status_code == 200
    pages = {ann: ("/", "/consent", "/write", "/judge"), ivy: ("/inspect", "/judge", "/consent"), lead: ("/lead",)}
    for client, paths in pages.items():
        for path in (*paths, f"/{EVIL}", f"/join/{EVIL}"):
            page = client.get(path)
            assert page.headers["content-type"].startswith("text/html")
            for attack in ("<script>alert", "<img src=x", "{{7*7}}49", "<b>evil"):
                assert attack not in page.text, path
    for path in ("/api/lead/overview", "/api/lead/export/captions", "/api/lead/export/coco", "/api/lead/export/audit"):
        answer = lead.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"] in ("application/json", "application/octet-stream")  # never a page


def test_scripts_put_answers_into_pages_as_text_only() -> None:
    own, shared = Path(create_app.__code__.co_filename), Path(captrial.web.__file__)
    for script in (path for file in (own, shared) for path in (file.parent / "static").glob("*.js")):
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


def test_an_annotator_never_sees_others_captions_or_models(site: Site) -> None:
    service, sign_in = site
    use_settings(service, AnnotationSettings(judges=1))
    ann, ben = sign_in("ann", "annotator"), sign_in("ben", "annotator")
    secret = "a zebra that only ann has seen walks over the road"
    following = ann.get("/api/next/write").json()
    while following["item"] is not None:
        body = {"item": following["item"], "text": secret, "key": f"{KEY}{following['item']}"}
        following = ann.post("/api/write", json=body).json()["next"]
    asked = ["/", "/consent", "/write", "/judge", "/api/me", "/api/next/write", "/api/next/judge", "/api/qualification"]
    seen = " ".join(ben.get(path).text for path in asked)
    assert "zebra" not in seen
    assert not any(model in seen for model in service.competition.models)
    assert not any(image in seen for image in service.competition.selected_images())  # nor file names
    judged = ben.get("/api/next/judge").json()
    assert set(judged) >= {"item", "image", "captions"}


# Images -------------------------------------------------------------------------------------------------------------


# The command line -----------------------------------------------------------------------------------------------------


def test_removed_people_leave_no_name(site: Site) -> None:
    service, sign_in = site
    lead = sign_in("lead", "lead")
    person, _ = join(service, "Ann Onymous", "annotator")
    lead.delete(f"/api/lead/people/{person.id}")
    everything = "".join(lead.get(f"/api/lead/export/{form}").text for form in ("captions", "audit", "coco"))
    assert "Onymous" not in everything
    with service.store.read() as connection:
        assert accounts.by_id(connection, person.id) is None


def test_behind_https_nobody_gets_in_without_an_account_and_cookies_are_secure(directory: Path) -> None:
    application = create_app(directory, secure=True)
    with TestClient(application, base_url="https://testserver", follow_redirects=False) as client:
        for method, path, _, _ in API:
            assert client.request(method, path, json={}, headers={CLIENT_HEADER: "x"}).status_code == 401
        answer = client.get(f"/join/{join(application.state.context.service, 'ann', 'annotator')[1]}")
        assert "secure" in answer.headers["set-cookie"].lower()
