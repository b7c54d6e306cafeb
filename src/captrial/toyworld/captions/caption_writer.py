"""Writing five captions of a scene in varied sentence forms, with the objects that every phrase refers to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from captrial.toyworld.captions.phrasing import VERBS, Phraser, Piece
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.layout import Scene
from captrial.toyworld.scene.relations import Relation

CAPTIONS = 5
GROUND_GAMES = frozenset({"walking", "chasing", "playing with"})  # captions may name the ground of these


@dataclass(frozen=True, slots=True)
class PhraseMention:
    """A phrase by token indices `[start, end)` and the objects it refers to (none: the scene)."""

    text: str
    start: int
    end: int
    objects: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ToyCaption:
    """A caption and its phrases."""

    text: str
    mentions: tuple[PhraseMention, ...]


def tokens(caption: str) -> list[str]:
    """The words of a caption: lower case, split on blanks, punctuation stripped (equal to PTB tokens here).

    >>> tokens("On the beach, a girl flies a kite.")
    ['on', 'the', 'beach', 'a', 'girl', 'flies', 'a', 'kite']
    """
    return [word for word in re.sub(r"[.,]", " ", caption.lower()).split() if word]


def describe(
    scene: Scene, mentionable: Sequence[int], found: Sequence[Relation], rng: RandomStream
) -> tuple[ToyCaption, ...]:
    """Write five different captions of a scene that mention only `mentionable` objects and the relations `found`."""
    writer = CaptionWriter(scene, tuple(mentionable), tuple(found), rng)
    captions: dict[str, ToyCaption] = {}
    while len(captions) < CAPTIONS:
        caption = writer.write()
        captions.setdefault(caption.text, caption)
    return tuple(captions.values())


def assemble(pieces: Sequence[Piece]) -> ToyCaption:
    """Join the pieces to a caption with capital and full stop; phrases get their token indices."""
    mentions, count = [], 0
    for piece in pieces:
        width = len(tokens(piece.text))
        if piece.objects or piece.scene:
            mentions.append(PhraseMention(" ".join(tokens(piece.text)), count, count + width, piece.objects))
        count += width
    text = " ".join(piece.text for piece in pieces).replace(" ,", ",")
    return ToyCaption(text[0].upper() + text[1:] + ".", tuple(mentions))


class CaptionWriter(Phraser):
    """Writes true captions of one scene in random sentence forms."""

    def __init__(
        self, scene: Scene, mentionable: tuple[int, ...], found: tuple[Relation, ...], rng: RandomStream
    ) -> None:
        super().__init__(scene, mentionable, rng)
        self.interactions = [relation for relation in found if relation in scene.links]
        self.spatial = [relation for relation in found if relation not in scene.links]
        self.forms = self._possible_forms()

    def write(self) -> ToyCaption:
        """Write one caption."""
        return assemble(self.rng.weighted_choice(self.forms)())

    def _possible_forms(self) -> dict[Callable[[], list[Piece]], float]:
        if not self.mentionable:
            return {self.empty: 1.0}
        crowd = 1.5 if len(self.mentionable) > 3 else 1.0  # more lists in cluttered scenes
        forms: dict[Callable[[], list[Piece]], float] = {
            self.single: 1.2 / crowd**2,
            self.titled: 1.2 * crowd,
            self.depicted: 0.5,
        }
        if self.interactions:
            forms |= {self.action: 5.0, self.fronted: 1.2}
            if any(VERBS[predicate].passives for _, predicate, _ in self.interactions):
                forms[self.passive] = 1.3
        if len(self.mentionable) > 1:
            forms[self.listed] = 2.0 * crowd
            forms[self.two_clauses] = 0.8
        if self.spatial:
            forms[self.located] = 2.0
        if self.plurals():
            forms[self.counted] = 3.0
        return forms

    # Sentence forms -----------------------------------------------------------------------------------------------

    def action(self) -> list[Piece]:
        """A girl flying a kite on the beach."""
        subject, predicate, target = self.rng.choice(self.interactions)
        verb = VERBS[predicate]
        phrase = self.rng.choice(verb.participles) if self.rng.chance(0.6) else self.rng.choice(verb.finites)
        where = self.setting(subject) if predicate in GROUND_GAMES else self.where()
        return [*self.name(subject), Piece(phrase), *self.name(target), *self.maybe(where, 0.7), *self.maybe_light()]

    def passive(self) -> list[Piece]:
        """A kite is being flown by a girl."""
        options = [r for r in self.interactions if VERBS[r[1]].passives]
        subject, predicate, target = self.rng.choice(options)
        phrase = self.rng.choice(VERBS[predicate].passives)
        if phrase.startswith("being") and self.rng.chance(0.5):
            phrase = "is " + phrase
        return [*self.name(target), Piece(phrase), *self.name(subject), *self.maybe(self.where(), 0.6)]

    def fronted(self) -> list[Piece]:
        """On the beach, a girl is flying a kite."""
        subject, predicate, target = self.rng.choice(self.interactions)
        phrase = self.rng.choice(VERBS[predicate].finites)
        return [*self.where(), Piece(","), *self.name(subject), Piece(phrase), *self.name(target)]

    def single(self) -> list[Piece]:
        """A brown dog is running on the grass."""
        index = self.rng.choice(self.mentionable)
        doing = self.doing(index)
        link = [Piece(("is " if self.rng.chance(0.5) else "") + doing)] if doing else []
        return [*self.name(index), *link, *self.setting(index), *self.maybe_light()]

    def counted(self) -> list[Piece]:
        """Two brown dogs running on the grass."""
        members = self.rng.choice(self.plurals())
        phrase = self.several(members)
        doings = {self.doing(index, first=True) for index in members}
        doing = doings.pop() if len(doings) == 1 else ""
        link = [Piece(("are " if self.rng.chance(0.5) else "") + doing)] if doing and self.rng.chance(0.8) else []
        if phrase[0].text.startswith("a ") and link:
            link = [Piece(doing)]
        return [*phrase, *link, *self.setting(members[0]), *self.maybe_light()]

    def listed(self) -> list[Piece]:
        """A dog, a bench and a tree in a park."""
        return [*self.listing(self.choose(2, 3)), *self.where(), *self.maybe_light()]

    def titled(self) -> list[Piece]:
        """A park with a dog and a tree."""
        opening = Piece(self.rng.choice(self.place.titles), scene=True)
        lead = [Piece("a view of")] if self.rng.chance(0.2) else []
        return [*lead, opening, Piece("with"), *self.listing(self.choose(1, 3)), *self.maybe_light(0.15)]

    def depicted(self) -> list[Piece]:
        """An image of a dog in a park."""
        lead = Piece(self.rng.choice(("a picture of", "a view of", "an image of")))
        return [lead, *self.listing(self.choose(1, 2)), *self.where()]

    def located(self) -> list[Piece]:
        """A dog is sitting next to a bench."""
        subject, predicate, target = self.rng.choice(self.spatial)
        verb = VERBS[predicate]
        doing = self.doing(subject)
        if doing and self.rng.chance(0.6):
            phrase = ("is " if self.rng.chance(0.4) else "") + doing + " " + self.rng.choice(verb.participles)
        else:
            phrase = self.rng.choice(verb.participles) if self.rng.chance(0.5) else self.rng.choice(verb.finites)
        return [*self.name(subject), Piece(phrase), *self.other(subject, target), *self.maybe(self.where(), 0.5)]

    def two_clauses(self) -> list[Piece]:
        """A dog is running and a bird is flying."""
        busy = [index for index in self.mentionable if self.doing(index)]
        if len(busy) < 2:
            return self.listed()
        first, second = self.rng.shuffled(busy)[:2]
        doings = [Piece("is " + self.doing(index)) for index in (first, second)]
        link = Piece(self.rng.choice(("and", "while")))
        return [*self.name(first), doings[0], *self.setting(first), link, *self.other(first, second), doings[1]]

    def empty(self) -> list[Piece]:
        """A view of a quiet street at night."""
        lead = self.rng.choice(
            ("a view of", "a picture of", "an image of", "a photo of", "a quiet view of", "a wide view of")
        )
        return [Piece(lead), Piece(self.rng.choice(self.place.titles), scene=True), *self.maybe_light(0.6)]
