"""Captions from any OpenAI-compatible HTTP endpoint (vLLM, llama.cpp, a hosted VLM), many requests in flight."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from PIL import Image

from captrial.captioners.chat_client import (
    BUSY,
    KEY,
    REFUSED,
    TRANSIENT,
    open_client,
    parse_address,
    plain_text,
    post_chat,
    start_of,
    token_count,
)
from captrial.data.images import image_data_url
from captrial.errors import CaptrialError, InputError
from captrial.files import without_passwords

PROMPT = "Describe this picture in one plain sentence."  # goes to the model: its words are part of the results
_LONGEST = 4000  # characters of a caption; answers are asked to be much shorter


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
    reached: bool = field(default=False, init=False, repr=False)  # whether it ever answered

    @classmethod
    def parse(cls, address: str) -> EndpointCaptioner:
        """From `http://host:port/v1#model`.

        >>> EndpointCaptioner.parse("http://127.0.0.1:8000/v1#llava").model
        'llava'
        """
        return cls(*parse_address(address))

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
        async with open_client(self.base, self.concurrency, self.timeout) as client:

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
        unreachable = False
        for attempt in range(self.tries):
            if attempt:
                await asyncio.sleep(self.pause * 2 ** (attempt - 1))
            try:
                status, content = await self._post(client, body)
            except httpx.RequestError as error:
                why, status = f"{type(error).__name__} {error}", 0
                unreachable = isinstance(error, httpx.ConnectError)
                if unreachable and not self.reached and attempt:
                    break  # more likely a wrong address than a server that starts again
                continue
            unreachable, self.reached = False, True
            if 200 <= status < 300:
                return self._read(status, content)
            why = f"answered {status}: {start_of(content)}"
            if status not in TRANSIENT:
                break
        if status in REFUSED:
            raise CaptrialError(f"{self.name} {why}; check the key ({KEY}), the model {self.model} and the address")
        if status not in BUSY and await self._is_working(client):
            raise InputError(f"{self.name} captions other images, but not this one: {why}")
        tries = f"{attempt + 1} tries" if attempt else "one try"
        if unreachable:
            raise CaptrialError(
                f"{self.name} cannot be reached ({why}, {tries}); is the server running, and the address right?"
            )
        raise CaptrialError(f"{self.name} did not caption an image in {tries}: {why}; run again to continue")

    @property
    def name(self) -> str:
        """The address without a password, for messages."""
        return without_passwords(self.base)

    async def _post(self, client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[int, bytes]:
        status, content, _ = await post_chat(client, self.base, body, "a caption")
        return status, content

    async def _is_working(self, client: httpx.AsyncClient) -> bool:
        """Whether the endpoint captions a plain grey image: then the fault lay in the other image."""
        try:
            body = self._body(Image.new("RGB", (64, 64), "grey"))
            status, _ = await self._post(client, body)
        except (httpx.RequestError, InputError):
            return False
        return 200 <= status < 300

    def _body(self, image: Image.Image) -> dict[str, Any]:
        url = image_data_url(image, side=self.longest_side, quality=90)
        content = [
            {"type": "text", "text": self.prompt},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        message = {"role": "user", "content": content}
        return {"model": self.model, "messages": [message], "temperature": 0, "max_tokens": self.max_tokens}

    def _read(self, status: int, content: bytes) -> str:
        try:
            found = json.loads(content)
            said = found["choices"][0]["message"]["content"]  # null where it declines, or thought too long
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            said = None
        caption = plain_text(said) if isinstance(said, str) else ""
        if not 0 < len(caption) <= _LONGEST:
            raise InputError(f"{self.name} answered {status}, not a caption: {start_of(content)}")
        used = found.get("usage")
        self.usage.prompt_tokens += token_count(used, "prompt_tokens")
        self.usage.completion_tokens += token_count(used, "completion_tokens")
        return caption
