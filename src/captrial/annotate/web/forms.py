"""What the API takes, and how it refuses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from captrial.annotate.accounts import MAX_NAME
from captrial.annotate.service import MAX_REASON, MAX_SENTENCE

Key = Annotated[str, Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Item = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str


_WHY = {
    401: "Nobody is signed in.",
    403: "This role may not do this, or not yet; or the request came from another site.",
    404: "There is no such thing.",
    409: "Others were faster, or it is too early or too late for this.",
    411: "A body without its length.",
    413: "The request is too large.",
    422: "Something in the request is not as it should be.",
    429: "Too many requests: wait as long as `Retry-After` says.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {code: {"model": Problem, "description": why} for code, why in _WHY.items()}


class Form(BaseModel):
    """A body we expect; anything else in it is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Sentence(Form):
    """A sentence about an image."""

    item: Item
    text: Annotated[str, Field(max_length=4 * MAX_SENTENCE)]
    key: Key


class Refusal(Form):
    """'Cannot be described'."""

    item: Item
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""
    key: Key


class Vote(Form):
    """Right or wrong."""

    item: Item
    right: bool
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""
    key: Key


class Choice(Form):
    """Which caption is better."""

    item: Item
    winner: Literal["left", "right", "tie"]
    key: Key


class Undo(Form):
    """Take back the last thing I did."""

    key: Key


class Draft(Form):
    """What is being written."""

    item: Item
    text: Annotated[str, Field(max_length=4 * MAX_SENTENCE)]


class Text(Form):
    """Some text to check."""

    text: Annotated[str, Field(max_length=4 * MAX_SENTENCE)]


class Invitation(Form):
    """Somebody to invite."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    role: Literal["annotator", "inspector", "lead"]


class Changes(Form):
    """Settings to change."""

    writers: Annotated[int, Field(ge=1, le=50)] | None = None
    refusals: Annotated[int, Field(ge=1, le=50)] | None = None
    inspectors: Annotated[int, Field(ge=0, le=50)] | None = None
    discards: Annotated[int, Field(ge=1, le=50)] | None = None
    min_sentences: Annotated[int, Field(ge=1, le=50)] | None = None
    judges: Annotated[int, Field(ge=0, le=50)] | None = None
    pass_mark: Annotated[float, Field(ge=0, le=1)] | None = None
    lease_minutes: Annotated[float, Field(gt=0, le=1440)] | None = None
    consent: Annotated[str, Field(max_length=5000, pattern=r"^[^\x00]*$")] | None = None
