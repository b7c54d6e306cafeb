"""Around every request: where it comes from and how large it is; around every answer: the headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import HTTPException, Request, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from captrial.annotate.security import HEADERS, check_origin

MAX_BODY = 64 * 1024  # bytes of a request; sentences are short


class Guard:
    """ASGI middleware: refuses with `refuse(request, error)` before the application sees the request."""

    def __init__(
        self, app: ASGIApp, refuse: Callable[[Request, Exception], Awaitable[Response]], max_body: int = MAX_BODY
    ) -> None:
        self.app, self.refuse, self.max_body = app, refuse, max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, pass on, and add headers to whatever is answered."""
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
            check_origin(request)
            _check_size(request, self.max_body)
        except HTTPException as error:
            response = await self.refuse(request, error)
            await response(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)


def _check_size(request: Request, most: int) -> None:
    """The server reads no more of a body than its announced length, so that is what must be small."""
    if "transfer-encoding" in request.headers:
        raise HTTPException(411, "a request with a body needs its length")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise HTTPException(400, "the length of the request is not a number")
    if len(length) > 12 or int(length) > most:
        raise HTTPException(413, "the request is too large")
