"""Rate limits and security headers."""

from __future__ import annotations

from fastapi import HTTPException

from captrial.web.security import RateLimit


def test_our_own_forms_keep_their_origin() -> None:
    """With `no-referrer` a browser sends `Origin: null` from our own forms, and over plain HTTP nothing else."""
    from captrial.web.security import HEADERS

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
