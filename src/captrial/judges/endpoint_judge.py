"""A judge behind an OpenAI-compatible endpoint: asks, asks again where an answer has not the right form, and counts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from captrial.captioners.chat_client import (
    BAD_REQUEST,
    KEY,
    OPENAI_KEY,
    REFUSED,
    TRANSIENT,
    is_local,
    openai_base,
    parse_address,
    plain_text,
    post_chat,
    refused_parameters,
    start_of,
    token_count,
    without,
)
from captrial.errors import CaptrialError, InputError
from captrial.files import without_passwords
from captrial.judges.answers import BadAnswerError, JudgeAnswer, read_answer
from captrial.judges.rubric import correction
from captrial.judges.spending import Spending

CUT = "cut"  # an answer that ended at the limit of its tokens
_IMAGE_TOKENS = 1600  # of an image, at most about: for the budget before the first answer
_CHECK_PAUSE = 0.02  # seconds between looks at what is left of the budget
_LONGEST = 20_000  # characters of an answer; one that cannot be read is sent back with the next request
_LONGEST_PAUSE = 60.0  # seconds, also where an endpoint asks for more


class EndpointRefusedError(CaptrialError):
    """The endpoint refuses every request: a wrong key, model or address."""


class BudgetReachedError(CaptrialError):
    """The next request could pass the budget."""


class NoVerdictError(CaptrialError):
    """A question has no verdict after all tries; `kind` is what it is counted as."""

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(kind, problem)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[1])


@dataclass
class Asked:
    """What the requests for one question took: tokens and money. `keep` is told at once what led to no verdict."""

    keep: Callable[[float], None] = lambda cost: None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0  # of requests since the last that `keep` was told of

    def lose(self) -> None:
        """The requests so far led to no verdict."""
        if self.cost:
            self.keep(self.cost)
            self.cost = 0.0


@dataclass
class EndpointJudge:
    """Sends questions to `<base>/chat/completions`.

    The key is read from the environment (`CAPTRIAL_API_KEY`, `OPENAI_API_KEY`). Failures that may pass (429, 500, no
    answer in time) are tried again with growing pauses, answers of a wrong form are asked for again; both are bounded
    and counted in `failures`.
    """

    base: str
    model: str
    timeout: float = 120.0
    tries: int = 5  # of one request
    asks: int = 3  # for an answer of the right form
    pause: float = 0.5  # seconds before the second try, doubled each time
    max_tokens: int = 300  # of an answer
    refused: set[str] = field(default_factory=set)  # parameters that the endpoint does not take
    spending: Spending = field(default_factory=Spending)
    failures: Counter[str] = field(default_factory=Counter)
    answered_by: Counter[str] = field(default_factory=Counter)  # names of models, as the endpoint gives them
    requests: int = 0
    uncounted: int = 0  # answers without a count of tokens

    @classmethod
    def parse(cls, address: str) -> EndpointJudge:
        """From `http://host/v1#model`, or a model's name alone: then `OPENAI_BASE_URL` is its endpoint.

        >>> EndpointJudge.parse("http://127.0.0.1:8000/v1#qwen").model
        'qwen'
        """
        if not address.startswith(("http://", "https://")):
            address = f"{openai_base()}#{address.removeprefix('#')}"
        return cls(*parse_address(address))

    @property
    def name(self) -> str:
        """The address without a password, for messages."""
        return without_passwords(self.base)

    @property
    def local(self) -> bool:
        """Whether the endpoint is on this machine."""
        return is_local(self.base)

    async def ask(
        self, client: httpx.AsyncClient, messages: list[dict[str, Any]], mode: str, asked: Asked
    ) -> JudgeAnswer:
        """The answer to a question; `NoVerdictError` where there is none after all tries. Adds to `asked`, always."""
        problem = BadAnswerError("", "")
        messages = list(messages)
        for _ in range(self.asks):
            text = ""
            try:
                text = await self.reply(client, messages, asked)
                return read_answer(text, mode)
            except BadAnswerError as error:
                problem = error
                self.failures[error.kind] += 1
                asked.lose()
            said = [{"role": "assistant", "content": text}] if text else []
            messages += [*said, {"role": "user", "content": correction(problem.kind, mode)}]
        raise NoVerdictError(problem.kind, f"no answer of the right form in {self.asks} requests ({problem})")

    async def reply(self, client: httpx.AsyncClient, messages: list[dict[str, Any]], asked: Asked) -> str:
        """The text of an answer; a `BadAnswerError` where the endpoint answers, but with no text."""
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": self.max_tokens}
        kind, problem = "", ""
        for attempt in range(self.tries):
            reserved = await self._reserve(messages)
            cost, wait = 0.0, self.pause * 2**attempt
            self.requests += 1
            try:
                sent = without(body, self.refused)
                status, content, headers = await post_chat(client, self.base, sent, "a verdict")
                if 200 <= status < 300:
                    cost, text, bad = self._read(content, asked, reserved)
                    if bad is not None:
                        raise bad
                    return text
                kind, problem = str(status), f"answered {status}: {start_of(content)}"
                wait = max(wait, _retry_after(headers))
            except httpx.RequestError as error:
                status = 0
                late = isinstance(error, httpx.TimeoutException)
                kind, problem = "timeout" if late else "no connection", f"{type(error).__name__} {error}"
                cost = reserved if isinstance(error, httpx.ReadTimeout) else 0.0  # it may be charged all the same
            except InputError as error:  # too large, or in an unknown encoding: charged all the same
                cost = reserved
                raise BadAnswerError("damaged", str(error)) from None
            finally:
                asked.cost += cost
                self.spending.settle(reserved, cost)
            self.failures[kind] += 1
            asked.lose()
            if status in REFUSED:
                raise EndpointRefusedError(
                    f"{self.name} {problem}; check the key ({KEY} or {OPENAI_KEY}), the model {self.model} and the "
                    "address"
                )
            refused = refused_parameters(content, sent) if status == BAD_REQUEST else set()
            self.refused |= refused
            if status not in TRANSIENT and not refused:
                break
            if attempt + 1 < self.tries and not refused:
                await asyncio.sleep(min(wait, _LONGEST_PAUSE))
        raise NoVerdictError(kind, f"{self.name} {problem}")

    async def _reserve(self, messages: list[dict[str, Any]]) -> float:
        """Money for a request; waits for those in flight, which may cost less than was reserved for them."""
        while (reserved := self.spending.reserve(_expected_tokens(messages), self.max_tokens)) is None:
            if not self.spending.in_flight:
                raise BudgetReachedError(f"the budget of {self.spending.budget} could be passed by the next request")
            await asyncio.sleep(_CHECK_PAUSE)
        return reserved

    def _read(self, content: bytes, asked: Asked, reserved: float) -> tuple[float, str, BadAnswerError | None]:
        """The cost of an answer, its text, and what is wrong with it."""
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        found = found if isinstance(found, dict) else {}
        used = found.get("usage")
        tokens = token_count(used, "prompt_tokens"), token_count(used, "completion_tokens")
        asked.prompt_tokens += tokens[0]
        asked.completion_tokens += tokens[1]
        self.uncounted += not any(tokens)
        price = self.spending.price
        cost = 0.0 if price is None else price.cost(*tokens) if any(tokens) else reserved
        try:
            choice = found["choices"][0]
            message = choice["message"]
            text, refusal = message.get("content"), message.get("refusal")
            cut = choice.get("finish_reason") == "length"
        except (KeyError, IndexError, TypeError, AttributeError):
            return cost, "", BadAnswerError("damaged", start_of(content))
        if refusal:
            return cost, "", BadAnswerError("refusal", plain_text(str(refusal)[:200]))
        if cut and "}" not in str(text):
            return cost, "", BadAnswerError(CUT, f"it has more than {self.max_tokens} tokens; give more: --max-tokens")
        if not isinstance(text, str) or not text.strip():
            return cost, "", BadAnswerError("empty", start_of(content))
        if len(text) > _LONGEST:
            return cost, "", BadAnswerError("too long", start_of(content))
        self.answered_by[plain_text(str(found.get("model") or self.model)[:100])] += 1
        return cost, plain_text(text), None


def _expected_tokens(messages: list[dict[str, Any]]) -> int:
    """An upper bound of the tokens of a request, roughly: two characters a token, and a flat number for an image."""
    tokens = 0
    for message in messages:
        parts = message["content"] if isinstance(message["content"], list) else [{"text": message["content"]}]
        tokens += sum(len(part["text"]) // 2 + 10 if "text" in part else _IMAGE_TOKENS for part in parts)
    return tokens


def _retry_after(headers: httpx.Headers) -> float:
    """Seconds that the endpoint asks to wait; 0 where it gives none, or a date."""
    value = headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) < 6 else 0.0
