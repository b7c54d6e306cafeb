"""The metrics by name: what each needs, what it prints, which way is better."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from captrial.errors import InputError
from captrial.metrics.caption_statistics import RepetitionState, StatisticsState
from captrial.metrics.corpus import Corpus
from captrial.metrics.meteor import MeteorState
from captrial.metrics.ngram.bleu import NAMES as BLEU
from captrial.metrics.ngram.bleu import BleuState
from captrial.metrics.ngram.cider import CiderPlainState, CiderState
from captrial.metrics.ngram.rouge import RougeState
from captrial.metrics.nouns.chair import ChairState
from captrial.metrics.nouns.coverage import CoverageState, Objects
from captrial.metrics.nouns.noun_iou import NounIouState
from captrial.metrics.nouns.nw import NwState
from captrial.metrics.scores import State

if TYPE_CHECKING:
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
    from captrial.metrics.nouns.noun_arrays import WordSimilarity


@dataclass(frozen=True)
class Options:
    """What some metrics can be given beside captions and references."""

    document_frequencies: DocumentFrequencies | None = None  # cider
    similarity: WordSimilarity | None = None  # nw, coverage, noun_iou
    objects: Objects | None = None  # coverage, chair: classes by image id
    training: Collection[str] | None = None  # statistics: captions the captioner was trained on
    images: Mapping[str, Path] | None = None  # clip: files by image id
    clip: str | None = None  # clip: name or path of a checkpoint


@dataclass(frozen=True)
class Entry:
    """A metric family: `columns` are what a table shows of it, in order."""

    name: str
    columns: tuple[str, ...]
    state: Callable[[Corpus, Options], State]
    better: Literal["higher", "lower"] | None = "higher"  # None: describes, does not judge
    by_default: bool = False
    lacks: Callable[[Options], str | None] = field(default=lambda _: None)  # why it cannot be had here, or None


def _spice(corpus: Corpus, _: Options) -> State:
    from captrial.metrics.spice import SpiceState

    return SpiceState.of(corpus)


def _clip(corpus: Corpus, options: Options) -> State:
    from captrial.metrics.semantic.clipscore import ClipState

    return ClipState.of(corpus, images=options.images or {}, checkpoint=options.clip or "")


def _chair(corpus: Corpus, options: Options) -> State:
    return ChairState.of(corpus, objects=options.objects or {})


def _lacks_module(module: str, extra: str) -> Callable[[Options], str | None]:
    hint = f"pip install 'captrial[{extra}]'" if extra else f"pip install {module}"
    return lambda _: None if find_spec(module) else f"needs {module}: {hint}"


def _lacks_objects(options: Options) -> str | None:
    return None if options.objects is not None else "needs the objects of each image (--objects FILE)"


def _lacks_clip(options: Options) -> str | None:
    if not (options.clip and options.images):
        return "needs images (--images FOLDER) and a CLIP checkpoint (--clip NAME)"
    return _lacks_module("transformers", "hf")(options)


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in [
        Entry("bleu", BLEU, lambda c, _: BleuState.of(c), by_default=True),
        Entry("rouge", ("rouge_l",), lambda c, _: RougeState.of(c), by_default=True),
        Entry("cider", ("cider",), lambda c, o: CiderState.of(c, o.document_frequencies), by_default=True),
        Entry("cider_plain", ("cider_plain",), lambda c, o: CiderPlainState.of(c, o.document_frequencies)),
        # Without METEOR's data files it is another metric, and the second column.
        Entry("meteor", ("meteor", "meteor_exact_stem"), lambda c, _: MeteorState.of(c), by_default=True),
        Entry("spice", ("spice",), _spice, by_default=True, lacks=_lacks_module("pycocoevalcap", "meteor")),
        Entry("nw", ("nw",), lambda c, o: NwState.of(c, o.similarity), by_default=True),
        Entry("coverage", ("coverage",), lambda c, o: CoverageState.of(c, o.similarity, o.objects), by_default=True),
        Entry("noun_iou", ("noun_iou",), lambda c, o: NounIouState.of(c, o.similarity)),
        Entry("chair", ("chair_i", "chair_s"), _chair, better="lower", by_default=True, lacks=_lacks_objects),
        Entry("repetition", ("repetition",), lambda c, _: RepetitionState.of(c), better="lower"),
        Entry(
            "statistics",
            ("length", "vocabulary", "distinct", "novelty"),
            lambda c, o: StatisticsState.of(c, o.training),
            better=None,
        ),
        Entry("clip", ("clip_score", "ref_clip_score"), _clip, by_default=True, lacks=_lacks_clip),
    ]
}
ALIASES = {"rouge_l": "rouge", "rouge-l": "rouge", "cider-d": "cider", "clipscore": "clip"}


def chosen(names: Sequence[str] | None, options: Options) -> list[Entry]:
    """The metrics of these names, in this order; by default all usual ones that can be had here.

    A name is a family (`bleu`) or one of its columns (`bleu_4`, which then is all that is shown of it).
    """
    if names is None:
        return [entry for entry in ENTRIES.values() if entry.by_default and entry.lacks(options) is None]
    found: dict[str, Entry] = {}
    for name in names:
        entry = _named(name.strip().lower())
        reason = entry.lacks(options)
        if reason:
            raise InputError(f"metric {entry.name!r} {reason}")
        shown = (*found[entry.name].columns, *entry.columns) if entry.name in found else entry.columns
        found[entry.name] = replace(entry, columns=tuple(dict.fromkeys(shown)))
    return list(found.values())


def _named(name: str) -> Entry:
    name = ALIASES.get(name, name)
    for entry in ENTRIES.values():
        if name == entry.name:
            return entry
        if name in entry.columns:
            return replace(entry, columns=(name,))
    known = ", ".join(ENTRIES)
    raise InputError(f"there is no metric {name!r}; there are {known}")
