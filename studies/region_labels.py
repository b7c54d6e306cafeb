"""Boxes of Flickr30k Entities as what the region detector learns: nouns, merged classes, adjectives, slots.

A box has the head nouns of all phrases that point at it. Captions name only a part of what an image shows, so every
image also has a weight for each class: how much a cell without a box of the class counts as a negative example.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from captrial.language.class_words import default_table
from captrial.language.nouns import Analysis, analyse
from captrial.records import Box, Phrase, Sample
from captrial.vision.boxes import iou_matrix
from captrial.vision.detectors.region_network import SLOT_OF_TYPE, RegionLabels

COLLECTIVES = frozenset({
    "audience", "band", "bunch", "class", "couple", "crowd", "family", "flock", "group", "herd", "lot", "pack",
    "pair", "parade", "team",
})  # fmt: skip
OF_WHAT = frozenset({
    "body", "bunch", "couple", "crowd", "field", "flight", "group", "lot", "pack", "pair", "piece", "pool", "row",
    "set", "stream", "team",
})  # fmt: skip  # before "of", they are not what a phrase is about
NO_THING = frozenset({
    "air", "american", "area", "back", "background", "bottom", "camera-view", "color", "course", "day", "distance",
    "edge", "formation", "front", "gesture", "item", "lot", "midair", "middle", "number", "object", "one", "orange",
    "other", "photo", "photograph", "picture", "position", "race", "ride", "scene", "side", "someone", "something",
    "spot", "top", "view", "way",
})  # fmt: skip  # heads of phrases that name nothing with a look of its own
VEHICLES = frozenset({"boat", "canoe", "kayak", "motorcycle", "raft"})  # often of the type other in the data

# Classes that nouns are merged to: name, slot, words besides those of the class table. "person" is every phrase of the
# type people; a class of another type takes a word only in phrases of that slot.
MERGED: Mapping[str, tuple[int, str]] = {
    "person": (0, ""),
    "group of people": (0, ""),
    "dog": (
        0,
        "greyhound, shepherd, terrier, retriever, poodle, lab, collie, husky, doberman, pitbull, dachshund, labrador, "
        "german shepherd, golden retriever",
    ),
    "bird": (0, "pigeon, duck, seagull, pelican, swan, goose, gull"),
    "horse": (0, "pony"),
    "bicycle": (0, "bike, bicycle, tricycle"),
    "motorcycle": (0, "motorbike, motorcycle, scooter, atv, dirt bike"),
    "car": (0, "car, jeep, suv, truck, bus, van, taxi, vehicle, race car, pickup truck"),
    "boat": (0, "boat, canoe, kayak, raft, sailboat"),
    "shirt": (1, "shirt, t-shirt, top, jersey, blouse, sweater, sweatshirt, hoodie, tee, tank top"),
    "coat": (1, "jacket, coat, vest, parka"),
    "hat": (1, "hat, cap, beanie, sunhat, visor, baseball cap"),
    "helmet": (1, "helmet"),
    "pants": (1, "pants, jeans, trousers, jean, shorts, trunk"),
    "dress": (1, "dress, skirt, gown, tutu"),
    "outfit": (1, "uniform, outfit, costume, suit, clothes, clothing, attire"),
    "swimsuit": (1, "swimsuit, bikini, wetsuit, bathing suit"),
    "glasses": (1, "glasses, sunglasses, goggles, glass"),
    "shoe": (1, "shoe, boot, sneaker, sandal"),
    "bag": (1, "backpack, bag, purse, handbag"),
    "hand": (1, "hand, finger, arm"),
    "face": (1, "face, head"),
    "mouth": (1, "mouth, tongue"),
    "hair": (1, "hair, blond-hair"),
    "leg": (1, "leg, foot"),
    "ball": (2, "ball, basketball, football, baseball"),
    "toy": (2, "toy, frisbee"),
    "stick": (2, "stick, branch, log"),
    "board": (2, "skateboard, surfboard, snowboard, board, ski"),
    "bench": (2, "bench, seat, chair, couch, park bench, armchair"),
    "table": (2, "table"),
    "tree": (2, "tree, bush"),
    "flower": (2, "flower, plant"),
    "rock": (2, "rock, cliff, boulder, stone"),
    "wall": (2, "wall, ledge"),
    "fence": (2, "fence, railing, rail, gate, barrier"),
    "flag": (2, "flag, banner"),
    "sign": (2, "sign"),
    "rope": (2, "rope, leash"),
    "swing": (2, "swing, slide"),
    "water": (2, "water, ocean, lake, river, pool, pond, wave, stream, sea, creek, surf, fountain, waterfall, puddle"),
    "grass": (2, "grass, field, lawn, yard"),
    "snow": (2, "snow, ice"),
    "sand": (2, "sand, beach, shore, dirt"),
    "mountain": (2, "mountain, hill, slope"),
    "street": (2, "street, road, sidewalk, path, pavement, walkway, track, trail"),
    "building": (2, "building, house, store, shop"),
    "ramp": (2, "ramp"),
}  # fmt: skip


# Classes of COCO as merged classes, for boxes of a teacher and for measuring; and the types of the Entities they have.
FROM_COCO: Mapping[str, str] = {
    "person": "person", "dog": "dog", "bird": "bird", "horse": "horse", "bicycle": "bicycle",
    "motorcycle": "motorcycle", "car": "car", "truck": "car", "bus": "car", "boat": "boat", "backpack": "bag",
    "handbag": "bag", "sports ball": "ball", "frisbee": "toy", "skateboard": "board", "surfboard": "board",
    "snowboard": "board", "skis": "board", "bench": "bench", "chair": "bench", "couch": "bench",
    "dining table": "table", "potted plant": "flower",
}  # fmt: skip
TEACHER_TYPES = {
    "person": "people", "dog": "animals", "bird": "animals", "horse": "animals", "bicycle": "vehicles",
    "motorcycle": "vehicles", "car": "vehicles", "boat": "vehicles", "bag": "clothing",
}  # fmt: skip


@dataclass
class LabelledBox:
    """A human box, relative to the image, with what phrases call it."""

    box: tuple[float, float, float, float]
    slot: int
    types: set[str] = field(default_factory=set)
    nouns: Counter[str] = field(default_factory=Counter)  # head noun -> phrases
    adjectives: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    group: bool = False  # one box around several people or animals


@dataclass
class LabelledImage:
    """The boxes of an image, and which classes its captions mention."""

    id: str
    size: tuple[int, int]  # (width, height) that the boxes were drawn on
    boxes: list[LabelledBox]
    mentioned: set[str]  # types (`type:people`) and classes
    unplaced: set[str]  # those that a phrase mentions without any box


def label_images(samples: Sequence[Sample]) -> list[LabelledImage]:
    """What the phrases of samples of `read_entities` teach."""
    texts = sorted({phrase.text for sample in samples for each in sample.phrases for phrase in each})
    analyses = dict(zip(texts, analyse(texts, phrases=False), strict=True))
    return [_label_image(sample, analyses) for sample in samples]


def choose_labels(images: Sequence[LabelledImage], least_nouns: int = 20, least_adjectives: int = 60) -> RegionLabels:
    """Nouns and adjectives of enough boxes of training images, most frequent first, and the merged classes."""
    boxes = [box for image in images for box in image.boxes]
    nouns = Counter(noun for box in boxes for noun in box.nouns)
    adjectives = Counter(word for box in boxes for word in sorted(box.adjectives))
    parents: dict[str, Counter[str]] = defaultdict(Counter)
    for box in boxes:
        for noun in box.nouns:
            named = box.classes or {f"type:{kind}" for kind in box.types}
            parents[noun].update(sorted(named, key=lambda name: (name != noun, name)))  # equal counts: the first
    kept = tuple(noun for noun, count in nouns.most_common() if count >= least_nouns)
    return RegionLabels(
        tuple(MERGED),
        tuple(slot for slot, _ in MERGED.values()),
        kept,
        tuple(word for word, count in adjectives.most_common() if count >= least_adjectives),
        tuple(parents[noun].most_common(1)[0][0] for noun in kept),
    )


def _label_image(sample: Sample, analyses: Mapping[str, Analysis]) -> LabelledImage:
    width, height = sample.image.width or 1, sample.image.height or 1
    phrases = [phrase for each in sample.phrases for phrase in each if phrase.kinds[0] in SLOT_OF_TYPE]
    groups = _groups(phrases, analyses)
    found: dict[tuple[Box, int], LabelledBox] = {}
    placed, unplaced = set[str](), set[str]()
    for phrase in phrases:
        noun = head_noun(analyses[phrase.text])
        kind = "vehicles" if noun in VEHICLES else phrase.kinds[0]
        slot, classes = SLOT_OF_TYPE[kind], merged_classes(noun, kind, phrase.entity in groups)
        (placed if phrase.regions else unplaced).update([f"type:{kind}", *classes])
        for region in phrase.regions:
            x1, y1, x2, y2 = region.box
            box = LabelledBox((x1 / width, y1 / height, x2 / width, y2 / height), slot)
            box = found.setdefault((region.box, slot), box)
            box.types.add(kind)
            box.classes.update(classes)
            box.group |= phrase.entity in groups
            if noun and noun not in NO_THING:
                box.nouns[noun] += 1
            box.adjectives.update(_adjectives(analyses[phrase.text]))
    return LabelledImage(sample.id, (width, height), list(found.values()), placed | unplaced, unplaced)


def _groups(phrases: Sequence[Phrase], analyses: Mapping[str, Analysis]) -> set[str]:
    """Entities of people and animals that most of their phrases call several, with a single box around them all."""
    votes: dict[str, list[bool]] = defaultdict(list)
    for phrase in phrases:
        if phrase.kinds[0] in ("people", "animals") and len(phrase.regions) == 1 and phrase.entity:
            votes[phrase.entity].append(_is_plural(analyses[phrase.text]))
    return {entity for entity, plural in votes.items() if sum(plural) * 2 > len(plural)}


def _is_plural(analysis: Analysis) -> bool:
    if not analysis.nouns:
        return False
    tokens = set(analysis.tokens)
    last = analysis.nouns[-1]
    return bool(
        analysis.tags[last] in ("NNS", "NNPS") or COLLECTIVES & set(analysis.lemmas) or tokens & {"people", "children"}
    )


def head_noun(analysis: Analysis) -> str | None:
    """The noun a phrase is about, singular; of "a group of people" the people. None for "him", "the other one".

    >>> head_noun(
    ...     Analysis(("a", "set", "of", "stairs"), ("DT", "NN", "IN", "NNS"), ("a", "set", "of", "stair"), (1, 3))
    ... )
    'stair'
    """
    nouns = list(analysis.nouns)
    if not nouns:
        return _bare_word(analysis)
    if "of" in analysis.tokens:
        place = analysis.tokens.index("of")
        before = [index for index in nouns if index < place]
        after = [index for index in nouns if index > place]
        if before and after:
            nouns = after if analysis.lemmas[before[-1]] in OF_WHAT | COLLECTIVES | NO_THING else before
    return default_table().mentions(analysis.lemmas, nouns)[-1].name


@cache
def _plain_nouns() -> frozenset[str]:
    return frozenset(word for _, words in MERGED.values() for word in words.split(", "))


def _bare_word(analysis: Analysis) -> str | None:
    """The last word, where the tagger took a noun such as "shorts" or "a hat" alone for something else."""
    word = analysis.lemmas[-1] if analysis.lemmas else ""
    return word if word in _plain_nouns() else None


def _adjectives(analysis: Analysis) -> set[str]:
    tagged = zip(analysis.lemmas, analysis.tags, strict=True)
    return {lemma for lemma, tag in tagged if tag.startswith("JJ")} - {"other", "many", "several", "few", "same"}


def merged_classes(noun: str | None, kind: str, group: bool = False) -> set[str]:
    """The merged classes of a noun in a phrase of one of the Entities' types.

    >>> merged_classes("surfer", "people"), merged_classes("puppy", "animals")
    ({'person'}, {'dog'})
    """
    if kind == "people":
        return {"group of people"} if group else {"person"}
    slot = SLOT_OF_TYPE[kind]
    return {
        name for name in merged_words().get(noun or "", ()) if MERGED[name][0] == slot and not (group and slot == 0)
    }


@cache
def merged_words() -> dict[str, list[str]]:
    """Words besides those for people, and the merged classes that each means."""
    found: dict[str, list[str]] = {}
    table = default_table()
    for name, (_slot, words) in MERGED.items():
        own = {*words.split(", "), name}
        if name in ("dog", "bird", "horse", "bicycle", "motorcycle", "boat", "hat", "ball", "shoe", "tree"):
            own |= table.words(name)
        for word in own:
            found.setdefault(word, []).append(name)
    return found


def add_teacher_boxes(
    image: LabelledImage, found: Sequence[tuple[str, tuple[float, float, float, float]]]
) -> LabelledImage:
    """The image with boxes (class, relative box) that another detector found and that no human box of the slot covers.

    They teach the class and its type, but no noun: an object that captions leave out is then no negative example.
    """
    added = []
    for name, box in found:
        slot = MERGED[name][0]
        own = [each.box for each in image.boxes if each.slot == slot]
        if own and iou_matrix([box], own).max() >= 0.5:
            continue
        added.append(LabelledBox(box, slot, {TEACHER_TYPES.get(name, "other")}, classes={name}))
    return replace(image, boxes=[*image.boxes, *added])
