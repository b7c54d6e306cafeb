"""Little stories of two or three things: someone rides, holds, chases, sits, plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from captrial.toyworld.drawing import people
from captrial.toyworld.scene.layout import (
    Cord,
    Layout,
    Thing,
    any_of,
)

SEATS = {"bench": 0.45, "chair": 0.46, "couch": 0.5}
TABLE_TOP = 0.75
ANIMALS = ("dog", "cat", "horse", "sheep", "cow", "bird")


def _person(stage: Layout, pose: str, form: str = "") -> Thing:
    return stage.looks("person", form=form, pose=pose, size="")


def alone(stage: Layout) -> None:
    """One thing by itself."""
    stage.put(stage.looks(stage.dice.weighted(stage.place.kinds)))


def group(stage: Layout) -> None:
    """Two or three of a kind beside each other."""
    choices = {
        name: weight
        for name, weight in stage.place.kinds.items()
        if name not in {"table", "couch", "bus", "house", "clock"}
    }
    name = stage.dice.weighted(choices)
    first = stage.looks(name)
    members = [stage.put(first)]
    wide = stage.things[members[0]]
    for _ in range(1 if wide.extent.half * wide.scale > 0.17 else stage.dice.integer(1, 2)):
        look = stage.looks(name, size=first.size)
        colour = first.colour if stage.dice.chance(0.6) else look.colour
        if name == "boat" or look.pose == "flying" or first.pose == "flying":
            members.append(stage.put(replace(look, colour=colour, pose=first.pose)))
            continue
        members.append(stage.beside(members[-1], replace(look, colour=colour), side=1))
    if stage.things[members[-1]].x > 0.9 or name not in {"boat"}:
        stage.settle(*members)


def walk(stage: Layout) -> None:
    """A person walks a dog on a leash."""
    owner = stage.put(_person(stage, "walking"))
    facing = stage.things[owner].facing
    pet = stage.beside(owner, stage.looks("dog", pose="walking"), gap=0.01, side=facing)
    stage.turn(pet, facing)
    stage.settle(owner, pet)
    stage.link(owner, "walking", pet)
    body = people.build(stage.things[owner].form)
    arm = body.shoulder - body.hip
    hand = (owner, 0.02 + 0.3 * arm, body.shoulder - 0.06 - 0.75 * arm)
    stage.cords.append(Cord(hand, (pet, 0.3, 0.5), slack=0.1, dark=True))


def chase(stage: Layout) -> None:
    """A dog (rarely another animal) runs after a ball, a bird or a cat."""
    hunter = "dog" if not stage.strange else stage.dice.choice(("dog", "horse"))
    prey = stage.dice.weighted({"ball": 3, "bird": 1, "cat": 1})
    first = stage.put(stage.looks(hunter, pose="running"))
    facing = stage.things[first].facing
    target = stage.looks(prey, pose={"bird": "flying", "cat": "standing"}.get(prey, ""))
    second = stage.beside(first, target, gap=0.06, side=facing)
    stage.turn(second, facing)
    if prey == "bird":
        flyer = stage.things[second]
        stage.things[second] = replace(flyer, lift=stage.dice.between(0.02, 0.1))
    stage.settle(first, second)
    stage.link(first, "chasing", second)


def play(stage: Layout) -> None:
    """A child or a grown person plays with a ball."""
    form = stage.dice.weighted({"boy": 3, "girl": 3, "man": 1, "woman": 1})
    player = stage.put(_person(stage, "running", form))
    facing = stage.things[player].facing
    ball = stage.beside(player, stage.looks("ball"), gap=0.0, side=facing)
    stage.settle(player, ball)
    stage.link(player, "playing with", ball)


def kite(stage: Layout) -> None:
    """Someone flies a kite."""
    flyer = stage.put(_person(stage, "holding"))
    me = stage.things[flyer]
    facing = 1 if me.x < 0.5 else -1
    stage.turn(flyer, facing)
    look = stage.looks("kite", size="")
    scale = stage.dice.between(0.14, 0.19)
    top = stage.dice.between(0.03, 0.16)
    x = min(max(me.x + facing * stage.dice.between(0.24, 0.45), 0.12), 0.88)
    thing = replace(
        look, x=x, foot=me.foot, scale=scale, lift=me.foot - top - look.extent.top * scale, order=me.foot - 0.2
    )
    toy = stage.add(thing)
    stage.link(flyer, "flying", toy)
    stage.cords.append(Cord((flyer, *people.hand(me.form)), (toy, 0.03, 1.45), slack=0.12))


def umbrella(stage: Layout) -> None:
    """Someone holds an umbrella, a flower or a ball."""
    holder = stage.put(_person(stage, "holding"))
    x, y = people.hand(stage.things[holder].form)
    what = stage.dice.weighted({"umbrella": 3, "flower": 1, "ball": 1})
    form, drop = {"umbrella": ("held", 0.1), "flower": ("", 0.16), "ball": ("", 0.1)}[what]
    held = stage.attach(holder, stage.looks(what, form=form, size=""), x + (0.08 if what == "ball" else 0.0), y - drop)
    stage.link(holder, "holding", held)


def parasol(stage: Layout) -> None:
    """A parasol in the sand with somebody beside or under it."""
    shade = stage.put(stage.looks("umbrella", form="parasol", size=""))
    name = stage.dice.weighted({"person": 3, "dog": 2, "chair": 2, "ball": 1})
    guest = _person(stage, "standing") if name == "person" else stage.looks(name)
    under = stage.attach(shade, guest, stage.dice.choice((-0.5, 0.5)), -0.05)
    me = stage.things[under]
    stage.things[under] = replace(me, lift=0.0, foot=me.foot + 0.02)
    stage.settle(shade, under)
    stage.link(under, "under", shade)


def ride_horse(stage: Layout) -> None:
    """A person on a horse."""
    horse = stage.put(stage.looks("horse", pose=stage.dice.choice(("standing", "running")), size=""))
    _mount(stage, horse, -0.08, 1.1)


def ride_bicycle(stage: Layout) -> None:
    """A person on a bicycle."""
    bike = stage.put(stage.looks("bicycle", size=""))
    _mount(stage, bike, -0.17, 0.87)


def _mount(stage: Layout, mount: int, x: float, saddle: float) -> None:
    under = stage.things[mount]
    form = stage.dice.weighted({"man": 2, "woman": 2, "boy": 1, "girl": 1})
    rider = stage.attach(mount, _person(stage, "riding", form), x, saddle - people.hips(form, "riding"))
    stage.turn(rider, under.facing)
    stage.settle(mount, rider)
    stage.link(rider, "riding", mount)


def sit(stage: Layout) -> None:
    """Somebody sits, or a cat sleeps, on a bench, chair or couch."""
    seat_kind = any_of(stage.dice, {**stage.place.kinds, **stage.place.backdrop}, *SEATS)
    seat = stage.put(stage.looks(seat_kind, size=""))
    who = stage.dice.weighted({"person": 3, "cat": 1.5, "dog": 0.7 if seat_kind == "couch" else 0.0})
    wide = stage.things[seat].extent.half
    x = stage.dice.bell(0.5) * wide
    if who == "person":
        form = stage.dice.weighted({"man": 2, "woman": 2, "boy": 1, "girl": 1})
        sitter = stage.attach(
            seat, _person(stage, "sitting", form), x, SEATS[seat_kind] - people.hips(form, "sitting") + 0.02
        )
        stage.link(sitter, "sitting on", seat)
        return
    pose = stage.dice.choice(("sitting", "sleeping")) if who == "cat" else "lying"
    size = "small" if seat_kind == "chair" else ""
    sitter = stage.attach(seat, stage.looks(who, pose=pose, size=size), x * 0.8, SEATS[seat_kind])
    stage.link(sitter, f"{pose} on", seat)


def on_table(stage: Layout) -> None:
    """One or two things on a table."""
    table = stage.put(stage.looks("table", size=""))
    names = {"cup": 4.0, "plant": 1.5, "lamp": 1.5, "cat": 0.7, "ball": 0.5}
    count = stage.dice.integer(1, 2)
    spots = [stage.dice.bell(0.35)] if count == 1 else [-0.4 + stage.dice.bell(0.12), 0.4 + stage.dice.bell(0.12)]
    for x in spots:
        name = stage.dice.weighted(names)
        thing = stage.looks(name, form="table" if name == "lamp" else "", size="large" if name == "cup" else "small")
        if name == "cup":
            thing = replace(thing, size=stage.dice.choice(("", "large")))
        if thing.kind == "cat":
            thing = replace(thing, pose="sitting")
        top = stage.attach(table, thing, x, TABLE_TOP - 0.03 + stage.dice.bell(0.03))
        stage.link(top, "on", table)


def under(stage: Layout) -> None:
    """An animal or a ball under a table, a bench or a tree."""
    roof_kind = any_of(stage.dice, {**stage.place.kinds, **stage.place.backdrop}, "table", "bench", "tree")
    roof = stage.put(stage.looks(roof_kind, size=""))
    if roof_kind == "tree":
        name = stage.dice.weighted(
            {n: w for n, w in stage.place.kinds.items() if n in {*ANIMALS, "person"}} or {"cat": 1}
        )
        guest = stage.looks(name, pose="standing" if name == "bird" else "")
        below = stage.attach(roof, guest, stage.dice.choice((-0.75, 0.75)), 0.0)
        me = stage.things[below]
        stage.things[below] = replace(me, foot=me.foot + 0.012)
    else:
        name = stage.dice.weighted({"cat": 2, "dog": 1 if roof_kind == "table" else 0, "ball": 1.5})
        pose = {"cat": "sleeping", "dog": "lying"}.get(name, "")
        below = stage.attach(roof, stage.looks(name, pose=pose, size=""), stage.dice.bell(0.4), 0.03, before=True)
    stage.settle(roof, below)
    stage.link(below, "under", roof)


def beside(stage: Layout) -> None:
    """Two different things next to each other."""
    names = {name: weight for name, weight in stage.place.kinds.items() if name not in {"boat", "clock", "bus", "kite"}}
    first = stage.dice.weighted(names)
    second = stage.dice.weighted({name: weight for name, weight in names.items() if name != first})
    one = stage.put(_grounded(stage.looks(first)))
    two = stage.beside(one, _grounded(stage.looks(second)))
    stage.settle(one, two)


def _grounded(thing: Thing) -> Thing:
    return replace(thing, pose="standing") if thing.pose in {"flying", "jumping"} else thing


STORIES: dict[str, Callable[[Layout], None]] = {
    "alone": alone,
    "group": group,
    "walk": walk,
    "chase": chase,
    "play": play,
    "kite": kite,
    "umbrella": umbrella,
    "parasol": parasol,
    "ride horse": ride_horse,
    "ride bicycle": ride_bicycle,
    "sit": sit,
    "on table": on_table,
    "under": under,
    "beside": beside,
}
"""Every story by name; a place says how often each is told there."""
