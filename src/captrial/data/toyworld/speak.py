"""Five people look at a picture: captions in many forms, every phrase tied to what it speaks of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from captrial.data.toyworld import people
from captrial.data.toyworld.dice import Dice
from captrial.data.toyworld.kinds import KINDS, plural
from captrial.data.toyworld.places import PLACES, ROOM, Place
from captrial.data.toyworld.relations import Relation, on_ground
from captrial.data.toyworld.stage import Scene, Thing
from captrial.data.toyworld.words import DOING, LIGHT_WORDS, NUMBERS, SIZE_WORDS, VERBS, YOUNG

CAPTIONS = 5
GROUND_GAMES = frozenset({"walking", "chasing", "playing with"})  # one can say what ground they happen on


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of a sentence; `things` are what they mean, `scene` says that they mean the place."""

    text: str
    things: tuple[int, ...] = ()
    scene: bool = False


@dataclass(frozen=True, slots=True)
class Mention:
    """A phrase by token indices `[start, end)` and the things it means (none: the scene)."""

    text: str
    start: int
    end: int
    things: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A caption and its phrases."""

    text: str
    mentions: tuple[Mention, ...]


def tokens(caption: str) -> list[str]:
    """The words of a caption: lower case, split on blanks, punctuation stripped (equal to PTB tokens here).

    >>> tokens("On the beach, a girl flies a kite.")
    ['on', 'the', 'beach', 'a', 'girl', 'flies', 'a', 'kite']
    """
    return [word for word in re.sub(r"[.,]", " ", caption.lower()).split() if word]


def describe(scene: Scene, seen: Sequence[int], found: Sequence[Relation], dice: Dice) -> tuple[Sentence, ...]:
    """Five different captions of a scene of which the things `seen` can be mentioned, with the relations `found`."""
    speaker = Speaker(scene, tuple(seen), tuple(found), dice)
    sentences: dict[str, Sentence] = {}
    while len(sentences) < CAPTIONS:
        sentence = speaker.say()
        sentences.setdefault(sentence.text, sentence)
    return tuple(sentences.values())


def assemble(pieces: Sequence[Piece]) -> Sentence:
    """Join the pieces to a sentence with a capital and a full stop, and count the tokens of every phrase."""
    mentions, count = [], 0
    for piece in pieces:
        width = len(tokens(piece.text))
        if piece.things or piece.scene:
            mentions.append(Mention(" ".join(tokens(piece.text)), count, count + width, piece.things))
        count += width
    text = " ".join(piece.text for piece in pieces).replace(" ,", ",")
    return Sentence(text[0].upper() + text[1:] + ".", tuple(mentions))


def article(words: str) -> str:
    """The words with "a" or "an" before them."""
    return ("an " if words[0] in "aeiou" else "a ") + words


def braced(text: str) -> list[Piece]:
    """Pieces of "in {a park}": what stands in braces is a scene phrase."""
    parts = re.split(r"[{}]", text)
    return [Piece(part.strip(), scene=index % 2 == 1) for index, part in enumerate(parts) if part.strip()]


class Speaker:
    """Says true sentences about one scene, a new one each time."""

    def __init__(self, scene: Scene, seen: tuple[int, ...], found: tuple[Relation, ...], dice: Dice) -> None:
        self.scene, self.seen, self.dice = scene, seen, dice
        self.place: Place = PLACES.get(scene.place, ROOM)
        self.told = [r for r in found if r in scene.links]
        self.spatial = [r for r in found if r not in scene.links]
        self.forms = self._possible_forms()

    def say(self) -> Sentence:
        """One sentence."""
        return assemble(self.dice.weighted(self.forms)())

    def _possible_forms(self) -> dict[Callable[[], list[Piece]], float]:
        if not self.seen:
            return {self.empty: 1.0}
        forms: dict[Callable[[], list[Piece]], float] = {self.single: 1.2, self.titled: 1.2, self.pictured: 0.5}
        if self.told:
            forms |= {self.action: 5.0, self.fronted: 1.2}
            if any(VERBS[predicate].passives for _, predicate, _ in self.told):
                forms[self.passive] = 1.3
        if len(self.seen) > 1:
            forms[self.listed] = 2.0
            forms[self.two_clauses] = 0.8
        if self.spatial:
            forms[self.located] = 2.0
        if self._plurals():
            forms[self.counted] = 3.0
        return forms

    # Sentences -----------------------------------------------------------------------------------------------------

    def action(self) -> list[Piece]:
        """A girl flying a kite on the beach."""
        subject, predicate, target = self.dice.choice(self.told)
        verb = VERBS[predicate]
        said = self.dice.choice(verb.participles) if self.dice.chance(0.6) else self.dice.choice(verb.finites)
        where = self._setting(subject) if predicate in GROUND_GAMES else self._where()
        return [*self.name(subject), Piece(said), *self.name(target), *self._maybe(where, 0.7), *self._maybe_light()]

    def passive(self) -> list[Piece]:
        """A kite is being flown by a girl."""
        options = [r for r in self.told if VERBS[r[1]].passives]
        subject, predicate, target = self.dice.choice(options)
        said = self.dice.choice(VERBS[predicate].passives)
        if said.startswith("being") and self.dice.chance(0.5):
            said = "is " + said
        return [*self.name(target), Piece(said), *self.name(subject), *self._maybe(self._where(), 0.6)]

    def fronted(self) -> list[Piece]:
        """On the beach, a girl is flying a kite."""
        subject, predicate, target = self.dice.choice(self.told)
        said = self.dice.choice(VERBS[predicate].finites)
        return [*self._where(), Piece(","), *self.name(subject), Piece(said), *self.name(target)]

    def single(self) -> list[Piece]:
        """A brown dog is running on the grass."""
        index = self.dice.choice(self.seen)
        doing = self._doing(index)
        link = [Piece(("is " if self.dice.chance(0.5) else "") + doing)] if doing else []
        return [*self.name(index), *link, *self._setting(index), *self._maybe_light()]

    def counted(self) -> list[Piece]:
        """Two brown dogs running on the grass."""
        members = self.dice.choice(self._plurals())
        phrase = self._several(members)
        doings = {self._doing(index, first=True) for index in members}
        doing = doings.pop() if len(doings) == 1 else ""
        link = [Piece(("are " if self.dice.chance(0.5) else "") + doing)] if doing and self.dice.chance(0.8) else []
        if phrase[0].text.startswith("a ") and link:
            link = [Piece(doing)]
        return [*phrase, *link, *self._setting(members[0]), *self._maybe_light()]

    def listed(self) -> list[Piece]:
        """A dog, a bench and a tree in a park."""
        return [*self._list(self._choose(2, 3)), *self._where(), *self._maybe_light()]

    def titled(self) -> list[Piece]:
        """A park with a dog and a tree."""
        opening = Piece(self.dice.choice(self.place.titles), scene=True)
        lead = [Piece("a view of")] if self.dice.chance(0.2) else []
        return [*lead, opening, Piece("with"), *self._list(self._choose(1, 3)), *self._maybe_light(0.15)]

    def pictured(self) -> list[Piece]:
        """A picture of a dog in a park."""
        lead = Piece(self.dice.choice(("a picture of", "a view of", "an image of")))
        return [lead, *self._list(self._choose(1, 2)), *self._where()]

    def located(self) -> list[Piece]:
        """A dog is sitting next to a bench."""
        subject, predicate, target = self.dice.choice(self.spatial)
        verb = VERBS[predicate]
        doing = self._doing(subject)
        if doing and self.dice.chance(0.6):
            said = ("is " if self.dice.chance(0.4) else "") + doing + " " + self.dice.choice(verb.participles)
        else:
            said = self.dice.choice(verb.participles) if self.dice.chance(0.5) else self.dice.choice(verb.finites)
        return [*self.name(subject), Piece(said), *self.name(target), *self._maybe(self._where(), 0.5)]

    def two_clauses(self) -> list[Piece]:
        """A dog is running and a bird is flying."""
        busy = [index for index in self.seen if self._doing(index)]
        if len(busy) < 2:
            return self.listed()
        first, second = self.dice.shuffled(busy)[:2]
        clauses = [[*self.name(index), Piece("is " + self._doing(index))] for index in (first, second)]
        return [*clauses[0], *self._setting(first), Piece(self.dice.choice(("and", "while"))), *clauses[1]]

    def empty(self) -> list[Piece]:
        """A view of a quiet street at night."""
        lead = self.dice.choice(
            ("a view of", "a picture of", "an image of", "a photo of", "a quiet view of", "a wide view of")
        )
        return [Piece(lead), Piece(self.dice.choice(self.place.titles), scene=True), *self._maybe_light(0.6)]

    # Parts of sentences --------------------------------------------------------------------------------------------

    def _look_alike(self, members: Sequence[int]) -> bool:
        return len({(self.scene.things[index].form, self.scene.things[index].colour) for index in members}) < len(
            members
        )

    def name(self, index: int, tinted: bool = False) -> list[Piece]:
        """A noun phrase for one thing: "a small brown dog", "a woman in a red dress"."""
        thing = self.scene.things[index]
        noun = self._noun(thing)
        colour = [thing.colour] if tinted and thing.kind != "person" else self._colour(thing)
        words = [*self._size(thing, noun), *colour, noun]
        text = article(" ".join(words))
        if thing.kind == "person" and self.dice.chance(KINDS["person"].colour_said):
            text += " " + self._clothes(thing)
        return [Piece(text, (index,))]

    def _noun(self, thing: Thing) -> str:
        kind = KINDS[thing.kind]
        general, special = kind.words, kind.nouns(thing.form, thing.size)[len(kind.words) :]
        if thing.kind == "person":
            if self.dice.chance(0.1):
                return "person"
            return special[0] if self.dice.chance(0.7) else self.dice.choice(special)
        if special and self.dice.chance(0.35):
            return self.dice.choice(special)
        return general[0] if self.dice.chance(0.6) else self.dice.choice(general)

    def _size(self, thing: Thing, noun: str) -> list[str]:
        if thing.size and noun not in YOUNG and thing.kind != "person" and self.dice.chance(0.4):
            return [self.dice.choice(SIZE_WORDS[thing.size])]
        return []

    def _colour(self, thing: Thing) -> list[str]:
        if thing.kind == "person" or not self.dice.chance(KINDS[thing.kind].colour_said):
            return ["potted"] if thing.kind == "plant" and self.dice.chance(0.4) else []
        if thing.kind == "table" and thing.colour == "brown" and self.dice.chance(0.6):
            return ["wooden"]
        return [thing.colour]

    def _clothes(self, thing: Thing) -> str:
        garment = people.garment(thing.form, thing.style)
        form = self.dice.choice(("in a {} {}", "wearing a {} {}", "in {}"))
        text = form.format(thing.colour, garment)
        return text.replace("a orange", "an orange")

    def _several(self, members: Sequence[int]) -> list[Piece]:
        things = [self.scene.things[index] for index in members]
        noun = plural(self._common_noun(things))
        colours = {thing.colour for thing in things}
        tint = [things[0].colour] if len(colours) == 1 and things[0].kind != "person" and self.dice.chance(0.6) else []
        count = [NUMBERS[len(members)]]
        if self.dice.chance(0.25):
            count = ["a pair of"] if len(members) == 2 else ["a group of"]
        return [Piece(" ".join([*count, *tint, noun]), tuple(members))]

    def _common_noun(self, things: Sequence[Thing]) -> str:
        kind = KINDS[things[0].kind]
        if kind.name == "person":
            forms = {thing.form for thing in things}
            if len(forms) == 1 and self.dice.chance(0.8):
                return kind.special[things[0].form][0]
            return self.dice.choice(("child", "kid")) if forms <= {"boy", "girl"} else "person"
        return self.dice.choice(kind.words)

    def _plurals(self) -> list[tuple[int, ...]]:
        """Every set of all visible things of one class, where there are at least two."""
        classes: dict[str, list[int]] = {}
        for index in self.seen:
            classes.setdefault(self.scene.things[index].kind, []).append(index)
        hidden = {thing.kind for index, thing in enumerate(self.scene.things) if index not in self.seen}
        return [tuple(members) for kind, members in classes.items() if len(members) > 1 and kind not in hidden]

    def _choose(self, least: int, most: int) -> list[int]:
        """Some things to list; in clutter people name more of them."""
        most = min(len(self.seen), most + (1 if len(self.seen) > 4 else 0))
        chosen = self.dice.shuffled(self.seen)[: self.dice.integer(min(least, most), most)]
        groups = self._plurals()
        together = list(dict.fromkeys(member for index in chosen for member in self._company(index, groups)))
        return self._unrepeated(together, groups)

    def _company(self, index: int, groups: list[tuple[int, ...]]) -> tuple[int, ...]:
        """All of the thing's class that are seen: people say "two lamps", not "a lamp and a lamp"."""
        return next((members for members in groups if index in members), (index,))

    def _unrepeated(self, chosen: Sequence[int], groups: list[tuple[int, ...]]) -> list[int]:
        """One of each class that cannot be counted because some of it are hidden."""
        kept: dict[object, int] = {}
        for index in chosen:
            counted = any(index in members for members in groups)
            kept.setdefault(index if counted else self.scene.things[index].kind, index)
        return list(kept.values())

    def _list(self, chosen: Sequence[int]) -> list[Piece]:
        """Names of the chosen things, those of one class together where all of that class are chosen."""
        parts: list[list[Piece]] = []
        left = list(chosen)
        for members in self._plurals():
            if set(members) <= set(left) and (self._look_alike(members) or self.dice.chance(0.6)):
                parts.append(self._several(members))
                left = [index for index in left if index not in members]
        twins = {index for members in self._plurals() for index in members}
        parts += [self.name(index, tinted=index in twins) for index in left]
        pieces = list(parts[0])
        for position, part in enumerate(parts[1:], start=2):
            pieces += [Piece("and" if position == len(parts) else ","), *part]
        return pieces

    def _doing(self, index: int, first: bool = False) -> str:
        thing = self.scene.things[index]
        if (thing.pose == "floating" and not self.place.water) or (thing.pose == "hanging" and not self.place.indoor):
            return ""
        if thing.pose == "parked" and any(predicate == "riding" and b == index for _, predicate, b in self.scene.links):
            return ""
        options = DOING.get(thing.kind, {}).get(thing.pose, ())
        if not options:
            return ""
        return options[0] if first else self.dice.choice(options)

    def _setting(self, index: int) -> list[Piece]:
        """Where this thing is: on the water, in the sky, on the grass, in a park."""
        thing = self.scene.things[index]
        kind = KINDS[thing.kind]
        if kind.where == "water" and self.place.water:
            return braced("on " + self.dice.choice((self.place.on_water, "{the water}")))
        if thing.pose == "flying":
            return self._where() if self.place.indoor or self.dice.chance(0.3) else braced("in {the sky}")
        if kind.where == "wall" and self.place.indoor:
            return braced("on {the wall}")
        if on_ground(self.scene, index) and self.dice.chance(0.35):
            return braced(self.dice.choice(self.place.floors))
        return self._where()

    def _where(self) -> list[Piece]:
        return braced(self.dice.choice(self.place.settings))

    def _maybe(self, pieces: list[Piece], probability: float) -> list[Piece]:
        return pieces if self.dice.chance(probability) else []

    def _maybe_light(self, probability: float = 0.2) -> list[Piece]:
        if self.place.indoor and self.scene.light == "day":
            return []
        if not self.dice.chance(probability):
            return []
        if self.place.indoor and self.scene.light == "night":
            return [Piece(self.dice.choice(("at night", "in the dark")))]
        return braced(self.dice.choice(LIGHT_WORDS[self.scene.light]))
