"""How an explanation is shown: one self-contained HTML page, or a figure with one map a word.

`ExplanationView` holds what is drawn. Verdicts on words, scores of the caption and notes are plain display data here:
`captrial.grounding` computes them and hands them over. `templates/panel.js` draws regions and maps on the image.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from captrial.attribution.attribution import Array, Attribution, region_scores, shared_areas
from captrial.attribution.region_rules import DEFAULT_RULE
from captrial.attribution.word_maps import heat
from captrial.data.images import image_data_url
from captrial.files import atomic_path, atomic_write
from captrial.html import Templates
from captrial.records import Region
from captrial.version import __version__
from captrial.vision.boxes import relative_boxes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from captrial.attribution.explanation import Alternative

Floats = NDArray[np.float64]
IMAGE_SIDE = 720  # pixels of the image in a page
MAP_SIDE = 112  # pixels of a map in a page; the browser enlarges it smoothly
FIGURE_MAP_SIDE = 224
TOP = 3  # regions listed a word
COLUMNS = 5  # of a figure
INCHES = 2.2  # of one image in a figure
TITLE = "Explanation, word by word"
LARGE_ERROR = 0.1  # numerical error of a word from which on its map is not to be trusted

# 256 RGB colours, matplotlib's inferno: perceptually uniform, and readable for colour-blind people. Written down
# because importing matplotlib takes longer than the rest of a page.
_INFERNO = base64.b85decode(
    "0009300aO41_1yE0RagC0Sf{F4gvxY0|F8R0~7=U76k+t1_T=i1sw<m9|;B_3I`(#2PO>&C=LiJ4+$+02`>@~G7}0k6bm*M3pp1HI~fZ;8Vf)i3_"
    "~3ZMIQ`DAPh<(3rr*nP9_UbCks+33sfr#RxJuxE(%&O3S2S?T{H<_H3?uh31K-2Vmk?BJPBn!31&bEW<d#OLkeg`3TZ|PX-ErdN(*XB3~NmcYflY"
    "qPz`KS4s25nZB-9#R}XDi5N%o!ZCep;T@r3z5^i7<ZekQ}V-#*>6>eq~ZfF*6Y8P&67jA7BZf+QEa2alL8EtbKZFL)Mb{lPY9Bq0WZF?PTeI0Cm9"
    "&CUgYk?nYgCJ{#AZmsoYKS3fi6Uu>B592yX^tdlkR)i4C1;Z*XO$*qmL_JHCuNx^WSb~toGD|TDPy22VxcQxqbp&gEMTTAU#Bf!sV-itE?ulIT&^"
    "%%uQ6M(F<P=RS+p})wKG?@G*-AZR=PG-yEjz5H&ebiQolJ-!8%aFJ5R(sPQ^V<$39HRK1<0zO3Oe=%t1)aLPyU;M$kn>(MChkM?%y{LDfk>)=EFu"
    "OFr36J=#t?+fO>&P&wUFINnn?-&8i>Ry5*QGvin?<XSQ1TQKHaF6Le>=U*)7VJqokD(Yk?>t!eGXD01vCGBb>?rb9OZ6WY)AMkJ<@p2vVbR6<^8u"
    "ND<^LZHbdKUG374?1;_J9)hff4tE5ch=+_=gSnhz$6O3;B!*`Hl$rkO=yb2l|r+`jrOymj?Tp2K$=^`<({+o(KD&2m7K3`=ko{rVIP14g0DN`>YW"
    "At`hsO6#KCj`?DDPwHo`k9Q(N*`nw_ey(9X+CHlcA`NJyt#Vq;9FZjtZ_{%i-%{TYYI``2$_R~N1)k5{xMfKT8^xI4H+)wk~QuE+e^Ws_Z<X!USV"
    "Dac=@#$#s>umAuaPjVR@$h-^@_q92f%5c)^Y)4K_l@=Vk@otP_xqXo{GIy!p#1)%"
)
_COLOURS = np.frombuffer(_INFERNO, np.uint8).reshape(256, 3)

_templates = Templates("captrial.attribution")
source = _templates.source  # style sheet and script, for other pages that show panels


class WordMark(NamedTuple):
    """How a word is marked: verdict, symbol, colour; how often such a verdict is wrong, by what; and why."""

    text: str
    symbol: str
    colour: str
    error: float | None = None
    basis: str = ""  # how the error was measured: by eye, or by references
    reason: str = ""


@dataclass(frozen=True, eq=False)
class ExplanationView:
    """One caption of one image: the attribution of its words, regions, and what else is shown beside them."""

    image: Image.Image
    attribution: Attribution
    regions: Sequence[Region] = ()
    captioner: str = ""
    notes: Sequence[str] = ()  # below the caption, e.g. how verdicts were made
    marks: Mapping[int, WordMark] = field(default_factory=dict)  # by index of the word
    found: Mapping[int, int] = field(default_factory=dict)  # by index of the word: the region that is of it
    scores: Sequence[tuple[str, float | None]] = ()  # GroundingScore by delta
    problem: str | None = "grounding was not measured: no labelled regions"  # why there are no scores
    rule: str = DEFAULT_RULE  # how the scores of elements become one a region
    language_shares: Array | None = None  # (w,) of each word's probability without the image, where measured
    alternatives: Sequence[Sequence[Alternative]] = ()  # of each word, the most likely first
    warnings: Sequence[str] = ()  # reasons to distrust the maps

    def region_scores(self) -> Floats:
        """Attribution of each region, (words, regions); (words, 0) if the image has none."""
        boxes = relative_boxes(self.regions, self.image.size)
        shared = shared_areas(self.attribution.boxes, self.regions, self.image.size)
        certainty = np.array([region.score for region in self.regions])
        return region_scores(self.attribution.scores, self.attribution.boxes, boxes, self.rule, shared, certainty)

    def maps(self, side: int = MAP_SIDE) -> Floats:
        """Maps over the whole image with contrast stretched to [0, 1], (words, rows, columns)."""
        width, height = self.image.size
        scale = side / max(width, height)
        return heat(self.attribution, max(1, round(height * scale)), max(1, round(width * scale)))


def coloured(values: Floats) -> Image.Image:
    """A map (rows, columns) in [0, 1] as an overlay: the higher the value, the brighter and more opaque."""
    shades = np.minimum(256 * (0.15 + 0.85 * values), 255).astype(np.uint8)
    opacity = (255 * (0.12 + 0.7 * values)).astype(np.uint8)
    return Image.fromarray(np.concatenate([_COLOURS[shades], opacity[..., None]], -1), "RGBA")


# The page -------------------------------------------------------------------------------------------------------------


def write_page(views: Sequence[ExplanationView], path: Path | str, title: str = TITLE) -> Path:
    """Write the page of some views, one below the other, and return its path."""
    path = Path(path)
    atomic_write(path, page(views, title))
    return path


def page(views: Sequence[ExplanationView], title: str = TITLE) -> str:
    """The page as text."""
    panels = orjson.dumps([panel(view) for view in views]).decode()
    return _templates.render("explanation.html", title=title, panels=panels, version=__version__)


def framed(views: Sequence[ExplanationView]) -> str:
    """The page in a frame of its own, for notebooks: its script and styles do not meet those of the notebook."""
    frame = Markup('<iframe title="explanation" srcdoc="{}" style="width:100%;height:640px;border:0"></iframe>')
    return str(frame.format(page(views)))


def panel(view: ExplanationView) -> dict[str, Any]:
    """Everything a page shows of a view, as plain values: the input of `panel.js`."""
    image = view.image.convert("RGB")
    image.thumbnail((IMAGE_SIDE, IMAGE_SIDE))
    width, height = view.image.size
    return {
        "captioner": view.captioner,
        "method": view.attribution.method,
        "image": image_data_url(image, optimize=True),
        "width": width,
        "height": height,
        "words": _words(view),
        "regions": [
            {"box": list(map(float, region.box)), "label": region.label or "", "score": float(region.score)}
            for region in view.regions
        ],
        "grounding": [{"delta": delta, "score": score} for delta, score in view.scores],
        "problem": view.problem,
        "notes": list(view.notes),
        "warnings": list(view.warnings),
    }


def _words(view: ExplanationView) -> list[dict[str, Any]]:
    found, scores = view.attribution, view.region_scores()
    words = []
    for number, (text, values) in enumerate(zip(found.words, view.maps(), strict=True)):
        mark = view.marks.get(number)
        words.append(
            {
                "text": text,
                "map": image_data_url(coloured(values), "PNG", optimize=True),
                "verdict": mark and mark.text,
                "mark": mark and mark.symbol,
                "wrong": mark and mark.error,
                "reason": mark.reason if mark else "",
                "alternatives": [
                    {"text": word, "probability": value}
                    for word, value in (view.alternatives[number] if number < len(view.alternatives) else ())
                ],
                "basis": mark and mark.basis,
                "found": view.found.get(number),
                "top": _top(scores[number]),
                "error": None if found.errors is None else float(found.errors[number]),
                "prior": None if view.language_shares is None else float(view.language_shares[number]),
            }
        )
    return words


def error_warning(found: Attribution) -> str | None:
    """A warning where the numerical error of some words is so large that their maps mean little."""
    if found.errors is None:
        return None
    bad = [
        f"“{word}” {error:.0%}" for word, error in zip(found.words, found.errors, strict=True) if error > LARGE_ERROR
    ]
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return f"large numerical error: {', '.join(bad[:3])}{more}; use more --steps, or another method" if bad else None


def _top(scores: Floats) -> list[dict[str, float]]:
    best = np.argsort(-scores, kind="stable")[:TOP]
    total = float(scores.sum()) or 1.0
    return [{"region": int(index), "share": float(scores[index]) / total} for index in best]


# The figure -----------------------------------------------------------------------------------------------------------


def words_figure(view: ExplanationView) -> Figure:
    """The image, then the map of every word with its top region (Cornia 2022 Fig. 3-5, Liu 2017 Fig. 5).

    Marked words have their symbol and colour in the title of their map.
    """
    from matplotlib.figure import Figure

    count = len(view.attribution) + 1
    columns = min(COLUMNS, count)
    rows = math.ceil(count / columns)
    shape = view.image.height / view.image.width
    figure = Figure(figsize=(INCHES * columns, (INCHES * shape + 0.35) * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    axes[0].imshow(view.image)
    axes[0].set_title(view.captioner or " ", fontsize=9)
    scores, maps = view.region_scores(), view.maps(FIGURE_MAP_SIDE)
    for number, axis in enumerate(axes[1:count]):
        axis.imshow(view.image)
        axis.imshow(coloured(maps[number]), extent=(0, view.image.width, view.image.height, 0), interpolation="bicubic")
        if view.regions:
            _frame(axis, view.regions[int(scores[number].argmax())])
        _name(axis, view.attribution.words[number], view.marks.get(number))
    figure.suptitle(_headline(view), fontsize=9)
    return figure


def save_figure(figure: Figure, path: Path | str) -> Path:
    """Write a figure in the format of the file's suffix: .png, .pdf or .svg."""
    path = Path(path)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:] or "png", dpi=150, facecolor="white")
    return path


def _frame(axis: Axes, region: Region) -> None:
    from matplotlib.patches import Rectangle

    x1, y1, x2, y2 = region.box
    axis.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor="white", linewidth=1.6))
    if region.label:
        box = {"facecolor": "black", "alpha": 0.65, "edgecolor": "none", "pad": 1.2}
        axis.text(x1, y1, region.label, fontsize=7, color="white", va="top", bbox=box)


def _name(axis: Axes, word: str, mark: WordMark | None) -> None:
    text, colour = (f"{word} {mark.symbol}", mark.colour) if mark else (word, "black")
    axis.set_title(text, fontsize=10, color=colour, fontfamily=["DejaVu Sans"])


def _headline(view: ExplanationView) -> str:
    method = view.attribution.method.replace("_", " ")
    if view.problem is not None or not view.scores:
        return method
    deltas = ", ".join(delta for delta, _ in view.scores)
    scores = ", ".join("–" if score is None else f"{100 * score:.1f}" for _, score in view.scores)
    return f"{method}   GroundingScore at δ {deltas}: [{scores}]"
