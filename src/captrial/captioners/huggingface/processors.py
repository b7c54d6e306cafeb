"""Tokenisers and image processors of transformers checkpoints.

`load_processor` loads them without torchvision, `visible_window` tells which part of an image the model gets, and
`word_spans` merges sub-word tokens into words, for any tokeniser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from captrial.captioners.protocols import WHOLE, WordSpan
from captrial.errors import InputError

Window = tuple[float, float, float, float]
Q_FORMER = "qformer_tokenizer"  # of a processor, and its folder
UNFINISHED = "\ufffd"  # what decoders write for a part of a letter
_WORD = re.compile(r"\w+(?:['’.-]\w+)*|[^\w\s]")  # a word with inner apostrophes and hyphens, or one other sign


def load_processor(folder: Path, config: Any, code: bool) -> Any:
    """Tokeniser and image processor of a checkpoint, joined by its processor class where it has one.

    The image processor is the Pillow one, with torchvision or without: same pixels everywhere. Video processors, which
    need torchvision, are left out.
    """
    library: Any = import_module("transformers")
    tokenizer = library.AutoTokenizer.from_pretrained(folder, trust_remote_code=code, config=config)
    image_processor = library.AutoImageProcessor.from_pretrained(folder, trust_remote_code=code, backend="pil")
    kind = _processor_class(folder, config, code)
    if kind is None:
        return PlainProcessor(image_processor, tokenizer)
    if not issubclass(kind, library.ProcessorMixin):
        raise InputError(f"{folder}: its processor {kind.__name__} is of an unknown kind")
    parts = {"image_processor": image_processor, "tokenizer": tokenizer}
    if (folder / Q_FORMER).is_dir():  # InstructBLIP: its Q-Former reads the prompt, too
        parts[Q_FORMER] = library.AutoTokenizer.from_pretrained(folder / Q_FORMER, trust_remote_code=code)
    return _join(kind, folder, parts)


class PlainProcessor:
    """Image processor and tokeniser of checkpoints that have no processor class, such as ViT-GPT2."""

    chat_template = None

    def __init__(self, image_processor: Any, tokenizer: Any) -> None:
        self.image_processor, self.tokenizer = image_processor, tokenizer


def _processor_class(folder: Path, config: Any, code: bool) -> Any:
    auto: Any = import_module("transformers.models.auto.processing_auto")
    for name in ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json"):
        path = folder / name
        config_file = _read_config(path) if path.is_file() else {}
        if code and "AutoProcessor" in config_file.get("auto_map", {}):
            return type(auto.AutoProcessor.from_pretrained(folder, trust_remote_code=True))
        if config_file.get("processor_class"):
            return auto.processor_class_from_name(config_file["processor_class"])
    return auto.PROCESSOR_MAPPING.get(type(config), None)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); download the checkpoint again") from None
    if not isinstance(found, dict) or not isinstance(found.get("auto_map", {}), dict):
        raise InputError(f"{path}: not the configuration of a processor; download the checkpoint again")
    return found


def _join(kind: Any, folder: Path, parts: dict[str, Any]) -> Any:
    """A processor of class `kind` from its parts; the parts that images do not need are left out."""
    wanted = kind.get_attributes()
    if extra := sorted(set(wanted) - {*parts, "video_processor"}):
        raise InputError(f"{folder}: its processor needs {extra[0]!r}, which captioning images does not provide")

    class ImagesOnly(kind):  # type: ignore[misc]
        __init__ = kind.__init__
        apply_chat_template = import_module("transformers").ProcessorMixin.apply_chat_template  # SmolVLM's needs video

        @classmethod
        def get_attributes(cls) -> list[str]:
            return [name for name in wanted if name in parts]

    ImagesOnly.__name__ = kind.__name__
    settings, _ = kind.get_processor_dict(folder)
    settings.pop("video_processor", None)
    return ImagesOnly.from_args_and_dict([parts.get(name) for name in wanted], settings)


def visible_window(image_processor: Any, size: tuple[int, int]) -> Window:
    """The part (x1, y1, x2, y2), relative to an image of `size` (width, height), that the model gets.

    A stretched image is whole; a centre crop cuts the longer side; padding makes the window larger than the image,
    with corners outside [0, 1].
    """
    width, height = size
    if getattr(image_processor, "do_pad", None) and getattr(image_processor, "do_resize", False):
        side = max(width, height)
        return _centred(side / width, side / height)
    if not getattr(image_processor, "do_center_crop", None):
        return WHOLE
    scale = _scale(image_processor.size, width, height) if getattr(image_processor, "do_resize", False) else (1.0, 1.0)
    crop = image_processor.crop_size
    return _centred(_side(crop, "width") / (width * scale[0]), _side(crop, "height") / (height * scale[1]))


def _scale(size: Any, width: int, height: int) -> tuple[float, float]:
    """By how much both sides are resized."""
    shortest = _side(size, "shortest_edge")
    if shortest:
        return (shortest / min(width, height),) * 2
    return _side(size, "width") / width, _side(size, "height") / height


def _side(size: Any, name: str) -> int:
    side = size.get(name) if hasattr(size, "get") else getattr(size, name, None)
    return int(side or 0)


def _centred(across: float, down: float) -> Window:
    """A window of those relative sides around the middle."""
    return (0.5 - across / 2, 0.5 - down / 2, 0.5 + across / 2, 0.5 + down / 2)


def word_spans(tokenizer: Any, tokens: Sequence[int]) -> list[WordSpan]:
    """The words of `tokens`; a token that touches two words belongs to the one it begins in.

    A token that is only the space before a word belongs to the word; special tokens belong to none.
    """
    text, starts, ends = _spans(tokenizer, tokens)
    words: list[WordSpan] = []
    token = 0
    for match in _WORD.finditer(text):
        while token < len(tokens) and ends[token] <= match.start():
            token += 1
        first = token
        while first > (words[-1].end if words else 0) and text[starts[first - 1] : ends[first - 1]].isspace():
            first -= 1
        while token < len(tokens) and _begins(text, starts[token], ends[token]) < match.end():
            token += 1
        if token > first:
            words.append(WordSpan(match.group(), first, token))
    return words


def _begins(text: str, start: int, end: int) -> int:
    """Where the visible part of `text[start:end]` begins."""
    return start + len(text[start:end]) - len(text[start:end].lstrip())


def _spans(tokenizer: Any, tokens: Sequence[int]) -> tuple[str, list[int], list[int]]:
    """The decoded text, and the part `[start, end)` of it that each token wrote.

    Prefixes are decoded one after another, because only the tokeniser knows what joins tokens: `##` of WordPiece,
    spaces inside byte-level tokens. Tokens that are parts of one letter have all of its span.
    """
    ids = list(tokens)
    whole = _decoded(tokenizer, ids)
    starts: list[int] = []
    ends: list[int] = []
    start = 0
    for length in range(1, len(ids) + 1):
        text = _decoded(tokenizer, ids[:length])
        if text.endswith(UNFINISHED) and length < len(ids):
            continue  # a letter of several bytes: its last token closes it
        end = _shared(text, whole)
        for _ in range(length - len(starts)):
            starts.append(start)
            ends.append(end)
        start = end
    return whole, starts, ends


def _shared(a: str, b: str) -> int:
    """The length of the common beginning."""
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    decoded: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False) if ids else ""
    return decoded
