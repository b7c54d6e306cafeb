"""The region detector: trained on the boxes of Flickr30k Entities, measured on human boxes (docs/detector_section.md).

    python -m studies.region_detector features --out LABELS.json     # what is learnt: nouns, classes, counts of boxes
    python -m studies.region_detector train --out RUN [--teacher BOXES.jsonl]    # resumable; RUN/log.jsonl
    python -m studies.region_detector check RUN [--images 300]       # on validation images, also while it trains
    python -m studies.region_detector ship RUN [--out FOLDER]        # calibrates on validation images, writes weights
    python -m studies.region_detector evaluate [--out studies/results/detector]
    python -m studies.region_detector tables                          # the results as Markdown
    python -m studies.region_detector sheet IMAGE... --out PNG

DATA is `CAPTRIAL_DATA` or `../shared/data`. Images are not cached as features: the early layers of the backbone cost
a fifth of a training step, and crops of the images are worth more than that.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from captrial.data.datasets import read_boxes, read_karpathy
from captrial.data.datasets.flickr30k_entities import read_entities
from captrial.data.images import open_image
from captrial.files import atomic_write
from captrial.language.class_words import default_table
from captrial.language.nouns import analyse
from captrial.progress import track
from captrial.records import Box, Sample
from captrial.vision.boxes import ScoredBox
from captrial.vision.detectors.base import Detector, RegionBackbone
from captrial.vision.detectors.noun_localiser import NounLocaliser
from captrial.vision.detectors.region_detector import CONFIG, SHIPPED, CellPredictions, RegionDetector
from captrial.vision.detectors.region_network import TYPES, RegionLabels, RegionNetwork, RegionSettings
from captrial.vision.devices import keep_freed_memory
from captrial.vision.registry import load_detector
from studies.data_paths import COCO, DATA, FLICKR8K, FLICKR8K_CAPTIONS, OLD_NAMES, ROOT, find_yolo
from studies.detector_training import DetectorRecipe, train_detector
from studies.noun_localiser import SheetSettings, add_sheet_arguments, draw_sheet
from studies.region_evaluation import (
    Found,
    Truth,
    calibration_rows,
    fit_calibration,
    frequent_classes,
    mean_row,
    phrase_recall,
    precision_table,
    reliability,
    truths,
)
from studies.region_labels import (
    FROM_COCO,
    MERGED,
    LabelledImage,
    add_teacher_boxes,
    choose_labels,
    head_noun,
    label_images,
    merged_words,
)

ENTITIES = DATA / "flickr30k_entities"
RESULTS = ROOT / "studies" / "results" / "detector"
# Numbers of the teacher's classes: COCO's original numbers, less one.
COCO_NAMES = {
    0: "person", 1: "bicycle", 2: "car", 3: "motorcycle", 5: "bus", 7: "truck", 8: "boat", 14: "bench", 15: "bird",
    17: "dog", 18: "horse", 26: "backpack", 30: "handbag", 33: "frisbee", 34: "skis", 35: "snowboard",
    36: "sports ball", 40: "skateboard", 41: "surfboard", 61: "chair", 62: "couch", 63: "potted plant",
    66: "dining table",
}  # fmt: skip
LEAST_DEVIATION = 5e-3  # of a number in the features of regions: probabilities of rare nouns hardly vary
Search = Callable[[str], dict[str, list[ScoredBox]]]  # image id -> detections of every class, relative boxes


def read_samples() -> tuple[dict[str, list[Sample]], dict[str, Path]]:
    """Samples of the Entities by split, and where the photographs are, by the samples' ids."""
    photographs = {Path(sample.id).stem.split("_")[0]: sample for sample in read_karpathy(FLICKR8K_CAPTIONS)}
    splits: dict[str, list[Sample]] = {"train": [], "val": [], "test": []}
    paths = {}
    for sample in read_entities(ENTITIES):
        photograph = photographs[Path(sample.id).stem]
        splits[str(photograph.split)].append(sample)
        paths[sample.id] = FLICKR8K / "images" / photograph.id
    return splits, paths


