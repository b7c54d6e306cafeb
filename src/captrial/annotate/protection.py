"""What protects a web application of ours: the guard around it, and errors that are one sentence for whoever asks."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from captrial.annotate.guard import MAX_BODY, Guard
from captrial.annotate.people import NotAllowedError
from captrial.errors import CaptrialError, StateError

FOR_SCRIPTS = ("/api/", "/picture/")  # paths that are asked by scripts and get JSON


def protect(app: FastAPI, page: Callable[[str], str], max_body: int = MAX_BODY) -> None:
    """Guard an application and make every error one sentence: JSON for scripts, `page(sentence)` for people."""

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        if request.url.path.startswith(FOR_SCRIPTS):
            return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
        return HTMLResponse(page(error.detail), error.status_code, error.headers)

    async def ours(request: Request, error: Exception) -> Response:
        status = 403 if isinstance(error, NotAllowedError) else 409 if isinstance(error, StateError) else 422
        return await refuse(request, HTTPException(status, str(error)))

    async def not_understood(request: Request, error: Exception) -> Response:
        """Say what is wrong without repeating what was sent."""
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return await refuse(request, HTTPException(422, f"{place or 'the request'}: {first['msg']}"))

    app.add_middleware(Guard, refuse=refuse, max_body=max_body)
    app.add_exception_handler(CaptrialError, ours)
    app.add_exception_handler(StarletteHTTPException, refuse)
    app.add_exception_handler(RequestValidationError, not_understood)
