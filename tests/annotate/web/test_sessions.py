"""Session cookies: forged ones, and those of people who are removed."""

from __future__ import annotations

import pytest
from itsdangerous import URLSafeTimedSerializer

from annotate.annotation_world import join
from annotate.conftest import SignIn
from captrial.annotate.service import AnnotationService
from captrial.annotate.web.sessions import COOKIE

Site = tuple[AnnotationService, SignIn]


@pytest.mark.parametrize("forged", ["", "1", "eyJhbGciOiJub25lIn0.MQ.", "MQ.aaaaaa.bbbbbb", "\x01", "x" * 5000])
def test_a_forged_cookie_is_a_stranger(site: Site, forged: str) -> None:
    service, sign_in = site
    join(service, "lead", "lead")
    client = sign_in("", "stranger")
    own = URLSafeTimedSerializer("another key", salt="captrial-session").dumps(1)
    for cookie in (forged, own):
        assert client.get("/api/me", headers={"Cookie": f"{COOKIE}={cookie}"}).status_code == 401


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
    sessions = ann.app.state.context.sessions
    number = next(one["id"] for one in lead.get("/api/lead/overview").json()["people"] if one["name"] == "ann")
    assert ann.get("/api/me").status_code == 200
    assert sessions.cached(number).name == "ann"
    assert lead.delete(f"/api/lead/people/{number}").status_code == 200
    assert sessions.cached(number) is None
    assert ann.get("/api/me").status_code == 401