def read_images() -> tuple[dict[str, list[LabelledImage]], dict[str, Path]]:
    """Labelled images by split, and where the photographs are."""
    samples, paths = read_samples()
    return {split: label_images(each) for split, each in samples.items()}, paths


def read_teacher(path: Path, least: float) -> dict[str, list[tuple[str, tuple[float, float, float, float]]]]:
    """What EfficientDet-Lite2 found in the training photographs: file name -> (merged class, relative box)."""
    found = {}
    for line in path.read_bytes().splitlines():
        row = orjson.loads(line)
        names = [COCO_NAMES.get(number, "") for number in row["classes"]]
        found[Path(row["path"]).name] = [
            (FROM_COCO[name], tuple(box))
            for name, box, score in zip(names, row["boxes"], row["scores"], strict=True)
            if name in FROM_COCO and score >= least
        ]
    return found


def standardise(arguments: argparse.Namespace) -> None:
    """Write the mean and standard deviation of the features of regions in training images into the weights."""
    splits, paths = read_samples()
    detector = RegionDetector.from_pretrained(arguments.weights, features=True)
    network: Any = detector.network
    network.feature_mean, network.feature_std = network.feature_mean * 0, network.feature_std * 0 + 1
    backbone = RegionBackbone(detector)
    chosen = track(splits["train"][: arguments.images], "features of regions")
    vectors = torch.cat([backbone.extract([open_image(paths[sample.id])]).elements[0] for sample in chosen])
    network.feature_mean = vectors.mean(0)
    network.feature_std = vectors.std(0).clamp(min=LEAST_DEVIATION)
    notes = orjson.loads((arguments.weights / CONFIG).read_bytes())["notes"]
    detector.save_pretrained(arguments.weights, notes)


