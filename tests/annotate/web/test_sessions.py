"""Session cookies: forged ones, and those of people who are removed."""

from __future__ import annotations

import pytest

from annotate.annotation_world import join
from annotate.conftest import SignIn
from captrial.annotate.service import AnnotationService
from captrial.annotate.web.links import qr_url
from captrial.annotate.web.sessions import COOKIE

Site = tuple[AnnotationService, SignIn]


@pytest.mark.parametrize("forged", ["", "1", "eyJhbGciOiJub25lIn0.MQ.", "MQ.aaaaaa.bbbbbb", "\x01", "x" * 5000])
def test_a_forged_cookie_is_a_stranger(site: Site, forged: str) -> None:
    service, sign_in = site
    join(service, "lead", "lead")
    client = sign_in("", "stranger")
    assert client.get("/api/me", headers={"Cookie": f"{COOKIE}={forged}"}).status_code == 401


def test_the_session_cookie_is_kept_from_scripts_and_other_sites(site: Site) -> None:
    service, sign_in = site
    answer = sign_in("", "stranger").get(f"/join/{join(service, 'ann', 'annotator')[1]}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


def test_a_session_ends_with_its_account_and_a_link_with_its_renewal(site: Site) -> None:
    service, sign_in = site
    lead, ann = sign_in("lead", "lead"), sign_in("", "stranger")
    person, token = join(service, "ann", "annotator")
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


def test_people_are_cached_until_somebody_is_removed(site: tuple[AnnotationService, SignIn]) -> None:
    _, sign_in = site
    lead, ann = sign_in("lead", "lead"), sign_in("ann", "annotator")
    sessions, token = ann.app.state.context.sessions, ann.cookies[COOKIE]
    number = next(one["id"] for one in lead.get("/api/lead/overview").json()["people"] if one["name"] == "ann")
    assert ann.get("/api/me").status_code == 200
    assert sessions.cached(token).name == "ann"
    assert lead.delete(f"/api/lead/people/{number}").status_code == 200
    assert sessions.cached(token) is None
    assert ann.get("/api/me").status_code == 401


def replay(sign_in: SignIn, cookie: str) -> int:
    """The answer to somebody who kept a cookie."""
    return sign_in("", "stranger").get("/api/me", headers={"Cookie": f"{COOKIE}={cookie}"}).status_code


def test_a_cookie_is_worth_nothing_after_signing_out(site: Site) -> None:
    _, sign_in = site
    ann, other = sign_in("ann", "annotator"), sign_in("ben", "annotator")
    kept = ann.cookies[COOKIE]
    assert replay(sign_in, kept) == 200
    assert ann.post("/logout").status_code == 303
    assert replay(sign_in, kept) == 401
    assert other.get("/api/me").status_code == 200  # nobody else is signed out


def test_a_new_link_ends_the_sessions_and_the_password(site: Site) -> None:
    _, sign_in = site
    lead, ann = sign_in("lead", "lead"), sign_in("ann", "annotator")
    ann.post("/password", data={"password": "a long password"})
    kept, number = ann.cookies[COOKIE], ann.get("/api/me").status_code
    assert number == replay(sign_in, kept) == 200
    number = next(one["id"] for one in lead.get("/api/lead/overview").json()["people"] if one["name"] == "ann")
    assert lead.post(f"/api/lead/people/{number}/renew", json={}).status_code == 200
    assert replay(sign_in, kept) == 401
    stranger = sign_in("", "stranger")
    assert stranger.post("/login", data={"name": "ann", "password": "a long password"}).status_code == 401


def test_a_new_password_ends_the_other_sessions(site: Site) -> None:
    service, sign_in = site
    _, token = join(service, "ann", "annotator")
    phone, desk = sign_in("", "stranger"), sign_in("", "stranger")
    for client in (phone, desk):
        client.get(f"/join/{token}")
    kept = phone.cookies[COOKIE]
    assert desk.post("/password", data={"password": "a long password"}).status_code == 303
    assert desk.get("/api/me").status_code == 200  # the one that set it goes on
    assert replay(sign_in, kept) == phone.get("/api/me").status_code == 401


def test_no_image_before_consent(site: Site) -> None:
    service, sign_in = site
    _, token = join(service, "ann", "annotator", ready=False)
    ann = sign_in("", "stranger")
    ann.get(f"/join/{token}")
    assert ann.get("/image/1").status_code == 403
    assert ann.post("/api/consent", json={}).status_code == 200
    assert ann.get("/image/1").status_code == 200
    assert sign_in("lead", "lead").get("/image/1").status_code == 200


def test_a_lead_on_this_machine_invites_phones_by_the_address_of_the_network(site: Site) -> None:
    service, sign_in = site
    lead = sign_in("lead", "lead")
    lead.base_url = "http://localhost:8765"
    lead.get(f"/join/{join(service, 'Lea', 'lead')[1]}")  # cookies are of a host
    invited = {"name": "Dora", "role": "annotator"}
    service.remember_address("http://127.0.0.1:8765")
    alone = lead.post("/api/lead/invite", json=invited).json()
    assert alone["link"] == f"http://localhost:8765{alone['path']}"  # served to this machine only
    service.remember_address("http://192.168.1.7:8765")
    shared = lead.post("/api/lead/invite", json=invited).json()
    assert shared["link"] == f"http://192.168.1.7:8765{shared['path']}"
    assert shared["qr"] == qr_url(shared["link"])
    renewed = lead.post(f"/api/lead/people/{shared['id']}/renew", json={}).json()
    assert renewed["link"].startswith("http://192.168.1.7:8765/join/")
