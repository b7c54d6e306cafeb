"""Do maps of VLMs point at the evidence? Checkpoints of every family, trained so that words depend on known places.

python -m studies.vlm_evidence --work FOLDER [--families llava,internvl] [--towers apart,mixing] [--pieces N]
    trains and measures; a run that was stopped continues in FOLDER; with --pieces it stops after so many pieces of work
python -m studies.vlm_evidence --work FOLDER --signed [--families llava,internvl]
    what sums of absolute values cost integrated gradients, on other images (needs the trained checkpoints in FOLDER)
python -m studies.vlm_evidence --tables                       the tables of docs/vlm.md from studies/results/vlm

An image has a warm and a cold square on grey noise, anywhere, each left out of one image in eight; the caption is "a
red and a blue square", with "plain" in the place of a colour whose square is left out. So *red* depends on one known
place, *blue* on another one, and "a", "and" and "square" on none. Models are those of tests/captioners/huggingface:
tiny, of transformers' own classes. With towers kept *apart* attention and convolution of the vision tower are off
before training: then evidence enters the language model where it is in the image. With *mixing* towers the tower
may move it.

Measured on new images, several sizes and aspect ratios a family:

- pointing: the peak of a colour's map, painted over the image, lies in its square or within half an image token of it;
  `random` is the middle of a random token
- deletion and insertion: cells of a grid of 6 x 6 are replaced by the image's mean colour, or put back into it, those
  that score highest first; the mean probability of the word along the way, beside that of three random orders

Occlusion covers overlapping windows that are larger than a square: a cell of its default grid leaves some of the
square, and the word stays. It is measured on the images with curves only.

And the share of the language prior of every word, behind blank images.

`--signed`: integrated gradients of a token are a vector; its score is the sum of absolute values. Where parts of a
vector cancel, that is not what the token did to the word. Both sums of the same integrals are measured, on images of
their own: the comparison was thought of after the results above were seen.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageStat

from captrial.attribution.explain import explain
from captrial.attribution.methods.registry import METHODS, explain_methods
from captrial.attribution.word_maps import square_maps
from captrial.captioners.huggingface import HfCaptioner, HfOptions, load_transformers
from captrial.captioners.huggingface.processors import visible_window
from captrial.vision.hub_checkpoints import quiet_transformers

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))  # the makers of tiny checkpoints

from captioners.huggingface.tiny_checkpoints import Lesson, _padded
from captioners.huggingface.tiny_vlms import VLMS, forced_inputs, keep_places_apart

RESULTS = Path(__file__).parent / "results" / "vlm"
SIGNED = RESULTS / "signed.json"
WARM = {"red": (215, 40, 40), "orange": (240, 150, 30), "pink": (250, 150, 190), "yellow": (230, 220, 50)}
COLD = {"blue": (40, 60, 215), "green": (40, 160, 60), "cyan": (50, 200, 220), "purple": (120, 40, 170)}
PLAIN = "plain"  # said of a square that is left out
COLOURS = (1, 4)  # the words of "a red and a blue square" that depend on a place
TOWERS = ("apart", "mixing")
STRETCHED = [(64, 64), (112, 64), (64, 100), (150, 90)]
SIZES = {  # of images, so that each family's tokens come in several numbers and tilings
    **{name: [(112, 112), (168, 84), (84, 140), (196, 112)] for name in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")},
    **{name: [(64, 64), (96, 64), (64, 96), (128, 64)] for name in ("smolvlm", "idefics3")},
    **{name: [(64, 64), (128, 64), (64, 128), (128, 80)] for name in ("llava_next", "llava_onevision")},
    "internvl": [(128, 128), (192, 64), (64, 128), (160, 120)],
}
SIDE = 0.34  # of a square, of the shorter side
CELLS, MAP = 6, 96  # cells a side for deletion and insertion; pixels a side of a painted map
STEPS = 9  # points of a curve of deletion or insertion
ROUND, ROUNDS, ENOUGH = 350, 5, 0.97  # steps of a round of training, most rounds, captions of new images that are right
USABLE = 0.9  # captions of measured images that must be right for a family to have a result
RATES = {"florence2": 5e-4}  # of learning; at 2e-3 five rounds left it with 5 of 32 captions right
IMAGES, CURVES = 8, 2  # a size: for pointing, and of these for deletion and insertion
Boxes = NDArray[np.float64]
WINDOWS = np.array([[x, y, x + 0.46, y + 0.46] for y in np.linspace(0, 0.54, 6) for x in np.linspace(0, 0.54, 6)])


@dataclass(frozen=True)
class Planted:
    """An image, its caption, and the boxes (2, 4) of the warm and the cold square; NaN for one that is left out."""

    image: Image.Image
    caption: str
    boxes: Boxes


def plant(size: tuple[int, int], window: Sequence[float], rng: np.random.Generator, complete: bool = False) -> Planted:
    """An image of that size with its squares inside `window`, relative; `complete`: none is left out."""
    width, height = size
    pixels = np.clip(rng.uniform(0, 255) + rng.normal(0, 8, (height, width, 1)), 0, 255).repeat(3, 2)
    side = round(SIDE * min(width, height))
    low = np.ceil(np.clip(window[:2], 0, 1) * size).astype(int)
    high = np.floor(np.clip(window[2:], 0, 1) * size).astype(int) - side
    corners = _apart(low, high, round(1.3 * side), rng)
    words, boxes = [], np.full((2, 4), np.nan)
    for number, colours in enumerate((WARM, COLD)):
        if not complete and rng.random() < 1 / 8:
            words.append(PLAIN)
            continue
        words.append(str(rng.choice(list(colours))))
        x, y = corners[number]
        pixels[y : y + side, x : x + side] = np.clip(np.array(colours[words[-1]]) + rng.normal(0, 8, 3), 0, 255)
        boxes[number] = np.array([x, y, x + side, y + side]) / (width, height, width, height)
    return Planted(Image.fromarray(pixels.astype(np.uint8)), f"a {words[0]} and a {words[1]} square", boxes)


def _apart(low: Any, high: Any, distance: int, rng: np.random.Generator) -> Any:
    """Two corners (x, y) between `low` and `high`, so far from each other along x or y."""
    while True:
        corners = rng.integers(low, high + 1, (2, 2))
        if np.abs(corners[0] - corners[1]).max() >= distance:
            return corners


# Training -------------------------------------------------------------------------------------------------------------


def train(name: str, folder: Path, towers: str) -> HfCaptioner:
    """A checkpoint of the family, trained round by round until it says the colours of new images of all its sizes."""
    captions = [f"a {warm} and a {cold} square" for warm in [*WARM, PLAIN] for cold in [*COLD, PLAIN]]
    torch.manual_seed(0)
    with quiet_transformers():
        VLMS[name](folder, Lesson([], captions))
        captioner = load_transformers(str(folder), HfOptions(max_tokens=12))
    captioner.model.requires_grad_(True)
    if towers == "apart":
        keep_places_apart(captioner.model)
    learnt = [parameter for parameter in captioner.model.parameters() if parameter.requires_grad]
    rng = np.random.default_rng(0)
    for number in range(ROUNDS):
        captioner.model.train()
        _round(captioner, name, learnt, rng)
        captioner.model.eval()
        checked = np.random.default_rng((2, number))
        told = [one for size in sizes_of(name) for one in make(captioner, size, 16, checked, complete=True)]
        said = captioner.caption([one.image for one in told])
        if np.mean([caption == one.caption for one, caption in zip(told, said, strict=True)]) >= ENOUGH:
            break
    captioner.model.requires_grad_(False)
    captioner.model.save_pretrained(folder)
    return captioner


def _round(captioner: HfCaptioner, name: str, learnt: list[torch.nn.Parameter], rng: np.random.Generator) -> None:
    optimizer = torch.optim.AdamW(learnt, lr=RATES.get(name, 2e-3), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 50) * (0.02 + 0.49 * (1 + math.cos(math.pi * step / ROUND)))
    )
    for step in range(ROUND):
        loss = _loss(captioner, make(captioner, sizes_of(name)[step % 4], 12, rng))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        schedule.step()


def make(
    captioner: HfCaptioner, size: tuple[int, int], count: int, rng: np.random.Generator, complete: bool = False
) -> list[Planted]:
    """Images of one size, their squares in what the model sees of it."""
    window = visible_window(captioner.image_processor, size)
    return [plant(size, window, rng, complete) for _ in range(count)]


def sizes_of(name: str) -> list[tuple[int, int]]:
    """Four sizes of images (width, height)."""
    return SIZES.get(name, STRETCHED)


def _loss(captioner: HfCaptioner, told: list[Planted]) -> torch.Tensor:
    end = captioner.tokenizer.eos_token_id
    tokens, labels = _padded(captioner.tokenizer, [[*captioner.tokenize(one.caption), end] for one in told])
    inputs = forced_inputs(captioner, captioner.prepare([one.image for one in told]), tokens)
    logits = captioner.model(**inputs, use_cache=False).logits[:, -tokens.shape[1] :]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


# Measuring ------------------------------------------------------------------------------------------------------------


def measure(
    captioner: HfCaptioner, size: tuple[int, int], images: int = IMAGES, curves: int = CURVES
) -> dict[str, Any]:
    """Of new images of one size: every hit of every method, gains over random orders, shares of the language prior."""
    rng = np.random.default_rng(sum(size))
    told = make(captioner, size, images, rng, complete=True)
    said = captioner.caption([one.image for one in told])
    hits: dict[str, list[bool]] = {}
    gains: dict[str, list[tuple[float, float]]] = {}
    shares: list[list[float]] = []
    right = [one for one, caption in zip(told, said, strict=True) if caption == one.caption]
    for number, one in enumerate(right):
        chance = [_means(captioner, one, rng.permutation(CELLS**2)) for _ in range(3 * (number < curves))]
        for method in explain_methods():
            if method == "occlusion" and not chance:
                continue
            options = {"prior": "blank" if method == "saliency" else "off", "boxes": WINDOWS, "tolerance": 0.05}
            found = explain(captioner, one.image, method, caption=one.caption, **options)
            boxes, maps = found.attribution.boxes, square_maps(found.to_numpy(), found.attribution.boxes, None, MAP)
            hits.setdefault(method, []).extend(_points_at(maps, boxes, one.boxes))
            if method == "saliency":
                assert found.language_shares is not None
                shares.append(found.language_shares.tolist())
                hits.setdefault("random", []).extend(_random_points(boxes, one.boxes, rng))
            if chance:
                orders = [_order(maps[word], rng) for word in COLOURS]
                own = np.mean([_means(captioner, one, order)[:, k] for k, order in enumerate(orders)], 0)
                deletion, insertion = np.mean(chance, (0, 2)) - own
                gains.setdefault(method, []).append((float(deletion), float(-insertion)))
    tokens = len(captioner.image_tokens(told[0].image).boxes)  # type: ignore[attr-defined]
    counts = {"images": len(told), "right": len(right), "tokens": tokens}
    return {**counts, "hits": hits, "gains": gains, "shares": shares}


def measure_signed(captioner: HfCaptioner, size: tuple[int, int]) -> dict[str, list[bool]]:
    """Hits of integrated gradients by sums of absolute values and by sums, on images that `measure` does not use."""
    told = make(captioner, size, IMAGES, np.random.default_rng((77, *size)), complete=True)
    said = captioner.caption([one.image for one in told])
    hits: dict[str, list[bool]] = {"absolute": [], "signed": []}
    for one in [one for one, caption in zip(told, said, strict=True) if caption == one.caption]:
        options = {"prior": "off", "tolerance": 0.05}
        found = explain(captioner, one.image, "integrated_gradients", caption=one.caption, **options).attribution
        assert found.signed is not None
        for kind, scores in (("absolute", found.scores), ("signed", np.maximum(found.signed, 0))):
            hits[kind] += _points_at(square_maps(scores, found.boxes, None, MAP), found.boxes, one.boxes)
    return hits


def summary(name: str, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is kept of a family's measurements, all sizes together."""
    methods = [*explain_methods(), "random"]
    hits = {method: [hit for part in parts for hit in part["hits"][method]] for method in methods}
    gains = {method: [gain for part in parts for gain in part["gains"][method]] for method in explain_methods()}
    shares = np.array([row for part in parts for row in part["shares"]])
    return {
        "images": sum(part["images"] for part in parts),
        "right": sum(part["right"] for part in parts),
        "sizes": sizes_of(name),
        "tokens": [part["tokens"] for part in parts],
        "pointing": {method: [sum(found), len(found)] for method, found in hits.items()},
        "gains": {method: [_mean_and_error(side) for side in np.transpose(found)] for method, found in gains.items()},
        "shares": [_mean_and_error(column) for column in shares.T],
        "least_share_always_said": float(np.delete(shares, COLOURS, 1).min()),
        "largest_share_planted": float(shares[:, COLOURS].max()),
    }


