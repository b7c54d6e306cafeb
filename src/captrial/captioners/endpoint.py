"""Captions from any OpenAI-compatible HTTP endpoint (vLLM, llama.cpp, a hosted VLM), many requests in flight."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
from PIL import Image

from captrial.errors import CaptrialError, InputError

PROMPT = "Describe this picture in one plain sentence."
KEY = "CAPTRIAL_API_KEY"  # the environment variable that holds the key, where the endpoint wants one
_TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504}
_NO_PICTURES_FAULT = {401, 403, 404, 405}  # every other picture would be answered so


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust: read once, it takes longer than a picture."""
    return httpx.create_ssl_context()


@dataclass
class Usage:
    """Tokens that an endpoint says it has used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass
class EndpointCaptioner:
    """Asks `<base>/chat/completions` about each picture; keeps count of tokens.

    The key is read from the environment, never from the command line. Transient failures are tried again with
    growing pauses; anything else is an error that says what the endpoint answered.
    """

    base: str  # e.g. http://127.0.0.1:8000/v1
    model: str
    prompt: str = PROMPT
    concurrency: int = 8
    timeout: float = 60.0
    tries: int = 5
    pause: float = 0.5  # seconds before the second try, doubled each time
    longest_side: int = 768  # pictures are shrunk to this before they are sent
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
        return cls(base.rstrip("/"), model)

    def caption(self, pictures: Sequence[Image.Image]) -> list[str]:
        """One caption a picture, in order."""
        return asyncio.run(self._caption(pictures))

    async def _caption(self, pictures: Sequence[Image.Image]) -> list[str]:
        slots = asyncio.Semaphore(self.concurrency)
        key = os.environ.get(KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.concurrency)
        async with httpx.AsyncClient(
            headers=headers, timeout=self.timeout, limits=limits, verify=_certificates()
        ) as client:

            async def one(picture: Image.Image) -> str:
                async with slots:
                    return await self._ask(client, picture)

            try:  # a group ends its other requests before the client closes; `gather` would leave them open
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(one(picture)) for picture in pictures]
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            return [task.result() for task in tasks]

    async def _ask(self, client: httpx.AsyncClient, picture: Image.Image) -> str:
        body, why = await asyncio.to_thread(self._body, picture), ""
        for attempt in range(self.tries):
            if attempt:
                await asyncio.sleep(self.pause * 2 ** (attempt - 1))
            try:
                answer = await client.post(f"{self.base}/chat/completions", json=body)
            except httpx.TransportError as error:
                why = f"{type(error).__name__} {error}"
                continue
            if answer.status_code in _TRANSIENT:
                why = f"answered {answer.status_code}"
                continue
            return self._read(answer)
        raise CaptrialError(
            f"{self.base} did not caption a picture in {self.tries} tries: {why}; run again to continue"
        )

    def _body(self, picture: Image.Image) -> dict[str, Any]:
        small = picture.convert("RGB")
        small.thumbnail((self.longest_side, self.longest_side))
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=90)
        data = base64.b64encode(buffer.getvalue()).decode()
        content = [
            {"type": "text", "text": self.prompt},
            {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}},
        ]
        message = {"role": "user", "content": content}
        return {"model": self.model, "messages": [message], "temperature": 0, "max_tokens": self.max_tokens}

    def _read(self, answer: httpx.Response) -> str:
        if answer.status_code in _NO_PICTURES_FAULT:
            raise CaptrialError(
                f"{self.base} answered {answer.status_code}: {answer.text[:200]}; check the key ({KEY}), the model "
                f"{self.model} and the address"
            )
        try:
            found = answer.json()
            text = found["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError):
            raise InputError(f"{self.base} answered {answer.status_code}, not a caption: {answer.text[:200]}") from None
        used = found.get("usage") or {}
        self.usage.prompt_tokens += int(used.get("prompt_tokens") or 0)
        self.usage.completion_tokens += int(used.get("completion_tokens") or 0)
        return " ".join(str(text).split())
