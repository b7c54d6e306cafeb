"""Protection of a web application: host, origin and size of requests, security headers, error messages, rate limits."""

from __future__ import annotations

import ipaddress
import re
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from captrial.errors import BusyError, CaptrialError, NotAllowedError, StateError

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with "no-referrer" browsers would send "Origin: null" from our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
SAFE = ("GET", "HEAD", "OPTIONS")
CLIENT_HEADER = "x-captrial-client"  # sent by programs that are not browsers; a page of another site cannot add it
MAX_BODY = 64 * 1024  # bytes of a request; captions are short
UNEXPECTED = "something went wrong on the server; what was acknowledged is stored. Please try again, or tell the lead"
JSON_PATHS = ("/api/", "/image/")  # requested by scripts, which get JSON


class RequestGuard:
    """ASGI middleware: refuses bad requests by `refuse(request, error)`, and adds the security headers to responses."""

    def __init__(
        self,
        app: ASGIApp,
        refuse: Callable[[Request, Exception], Awaitable[Response]],
        max_body: int = MAX_BODY,
        hosts: Collection[str] | None = None,
    ) -> None:
        self.app, self.refuse, self.max_body, self.hosts = app, refuse, max_body, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, pass it on, and add headers to the response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        try:
            check_host(request, self.hosts)
            check_origin(request)
            _check_size(request, self.max_body)
        except HTTPException as error:
            response = await self.refuse(request, error)
            response.headers["Connection"] = "close"  # nobody reads what else the request holds, which may be endless
            await response(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)


def _check_size(request: Request, max_body: int) -> None:
    """Check the announced length; the server reads no more of a body than that."""
    if "transfer-encoding" in request.headers:
        raise HTTPException(411, "a request with a body needs a Content-Length")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise HTTPException(400, "the length of the request is not a number")
    if len(length) > 12 or int(length) > max_body:
        raise HTTPException(413, "the request is too large")


def protect(
    app: FastAPI, page: Callable[[str], str], max_body: int = MAX_BODY, hosts: Collection[str] | None = None
) -> None:
    """Guard an application and make every error one message: JSON for scripts, HTML of `page(message)` for people.

    `hosts` are the names under which it answers (see `check_host`); None is any.
    """

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        if request.url.path.startswith(JSON_PATHS):
            return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
        return HTMLResponse(page(error.detail), error.status_code, error.headers)

    async def refuse_own(request: Request, error: Exception) -> Response:
        statuses = {NotAllowedError: 403, BusyError: 503, StateError: 409}  # pages try again after 503
        status = next((status for kind, status in statuses.items() if isinstance(error, kind)), 422)
        return await refuse(request, HTTPException(status, str(error)))

    async def refuse_invalid(request: Request, error: Exception) -> Response:
        """Name the field and the problem without repeating what was sent."""
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return await refuse(request, HTTPException(422, f"{place or 'the request'}: {first['msg']}"))

    async def refuse_unexpected(request: Request, error: Exception) -> Response:
        """An error of ours: its traceback is in the server's log, not on the page."""
        response = await refuse(request, HTTPException(500, UNEXPECTED))
        response.headers.update(HEADERS)  # no middleware sees this response
        return response

    app.add_middleware(RequestGuard, refuse=refuse, max_body=max_body, hosts=hosts)
    app.add_exception_handler(Exception, refuse_unexpected)
    app.add_exception_handler(CaptrialError, refuse_own)
    app.add_exception_handler(StarletteHTTPException, refuse)
    app.add_exception_handler(RequestValidationError, refuse_invalid)


def check_host(request: Request, hosts: Collection[str] | None) -> None:
    """Refuse a request for a host name that is not ours: a page of another site may have its name point here.

    Numeric addresses are always allowed, as no other site can have one as its name (DNS rebinding).
    """
    if hosts is None:
        return
    given = request.headers.get("host", "").lower()
    name = re.sub(r":\d*$", "", given).strip("[]").rstrip(".")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if name not in hosts:
            known = name if re.fullmatch(r"[a-z0-9.-]{1,253}", name) else "NAME"
            raise HTTPException(
                421, f"this server does not answer for this host; start it with --host-name {known}"
            ) from None


def check_origin(request: Request) -> None:
    """Refuse a request that changes something and was not made by our own pages (CSRF).

    Browsers send where a request comes from in `Sec-Fetch-Site` or `Origin`. A program that sends neither must send
    `CLIENT_HEADER`, which a page of another site cannot add without our consent.
    """
    if request.method in SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        trusted = site == "same-origin"
    elif origin is not None:
        trusted = _netloc(origin) == request.headers.get("host")
    else:
        trusted = CLIENT_HEADER in request.headers
    if not trusted:
        raise HTTPException(403, "this request did not come from this site's own pages")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # for example "http://["
        return None


@dataclass
class RateLimit:
    """A token bucket for each key: `burst` requests at once, `rate` a second after that."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)  # tokens left, and when that was
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, key: str) -> None:
        """Refuse with status 429 where a key makes too many requests."""
        now = self.clock()
        with self._lock:
            left, then = self._buckets.get(key, (self.burst, now))
            left = min(self.burst, left + (now - then) * self.rate)
            self._buckets[key] = (left - 1 if left >= 1 else left, now)
            if len(self._buckets) > 10_000:
                self._forget_full(now)
        if left < 1:
            raise HTTPException(429, "too many requests; wait a moment", {"Retry-After": str(int(1 / self.rate) + 1)})

    def _forget_full(self, now: float) -> None:
        """Drop full buckets: they are the same as new ones."""
        kept = {
            key: (left, at) for key, (left, at) in self._buckets.items() if left + (now - at) * self.rate < self.burst
        }
        self._buckets = kept
