"""`captrial.explain(captioner, image)`: attribute every word of a caption to parts of the image in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from PIL import Image

from captrial.attribution.attribution import Array, Attribution
from captrial.attribution.explanation import END, Alternative, Explanation
from captrial.attribution.language_prior import blank_images, prior_log_probabilities
from captrial.attribution.methods.registry import (
    DEFAULT_METHOD,
    AttributionMethod,
    AttributionSettings,
    attribute,
    explain_method,
)
from captrial.attribution.subject import (
    Subject,
    Targets,
    explainable_subject,
    find_word,
    from_features,
    from_pixels,
    seen_window,
    word_targets,
)
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.loading import load_captioner
from captrial.captioners.protocols import AnyCaptioner, Explainable, WordSpan
from captrial.captioners.trained import TrainedCaptioner, generate
from captrial.data.images import open_image
from captrial.errors import InputError
from captrial.language.vocabulary import BOS, EOS, PAD, UNK
from captrial.vision.features.visual_features import Features

Contrast = Mapping[str | int, str]
MAX_WORDS = 20  # of a caption that `explain_features` generates
MOST_LIKELY = 5  # alternatives at a word, itself included


def explain(
    captioner: AnyCaptioner | Explainable | str | Path,
    image: Image.Image | str | Path,
    method: str = DEFAULT_METHOD,
    *,
    caption: str | None = None,
    contrast: Contrast | None = None,
    settings: AttributionSettings | None = None,
    **options: Any,
) -> Explanation:
    """Explain every word of a captioner's caption of an image, or of the `caption` given.

    `captioner` and `image` may be a name and a path. `contrast={"cat": "dog"}` asks why *cat* and not *dog*: the lead
    of the one word over the other is attributed; a word that occurs twice is named by its index. `options` are fields
    of `AttributionSettings`: `over="pixels"`, `score="log_probability"`, `boxes=...` (for occlusion), `tolerance=0.05`,
    `steps=50`, `chunk=64` ...

    Raises `InputError` for an unknown method or option, a captioner that the method cannot serve, or a contrast with a
    word that is not in the caption or the vocabulary.
    """
    entry = check_request(method, contrast)
    chosen = _settings(settings, options)
    name = captioner if isinstance(captioner, str | Path) else getattr(captioner, "name", type(captioner).__name__)
    model = load_captioner(str(captioner)) if isinstance(captioner, str | Path) else captioner
    opened = image if isinstance(image, Image.Image) else open_image(Path(image))
    if entry.black_box is not None:
        attribution = entry.function("black_box")(_black_box(model), opened, chosen.boxes, caption)
        return Explanation(attribution, str(name), opened)
    explanation = _explain(_prepare(model, opened, caption, chosen), entry, contrast, chosen)
    return replace(explanation, captioner=str(name), image=opened)


def explain_features(
    checkpoint: Checkpoint,
    features: Features,
    method: str = DEFAULT_METHOD,
    *,
    caption: str | None = None,
    contrast: Contrast | None = None,
    settings: AttributionSettings | None = None,
    **options: Any,
) -> Explanation:
    """As `explain`, for one of our captioners on stored features of one image (regions, grid or ViT)."""
    entry, chosen = check_request(method, contrast), _settings(settings, options)
    tokenizer = VocabularyTokenizer(checkpoint)
    if caption is not None:
        tokens = tokenizer.tokenize(caption)
    else:
        tokens = _generate(checkpoint, features, chosen.beam, MAX_WORDS)
    spans = tokenizer.named_spans(tokens, caption)
    subject = from_features(checkpoint.captioner, features)
    return _explain(_TokenisedCaption(subject, tokens, spans, tokenizer), entry, contrast, chosen)


def check_request(method: str, contrast: Contrast | None = None) -> AttributionMethod:
    """The method; an `InputError` if there is none of that name, or if it cannot contrast words."""
    entry = explain_method(method)
    if contrast and not entry.by_gradients:
        raise InputError(f"{method} does not use scores, so it has no contrast; use method='integrated_gradients'")
    return entry


class CaptionTokenizer(Protocol):
    """Turns captions into tokens and tokens into words; part of `Explainable`."""

    def tokenize(self, caption: str) -> list[int]:
        """Token ids of a caption."""
        ...

    def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
        """The words of some tokens."""
        ...


class VocabularyTokenizer:
    """`CaptionTokenizer` of our own captioners: a token is a word."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.vocabulary = checkpoint.vocabulary

    def tokenize(self, caption: str) -> list[int]:
        """Ids of the caption's words; unknown ones are UNK."""
        return self.vocabulary.encode(_words(caption), bos=False, eos=False)

    def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
        """One word a token."""
        return [WordSpan(self.vocabulary.word(token), place, place + 1) for place, token in enumerate(tokens)]

    def named_spans(self, tokens: Sequence[int], caption: str | None) -> list[WordSpan]:
        """`word_spans`, in which unknown words have the text of the given caption instead of UNK's."""
        spans = self.word_spans(tokens)
        if caption is None:
            return spans
        return [span._replace(text=text) for span, text in zip(spans, _words(caption), strict=True)]