def features(arguments: argparse.Namespace) -> None:
    """Write what is learnt."""
    splits, _ = read_images()
    labels = choose_labels(splits["train"])
    boxes = {
        split: Counter(name for image in images for box in image.boxes for name in box.classes)
        for split, images in splits.items()
    }
    document = {"labels": asdict(labels), "boxes": boxes, "frequent": frequent_classes(splits["train"])}
    atomic_write(arguments.out, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    print(f"{len(labels.nouns)} nouns, {len(labels.adjectives)} adjectives, {len(labels.classes)} classes")


def train(arguments: argparse.Namespace) -> None:
    """Train, and go on where a run stopped."""
    splits, paths = read_images()
    labels = choose_labels(splits["train"])
    images = splits["train"]
    if arguments.teacher:
        taught = read_teacher(arguments.teacher, arguments.least)
        images = [add_teacher_boxes(image, taught.get(paths[image.id].name, [])) for image in images]
        print(sum(len(b.boxes) for b in images) - sum(len(b.boxes) for b in splits["train"]), "boxes of the teacher")
    torch.manual_seed(0)
    settings = RegionSettings(size=arguments.size)
    if arguments.start:
        network = run_detector(arguments.start, labels, settings).network
    else:
        network = RegionNetwork(labels, settings)
    recipe = DetectorRecipe(
        epochs=arguments.epochs,
        rate=arguments.rate,
        trunk_rate=arguments.rate / 8,
        unmentioned=arguments.unmentioned,
        seed=arguments.seed,
    )
    train_detector(network, images, paths, recipe, arguments.out)


def run_detector(folder: Path, labels: RegionLabels, settings: RegionSettings) -> RegionDetector:
    """The averaged weights of a run, which may still be going on."""
    network = RegionNetwork(labels, settings)
    network.load_state_dict(torch.load(folder / "state.pt", weights_only=True)["average"], strict=False)
    return RegionDetector(network)


def search_classes(detector: RegionDetector, seen: CellPredictions, most: int = 20) -> dict[str, list[ScoredBox]]:
    """Detections of all classes and types in one image, relative boxes."""
    seen = replace(seen, size=(1, 1))
    return {
        name: [ScoredBox("", each.box, each.score) for each in detector.find(seen, name, most)]
        for name in detector.network.labels.scored
    }


def search_labels(detector: Detector, image: Any) -> dict[str, list[ScoredBox]]:
    """The same with a detector that gives labels of its own: those that mean a class count for it."""
    width, height = image.size
    found: dict[str, list[ScoredBox]] = {}
    for region in sorted(detector.detect([image])[0], key=lambda region: -region.score):
        x1, y1, x2, y2 = region.box
        relative = Box(x1 / width, y1 / height, x2 / width, y2 / height)
        for name in label_classes(str(region.label)):
            found.setdefault(name, []).append(ScoredBox("", relative, region.score))
    return found


def label_classes(label: str) -> set[str]:
    """The merged classes that a label of another detector, or the noun of a phrase, means."""
    if label in FROM_COCO:
        return {FROM_COCO[label]}
    return {"person"} if default_table().means(label, "person") else set(merged_words().get(label, ()))


def gather(search: Search, ids: Sequence[str], title: str) -> Found:
    """Detections by class and image."""
    found: Found = {}
    for identity in track(ids, title):
        for name, boxes in search(identity).items():
            found.setdefault(name, {})[identity] = [each._replace(image=identity) for each in boxes]
    return found


def check(arguments: argparse.Namespace) -> None:
    """Figures on some validation images for a run that may still be going on."""
    splits, paths = read_images()
    names = frequent_classes(splits["train"])
    detector = run_detector(arguments.folder, choose_labels(splits["train"]), RegionSettings(size=arguments.size))
    images = splits["val"][: arguments.images]
    found = gather(
        lambda each: search_classes(detector, detector.predict(open_image(paths[each]))), [i.id for i in images], "val"
    )
    table = precision_table(found, truths(images), [*names, *(f"type:{kind}" for kind in TYPES)])
    print({key: round(value, 1) for key, value in mean_row(table, names).items()})
    print({name: round(row["ap50"], 1) for name, row in table.items()})


def ship(arguments: argparse.Namespace) -> None:
    """Calibrate scores on validation images and write the weights."""
    splits, paths = read_images()
    settings = RegionSettings(size=arguments.size)
    detector = run_detector(arguments.folder, choose_labels(splits["train"]), settings)
    images = splits["val"][: arguments.images]
    rows = [
        row
        for image in track(images, "calibrating")
        for row in calibration_rows(detector, detector.predict(open_image(paths[image.id])), image)
    ]
    detector.calibration = fit_calibration(rows)
    notes = {
        "data": "Flickr30k Entities boxes of Flickr8k's 6 000 training images",
        "training": arguments.note,
        "recipe": asdict(DetectorRecipe()),
        "calibrated": f"{len(images)} validation images, {len(rows)} regions",
    }
    detector.save_pretrained(arguments.out, notes)
    size = (arguments.out / "region_detector.safetensors").stat().st_size
    print(f"{len(detector.labels)} labels, {size / 1e6:.1f} MB, calibration {detector.calibration}")


def evaluate(arguments: argparse.Namespace) -> None:
    """All figures of the docs, as JSON."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    for part in arguments.parts:
        result = PARTS[part](arguments)
        atomic_write(
            arguments.out / f"{part}.json",
            orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY),
        )


def other_detectors(names: Sequence[str]) -> dict[str, Detector]:
    """The detectors to compare with."""
    made: dict[str, Detector] = {}
    if "yolo11n" in names:
        made["yolo11n"] = load_detector(find_yolo(0.01))
    if "localiser" in names:
        localiser = NounLocaliser.from_pretrained()
        localiser.search = replace(localiser.search, alike=1.0, nouns=100)  # classes do not compete
        made["localiser"] = localiser
    return made


def evaluate_entities(arguments: argparse.Namespace) -> dict[str, Any]:
    """Test photographs of Flickr8k: classes, types, phrases, reliability."""
    samples, paths = read_samples()
    frequent = frequent_classes(label_images(samples["train"]))
    chosen = samples[arguments.split][: arguments.images]
    images = label_images(chosen)
    truth, ids = truths(images), [image.id for image in images]
    types = [f"type:{kind}" for kind in TYPES]
    result: dict[str, Any] = {"split": arguments.split, "images": len(images), "frequent": frequent, "detectors": {}}
    detector = RegionDetector.from_pretrained(arguments.weights)
    seen = {identity: detector.predict(open_image(paths[identity])) for identity in track(ids, "region detector")}
    finders: dict[str, Found] = {
        "region-detector": gather(lambda each: search_classes(detector, seen[each]), ids, "classes")
    }
    for name, other in other_detectors(arguments.others).items():
        finders[name] = gather(lambda each, other=other: search_labels(other, open_image(paths[each])), ids, name)  # type: ignore[misc]
    finders |= null_models(label_images(samples["train"]), ids)
    heads = phrase_heads(chosen)
    for name, found in finders.items():
        table = precision_table(found, truth, [*MERGED, *types])
        known = [each for each in frequent if each in found]
        search = partial(search_phrase, detector, seen) if name == "region-detector" else partial(search_found, found)
        result["detectors"][name] = {
            "classes": table,
            "frequent": mean_row(table, frequent),
            "frequent_known": {"names": known, **mean_row(table, known)},
            "phrases": phrase_recall(chosen, heads.get, search),
        }
    for name in arguments.others:
        if name in finders:
            known = result["detectors"][name]["frequent_known"]["names"]
            result["detectors"]["region-detector"][f"known_to_{name}"] = mean_row(
                result["detectors"]["region-detector"]["classes"], known
            )
    rows = [row for image in images for row in calibration_rows(detector, seen[image.id], image)]
    result["reliability"] = reliability(rows, detector)
    return result


def null_models(training: Sequence[LabelledImage], ids: Sequence[str]) -> dict[str, Found]:
    """Detectors that do not look at images: one box a class, the whole image or its usual box in training."""
    usual = {
        name: Box(*np.median([box for boxes in truth.boxes.values() for box in boxes], 0).tolist())
        for name, truth in truths(training).items()
    }
    whole = dict.fromkeys(usual, Box(0, 0, 1, 1))
    return {
        title: {name: {each: [ScoredBox(each, box, 1.0)] for each in ids} for name, box in boxes.items()}
        for title, boxes in (("null: whole image", whole), ("null: usual box", usual))
    }


def phrase_heads(samples: Sequence[Sample]) -> dict[str, str | None]:
    """The head noun of every phrase."""
    texts = sorted({phrase.text for sample in samples for each in sample.phrases for phrase in each})
    return {text: head_noun(one) for text, one in zip(texts, analyse(texts, phrases=False), strict=True)}


def search_phrase(
    detector: RegionDetector, seen: dict[str, CellPredictions], identity: str, noun: str | None
) -> list[Box]:
    """Boxes for a phrase: of its noun where it is known, of its class, or else of any thing."""
    labels = detector.network.labels
    classes = sorted(label_classes(noun or ""))
    label = noun if noun in labels.nouns else classes[0] if classes else "type:other"
    return [each.box for each in detector.find(replace(seen[identity], size=(1, 1)), str(label), 5, exact=True)]


def search_found(found: Found, identity: str, noun: str | None) -> list[Box]:
    """The same among detections of classes."""
    boxes = [each for name in label_classes(noun or "") for each in found.get(name, {}).get(identity, ())]
    return [each.box for each in sorted(boxes, key=lambda each: -each.score)[:5]]


def coco_truth(
    classes: Sequence[str], first: int = 0, last: int | None = None
) -> tuple[dict[str, Path], dict[str, Truth]]:
    """The COCO images with human boxes, by name, and the boxes of classes."""
    boxes = {sample.id: sample for sample in read_boxes(COCO / "boxes_val2017.json")}
    files = sorted((COCO / "images").glob("*.jpg"))[first:last]
    paths = {path.stem: path for path in files if str(int(path.stem)) in boxes}
    truth: dict[str, Truth] = {class_: Truth({}, {}) for class_ in classes}
    for identity, path in paths.items():
        width, height = open_image(path).size
        for region in boxes[str(int(identity))].regions:
            class_ = OLD_NAMES.get(str(region.label), str(region.label))
            if class_ in truth:
                x1, y1, x2, y2 = region.box
                relative = Box(x1 / width, y1 / height, x2 / width, y2 / height)
                truth[class_].boxes.setdefault(identity, []).append(relative)
    return paths, truth


def evaluate_coco(arguments: argparse.Namespace) -> dict[str, Any]:
    """COCO images with human boxes: the classes that are COCO's own, on all images."""
    labels = COCO_LABELS
    paths, truth = coco_truth(list(labels), last=arguments.images)
    detector = RegionDetector.from_pretrained(arguments.weights)

    def own(identity: str) -> dict[str, list[ScoredBox]]:
        seen = replace(detector.predict(open_image(paths[identity])), size=(1, 1))
        return {
            class_: [ScoredBox("", each.box, each.score) for each in detector.find(seen, label, 50)]
            for class_, label in labels.items()
        }

    def other_search(other: Detector, identity: str) -> dict[str, list[ScoredBox]]:
        image = open_image(paths[identity])
        found: dict[str, list[ScoredBox]] = {}
        for region in sorted(other.detect([image])[0], key=lambda region: -region.score):
            class_ = str(region.label) if region.label in labels else default_table().canonical(str(region.label))
            x1, y1, x2, y2 = region.box
            box = Box(x1 / image.width, y1 / image.height, x2 / image.width, y2 / image.height)
            found.setdefault(class_, []).append(ScoredBox("", box, region.score))
        return found

    finders = {"region-detector": gather(own, list(paths), "region detector")}
    for name, other in other_detectors(arguments.others).items():
        finders[name] = gather(partial(other_search, other), list(paths), name)
    result: dict[str, Any] = {"images": len(paths), "detectors": {}}
    for name, found in finders.items():
        table = precision_table(found, truth, labels)
        result["detectors"][name] = {"classes": table, "mean": mean_row(table, table)}
    return result


COCO_LABELS = {
    "person": "person", "dog": "dog", "bird": "bird", "horse": "horse", "bicycle": "bicycle",
    "motorcycle": "motorcycle", "car": "car", "boat": "boat", "truck": "truck", "cow": "cow", "sheep": "sheep",
    "cat": "cat", "bench": "bench", "chair": "chair", "couch": "couch", "dining table": "table", "bed": "bed",
    "backpack": "backpack", "handbag": "purse", "umbrella": "umbrella", "sports ball": "ball", "frisbee": "frisbee",
    "skateboard": "skateboard", "surfboard": "surfboard", "snowboard": "snowboard", "skis": "ski", "bottle": "bottle",
    "cup": "cup", "bowl": "bowl", "cell phone": "cellphone", "book": "book",
}  # fmt: skip
"""COCO's classes that have a label of the detector."""


def evaluate_regions(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `detect` returns on test photographs, by least score: on a human box of its slot or not, and its name.

    `boxed` is a lower bound of how many regions are right about the place (IoU of 0.5): captions leave things out.
    `same_class` and `same_noun` are shares of the boxed regions.
    """
    samples, paths = read_samples()
    detector = RegionDetector.from_pretrained(arguments.weights)
    labels = detector.network.labels
    parents = dict(zip(labels.nouns, labels.parents, strict=True))
    slots = dict(zip(labels.scored, labels.scored_slots, strict=True))
    rows = []
    for image in track(label_images(samples[arguments.split][: arguments.images]), "regions"):
        for region in detector.regions(replace(detector.predict(open_image(paths[image.id])), size=(1, 1))):
            parent = parents[str(region.label)]
            near = [
                each for each in image.boxes if each.slot == slots[parent] and Box(*each.box).iou(region.box) >= 0.5
            ]
            kinds = {name for each in near for name in (*each.classes, *(f"type:{kind}" for kind in each.types))}
            rows.append((region.score, bool(near), parent in kinds, any(region.label in each.nouns for each in near)))
    table = {}
    for least in (0.1, 0.3, 0.5, 0.7):
        kept = np.array([row[1:] for row in rows if row[0] >= least], float).reshape(-1, 3)
        boxed = max(kept[:, 0].sum(), 1)
        table[str(least)] = {
            "regions": len(kept),
            "boxed": 100 * kept[:, 0].mean(),
            "same_class": 100 * kept[:, 1].sum() / boxed,
            "same_noun": 100 * kept[:, 2].sum() / boxed,
        }
    return table


def evaluate_speed(arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of CPU time an image on one thread, median of 30 images; other processes do not count."""
    images = [open_image(path) for path in sorted((COCO / "images").glob("*.jpg"))[:32]]
    result = {}
    detectors: dict[str, Detector] = {"region-detector": RegionDetector.from_pretrained(arguments.weights)}
    for name, detector in {**detectors, **other_detectors(arguments.others)}.items():
        times = []
        for image in images:
            start = time.process_time()
            detector.detect([image])
            times.append(1000 * (time.process_time() - start))
        result[name] = {"milliseconds": float(np.median(times[2:])), "slowest": float(np.max(times[2:]))}
    weights = Path(arguments.weights) / "region_detector.safetensors"
    return {"threads": torch.get_num_threads(), "megabytes": weights.stat().st_size / 1e6, "detectors": result}


PARTS = {
    "entities": evaluate_entities,
    "regions": evaluate_regions,
    "coco": evaluate_coco,
    "speed": evaluate_speed,
}


def tables(arguments: argparse.Namespace) -> None:
    """Print the results as Markdown tables."""
    entities, coco, speed = (
        orjson.loads((arguments.out / f"{part}.json").read_bytes()) for part in ("entities", "coco", "speed")
    )
    found = entities["detectors"]
    print("| detector | classes | AP50 | AP30 | pointing | phrase recall at 1 | at 5 |\n" + "| --- " * 7 + "|")
    for name, own in found.items():
        mean, phrases = own["frequent_known"], own["phrases"]["all"]
        cells = [mean["ap50"], mean["ap30"], mean["pointing"], phrases["recall1"], phrases["recall5"]]
        print(f"| {name} | {mean['classes']} | " + " | ".join(f"{value:.1f}" for value in cells) + " |")
    ours = found["region-detector"]
    for other in arguments.others:
        mean = ours[f"known_to_{other}"]
        cells = [mean["ap50"], mean["ap30"], mean["pointing"]]
        if mean["classes"] < ours["frequent_known"]["classes"]:
            shown = " | ".join(f"{value:.1f}" for value in cells)
            print(f"| region-detector, {other}'s classes | {mean['classes']} | {shown} | | |")
    names = [*entities["frequent"], *(f"type:{kind}" for kind in TYPES)]
    columns = [*found]

    def known(name: str) -> list[str]:
        return list(found[name]["frequent_known"]["names"])

    print(
        "\n| class | boxes | AP50 | AP30 | pointing | centre | chance | "
        + " | ".join(f"AP50 {c}" for c in columns[1:])
        + " |"
    )
    print("| --- " * (6 + len(columns)) + "|")
    for name in names:
        row = ours["classes"].get(name)
        if row:
            cells = [row["ap50"], row["ap30"], row["pointing"], row["centre"], row["chance"]]
            others = [
                f"{found[c]['classes'][name]['ap50']:.1f}" if c.startswith("null") or name in known(c) else ""
                for c in columns[1:]
            ]
            print(f"| {name} | {row['boxes']} | " + " | ".join([*(f"{value:.1f}" for value in cells), *others]) + " |")
    print("\n| phrases | number | recall at 1 | at 5 |\n" + "| --- " * 4 + "|")
    for kind, row in ours["phrases"].items():
        print(f"| {kind} | {row['phrases']} | {row['recall1']:.1f} | {row['recall5']:.1f} |")
    print("\n| COCO class | boxes | AP50 | AP30 | pointing | AP50 YOLO11n | AP50 localiser |\n" + "| --- " * 7 + "|")
    compared = [coco["detectors"][name]["classes"] for name in arguments.others]
    for name, row in sorted(
        coco["detectors"]["region-detector"]["classes"].items(), key=lambda each: -each[1]["boxes"]
    ):
        cells = [row["ap50_everywhere"], row["ap30_everywhere"], row["pointing"]]
        cells += [other[name]["ap50_everywhere"] for other in compared]
        print(f"| {name} | {row['boxes']} | " + " | ".join(f"{value:.1f}" for value in cells) + " |")
    bins = entities["reliability"]["bins"]
    print("\n| stated | " + " | ".join(f"{one['stated']:.2f}" for one in bins) + " |")
    print("| right | " + " | ".join(f"{one['right']:.2f}" for one in bins) + " |")
    print("| regions | " + " | ".join(str(one["regions"]) for one in bins) + " |")
    print(f"mean distance {entities['reliability']['expected_calibration_error']:.3f}; {speed}")


def sheet(arguments: argparse.Namespace) -> None:
    """Images with their best regions, side by side."""
    detector = RegionDetector.from_pretrained(arguments.weights)
    draw_sheet(detector, arguments)


def main() -> None:
    """Train, evaluate or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    preparing = verbs.add_parser("features")
    preparing.add_argument("--out", type=Path, required=True)
    preparing.set_defaults(run=features)
    training = verbs.add_parser("train")
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--epochs", type=int, default=DetectorRecipe().epochs)
    training.add_argument("--start", type=Path, help="A run whose averaged weights are the beginning.")
    training.add_argument("--size", type=int, default=RegionSettings().size)
    training.add_argument("--rate", type=float, default=DetectorRecipe().rate)
    training.add_argument("--seed", type=int, default=DetectorRecipe().seed)
    training.add_argument("--unmentioned", type=float, default=DetectorRecipe().unmentioned)
    training.add_argument("--teacher", type=Path, help="Boxes that another detector found in the training images.")
    training.add_argument("--least", type=float, default=0.45, help="Least score of such a box.")
    training.set_defaults(run=train)
    checking = verbs.add_parser("check")
    checking.add_argument("folder", type=Path)
    checking.add_argument("--images", type=int, default=300)
    checking.add_argument("--size", type=int, default=RegionSettings().size)
    checking.set_defaults(run=check)
    shipping = verbs.add_parser("ship")
    shipping.add_argument("folder", type=Path)
    shipping.add_argument("--out", type=Path, default=SHIPPED)
    shipping.add_argument("--size", type=int, default=RegionSettings().size)
    shipping.add_argument("--note", default="", help="How the run was trained, kept with the weights.")
    shipping.add_argument("--images", type=int, default=1000)
    shipping.set_defaults(run=ship)
    scaling = verbs.add_parser("standardise")
    scaling.add_argument("--weights", type=Path, default=SHIPPED)
    scaling.add_argument("--images", type=int, default=1200)
    scaling.set_defaults(run=standardise)
    measuring = verbs.add_parser("evaluate")
    measuring.add_argument("parts", nargs="*", default=list(PARTS))
    measuring.add_argument("--split", default="test")
    measuring.add_argument("--weights", type=Path, default=SHIPPED)
    measuring.add_argument("--others", nargs="*", default=["yolo11n", "localiser"])
    measuring.add_argument("--images", type=int)
    measuring.add_argument("--out", type=Path, default=RESULTS)
    measuring.set_defaults(run=evaluate)
    printing = verbs.add_parser("tables")
    printing.add_argument("--out", type=Path, default=RESULTS)
    printing.add_argument("--others", nargs="*", default=["yolo11n", "localiser"])
    printing.set_defaults(run=tables)
    drawing = verbs.add_parser("sheet")
    drawing.add_argument("--weights", type=Path, default=SHIPPED)
    add_sheet_arguments(drawing, SheetSettings(most=8, least=0.25, dpi=70))
    drawing.set_defaults(run=sheet)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
