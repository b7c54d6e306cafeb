"""The way in: `captrial.explain(captioner, image)` explains every word of a caption in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import torch
from PIL import Image

from captrial.attribution.attribution import Array
from captrial.attribution.explanation import Explanation
from captrial.attribution.methods.occlusion import occlude
from captrial.attribution.methods.registry import (
    GRADIENT_METHODS,
    METHODS,
    Settings,
    attribute,
)
from captrial.attribution.subject import (
    Subject,
    from_explainable,
    from_features,
    from_pixels,
    seen_window,
)
from captrial.attribution.targets import (
    ScoreKind,
    Targets,
    find_word,
    word_targets,
)
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.explainable import Explainable, WordSpan
from captrial.captioners.loading import load_captioner
from captrial.captioners.runner import AnyCaptioner
from captrial.captioners.trained import TrainedCaptioner, generate
from captrial.data.images import open_image
from captrial.errors import InputError
from captrial.language.tokenizer import tokenize
from captrial.language.vocabulary import UNK
from captrial.vision.features.visual_features import Features

Over = Literal["features", "pixels"]


class Speaks(Protocol):
    """What turns sentences into tokens and back; part of `Explainable`."""

    def tokenize(self, caption: str) -> list[int]:
        """Token ids of a sentence."""
        ...

    def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
        """The words of some tokens."""
        ...


class Reader:
    """`Speaks` of our own captioners: a token is a word."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.vocabulary = checkpoint.vocabulary

    def tokenize(self, caption: str) -> list[int]:
        """Ids of the sentence's words; unknown ones are UNK."""
        return self.vocabulary.encode(tokenize(caption), bos=False, eos=False)

    def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
        """One word a token."""
        return [WordSpan(self.vocabulary.word(token), place, place + 1) for place, token in enumerate(tokens)]