def _words(caption: str) -> list[str]:
    from captrial.language.tokenizer import tokenize  # loaded for a caption that is given, not for the model's own

    return tokenize(caption)


def _no_image(other: Image.Image) -> Subject:
    raise InputError("stored features have no other image to compare with")


@dataclass(frozen=True, eq=False)
class _TokenisedCaption:
    """A caption of one image: the model's function, the tokens and the words."""

    subject: Subject
    tokens: list[int]
    spans: list[WordSpan]
    tokenizer: CaptionTokenizer
    behind: Callable[[Image.Image], Subject] = field(default=_no_image)  # the model's function of another image
    others: Sequence[Image.Image] = ()  # blank or foreign ones, for the share of the language prior


def _prepare(model: Any, image: Image.Image, caption: str | None, settings: AttributionSettings) -> _TokenisedCaption:
    """The caption to explain: that of the model, or the one given."""
    if isinstance(model, TrainedCaptioner):
        tokenizer, captioner = VocabularyTokenizer(model.checkpoint), model.checkpoint.captioner
        features = model.backbone.extract([image]).to(next(captioner.parameters()).device)
        if caption is not None:
            tokens = tokenizer.tokenize(caption)
        else:
            tokens = _generate(model.checkpoint, features, model.beam, model.max_words)
        spans: list[WordSpan] = tokenizer.named_spans(tokens, caption)
        if settings.over == "pixels":
            subject = from_pixels(captioner, model.backbone, image)
        else:
            subject = from_features(captioner, features, seen_window(model.backbone.preprocess, *image.size))

        def behind(other: Image.Image) -> Subject:
            return from_features(captioner, model.backbone.extract([other]).to(subject.inputs.device))

        return _TokenisedCaption(subject, tokens, spans, tokenizer, behind, _others(image, settings))
    if isinstance(model, Explainable):
        tokens = model.tokenize(caption) if caption is not None else model.generate(image)
        subject, spans = explainable_subject(model, image, settings), model.word_spans(tokens)
        return _TokenisedCaption(
            subject,
            tokens,
            spans,
            model,
            lambda other: explainable_subject(model, other, settings),
            _others(image, settings),
        )
    raise InputError(f"{type(model).__name__} gives captions but no gradients; use method='occlusion'")


def _others(image: Image.Image, settings: AttributionSettings) -> Sequence[Image.Image]:
    """The images behind which words are scored for their share of the language prior."""
    if settings.foreign:
        return [other.convert("RGB") for other in settings.foreign]
    return blank_images(image) if settings.prior == "blank" else ()


def _explain(
    caption: _TokenisedCaption, method: AttributionMethod, contrast: Contrast | None, settings: AttributionSettings
) -> Explanation:
    subject, tokens, spans = caption.subject, caption.tokens, caption.spans
    others = {_index(spans, word): other for word, other in (contrast or {}).items()}
    against = {place: _known(caption.tokenizer, other, spans[:place]) for place, other in others.items()}
    attribution = attribute(subject, word_targets(tokens, spans, against, settings.score), method.name, settings)
    likely, alternatives = _probabilities(subject, tokens, spans, caption.tokenizer)
    scored = word_targets(tokens, spans, kind="log_probability")
    prior = prior_log_probabilities(map(caption.behind, caption.others), scored)
    named = {spans[place].text: other for place, other in others.items()}
    second = _second(subject, word_targets(tokens, spans), method.name, settings) if settings.second else None
    return Explanation(
        attribution,
        log_probabilities=likely,
        contrast=named,
        alternatives=alternatives,
        second=second,
        prior_log_probabilities=prior,
    )