def _points_at(maps: Boxes, boxes: Boxes, squares: Boxes) -> list[bool]:
    """Whether the peak of each colour's map lies in its square, or within half an element of it."""
    return [_near(_peak(maps[word]), boxes, square) for word, square in zip(COLOURS, squares, strict=True)]


def _random_points(boxes: Boxes, squares: Boxes, rng: np.random.Generator) -> list[bool]:
    drawn = rng.integers(len(boxes), size=2)
    middles = (boxes[drawn, :2] + boxes[drawn, 2:]) / 2
    return [_near(middle, boxes, square) for middle, square in zip(middles, squares, strict=True)]


def _peak(drawn: Boxes) -> Boxes:
    """The middle of the pixels with the highest value, relative; NaN where all are equal."""
    rows, columns = np.nonzero(drawn >= drawn.max() * (1 - 1e-6))
    if len(rows) == drawn.size:
        return np.full(2, np.nan)
    return np.array([columns.mean() + 0.5, rows.mean() + 0.5]) / drawn.shape


def _near(point: Boxes, boxes: Boxes, square: Boxes) -> bool:
    half = (boxes[:, 2:] - boxes[:, :2]).min(0) / 2
    return bool((point >= square[:2] - half).all() and (point <= square[2:] + half).all())


def _order(drawn: Boxes, rng: np.random.Generator) -> NDArray[np.int64]:
    """Cells by their mean in a map, the highest first, equal ones in random order."""
    side = MAP // CELLS
    scores = drawn.reshape(CELLS, side, CELLS, side).mean((1, 3)).ravel()
    shuffled = rng.permutation(len(scores))
    return np.asarray(shuffled[np.argsort(-scores[shuffled], kind="stable")])


