"""The attribution methods. Adding one takes a module with its function and one entry in the list below.

Help texts, error messages, the studio and the tables of `captrial ground` and `captrial attend` read this registry. It
imports no torch: functions are named as `module:function` and imported when they are used.

A method has at least one of three functions:

- `attribute(subject, targets, settings) -> Attribution`: one caption of a captioner that gives gradients or attention;
- `attend(captioner, features, tokens) -> weights (b, n, t, k)`: many captions in one pass, for data sets;
- `black_box(captioner, image, boxes, caption) -> Attribution`: one image of anything that captions images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

from captrial.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

    from captrial.attribution.attribution import Array, Attribution
    from captrial.attribution.subject import ScoreKind, Subject, Targets

Over = Literal["elements", "pixels"]
RuleName = Literal["averaged", "gauss_legendre"]
PriorName = Literal["blank", "off"]
DEFAULT_METHOD = "integrated_gradients"
CHUNK_ELEMENTS, CHUNK_PIXELS = 192, 32  # pairs of a point and a word in flight, over elements and through a backbone
_FUNCTIONS = "captrial.attribution.methods"


@dataclass(frozen=True)
class AttributionSettings:
    """How an attribution is made; the defaults were measured (docs/explain.md)."""

    over: Over = "elements"  # regions, cells or image tokens; captioners that have none of them: always pixels
    score: ScoreKind = "logit"  # of a word, before the softmax; or "log_probability"
    boxes: Array | None = field(default=None, compare=False)  # (e, 4) relative regions that `occlusion` covers
    tolerance: float = 0.01  # numerical error of every word, for integrated gradients
    steps: int | None = None  # a fixed number of steps (over pixels: of segments) instead of a tolerance
    rule: RuleName = "averaged"  # or "gauss_legendre": captum's nodes, plain gradients
    max_steps: int = 384
    chunk: int | None = None  # pairs of a point and a word in flight: bounds memory
    shortcuts: bool = True  # exact savings, see `captrial.attribution.gradients.path_gradients.Shortcuts`
    beam: int = 5  # beam width of the caption that `explain_features` generates
    layer: int | None = None  # of a VLM's decoder, from 1 (negative: from the last), for attention; None: mean
    head: int | None = None  # of that layer or of all layers, from 1; None: mean
    prior: PriorName = "blank"  # score the words behind blank images too, for their share of the language prior
    foreign: Sequence[Image.Image] = field(default=(), compare=False)  # behind these instead of blank ones
    context: bool = True  # False: without what the maps of earlier words already explain
    second: bool = False  # also explain by a method of another kind, to compare with

    def __post_init__(self) -> None:
        if self.over not in get_args(Over):
            raise InputError(f"nothing can be explained over {self.over!r}; there are: {', '.join(get_args(Over))}")
        if self.prior not in get_args(PriorName):
            raise InputError(f"prior {self.prior!r}: there are {', '.join(get_args(PriorName))}")
        if not 0 < self.tolerance < math.inf:
            raise InputError(f"a tolerance of {self.tolerance}: give a share of a word's score above 0, e.g. 0.01")

    def rows(self, subject: Subject) -> int:
        """Pairs of a point and a word in flight."""
        return self.chunk or subject.chunk or (CHUNK_PIXELS if subject.is_pixels else CHUNK_ELEMENTS)


class Needs(StrEnum):
    """What a method needs of a captioner."""

    GRADIENTS = "gradients"
    ATTENTION = "attention"
    IMAGE_TOKENS = "image tokens"
    CAPTIONS = "captions"


@dataclass(frozen=True)
class AttributionMethod:
    """An attribution method and its functions, each a callable or `module:function` (see the module's docstring)."""

    name: str
    title: str
    description: str
    needs: Needs
    attribute: str | Callable[..., Any] | None = None
    attend: str | Callable[..., Any] | None = None
    black_box: str | Callable[..., Any] | None = None
    check: str | Callable[..., Any] | None = None  # raises `InputError` for a captioner that the method cannot serve

    @property
    def explains(self) -> bool:
        """Whether `captrial.explain` offers it."""
        return self.attribute is not None or self.black_box is not None

    @property
    def on_datasets(self) -> bool:
        """Whether `captrial ground` and `captrial attend` offer it."""
        return self.attribute is not None or self.attend is not None

    @property
    def by_gradients(self) -> bool:
        """Whether it differentiates a score: then it can go over pixels and compare a word with another one."""
        return self.needs is Needs.GRADIENTS

    def function(self, kind: Literal["attribute", "attend", "black_box", "check"]) -> Callable[..., Any]:
        """One of its functions, imported."""
        found: str | Callable[..., Any] | None = getattr(self, kind)
        assert found is not None, f"{self.name} has no function {kind!r}"
        if not isinstance(found, str):
            return found
        module, _, name = found.partition(":")
        return getattr(import_module(module), name)  # type: ignore[no-any-return]


_ENTRIES = (
    AttributionMethod(
        "integrated_gradients",
        "Integrated Gradients",
        "gradients integrated from an all-zero input to the image; scores add up to the change of the word's score",
        Needs.GRADIENTS,
        attribute=f"{_FUNCTIONS}.integrated_gradients:attribute",
    ),
    AttributionMethod(
        "saliency",
        "Saliency",
        "the gradient at the image; fast",
        Needs.GRADIENTS,
        attribute=f"{_FUNCTIONS}.saliency:attribute",
    ),
    AttributionMethod(
        "guided_backprop",
        "Guided Backprop",
        "the gradient, with every ReLU and ReLU6 passing only non-negative gradient; sharp, depends less on the model",
        Needs.GRADIENTS,
        attribute=f"{_FUNCTIONS}.guided_backprop:attribute",
    ),
    AttributionMethod(
        "input_x_gradient",
        "Input x Gradient",
        "the gradient times the input; fast",
        Needs.GRADIENTS,
        attribute=f"{_FUNCTIONS}.saliency:attribute_times_input",
    ),
    AttributionMethod(
        "attention",
        "Attention",
        "soft attention, the last layer's cross-attention averaged over heads, or a VLM's attention to image tokens",
        Needs.ATTENTION,
        attribute=f"{_FUNCTIONS}.cross_attention:attribute",
        attend=f"{_FUNCTIONS}.cross_attention:attend",
    ),
    AttributionMethod(
        "rollout",
        "Attention rollout",
        "attention traced back through all layers: the encoder's (Transformers), or a VLM's decoder",
        Needs.ATTENTION,
        attribute=f"{_FUNCTIONS}.token_attention:attribute_rollout",
        attend=f"{_FUNCTIONS}.rollout:attend",
        check=f"{_FUNCTIONS}.rollout:self_attentions",
    ),
    AttributionMethod(
        "attention_x_gradient",
        "Attention x Gradient",
        "attention times its positive gradient, through all layers of a VLM's decoder (Chefer et al. 2021)",
        Needs.IMAGE_TOKENS,
        attribute=f"{_FUNCTIONS}.token_attention:attribute_relevance",
    ),
    AttributionMethod(
        "occlusion",
        "Occlusion",
        "whether the word's lemma is still in the caption when a region is covered; works for every captioner",
        Needs.CAPTIONS,
        black_box=f"{_FUNCTIONS}.occlusion:occlude",
    ),
)
METHODS = {method.name: method for method in _ENTRIES}


def explain_methods() -> list[str]:
    """Names of the methods of `captrial.explain`."""
    return [method.name for method in METHODS.values() if method.explains]


def dataset_methods() -> list[str]:
    """Names of the methods of `captrial ground` and `captrial attend`."""
    return [method.name for method in METHODS.values() if method.on_datasets]


def gradient_methods() -> list[str]:
    """Names of the methods that differentiate a score."""
    return [method.name for method in METHODS.values() if method.by_gradients]


def explain_method(name: str) -> AttributionMethod:
    """The method of that name for one image; an `InputError` that lists the methods if there is none."""
    return _find(name, explain_methods(), f"no attribution method {name!r}")


def dataset_method(name: str) -> AttributionMethod:
    """The method of that name for a data set; an `InputError` that lists the methods if there is none."""
    return _find(name, dataset_methods(), f"no attribution method {name!r} for a whole data set")


def _find(name: str, known: Iterable[str], problem: str) -> AttributionMethod:
    if name not in known:
        raise InputError(f"{problem}; there are: {', '.join(known)}")
    return METHODS[name]


def title_of(name: str) -> str:
    """The title of a method; the name itself if it is not registered."""
    return METHODS[name].title if name in METHODS else name


def attribute(
    subject: Subject, targets: Targets, method: str = DEFAULT_METHOD, settings: AttributionSettings | None = None
) -> Attribution:
    """The attribution of every word to every visual element, by a method that has the function `attribute`.

    It is empty without any element (an image on which nothing was detected) or without any word.
    """
    known = [entry.name for entry in METHODS.values() if entry.attribute is not None]
    entry = _find(method, known, f"no attribution method {method!r} here")
    settings = settings or AttributionSettings()
    found: Attribution = entry.function("attribute")(subject, targets, settings)
    if settings.context:
        return found
    from captrial.attribution.context_correction import without_context

    return without_context(found)