def _black_box(model: Any) -> AnyCaptioner:
    if not hasattr(model, "caption"):
        raise InputError(f"{type(model).__name__} cannot caption images; occlusion needs `caption(images)`")
    return model  # type: ignore[no-any-return]


@torch.no_grad()
def _generate(checkpoint: Checkpoint, features: Features, beam: int, max_words: int) -> list[int]:
    """The caption as `TrainedCaptioner` generates it."""
    captioner, power = checkpoint.captioner, checkpoint.length_power
    return generate(captioner, checkpoint.vocabulary, captioner.encode(features), beam, max_words, power)[0]


@torch.no_grad()
def _probabilities(
    subject: Subject, tokens: Sequence[int], spans: Sequence[WordSpan], tokenizer: CaptionTokenizer
) -> tuple[Array | None, tuple[tuple[Alternative, ...], ...]]:
    """The log-probability (w,) of every word given those before it, and what else the captioner could have said.

    A word of several tokens has the sum of theirs; alternatives are to its first token.
    """
    targets = word_targets(list(tokens), list(spans), kind="log_probability").to(subject.inputs.device)
    if not len(targets):
        return None, ()
    logits = subject.forward(subject.inputs.unsqueeze(0), targets.tokens).logits
    scores = targets.scores(logits)[0].cpu().numpy()
    likely = logits[0, 0, [span.start for span in spans]].softmax(-1).topk(min(MOST_LIKELY, logits.shape[-1]))
    found = [
        _alternatives(tokenizer, zip(best, values, strict=True))
        for values, best in zip(likely.values.tolist(), likely.indices.tolist(), strict=True)
    ]
    return scores, tuple(found)


def _alternatives(tokenizer: CaptionTokenizer, likely: Iterable[tuple[int, float]]) -> tuple[Alternative, ...]:
    """What tokens say, with their probabilities; "a" with and without a space before it is one word."""
    found: dict[str, float] = {}
    for token, probability in likely:
        text = _text_of(tokenizer, token)
        if text is not None:
            found[text] = found.get(text, 0.0) + probability
    return tuple(Alternative(text, probability) for text, probability in found.items())


def _text_of(tokenizer: CaptionTokenizer, token: int) -> str | None:
    """What a token says; `END` for the end of the caption, None for what can never be said."""
    if isinstance(tokenizer, VocabularyTokenizer):
        return None if token in (PAD, BOS, UNK) else END if token == EOS else tokenizer.vocabulary.word(token)
    spans = tokenizer.word_spans([token])
    return spans[0].text if spans and spans[0].text else END


def _second(subject: Subject, targets: Targets, method: str, settings: AttributionSettings) -> Attribution | None:
    """The attribution by another kind of method, to compare with: attention, or gradients beside attention."""
    names = ("attention", "input_x_gradient") if method not in ("attention", "rollout") else ("input_x_gradient",)
    for name in names:
        try:
            return attribute(subject, targets, name, replace(settings, layer=None, head=None))
        except InputError:  # this captioner has no attention
            continue
    return None


def _index(spans: Sequence[WordSpan], word: str | int) -> int:
    if isinstance(word, str):
        return find_word(spans, word)
    if not 0 <= word < len(spans):
        raise InputError(f"there is no word {word} to contrast: the caption has {len(spans)} words")
    return word


def _known(tokenizer: CaptionTokenizer, word: str, before: Sequence[WordSpan] = ()) -> list[int]:
    """The tokens of a word in its place: in byte-level BPE a word after another one begins with the space."""
    tokens = tokenizer.tokenize(word)
    if before:
        first = tokenizer.tokenize(before[-1].text)
        both = tokenizer.tokenize(f"{before[-1].text} {word}")
        tokens = both[len(first) :] if first and both[: len(first)] == first else tokens
    if not tokens or (isinstance(tokenizer, VocabularyTokenizer) and UNK in tokens):
        raise InputError(f"{word!r} is not in the vocabulary of this captioner; contrast with a word that is")
    return tokens


def _settings(settings: AttributionSettings | None, options: Mapping[str, Any]) -> AttributionSettings:
    try:
        return replace(settings or AttributionSettings(), **options)
    except TypeError as error:
        raise InputError(f"explain: {error}") from None
