"""Answers of hostile endpoints: a caption or an error, in bounded time, never a text that steers a terminal."""

from __future__ import annotations

import json
import time

import pytest
from PIL import Image

from captrial.captioners.chat_client import plain_text
from captrial.captioners.endpoint import EndpointCaptioner
from captrial.errors import CaptrialError, InputError
from hostile_endpoint import ANSWERS, hostile_endpoint

CAPTIONS = {"half a character", "escape sequences", "nested in the text"}  # strange, but texts
# No answer at all: it may come from anything between, so the run ends and can be continued.
UNREACHABLE = {
    *("cut", "no HTTP", "negative length", "damaged chunk", "unknown status", "another protocol", "sent elsewhere"),
    *("headers without end", "slow body", "slow header", "early hints"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_hostile_answer_is_a_caption_or_an_error_in_time(name: str) -> None:
    started = time.monotonic()
    with hostile_endpoint(ANSWERS[name]) as base:
        captioner = EndpointCaptioner(base, "tiny", timeout=1.0, tries=2, pause=0.01)
        found: list[str | InputError] | CaptrialError
        try:
            found = captioner.try_caption([Image.new("RGB", (8, 8))])
        except CaptrialError as error:
            found = error
    assert time.monotonic() - started < 15  # two tries of two seconds, on a busy machine
    assert isinstance(found, list) == (name not in UNREACHABLE)
    if isinstance(found, list) and isinstance(found[0], str):
        assert name.startswith("usage") or "model" in name or name in CAPTIONS
        assert found[0].isprintable()
        json.dumps(found[0], ensure_ascii=False).encode()
    assert (captioner.usage.prompt_tokens, captioner.usage.completion_tokens) == (0, 0)


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x7f", "\x9b", "\r", "\n", "\u0085"])
def test_control_characters_become_blanks(character: str) -> None:
    assert plain_text(f"a{character}dog") == "a dog"