@torch.no_grad()
def _means(captioner: HfCaptioner, one: Planted, order: NDArray[np.int64]) -> Boxes:
    """Mean probabilities along deletion and along insertion, of the warm and of the cold colour (2, 2)."""
    blank = Image.new("RGB", one.image.size, tuple(round(value) for value in ImageStat.Stat(one.image).mean))
    edges = [np.linspace(0, side, CELLS + 1).round().astype(int) for side in one.image.size]
    counts = np.linspace(0, CELLS**2, STEPS).round().astype(int)
    images = []
    for start, put in ((one.image, blank), (blank, one.image)):
        for count in counts:
            made = start.copy()
            for cell in order[:count]:
                y, x = divmod(int(cell), CELLS)
                box = (edges[0][x], edges[1][y], edges[0][x + 1], edges[1][y + 1])
                made.paste(put.crop(box), box[:2])
            images.append(made)
    tokens = captioner.tokenize(one.caption)
    inputs = forced_inputs(captioner, captioner.prepare(images), torch.tensor([tokens]).expand(len(images), -1))
    logs = captioner.model(**inputs, use_cache=False).logits[:, -len(tokens) :].log_softmax(-1)
    spans = captioner.word_spans(tokens)
    found = []
    for word in COLOURS:
        span = spans[word]
        likely = sum(logs[:, place, tokens[place]] for place in range(span.start, span.end)).exp()  # type: ignore[union-attr]
        found.append(likely.view(2, STEPS).mean(1).tolist())
    return np.array(found).T


