"""What judging costs: prices of tokens, what was spent, and a budget that is not passed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from captrial.errors import InputError

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Prices of a million tokens that are sent, and of a million that are answered; any currency."""

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        for value in (self.prompt, self.completion):
            if not (math.isfinite(value) and 0 <= value <= MILLION):
                raise InputError(f"a price of {value} for a million tokens is none; give a number from 0 to {MILLION}")

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of one answer.

        >>> TokenPrice(2.5, 10).cost(1000, 100)
        0.0035
        """
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / MILLION


def read_prices(path: Path | str) -> dict[str, TokenPrice]:
    """Read a price table: `{"gpt-4o": {"prompt": 2.5, "completion": 10}}`, prices of a million tokens by model."""
    path = Path(path)
    try:
        table = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); it should be a JSON file") from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON ({error}); repair the file") from None
    if not isinstance(table, dict):
        raise InputError(f'{path}: needs an object, {{"model": {{"prompt": 2.5, "completion": 10}}}}')
    return {str(model): _price(f"{path}, {model}", entry) for model, entry in table.items()}


def _price(place: str, entry: Any) -> TokenPrice:
    try:
        values = [entry["prompt"], entry["completion"]]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            raise TypeError
        return TokenPrice(*map(float, values))
    except (KeyError, TypeError, OverflowError):
        raise InputError(f'{place}: needs {{"prompt": PRICE, "completion": PRICE}}, of a million tokens') from None


@dataclass
class Spending:
    """What was spent, and what requests in flight may cost at most.

    A request is only allowed where all requests in flight, each at its largest expected cost, stay within the budget.
    Until one was paid for, they go one at a time: an image may be many more tokens than expected.
    """

    price: TokenPrice | None = None
    budget: float | None = None
    spent: float = 0.0
    reserved: float = 0.0
    in_flight: int = 0  # requests
    largest: float = field(default=0.0, init=False)  # cost of a request so far

    def reserve(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """The sum reserved for a request of about this size; None where the budget does not allow it."""
        expected = max(self.price.cost(prompt_tokens, completion_tokens), self.largest) if self.price else 0.0
        if self.budget is not None and self.spent + self.reserved + expected > self.budget:
            return None
        if self.budget is not None and expected and not self.largest and self.in_flight:
            return None
        self.reserved += expected
        self.in_flight += 1
        return expected

    def settle(self, reserved: float, cost: float) -> None:
        """A request has ended and cost this much."""
        self.reserved = max(self.reserved - reserved, 0.0)
        self.in_flight -= 1
        self.spent += cost
        self.largest = max(self.largest, cost)