def explain(
    captioner: AnyCaptioner | Explainable | str | Path,
    image: Image.Image | str | Path,
    method: str = "integrated_gradients",
    *,
    words: str | None = None,
    contrast: Mapping[str | int, str] | None = None,
    over: Over = "features",
    score: ScoreKind = "logit",
    boxes: Array | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> Explanation:
    """Explain every word that a captioner says of an image, or would have to say for `words`.

    `contrast={"cat": "dog"}` asks why *cat* and not *dog*: the lead of the one over the other is attributed. `over` is
    what our own captioners are differentiated with respect to; others are explained over their pixels. `boxes` (e, 4),
    relative to the image, are the regions that `occlusion` covers. `options` are fields of `Settings`
    (`tolerance=0.05`, `steps=50`, `chunk=64` ...).
    """
    check_question(method, over, contrast)
    chosen = _settings(settings, options)
    name = captioner if isinstance(captioner, str | Path) else getattr(captioner, "name", type(captioner).__name__)
    model = load_captioner(str(captioner)) if isinstance(captioner, str | Path) else captioner
    opened = image if isinstance(image, Image.Image) else open_image(Path(image))
    if method == "occlusion":
        attribution = occlude(_black_box(model), opened, boxes, words)
        return Explanation(attribution, str(name), opened)
    subject, tokens, speaks = _prepare(model, opened, words, over)
    explanation = explain_subject(subject, tokens, speaks, method, contrast, score, chosen, words)
    return replace(explanation, captioner=str(name), image=opened)


def check_question(method: str, over: str = "features", contrast: Mapping[str | int, str] | None = None) -> None:
    """Refuse what `explain` cannot do with any captioner and image."""
    if method not in METHODS:
        raise InputError(f"no attribution method {method!r}; there are: {', '.join(METHODS)}")
    if over not in get_args(Over):
        raise InputError(f"nothing can be explained over {over!r}; there are: {', '.join(get_args(Over))}")
    _check_contrast(method, contrast)


def explain_features(
    checkpoint: Checkpoint,
    features: Features,
    method: str = "integrated_gradients",
    *,
    words: str | None = None,
    contrast: Mapping[str | int, str] | None = None,
    score: ScoreKind = "logit",
    beam: int = 5,
    settings: Settings | None = None,
    **options: Any,
) -> Explanation:
    """As `explain`, for one of our captioners on stored features of one image (regions, grid or ViT)."""
    reader = Reader(checkpoint)
    subject = from_features(checkpoint.captioner, features)
    tokens = reader.tokenize(words) if words is not None else _say(checkpoint, features, beam, 20)
    return explain_subject(subject, tokens, reader, method, contrast, score, _settings(settings, options), words)


def explain_subject(
    subject: Subject,
    tokens: Sequence[int],
    speaks: Speaks,
    method: str,
    contrast: Mapping[str | int, str] | None = None,
    score: ScoreKind = "logit",
    settings: Settings | None = None,
    sentence: str | None = None,
) -> Explanation:
    """Explain some tokens of a subject; what both entries come down to."""
    _check_contrast(method, contrast)
    spoken = speaks.word_spans(tokens)
    if sentence is not None and isinstance(speaks, Reader):  # words that the captioner does not know keep their name
        spoken = [word._replace(text=text) for word, text in zip(spoken, tokenize(sentence), strict=True)]
    others = {_place(spoken, word): other for word, other in (contrast or {}).items()}
    against = {place: _known(speaks, other) for place, other in others.items()}
    attribution = attribute(subject, word_targets(tokens, spoken, against, score), method, settings)
    likely = _log_probabilities(subject, word_targets(tokens, spoken, kind="log_probability"))
    named = {spoken[place].text: other for place, other in others.items()}
    return Explanation(attribution, log_probabilities=likely, contrast=named)


def _prepare(model: Any, image: Image.Image, words: str | None, over: Over) -> tuple[Subject, list[int], Speaks]:
    """The subject, the tokens to explain, and who can spell them."""
    if isinstance(model, TrainedCaptioner):
        reader, captioner = Reader(model.checkpoint), model.checkpoint.captioner
        features = model.backbone.extract([image]).to(next(captioner.parameters()).device)
        tokens = (
            reader.tokenize(words)
            if words is not None
            else _say(model.checkpoint, features, model.beam, model.max_words)
        )
        if over == "pixels":
            return from_pixels(captioner, model.backbone, image), tokens, reader
        return from_features(captioner, features, seen_window(model.backbone.preprocess, *image.size)), tokens, reader
    if isinstance(model, Explainable):
        return (
            from_explainable(model, image),
            model.tokenize(words) if words is not None else model.generate(image),
            model,
        )
    raise InputError(f"{type(model).__name__} gives captions but no gradients; use method='occlusion'")


def _black_box(model: Any) -> AnyCaptioner:
    if not hasattr(model, "caption"):
        raise InputError(f"{type(model).__name__} cannot caption images; occlusion needs `caption(images)`")
    return model  # type: ignore[no-any-return]


@torch.no_grad()
def _say(checkpoint: Checkpoint, features: Features, beam: int, max_words: int) -> list[int]:
    """The caption as `TrainedCaptioner` words it."""
    captioner = checkpoint.captioner
    return generate(captioner, checkpoint.vocabulary, captioner.encode(features), beam, max_words)[0]


@torch.no_grad()
def _log_probabilities(subject: Subject, targets: Targets) -> Array | None:
    if not len(targets):
        return None
    targets = targets.to(subject.inputs.device)
    scores = targets.scores(subject.hear(subject.inputs.unsqueeze(0), targets.tokens).logits)
    return scores[0].cpu().numpy()


def _place(spoken: Sequence[WordSpan], word: str | int) -> int:
    if isinstance(word, str):
        return find_word(spoken, word)
    if not 0 <= word < len(spoken):
        raise InputError(f"there is no word {word} to contrast: the caption has {len(spoken)} words")
    return word


def _check_contrast(method: str, contrast: Mapping[str | int, str] | None) -> None:
    if contrast and method not in GRADIENT_METHODS:
        raise InputError(f"{method} does not go by scores, so it has no contrast; use method='integrated_gradients'")


def _known(speaks: Speaks, word: str) -> list[int]:
    tokens = speaks.tokenize(word)
    if not tokens or (isinstance(speaks, Reader) and UNK in tokens):
        raise InputError(f"this captioner does not know the word {word!r}; it cannot be what it might have said")
    return tokens


def _settings(settings: Settings | None, options: Mapping[str, Any]) -> Settings:
    try:
        return replace(settings or Settings(), **options)
    except TypeError as error:
        raise InputError(f"explain: {error}") from None
