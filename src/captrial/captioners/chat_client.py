"""What captioners and judges behind OpenAI-compatible endpoints share: addresses, keys, and answers of bounded size."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import zlib
from collections.abc import Collection, Mapping
from functools import cache
from ipaddress import ip_address
from typing import Any

import httpx

from captrial.errors import InputError
from captrial.files import without_passwords

KEY = "CAPTRIAL_API_KEY"  # the environment variable that holds the key, where the endpoint wants one
OPENAI_KEY, OPENAI_BASE = "OPENAI_API_KEY", "OPENAI_BASE_URL"
OPENAI = "https://api.openai.com/v1"
BUSY = frozenset({0, 408, 409, 425, 429, 502, 503, 504})  # 0: no answer at all
TRANSIENT = BUSY | {500}  # 500 may also be the answer to one image that the endpoint cannot handle
REFUSED = frozenset({401, 403, 404, 405})  # every other request would get the same answer
BAD_REQUEST = 400
_REPLACED = {"max_tokens": "max_completion_tokens", "temperature": None}
_LARGEST = 1 << 20  # bytes of an answer, also after decompression
_WHOLE = 2  # times the timeout, which is that of one read: for the whole request, however slowly the answer arrives


def parse_address(address: str) -> tuple[str, str]:
    """The base and the model of `http://host:port/v1#model`.

    >>> parse_address("http://127.0.0.1:8000/v1/#llava")
    ('http://127.0.0.1:8000/v1', 'llava')
    """
    base, hash_, model = address.partition("#")
    if not hash_ or not model:
        raise InputError(f"{address}: name the model after a #, e.g. http://127.0.0.1:8000/v1#my-model")
    try:
        httpx.URL(base)
    except httpx.InvalidURL as error:
        raise InputError(f"{address} is not an address: {error}") from None
    return base.rstrip("/"), model


def openai_base() -> str:
    """The endpoint of a model that is named without an address: `OPENAI_BASE_URL`, else that of OpenAI."""
    return (os.environ.get(OPENAI_BASE) or OPENAI).rstrip("/")


def api_key(base: str) -> str | None:
    """The key for an endpoint: `CAPTRIAL_API_KEY`, else `OPENAI_API_KEY`.

    The latter is sent to this machine, to OpenAI and to the host of `OPENAI_BASE_URL` only: it must not reach another
    provider because somebody compares two.
    """
    hosts = {_host(OPENAI), _host(openai_base())}
    trusted = is_local(base) or _host(base) in hosts
    return os.environ.get(KEY) or (os.environ.get(OPENAI_KEY) if trusted else None) or None


def is_local(base: str) -> bool:
    """Whether an endpoint is on this machine, by its name alone.

    >>> is_local("http://127.0.0.1:8000/v1"), is_local("http://[::1]/v1"), is_local("http://192.168.0.7/v1")
    (True, True, False)
    """
    host = _host(base)
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _host(base: str) -> str:
    try:
        return httpx.URL(base).host.lower()
    except httpx.InvalidURL:
        return ""


def open_client(base: str, concurrency: int, timeout: float) -> httpx.AsyncClient:
    """A client for many requests at once, with the key for this endpoint."""
    key = api_key(base)
    headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {key}"} if key else {})}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=concurrency)
    return httpx.AsyncClient(headers=headers, timeout=timeout, limits=limits, verify=_certificates())


@cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificates: read once, which takes longer than a caption."""
    return httpx.create_ssl_context()


async def post_chat(
    client: httpx.AsyncClient, base: str, body: Mapping[str, Any], what: str
) -> tuple[int, bytes, httpx.Headers]:
    """Status, content and headers of an answer, read up to a limit: an endpoint is not trusted with memory or time.

    `what` is expected, for messages: "a caption". An `InputError` where the answer is too large or damaged; an
    `httpx.ReadTimeout` where it has not ended after twice the client's timeout, also where bytes still arrive.
    """
    name = without_passwords(base)
    limit = None if client.timeout.read is None else _WHOLE * client.timeout.read
    try:
        async with asyncio.timeout(limit), client.stream("POST", f"{base}/chat/completions", json=body) as answer:
            content = bytearray()
            async for chunk in answer.aiter_raw():
                content += chunk
                if len(content) > _LARGEST:
                    raise InputError(f"{name} sent more than {_LARGEST >> 10} KiB instead of {what}")
            found = _decoded(bytes(content), answer.headers.get("Content-Encoding", ""), name, what)
            return answer.status_code, found, answer.headers
    except TimeoutError:
        raise httpx.ReadTimeout(f"the answer had not ended after {limit:g} s") from None


def _decoded(content: bytes, encoding: str, name: str, what: str) -> bytes:
    """Undo gzip or deflate, which a server may use although it was asked not to."""
    if encoding.strip().lower() in ("", "identity"):
        return content
    if encoding.strip().lower() not in ("gzip", "deflate"):
        raise InputError(f"{name} answered in the encoding {encoding[:40]!r}; plain JSON is expected")
    try:
        found = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(content, _LARGEST + 1)
    except zlib.error as error:
        raise InputError(f"{name} sent damaged {encoding} ({error})") from None
    if len(found) > _LARGEST:
        raise InputError(f"{name} sent more than {_LARGEST >> 10} KiB instead of {what}")
    return found


def refused_parameters(content: bytes, body: Mapping[str, Any]) -> set[str]:
    """Parameters of a request that an endpoint does not take, by its answer 400: those that `without` can leave out.

    Reasoning models of OpenAI take no temperature, and name the limit of an answer otherwise.
    """
    try:
        error = json.loads(content)["error"]
        named, code = str(error.get("param")), str(error.get("code"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
    return {named} & _REPLACED.keys() & body.keys() if code.startswith("unsupported") else set()


def without(body: Mapping[str, Any], refused: Collection[str]) -> dict[str, Any]:
    """A request without refused parameters, under their other names where they have one.

    >>> without({"temperature": 0, "max_tokens": 60, "model": "o4"}, {"temperature", "max_tokens"})
    {'max_completion_tokens': 60, 'model': 'o4'}
    """
    names = {name: _REPLACED[name] if name in refused else name for name in body}
    return {new: body[name] for name, new in names.items() if new is not None}


def start_of(content: bytes) -> str:
    """The start of an answer, for messages."""
    return plain_text(content[:800].decode(errors="replace"))[:200]


def plain_text(text: str) -> str:
    """A text of an endpoint that can be written to files and shown on a terminal.

    Half characters become `?`, and control characters (an escape sequence steers a terminal) blanks.

    >>> plain_text("a dog\\n\\x1b[2J on \\ud83d grass")
    'a dog [2J on ? grass'
    """
    written = text.encode(errors="replace").decode()
    return " ".join("".join(" " if _is_control(one) else one for one in written).split())


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character < "\xa0"


def token_count(usage: object, name: str) -> int:
    """A count of tokens; 0 where the endpoint reports none, or something else than a count."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0
