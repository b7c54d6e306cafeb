"""Captions from any OpenAI-compatible HTTP endpoint (vLLM, llama.cpp, a hosted VLM), many requests in flight."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
from PIL import Image

from captrial.data.images import image_data_url
from captrial.errors import CaptrialError, InputError

PROMPT = "Describe this picture in one plain sentence."  # goes to the model: its words are part of the results
KEY = "CAPTRIAL_API_KEY"  # the environment variable that holds the key, where the endpoint wants one
_BUSY = {0, 408, 409, 425, 429, 502, 503, 504}  # 0: no answer at all
_TRANSIENT = {*_BUSY, 500}  # 500 may also be the answer to one image that the endpoint cannot handle
_REFUSED = {401, 403, 404, 405}  # every other image would get the same answer


@cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificates: read once, which takes longer than a caption."""
    return httpx.create_ssl_context()


@dataclass
class Usage:
    """Tokens that an endpoint reports as used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass
class EndpointCaptioner:
    """Sends each image to `<base>/chat/completions`; counts the tokens used.

    The key is read from the environment, never from the command line. Transient failures are tried again with
    growing pauses; anything else is an error with the endpoint's answer: an `InputError` where it concerns
    one image.
    """

    base: str  # e.g. http://127.0.0.1:8000/v1
    model: str
    prompt: str = PROMPT
    concurrency: int = 8
    timeout: float = 60.0
    tries: int = 5
    pause: float = 0.5  # seconds before the second try, doubled each time
    longest_side: int = 768  # images are shrunk to this before they are sent
    max_tokens: int = 60
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def parse(cls, address: str) -> EndpointCaptioner:
        """From `http://host:port/v1#model`.

        >>> EndpointCaptioner.parse("http://127.0.0.1:8000/v1#llava").model
        'llava'
        """
        base, hash_, model = address.partition("#")
        if not hash_ or not model:
            raise InputError(f"{address}: name the model after a #, e.g. http://127.0.0.1:8000/v1#my-model")
        try:
            httpx.URL(base)
        except httpx.InvalidURL as error:
            raise InputError(f"{address} is no address: {error}") from None
        return cls(base.rstrip("/"), model)

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption an image, in order."""
        answers = self.try_caption(images)
        for answer in answers:
            if isinstance(answer, InputError):
                raise answer
        return [str(answer) for answer in answers]

    def try_caption(self, images: Sequence[Image.Image]) -> list[str | InputError]:
        """A caption an image, in order, or why there is none: one bad answer does not affect the other images."""
        return asyncio.run(self._caption(images))

    async def _caption(self, images: Sequence[Image.Image]) -> list[str | InputError]:
        slots = asyncio.Semaphore(self.concurrency)
        key = os.environ.get(KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.concurrency)
        async with httpx.AsyncClient(
            headers=headers, timeout=self.timeout, limits=limits, verify=_certificates()
        ) as client:

            async def one(image: Image.Image) -> str | InputError:
                async with slots:
                    try:
                        return await self._ask(client, image)
                    except InputError as error:
                        return error

            try:  # a group ends its other requests before the client closes; `gather` would leave them open
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(one(image)) for image in images]
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            return [task.result() for task in tasks]

    async def _ask(self, client: httpx.AsyncClient, image: Image.Image) -> str:
        body, why, status = await asyncio.to_thread(self._body, image), "", 0
        for attempt in range(self.tries):
            if attempt:
                await asyncio.sleep(self.pause * 2 ** (attempt - 1))
            try:
                answer = await client.post(f"{self.base}/chat/completions", json=body)
            except httpx.RequestError as error:
                why, status = f"{type(error).__name__} {error}", 0
                continue
            if answer.is_success:
                return self._read(answer)
            why, status = f"answered {answer.status_code}: {answer.text[:200]}", answer.status_code
            if status not in _TRANSIENT:
                break
        if status in _REFUSED:
            raise CaptrialError(f"{self.base} {why}; check the key ({KEY}), the model {self.model} and the address")
        if status not in _BUSY and await self._is_working(client):
            raise InputError(f"{self.base} captions other images, but not this one: {why}")
        tries = f"{attempt + 1} tries" if attempt else "one try"
        raise CaptrialError(f"{self.base} did not caption an image in {tries}: {why}; run again to continue")

    async def _is_working(self, client: httpx.AsyncClient) -> bool:
        """Whether the endpoint captions a plain grey image: then the fault lay in the other image."""
        try:
            body = self._body(Image.new("RGB", (64, 64), "grey"))
            answer = await client.post(f"{self.base}/chat/completions", json=body)
        except httpx.RequestError:
            return False
        return answer.is_success

    def _body(self, image: Image.Image) -> dict[str, Any]:
        url = image_data_url(image, side=self.longest_side, quality=90)
        content = [
            {"type": "text", "text": self.prompt},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        message = {"role": "user", "content": content}
        return {"model": self.model, "messages": [message], "temperature": 0, "max_tokens": self.max_tokens}

    def _read(self, answer: httpx.Response) -> str:
        try:
            found = answer.json()
            words = found["choices"][0]["message"]["content"].split()  # null where it declines, or thought too long
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            words = []
        if not words:
            raise InputError(f"{self.base} answered {answer.status_code}, not a caption: {answer.text[:200]}")
        used = found.get("usage") or {}
        self.usage.prompt_tokens += int(used.get("prompt_tokens") or 0)
        self.usage.completion_tokens += int(used.get("completion_tokens") or 0)
        return " ".join(words).encode(errors="replace").decode()  # half an emoji could not be written to a file
