"""`captrial explain`: what every word of a caption was attributed to, as a page and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.attribution.methods.registry import DEFAULT_METHOD, explain_methods, title_of
from captrial.attribution.region_rules import DEFAULT_RULE, REGION_RULES, region_rule
from captrial.cli.engine_options import DeviceOption, DtypeOption
from captrial.cli.output import JsonFlag, OverwriteFlag, console, print_json, print_table, print_warning
from captrial.errors import InputError
from captrial.folders import output_folder
from captrial.vision.registry import DEFAULT_DETECTOR, detector_usages

if TYPE_CHECKING:
    from captrial.attribution.page import WordMark
    from captrial.grounding.ground import GroundedExplanation


def explain(
    image: Annotated[Path, typer.Argument(help="An image file.")],
    model: Annotated[
        str | None, typer.Option("--model", help="As for `captrial caption`; by default the shipped captioner.")
    ] = None,
    method: Annotated[str, typer.Option("--method", help=f"{', '.join(explain_methods())}.")] = DEFAULT_METHOD,
    caption: Annotated[
        str | None, typer.Option("--caption", help="Explain this caption instead of the captioner's own.")
    ] = None,
    contrast: Annotated[
        list[str] | None, typer.Option("--contrast", metavar="WORD=OTHER", help="Why WORD and not OTHER?")
    ] = None,
    over: Annotated[str, typer.Option("--over", help="elements (fast), or pixels through the backbone.")] = "elements",
    regions: Annotated[
        str,
        typer.Option(
            "--regions",
            help=f"A detector's, with labels: {detector_usages()}; grid: 7 x 7 cells; or none.",
        ),
    ] = DEFAULT_DETECTOR,
    rule: Annotated[
        str, typer.Option("--rule", help=f"How the top region of a word is chosen: {', '.join(REGION_RULES)}.")
    ] = DEFAULT_RULE,
    tolerance: Annotated[float, typer.Option("--tolerance", help="Numerical error allowed for each word.")] = 0.01,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help="Steps of integrated gradients; fewer are faster, mostly over pixels."),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option("--layer", help="Layer of a VLM's attention, from 1, or from the last: -1. \\[default: mean]"),
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", help="Head of a VLM's attention, from 1. \\[default: mean]")
    ] = None,
    context: Annotated[
        bool,
        typer.Option(
            "--context/--without-context", help="Take out of a word's map what those of earlier words explain."
        ),
    ] = True,
    prior: Annotated[
        str, typer.Option("--prior", help="Images behind which words need none: blank, off, or a folder of others.")
    ] = "blank",
    prompt: Annotated[str | None, typer.Option(help="The prompt of a VLM or an endpoint.", show_default=False)] = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    beam: Annotated[
        int | None,
        typer.Option("--beam", min=1, help="Width of the beam search; 5, and 1 for chat models.", show_default=False),
    ] = None,
    figure: Annotated[bool, typer.Option("--figure", help="Draw words.png too: every word with its map.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the page and the numbers.")] = Path("explanation"),
    overwrite: OverwriteFlag = False,
    json: JsonFlag = False,
) -> None:
    """Explain a caption word by word: the parts of the image behind every word, and a verdict on every noun.

    captrial explain photo.jpg --out explained
    """
    from captrial.attribution.explain import check_request
    from captrial.attribution.language_prior import read_prior
    from captrial.attribution.methods.registry import AttributionSettings
    from captrial.attribution.page import save_figure, write_page
    from captrial.captioners.loading import load_captioner, with_options
    from captrial.captioners.registry import DEFAULT_CAPTIONER
    from captrial.data.images import open_image
    from captrial.grounding.ground import ground
    from captrial.grounding.regions import GRID, NO_REGIONS, check_regions

    check_regions(regions, GRID, NO_REGIONS)
    region_rule(rule)
    contrasts = _contrasts(contrast or [])
    check_request(method, contrasts)
    blank, foreign = read_prior(prior)
    settings = AttributionSettings(
        over=over,  # type: ignore[arg-type]
        tolerance=tolerance,
        steps=steps,
        layer=layer,
        head=head,
        prior=blank,
        foreign=foreign,
        context=context,
    )
    opened = open_image(image)
    with output_folder(out, overwrite=overwrite) as folder:
        source = with_options(model or DEFAULT_CAPTIONER, prompt=prompt, device=device, dtype=dtype)
        captioner = load_captioner(source, beam)
        grounded = ground(
            captioner,
            opened,
            method,
            regions=regions,
            rule=rule,
            caption=caption,
            contrast=contrasts,
            settings=settings,
        )
        write_page([grounded.view()], folder / "index.html", f"Explanation of {image.name}")
        if figure:
            save_figure(grounded.show(), folder / "words.png")
        grounded.explanation.save(folder / "explanation.npz")
    page = out / "index.html"
    if json:
        print_json({"page": str(page), **grounded.to_dict()})
        return
    _print(grounded)
    console.print(f"  {page}", soft_wrap=True, highlight=False, markup=False)


def _contrasts(options: list[str]) -> dict[str | int, str]:
    chosen: dict[str | int, str] = {}
    for option in options:
        word, equals, other = option.partition("=")
        if not equals or not word or not other:
            raise InputError(f"--contrast {option}: write WORD=OTHER, e.g. --contrast cat=dog")
        chosen[int(word) if word.isdecimal() else word] = other
    return chosen


def _wrong(mark: WordMark) -> str:
    """How often such a verdict is wrong, where that is known."""
    return "" if mark.error is None else f" ({mark.error:.0%} wrong {mark.basis})"


def _share(share: float | None) -> str | None:
    """How much of a word's probability stays without the image."""
    return None if share is None else f"{share:.0%}"


def _print(grounded: GroundedExplanation) -> None:
    summary, view, found = grounded.to_dict(), grounded.view(), grounded.explanation.attribution
    rows = [
        (
            word["word"],
            _likely(word["alternatives"], word["word"]),
            _share(word["language_share"]),
            word["top_region"],
            None if mark is None else f"{mark.symbol} {mark.text}{_wrong(mark)}",
        )
        for number, word in enumerate(summary["words"])
        for mark in [view.marks.get(number)]
    ]
    print_table(
        f"{summary['caption']} ({title_of(summary['method'])})",
        ["word", "probability (or else)", "without image", "top region", "verdict"],
        rows,
        [word["reason"] for word in summary["words"] if word["reason"]],
    )
    for warning in view.warnings:
        print_warning(warning)
    scores = ", ".join(
        f"{'–' if value is None else f'{100 * value:.1f}'} (delta {delta})"
        for delta, value in summary["grounding_score"].items()
    )
    details = [summary["problem"] or f"GroundingScore {scores}", *view.notes]
    if found.error is not None:
        details.append(f"numerical error at most {found.error:.2%} a word, {found.steps} steps")
    for line in ["details:", *details]:
        console.print(f"  {line}", style="dim", soft_wrap=True, highlight=False, markup=False)


def _likely(likely: Mapping[str, float], word: str) -> str | None:
    """How likely the word was, and the two most likely other words in this place."""
    if not likely:
        return None
    others = [f"{other} {value:.0%}" for other, value in likely.items() if other != word]
    own = f"{likely[word]:.0%}" if word in likely else f"< {min(likely.values()):.0%}"
    return f"{own} ({', '.join(others[:2])})"
