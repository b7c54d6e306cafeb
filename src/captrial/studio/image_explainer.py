"""Captions an image with one or two captioners, explains every word and checks the nouns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from captrial.attribution.methods.registry import explain_method
from captrial.captioners.loading import check_source, load_captioner
from captrial.captioners.protocols import AnyCaptioner
from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
from captrial.data.images import image_data_url, open_image
from captrial.errors import CaptrialError, InputError
from captrial.studio.tasks import StudioTask
from captrial.vision.registry import DEFAULT_DETECTOR

if TYPE_CHECKING:
    from captrial.grounding.regions import ImageRegions
    from captrial.grounding.score import Grounder
    from captrial.vision.detectors.base import Detector

MAX_BYTES = 32 << 20  # of an image
MAX_PIXELS = 50_000_000
LONGEST_SIDE = 2048  # larger images are shrunk: a screen does not show more


@dataclass
class ImageExplainer:
    """Captioners, a detector and a grounder for nouns, each loaded when first needed and then kept."""

    sources: Sequence[str] = ()  # captioners besides the shipped ones
    regions: str = DEFAULT_DETECTOR

    def __post_init__(self) -> None:
        for source in self.sources:  # now, while the error can be seen on the command line
            check_source(source)
        if self.regions != DEFAULT_DETECTOR:  # a detector named by the user is loaded now, for the same reason
            self._detection  # noqa: B018
        self._sources = {name: name for name in (DEFAULT_CAPTIONER, *shipped_captioners())} | _named(self.sources)
        self._captioners: dict[str, AnyCaptioner] = {}

    @property
    def names(self) -> list[str]:
        """The captioners that can be chosen."""
        return list(self._sources)

    def check(self, names: Sequence[str], method: str) -> None:
        """Refuse captioners and methods that are not offered: a request cannot name a path or address of its own."""
        if not 1 <= len(names) <= 2:
            raise InputError("choose one or two captioners")
        for name in names:
            if name not in self.names:
                raise InputError(f"there is no captioner {name!r}; the captioners are: {', '.join(self.names)}")
        explain_method(method)

    @staticmethod
    def count_steps(names: Sequence[str]) -> int:
        """The number of steps of `run`."""
        return 3 + 2 * len(names)

    def run(self, task: StudioTask, content: bytes, file: str, names: Sequence[str], method: str) -> None:
        """Add a preview of the image to the task's results, then a panel for each captioner.

        Panels are those of `captrial.attribution.page.panel`.
        """
        task.begin("opening the image")
        image = open_image(content, max_bytes=MAX_BYTES, max_pixels=MAX_PIXELS, name=file)
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        task.add_result({"preview": image_data_url(_small(image), optimize=True), "file": file})
        from captrial.grounding.regions import image_regions

        task.begin("detecting regions")
        detector, grounder = self._detection
        found = image_regions(detector, image)
        for name in names:
            task.begin(f"loading {name}")
            captioner = self._captioner(name)
            task.begin(f"{name}: {method.replace('_', ' ')}")
            task.add_result(self._explain(captioner, name, image, found, grounder, method))

    @staticmethod
    def _explain(
        captioner: AnyCaptioner,
        name: str,
        image: Image.Image,
        found: ImageRegions,
        grounder: Grounder,
        method: str,
    ) -> dict[str, Any]:
        from captrial.attribution.explain import explain
        from captrial.attribution.page import panel
        from captrial.grounding.ground import ground_explanation
        from captrial.vision.boxes import relative_boxes

        boxes = relative_boxes(found.regions, image.size) if found.regions else None
        try:
            explanation = explain(captioner, image, method, boxes=boxes, second=True)
        except CaptrialError as error:  # no gradients or no attention: the caption alone is shown
            return {"captioner": name, "caption": captioner.caption([image])[0], "problem": str(error)}
        view = ground_explanation(explanation, found, grounder).view()
        return panel(replace(view, captioner=name))

    def _captioner(self, name: str) -> AnyCaptioner:
        if name not in self._captioners:
            self._captioners[name] = load_captioner(self._sources[name])
        return self._captioners[name]

    @cached_property
    def _detection(self) -> tuple[Detector, Grounder]:
        """The detector of labelled regions, and the grounder that compares nouns with them."""
        from captrial.grounding.score import Grounder
        from captrial.vision.registry import load_detector

        detector = load_detector(self.regions)
        return detector, Grounder(list(detector.labels))


def _named(sources: Sequence[str]) -> dict[str, str]:
    """Sources by short names: a folder by its own name, unless that name is taken."""
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
