"""BLIP-2 and LLaVA-1.5 (long captions) beside nine classical captioners on 5 000 images, by every metric.

python -m studies.vlm_captions --work FOLDER [--images N] [--data FOLDER]
    scores; writes studies/results/semantic/vlm.json; a run that was stopped continues in FOLDER, which also gets the
    scores of every image (per_image.parquet), the input of studies.metric_choices
python -m studies.vlm_captions --table                           prints the table of docs/metrics.md from the results
python -m studies.vlm_captions --figures                         draws docs/images/semantic_length.svg from the results
python -m studies.vlm_captions --growth                          scores of captions that grow from 10 to 440 words

LLaVA's captions are also cut after 1, 2 and 3 sentences, to see what length does to each metric.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from captrial.engines.jobs.score import score_all
from captrial.engines.local import LocalEngine
from captrial.language.sentences import sentence_spans
from captrial.metrics import facts, meteor, semantic
from captrial.metrics.registry import column_title
from studies.data_paths import DATA, ROOT

RESULTS = Path(__file__).parent / "results" / "semantic"
METRICS = [
    "bleu",
    "rouge",
    "cider",
    "cider_plain",
    "meteor",
    "spice",
    "semantic",
    "facts",
    "words",
    "nw",
    "coverage",
    "noun_iou",
    "length",
]
LONG = "LLaVA-1.5-7B-long"
SHOWN = ["cider", "meteor", "spice", "semantic", "semantic_precision", "semantic_recall", "facts"]


def first_sentences(text: str, count: int) -> str:
    ends = [end for _, end in islice(sentence_spans(text), count)]
    return text[: ends[-1]] if ends else text


def captions(data: Path) -> tuple[dict[str, dict[str, str]], dict[str, list[str]]]:
    folder = data / "captioners" / "karpathy_test"
    references = json.loads((folder / "references.json").read_bytes())
    systems = {}
    for path in sorted([*folder.glob("*.json"), *(data / "captioners" / "karpathy_test_vlm").glob("*.json")]):
        if path.stem != "references":
            rows = json.loads(path.read_bytes())
            found = rows if isinstance(rows, dict) else {row["image_id"]: row["caption"] for row in rows}
            systems[path.stem] = {str(key): text for key, text in found.items()}
    for count in (1, 2, 3):
        cut = {key: first_sentences(text, count) for key, text in systems[LONG].items()}
        systems[f"LLaVA, {count} sentence{'s' * (count > 1)}"] = cut
    return systems, references


def study(data: Path, images: int, work: Path) -> None:
    systems, references = captions(data)
    ids = [key for key in references if all(key in of for of in systems.values())][:images]
    table = score_all(
        {name: {key: of[key] for key in ids} for name, of in systems.items()},
        {key: references[key] for key in ids},
        METRICS,
        LocalEngine(),
        work,
    )
    pq.write_table(table.per_image(), work / "per_image.parquet")
    intervals = table.intervals()
    found: dict[str, Any] = {"images": len(ids), "notes": table.notes, "scores": {}, "ranking": {}}
    for name, scores in table.scores.items():
        found["scores"][name] = {
            column: [round(of.corpus, 5), *(round(end, 5) for end in _ends(intervals[name].get(column)))]
            for column, of in scores.items()
        }
    whole = [name for name in found["scores"] if not name.startswith("LLaVA, ")]
    for column in table.columns:
        better = table.better(column)
        if better:
            sign = -1 if better == "higher" else 1
            order = sorted(whole, key=lambda name: sign * table.scores[name][column].corpus)
            found["ranking"][column] = order
    _write("vlm.json", found)


def _ends(interval: Any) -> tuple[float, float] | tuple[()]:
    return (interval.low, interval.high) if interval else ()


def growth(data: Path) -> None:
    """Four long descriptions, five words longer each time, against another person's description of the image."""
    rows = [json.loads(line) for line in (data / "long_captions" / "docci_test.jsonl").read_text().splitlines()]
    rows = sorted(rows, key=lambda row: -len(row["IIW"].split()))[:4]
    counts = list(range(10, 441, 5))
    texts = [" ".join((row["IIW"] + " " + row["IIW"]).split()[:count]) for row in rows for count in counts]
    references = [[row["DOCCI"]] for row in rows for _ in counts]
    found = {"words": counts}
    for name, metric in (("semantic", semantic), ("facts", facts), ("meteor", meteor)):
        values = metric(texts, references).per_image.reshape(len(rows), -1)
        found[name] = np.round(values, 5).tolist()
        print(name, "largest step of 5 words after 60 words:", np.abs(np.diff(values[:, 10:])).max().round(4))
    _write("growth.json", found)


def figures() -> None:
    import matplotlib.pyplot as plt

    scores = json.loads((RESULTS / "vlm.json").read_bytes())["scores"]
    grown = json.loads((RESULTS / "growth.json").read_bytes())
    cuts = ["LLaVA, 1 sentence", "LLaVA, 2 sentences", "LLaVA, 3 sentences", LONG]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    lengths = [scores[name]["length"][0] for name in cuts]
    for column in SHOWN:
        values = [scores[name][column][0] for name in cuts]
        left.plot(lengths, np.divide(values, values[0]), marker="o", markersize=3, label=column_title(column))
    left.set(xlabel="words per caption: LLaVA after 1, 2, 3 and all sentences", ylabel="score / score of 1 sentence")
    left.legend(fontsize=7)
    for column, colour in (("semantic", "C3"), ("facts", "C6")):
        for values in grown[column]:
            right.plot(grown["words"], values, colour, linewidth=0.8, label=column_title(column))
    for tokens in (77, 128, 256, 512):
        right.axvline(tokens / 1.2, color="0.8", linewidth=0.8, zorder=0)
        right.text(tokens / 1.2, 0.02, f"{tokens} tokens", rotation=90, fontsize=6, color="0.4")
    handles, labels = right.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    right.legend(unique.values(), unique.keys(), fontsize=7)
    right.set(xlabel="words of four descriptions, growing", ylabel="score", ylim=(0, 1), xlim=(0, 440))
    figure.savefig(ROOT / "docs" / "images" / "semantic_length.svg", metadata={"Date": None})


def vlm_table() -> str:
    """The table of docs/metrics.md."""
    from studies.competition_tables import table

    found = json.loads((RESULTS / "vlm.json").read_bytes())
    columns = [*SHOWN, "length"]
    rows = []
    for name in [*found["ranking"]["semantic"], *(name for name in found["scores"] if name.startswith("LLaVA, "))]:
        cells = [f"{(1 if column == 'length' else 100) * found['scores'][name][column][0]:.1f}" for column in columns]
        ranks = [_rank(found["ranking"].get(column, []), name) for column in columns]
        rows.append([name, *(cell + rank for cell, rank in zip(cells, ranks, strict=True))])
    heads = ["", "CIDEr", "METEOR", "SPICE", "semantic", "precision", "recall", "facts", "words per caption"]
    return table(heads, rows)


def _rank(order: list[str], name: str) -> str:
    return f" ({order.index(name) + 1})" if name in order else ""


def _write(name: str, found: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / name).write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--work", type=Path, help="folder for parts of the scores")
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--growth", action="store_true")
    arguments = parser.parse_args()
    if arguments.figures:
        figures()
    elif arguments.table:
        print(vlm_table())
    elif arguments.growth:
        growth(arguments.data)
    elif arguments.work:
        study(arguments.data, arguments.images, arguments.work)
    else:
        parser.error("--work FOLDER: where parts of the scores are kept")


if __name__ == "__main__":
    main()
