"""`captrial explain`: where a captioner looked with every word, as a page, figures and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.explain_options import check_regions
from captrial.cli.output import JsonFlag, console, print_json, print_table
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.grounding.ground import GroundedExplanation

NO_REGIONS, GRID = "none", "grid"
CELLS = 7  # a side of the grid


def explain(
    image: Annotated[Path, typer.Argument(help="An image file.")],
    model: Annotated[
        str | None, typer.Option("--model", help="As for `captrial caption`; by default the shipped captioner.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="integrated_gradients, saliency, guided_backprop, input_x_gradient, attention or occlusion.",
        ),
    ] = "integrated_gradients",
    words: Annotated[
        str | None, typer.Option("--words", help="Explain this sentence instead of the captioner's own.")
    ] = None,
    contrast: Annotated[
        list[str] | None, typer.Option("--contrast", metavar="WORD=OTHER", help="Why WORD and not OTHER?")
    ] = None,
    over: Annotated[str, typer.Option("--over", help="features (fast), or pixels through the backbone.")] = "features",
    regions: Annotated[
        str,
        typer.Option(
            "--regions",
            help="A detector's, with labels: localiser, onnx:FILE, detr:MODEL; grid: 7 x 7 cells; or none.",
        ),
    ] = "localiser",
    tolerance: Annotated[float, typer.Option("--tolerance", help="Completeness error a word.")] = 0.01,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help="Steps of integrated gradients: fewer are quicker, over pixels above all."),
    ] = None,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Width of the beam search.")] = 5,
    out: Annotated[Path, typer.Option("--out", help="Folder for page, figure and numbers.")] = Path("explanation"),
    json: JsonFlag = False,
) -> None:
    """Explain a caption word by word: where the captioner looked, and whether its nouns are there.

    captrial explain photo.jpg --out explained
    """
    from captrial.attribution.elements import relative_boxes
    from captrial.attribution.explain import check_request
    from captrial.attribution.explain import explain as explain_words
    from captrial.attribution.methods.registry import AttributionSettings
    from captrial.attribution.page import save_figure, words_figure, write_page
    from captrial.captioners.loading import load_captioner
    from captrial.captioners.registry import DEFAULT_CAPTIONER
    from captrial.data.images import open_image
    from captrial.grounding.ground import ground_explanation
    from captrial.grounding.grounding_score import Grounder

    check_regions(regions, GRID, NO_REGIONS)
    contrasts = _contrasts(contrast or [])
    check_request(method, contrasts)
    settings = AttributionSettings(over=over, tolerance=tolerance, steps=steps)  # type: ignore[arg-type]
    opened = open_image(image)
    found, labels = _regions(regions, opened)
    explanation = explain_words(
        load_captioner(model or DEFAULT_CAPTIONER, beam),
        opened,
        method,
        words=words,
        contrast=contrasts,
        settings=settings,
        boxes=relative_boxes(found, *opened.size) if found else None,
    )
    grounded = ground_explanation(explanation, found, Grounder(labels))
    view = grounded.view()
    page = write_page([view], out / "index.html", f"What it looked at in {image.name}")
    save_figure(words_figure(view), out / "words.png")
    explanation.save(out / "explanation.npz")
    if json:
        print_json({"page": str(page), **_summary(grounded)})
        return
    _print(grounded)
    console.print(f"  {page}", soft_wrap=True, highlight=False, markup=False)


def _regions(name: str, image: Any) -> tuple[list[Any], list[str]]:
    """Regions of the image, and every label that they can have."""
    if name == NO_REGIONS:
        return [], []
    if name == GRID:
        from captrial.attribution.elements import grid_regions

        return grid_regions(CELLS, CELLS, *image.size), []
    from captrial.vision.registry import load_detector

    detector = load_detector(name)
    return list(detector.detect([image])[0]), list(detector.labels)


def _contrasts(options: list[str]) -> dict[str | int, str]:
    chosen: dict[str | int, str] = {}
    for option in options:
        word, equals, other = option.partition("=")
        if not equals or not word or not other:
            raise InputError(f"--contrast {option}: write WORD=OTHER, e.g. --contrast cat=dog")
        chosen[int(word) if word.isdecimal() else word] = other
    return chosen


def _summary(grounded: GroundedExplanation) -> dict[str, Any]:
    found, grounding = grounded.explanation.attribution, grounded.grounding
    words = [
        {
            "word": word,
            "looked_at": grounding.looked[number] if grounding.looked else None,
            "verdict": verdict and verdict.value,
            "completeness_error": None if found.errors is None else float(found.errors[number]),
        }
        for number, word in enumerate(found.words)
        for verdict in [grounded.verdict(number)]
    ]
    return {
        "caption": " ".join(found.words),
        "captioner": grounded.explanation.captioner,
        "method": found.method,
        "words": words,
        "grounding_score": dict(zip(("0", "1", "3", "5", "inf"), grounding.scores(), strict=True)),
        "problem": grounding.problem,
    }


def _print(grounded: GroundedExplanation) -> None:
    from captrial.grounding.ground import MARKS

    summary, view = _summary(grounded), grounded.view()
    rows = [
        (word["word"], word["looked_at"], word["verdict"] and f"{MARKS[word['verdict']].symbol} {word['verdict']}")
        for word in summary["words"]
    ]
    scores = ", ".join(
        f"{delta}: {'–' if value is None else f'{100 * value:.1f}'}"
        for delta, value in summary["grounding_score"].items()
    )
    notes = [summary["problem"] or f"GroundingScore by delta: {scores}", *view.notes]
    if view.attribution.error is not None:
        notes.append(f"completeness error at most {view.attribution.error:.2%} a word, {view.attribution.steps} steps")
    print_table(f"{summary['caption']} ({summary['method']})", ["word", "looked at", "verdict"], rows, notes)