def _mean_and_error(values: Sequence[float]) -> list[float]:
    """The mean and its standard error."""
    return [float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))]


# Results --------------------------------------------------------------------------------------------------------------


def run(names: Sequence[str], towers: Sequence[str], work: Path, pieces: int | None = None) -> None:
    """Train and measure what has no results yet; a checkpoint, or one size of images, is a piece of work."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = 0
    for tower in towers:
        for name in names:
            path, folder = RESULTS / f"{tower}-{name}.json", work / f"{tower}-{name}"
            captioner: HfCaptioner | None = None
            parts = [folder / f"{width}x{height}.json" for width, height in sizes_of(name)]
            for part, size in [(folder / "trained", (0, 0)), *zip(parts, sizes_of(name), strict=True)]:
                if path.exists() or part.exists():
                    continue
                if pieces is not None and done >= pieces:
                    return
                done += 1
                if part.name == "trained":
                    folder.mkdir(parents=True, exist_ok=True)
                    captioner = train(name, folder, tower)
                    part.touch()
                    continue
                captioner = captioner or load_transformers(str(folder), HfOptions(max_tokens=12))
                part.write_text(json.dumps(measure(captioner, size)))
                print(f"{tower} {name} {part.stem}", flush=True)
            if not path.exists():
                measured = [json.loads(part.read_text()) for part in parts]
                images, right = (sum(part[count] for part in measured) for count in ("images", "right"))
                if right < USABLE * images:
                    print(f"{tower} {name}: {right} of {images} captions right; not learnt, no result", flush=True)
                    continue
                path.write_text(json.dumps(summary(name, measured), indent=1) + "\n")


def run_signed(names: Sequence[str], work: Path) -> None:
    """Both sums of integrated gradients for the families that are not there yet."""
    for name in names:
        known = signed_results()
        if name in known:
            continue
        captioner = load_transformers(str(work / f"apart-{name}"), HfOptions(max_tokens=12))
        parts = [measure_signed(captioner, size) for size in sizes_of(name)]
        hits = {kind: [hit for part in parts for hit in part[kind]] for kind in parts[0]}
        known[name] = {kind: [sum(found), len(found)] for kind, found in hits.items()}
        SIGNED.write_text(json.dumps(known, indent=1) + "\n")
        print(name, known[name], flush=True)


def signed_results() -> dict[str, dict[str, list[int]]]:
    """Peaks in the right square, and of how many, for both sums, of each family."""
    return json.loads(SIGNED.read_text()) if SIGNED.exists() else {}


def results(towers: str) -> dict[str, dict[str, Any]]:
    """What was measured of each family."""
    found = {name: RESULTS / f"{towers}-{name}.json" for name in VLMS}
    return {name: json.loads(path.read_text()) for name, path in found.items() if path.exists()}


def pointing_table(towers: str) -> str:
    """A row a family, a column a method: how many of a hundred peaks lie in the right square."""
    methods = [*explain_methods(), "random"]
    titles = [METHODS[name].title if name in METHODS else "a random token" for name in methods]
    lines = [_row(["family", "captions right", *titles]), _row(["---"] * (len(methods) + 2))]
    for name, found in results(towers).items():
        rates = (found["pointing"][method] for method in methods)
        shown = [f"{100 * hits / count:.0f}" for hits, count in rates]
        lines.append(_row([name, f"{found['right']} of {found['images']}", *shown]))
    return "\n".join(lines)


def curves_table(towers: str) -> str:
    """A row a method: by how much curves beat random orders, the least of all families, and in how many surely."""
    lines = [
        _row(["method", "deletion: mean", "least", "surely", "insertion: mean", "least", "surely"]),
        _row(["---"] * 7),
    ]
    families = results(towers).values()
    for method in explain_methods():
        cells = [METHODS[method].title]
        for side in range(2):
            gains = [found["gains"][method][side] for found in families]
            sure = sum(mean > 1.96 * error for mean, error in gains)
            means = [mean for mean, _ in gains]
            cells += [f"{np.mean(means):.2f}", f"{min(means):.2f}", f"{sure} of {len(gains)}"]
        lines.append(_row(cells))
    return "\n".join(lines)


def prior_table(towers: str) -> str:
    """The mean share of the language prior of each word of the captions."""
    lines = [_row(["family", "a", "(warm colour)", "and", "a", "(cold colour)", "square"]), _row(["---"] * 7)]
    for name, found in results(towers).items():
        lines.append(_row([name, *(f"{mean:.3f}" for mean, _ in found["shares"])]))
    return "\n".join(lines)


def signed_table() -> str:
    """How many of a hundred peaks of integrated gradients lie in the right square, for both sums."""
    lines = [_row(["family", "sums of absolute values", "sums"]), _row(["---"] * 3)]
    for name, found in signed_results().items():
        shown = [f"{100 * hits / count:.0f}" for hits, count in (found["absolute"], found["signed"])]
        lines.append(_row([name, *shown]))
    return "\n".join(lines)


def page_tables() -> dict[str, str]:
    """The tables of docs/vlm.md."""
    found = {
        "pointing": pointing_table("apart"),
        "curves": curves_table("apart"),
        "prior": prior_table("apart"),
        "integrated gradients": signed_table(),
    }
    return {**found, "pointing, mixing towers": pointing_table("mixing")} if results("mixing") else found


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run the study, or print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(VLMS))
    parser.add_argument("--towers", default=",".join(TOWERS))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--pieces", type=int)
    parser.add_argument("--signed", action="store_true")
    parser.add_argument("--tables", action="store_true")
    chosen = parser.parse_args()
    if chosen.tables:
        for name, table in page_tables().items():
            print(f"### {name}\n\n{table}\n")
        return
    if chosen.work is None:
        parser.error("--work FOLDER: where checkpoints and what is measured are kept until all is there")
    torch.set_num_threads(1)
    if chosen.signed:
        run_signed(chosen.families.split(","), chosen.work)
        return
    run(chosen.families.split(","), chosen.towers.split(","), chosen.work, chosen.pieces)


if __name__ == "__main__":
    main()
