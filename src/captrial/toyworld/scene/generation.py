"""Random scenes: interactions of two or three objects, and the scenes of each split that are built from them.

A scene depends only on (seed, split, index).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from captrial.toyworld.drawing import people
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.layout import Cord, Layout, Scene, SceneObject, choose_allowed
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES
from captrial.toyworld.scene.places import PLACES, Place

SEATS = {"bench": 0.45, "chair": 0.46, "couch": 0.5}
TABLE_TOP = 0.75
ANIMALS = ("dog", "cat", "horse", "sheep", "cow", "bird")


def _person(layout: Layout, pose: str, form: str = "") -> SceneObject:
    return layout.new_object("person", form=form, pose=pose, size="")


def alone(layout: Layout) -> None:
    """One object alone."""
    layout.put(layout.new_object(layout.rng.weighted_choice(layout.place.objects)))


def group(layout: Layout) -> None:
    """Two or three objects of one class beside each other."""
    choices = {
        name: weight
        for name, weight in layout.place.objects.items()
        if name not in {"table", "couch", "bus", "house", "clock"}
    }
    name = layout.rng.weighted_choice(choices)
    first = layout.new_object(name)
    members = [layout.put(first)]
    wide = layout.objects[members[0]]
    for _ in range(1 if wide.extent.half * wide.scale > 0.17 else layout.rng.integer(1, 2)):
        obj = layout.new_object(name, size=first.size)
        colour = first.colour if layout.rng.chance(0.6) else obj.colour
        if name == "boat" or obj.pose == "flying" or first.pose == "flying":
            members.append(layout.put(replace(obj, colour=colour, pose=first.pose)))
            continue
        members.append(layout.beside(members[-1], replace(obj, colour=colour), side=1))
    if layout.objects[members[-1]].x > 0.9 or name not in {"boat"}:
        layout.settle(*members)


def walk(layout: Layout) -> None:
    """A person walks a dog on a leash."""
    owner = layout.put(_person(layout, "walking"))
    facing = layout.objects[owner].facing
    pet = layout.beside(owner, layout.new_object("dog", pose="walking"), gap=0.01, side=facing)
    layout.turn(pet, facing)
    layout.settle(owner, pet)
    layout.link(owner, "walking", pet)
    body = people.build(layout.objects[owner].form)
    arm = body.shoulder - body.hip
    hand = (owner, 0.02 + 0.3 * arm, body.shoulder - 0.06 - 0.75 * arm)
    layout.cords.append(Cord(hand, (pet, 0.3, 0.5), slack=0.1, dark=True))


def chase(layout: Layout) -> None:
    """A dog (rarely another animal) runs after a ball, a bird or a cat."""
    hunter = "dog" if not layout.unusual else layout.rng.choice(("dog", "horse"))
    prey = layout.rng.weighted_choice({"ball": 3, "bird": 1, "cat": 1})
    first = layout.put(layout.new_object(hunter, pose="running"))
    facing = layout.objects[first].facing
    target = layout.new_object(prey, pose={"bird": "flying", "cat": "standing"}.get(prey, ""))
    second = layout.beside(first, target, gap=0.06, side=facing)
    layout.turn(second, facing)
    if prey == "bird":
        flyer = layout.objects[second]
        layout.objects[second] = replace(flyer, lift=layout.rng.uniform(0.02, 0.1))
    layout.settle(first, second)
    layout.link(first, "chasing", second)


def play(layout: Layout) -> None:
    """A child or a grown person plays with a ball."""
    form = layout.rng.weighted_choice({"boy": 3, "girl": 3, "man": 1, "woman": 1})
    player = layout.put(_person(layout, "running", form))
    facing = layout.objects[player].facing
    ball = layout.beside(player, layout.new_object("ball"), gap=0.0, side=facing)
    layout.settle(player, ball)
    layout.link(player, "playing with", ball)


def kite(layout: Layout) -> None:
    """Someone flies a kite."""
    flyer = layout.put(_person(layout, "holding"))
    me = layout.objects[flyer]
    facing = 1 if me.x < 0.5 else -1
    layout.turn(flyer, facing)
    obj = layout.new_object("kite", size="")
    scale = layout.rng.uniform(0.14, 0.19)
    top = layout.rng.uniform(0.03, 0.16)
    x = min(max(me.x + facing * layout.rng.uniform(0.24, 0.45), 0.12), 0.88)
    obj = replace(obj, x=x, foot=me.foot, scale=scale, lift=me.foot - top - obj.extent.top * scale, order=me.foot - 0.2)
    toy = layout.add(obj)
    layout.link(flyer, "flying", toy)
    layout.cords.append(Cord((flyer, *people.hand(me.form)), (toy, 0.03, 1.45), slack=0.12))


def umbrella(layout: Layout) -> None:
    """Someone holds an umbrella, a flower or a ball."""
    holder = layout.put(_person(layout, "holding"))
    x, y = people.hand(layout.objects[holder].form)
    what = layout.rng.weighted_choice({"umbrella": 3, "flower": 1, "ball": 1})
    form, drop = {"umbrella": ("held", 0.1), "flower": ("", 0.16), "ball": ("", 0.1)}[what]
    held = layout.attach(
        holder, layout.new_object(what, form=form, size=""), x + (0.08 if what == "ball" else 0.0), y - drop
    )
    layout.link(holder, "holding", held)


def parasol(layout: Layout) -> None:
    """A parasol in the sand with somebody beside or under it."""
    shade = layout.put(layout.new_object("umbrella", form="parasol", size=""))
    name = layout.rng.weighted_choice({"person": 3, "dog": 2, "chair": 2, "ball": 1})
    guest = _person(layout, "standing") if name == "person" else layout.new_object(name)
    under = layout.attach(shade, guest, layout.rng.choice((-0.5, 0.5)), -0.05)
    me = layout.objects[under]
    layout.objects[under] = replace(me, lift=0.0, foot=me.foot + 0.02)
    layout.settle(shade, under)
    layout.link(under, "under", shade)


def ride_horse(layout: Layout) -> None:
    """A person on a horse."""
    horse = layout.put(layout.new_object("horse", pose=layout.rng.choice(("standing", "running")), size=""))
    _mount(layout, horse, -0.08, 1.1)


def ride_bicycle(layout: Layout) -> None:
    """A person on a bicycle."""
    bike = layout.put(layout.new_object("bicycle", size=""))
    _mount(layout, bike, -0.17, 0.87)


def _mount(layout: Layout, mount: int, x: float, saddle: float) -> None:
    under = layout.objects[mount]
    form = layout.rng.weighted_choice({"man": 2, "woman": 2, "boy": 1, "girl": 1})
    rider = layout.attach(mount, _person(layout, "riding", form), x, saddle - people.hips(form, "riding"))
    layout.turn(rider, under.facing)
    layout.settle(mount, rider)
    layout.link(rider, "riding", mount)


def sit(layout: Layout) -> None:
    """Somebody sits, or a cat sleeps, on a bench, chair or couch."""
    seat_kind = choose_allowed(layout.rng, {**layout.place.objects, **layout.place.backdrop}, *SEATS)
    seat = layout.put(layout.new_object(seat_kind, size=""))
    who = layout.rng.weighted_choice({"person": 3, "cat": 1.5, "dog": 0.7 if seat_kind == "couch" else 0.0})
    wide = layout.objects[seat].extent.half
    x = layout.rng.triangular(0.5) * wide
    if who == "person":
        form = layout.rng.weighted_choice({"man": 2, "woman": 2, "boy": 1, "girl": 1})
        sitter = layout.attach(
            seat, _person(layout, "sitting", form), x, SEATS[seat_kind] - people.hips(form, "sitting") + 0.02
        )
        layout.link(sitter, "sitting on", seat)
        return
    pose = layout.rng.choice(("sitting", "sleeping")) if who == "cat" else "lying"
    size = "small" if seat_kind == "chair" else ""
    sitter = layout.attach(seat, layout.new_object(who, pose=pose, size=size), x * 0.8, SEATS[seat_kind])
    layout.link(sitter, f"{pose} on", seat)


def on_table(layout: Layout) -> None:
    """One or two objects on a table."""
    table = layout.put(layout.new_object("table", size=""))
    names = {"cup": 4.0, "plant": 1.5, "lamp": 1.5, "cat": 0.7, "ball": 0.5}
    count = layout.rng.integer(1, 2)
    placements = (
        [layout.rng.triangular(0.35)]
        if count == 1
        else [-0.4 + layout.rng.triangular(0.12), 0.4 + layout.rng.triangular(0.12)]
    )
    for x in placements:
        name = layout.rng.weighted_choice(names)
        obj = layout.new_object(
            name, form="table" if name == "lamp" else "", size="large" if name == "cup" else "small"
        )
        if name == "cup":
            obj = replace(obj, size=layout.rng.choice(("", "large")))
        if obj.label == "cat":
            obj = replace(obj, pose="sitting")
        top = layout.attach(table, obj, x, TABLE_TOP - 0.03 + layout.rng.triangular(0.03))
        layout.link(top, "on", table)


def under(layout: Layout) -> None:
    """An animal or a ball under a table, a bench or a tree."""
    roof_kind = choose_allowed(layout.rng, {**layout.place.objects, **layout.place.backdrop}, "table", "bench", "tree")
    roof = layout.put(layout.new_object(roof_kind, size=""))
    if roof_kind == "tree":
        name = layout.rng.weighted_choice(
            {n: w for n, w in layout.place.objects.items() if n in {*ANIMALS, "person"}} or {"cat": 1}
        )
        guest = layout.new_object(name, pose="standing" if name == "bird" else "")
        below = layout.attach(roof, guest, layout.rng.choice((-0.75, 0.75)), 0.0)
        me = layout.objects[below]
        layout.objects[below] = replace(me, foot=me.foot + 0.012)
    else:
        name = layout.rng.weighted_choice({"cat": 2, "dog": 1 if roof_kind == "table" else 0, "ball": 1.5})
        pose = {"cat": "sleeping", "dog": "lying"}.get(name, "")
        below = layout.attach(
            roof, layout.new_object(name, pose=pose, size=""), layout.rng.triangular(0.4), 0.03, before=True
        )
    layout.settle(roof, below)
    layout.link(below, "under", roof)


def beside(layout: Layout) -> None:
    """Two objects of different classes next to each other."""
    names = {
        name: weight for name, weight in layout.place.objects.items() if name not in {"boat", "clock", "bus", "kite"}
    }
    first = layout.rng.weighted_choice(names)
    second = layout.rng.weighted_choice({name: weight for name, weight in names.items() if name != first})
    one = layout.put(_grounded(layout.new_object(first)))
    two = layout.beside(one, _grounded(layout.new_object(second)))
    layout.settle(one, two)


def _grounded(obj: SceneObject) -> SceneObject:
    return replace(obj, pose="standing") if obj.pose in {"flying", "jumping"} else obj


INTERACTIONS: dict[str, Callable[[Layout], None]] = {
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
"""Every interaction by name; a place gives their frequencies."""


SPLITS = ("train", "val", "test", "wild", "robot")
MOST = 3  # objects on an in-distribution image
EFFECTS = {"noise": 3.0, "blur": 1.5, "haze": 2.0, "dim": 1.0, "leaves": 1.5, "fence": 1.0, "rain": 1.5, "none": 2.0}


def usual_scene(seed: int, split: str, index: int) -> Scene:
    """A scene of train, val or test: one interaction, sometimes with objects behind it, at most three objects."""
    rng = RandomStream(seed, split, index, "scene")
    place = PLACES[rng.choice(list(PLACES))]
    layout = Layout(place, rng)
    INTERACTIONS[rng.weighted_choice(place.interactions)](layout)
    while len(layout.objects) < MOST and rng.chance(0.45):
        _add_behind(layout)
    return layout.scene(rng.weighted_choice(place.lights))


def _add_behind(layout: Layout) -> None:
    """Add a background object of a class that is not in the scene yet."""
    present = {obj.label for obj in layout.objects}
    choices = {name: weight for name, weight in layout.place.backdrop.items() if name not in present}
    if choices:
        layout.put(layout.new_object(layout.rng.weighted_choice(choices)))


def wild_scene(seed: int, split: str, index: int) -> Scene:
    """A scene of the wild split: four to seven objects of any class in any colour, and image effects."""
    rng = RandomStream(seed, split, index, "scene")
    place = PLACES[rng.choice(list(PLACES))]
    layout = Layout(place, rng, unusual=0.55)
    if rng.chance(0.6):
        INTERACTIONS[rng.choice(list(INTERACTIONS))](layout)
    wanted = rng.integer(4, 7)
    while len(layout.objects) < wanted:
        layout.put(_free(layout.new_object(rng.choice(list(OBJECT_CLASSES))), place))
    effects = tuple(sorted({rng.weighted_choice(EFFECTS), rng.weighted_choice(EFFECTS)} - {"none"}))
    return layout.scene(rng.weighted_choice(place.lights), effects)


def _free(obj: SceneObject, place: Place) -> SceneObject:
    """The object in a pose that is possible in this place: birds do not fly indoors."""
    if place.indoor and obj.pose == "flying" and obj.label == "bird":
        return replace(obj, pose="standing")
    return obj
