"""What the studio does with an image: several captioners describe it, and every word is explained and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from captrial.captioners.loading import check_source, load_captioner
from captrial.captioners.protocols import AnyCaptioner
from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
from captrial.data.images import image_data_url, open_image
from captrial.errors import CaptrialError, InputError
from captrial.studio.jobs import Job

if TYPE_CHECKING:
    from captrial.grounding.score import Grounder
    from captrial.records import Region
    from captrial.vision.detectors.base import Detector

REGIONS = "localiser"
MAX_BYTES = 32 << 20  # of an image
MAX_PIXELS = 50_000_000
LONGEST_SIDE = 2048  # nothing is gained by explaining more pixels than a screen has
METHODS = {
    "integrated_gradients": "Integrated gradients: complete to 1% a word, takes longest",
    "saliency": "Saliency: gradients at the image, quick",
    "input_x_gradient": "Input × gradient: quick",
    "guided_backprop": "Guided backpropagation: sharp, but says less about the model",
    "attention": "Attention: what the captioner itself reports",
    "occlusion": "Occlusion: covers parts of the image; works for every captioner",
}


@dataclass
class Workshop:
    """Captioners, a detector and a judge of nouns, each loaded when first needed and then kept."""

    sources: Sequence[str] = ()  # captioners besides the shipped ones
    regions: str = REGIONS

    def __post_init__(self) -> None:
        for source in self.sources:  # before the page is open: nobody would see it later
            check_source(source)
        if self.regions != REGIONS:  # for the same reason a detector of one's own is loaded at once
            self._judge  # noqa: B018
        self._sources = {name: name for name in (DEFAULT_CAPTIONER, *shipped_captioners())} | _named(self.sources)
        self._captioners: dict[str, AnyCaptioner] = {}

    @property
    def names(self) -> list[str]:
        """The captioners on offer."""
        return list(self._sources)

    def check(self, names: Sequence[str], method: str) -> None:
        """Refuse what is not on offer: the page cannot name a path or address of its own."""
        if not 1 <= len(names) <= 2:
            raise InputError("choose one or two captioners")
        for name in names:
            if name not in self.names:
                raise InputError(f"no captioner {name!r} here; there are: {', '.join(self.names)}")
        if method not in METHODS:
            raise InputError(f"no method {method!r}; there are: {', '.join(METHODS)}")

    @staticmethod
    def steps(names: Sequence[str]) -> int:
        """How many steps `look` has."""
        return 3 + 2 * len(names)

    def look(self, job: Job, content: bytes, file: str, names: Sequence[str], method: str) -> None:
        """Open the image, then hand over a panel a captioner (see `captrial.attribution.page.panel`)."""
        job.begin("opening the image")
        image = open_image(content, max_bytes=MAX_BYTES, max_pixels=MAX_PIXELS, name=file)
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        job.hand_over({"preview": image_data_url(_small(image), optimize=True), "file": file})
        job.begin("looking for things with a name")
        detector, grounder = self._judge
        regions = detector.detect([image])[0]
        for name in names:
            job.begin(f"loading {name}")
            captioner = self._captioner(name)
            job.begin(f"{name}: {method.replace('_', ' ')}")
            job.hand_over(self._explain(captioner, name, image, regions, grounder, method))

    @staticmethod
    def _explain(
        captioner: AnyCaptioner,
        name: str,
        image: Image.Image,
        regions: Sequence[Region],
        grounder: Grounder,
        method: str,
    ) -> dict[str, Any]:
        from captrial.attribution.elements import relative_boxes
        from captrial.attribution.explain import explain
        from captrial.attribution.page import panel
        from captrial.grounding.ground import ground_explanation

        boxes = relative_boxes(regions, *image.size) if regions else None
        try:
            explanation = explain(captioner, image, method, boxes=boxes)
        except CaptrialError as error:  # it gives no gradients, or no attention: what it says can be read all the same
            return {"captioner": name, "caption": captioner.caption([image])[0], "problem": str(error)}
        view = ground_explanation(explanation, regions, grounder).view()
        return panel(replace(view, captioner=name))

    def _captioner(self, name: str) -> AnyCaptioner:
        if name not in self._captioners:
            self._captioners[name] = load_captioner(self._sources[name])
        return self._captioners[name]

    @cached_property
    def _judge(self) -> tuple[Detector, Grounder]:
        """Who finds things in images, and who compares nouns with what was found."""
        from captrial.grounding.score import Grounder
        from captrial.vision.registry import load_detector

        detector = load_detector(self.regions)
        return detector, Grounder(list(detector.labels))


def _named(sources: Sequence[str]) -> dict[str, str]:
    """Sources by short names: a folder by its own name, as long as no other is called so."""
    found: dict[str, str] = {}
    for source in sources:
        path = Path(source)
        short = path.parent.name if path.name == "best" else path.name
        free = path.is_dir() and short not in {*found, *shipped_captioners()}
        found[short if free else source] = source
    return found


def _small(image: Image.Image) -> Image.Image:
    small = image.copy()
    small.thumbnail((360, 360))
    return small
