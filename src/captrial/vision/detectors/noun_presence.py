"""Which nouns are in an image at all, wherever they are: what the verdict *not in the image* rests on.

Log-odds that people who describe the image mention a noun, from three numbers: the best score of the noun and of its
class at any cell of the region detector, and a linear layer on the mean and maximum of EfficientNet-Lite2's cells (224
pixels). A detector alone misses much that people mention; an image as a whole says more about small or hidden things.
`studies.noun_presence` trains and measures it. Its file also has the probability that a noun a captioner said is *not*
there, as a logistic function of the log-odds, the threshold of the verdict, and how often verdicts were wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from captrial.errors import DatasetError, damage_named
from captrial.files import atomic_path, atomic_write, content_hash
from captrial.vision.backbones.base import Backbone
from captrial.vision.backbones.efficientnet import EfficientNetLite

WEIGHTS, CONFIG = "noun_presence.safetensors", "noun_presence.json"
REMAKE = "python -m studies.noun_presence"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NounCalibration:
    """What a detector's log-odds of nouns mean, and how often verdicts by them were wrong."""

    slope: float = 1.0  # log-odds that a noun that a captioner said is absent: offset - slope * log-odds of presence
    offset: float = 0.0
    threshold: float = 0.5  # probability of absence from which on the verdict is *not in the image*
    identity: str = ""  # a hash of all that the log-odds depend on besides the detector's own weights
    measured: Mapping[str, Any] | None = None  # error rates, if they were measured with this very detector


@dataclass(frozen=True)
class PresenceTable:
    """Nouns, how evidence is weighed for each, and what a verdict about it means."""

    nouns: tuple[str, ...]
    labels: tuple[str | None, ...]  # of each noun, the detector's label it is scored by; None: by the image as a whole
    coefficients: Floats  # (nouns, 4): of the log-odds of noun and class at the best cell, of the linear layer; offset
    slope: float = 1.0  # log-odds that a noun that a captioner said is absent: offset - slope * log-odds of presence
    offset: float = 0.0
    threshold: float = 0.5  # probability of absence from which on the verdict is *not in the image*
    measured: dict[str, Any] | None = None  # error rates of the verdicts, and on what


class NounPresence:
    """The trained linear layer and the table; see the module's docstring."""

    def __init__(self, table: PresenceTable, head: nn.Linear, grid: Backbone | None = None) -> None:
        self.table, self.head = table, head.requires_grad_(False).eval()
        self._grid = grid

    @property
    def grid(self) -> Backbone:
        """The backbone of the linear layer, loaded when first needed."""
        if self._grid is None:
            self._grid = EfficientNetLite(2)
        return self._grid

    @torch.no_grad()
    def image_odds(self, image: Image.Image) -> Floats:
        """What the linear layer says of the nouns (nouns,)."""
        return np.asarray(self.head(pooled(self.grid.extract([image]).elements))[0].double().numpy())

    def identity(self) -> str:
        """A hash of the linear layer and of the table, without what was measured."""
        weights = b"".join(value.half().numpy().tobytes() for _, value in sorted(self.head.state_dict().items()))
        return content_hash(weights + orjson.dumps({**_plain(self.table), "measured": None}))

    def calibration(self, **detector: Any) -> NounCalibration:
        """What the log-odds mean; error rates only if they were `measured` with this table and this `detector`."""
        table, measured = self.table, self.table.measured or {}
        own = measured.get("of") == {**detector, "presence": self.identity()}
        return NounCalibration(
            table.slope, table.offset, table.threshold, self.identity(), measured if own and measured else None
        )

    def odds(self, image: Image.Image, at_cells: Floats) -> dict[str, float]:
        """Log-odds that a noun is mentioned; `at_cells` (nouns, 2) are those of noun and class at their best cells."""
        evidence = np.concatenate([at_cells, self.image_odds(image)[:, None], np.ones((len(at_cells), 1))], 1)
        return dict(zip(self.table.nouns, (evidence * self.table.coefficients).sum(1).tolist(), strict=True))

    def save_pretrained(self, directory: Path | str) -> None:
        """Write `noun_presence.json` and `noun_presence.safetensors` (float16)."""
        from safetensors.torch import save_file

        directory = Path(directory)
        with atomic_path(directory / WEIGHTS) as path:
            save_file({name: value.half().contiguous() for name, value in self.head.state_dict().items()}, path)
        atomic_write(directory / CONFIG, orjson.dumps(_plain(self.table)))

    @classmethod
    def from_pretrained(cls, directory: Path | str) -> NounPresence:
        """From the folder of a region detector."""
        from safetensors.torch import load_file

        directory = Path(directory)
        table = read_table(directory)
        with damage_named(directory / WEIGHTS, REMAKE):
            weights = load_file(directory / WEIGHTS)
            head = nn.Linear(weights["weight"].shape[1], weights["weight"].shape[0])
            head.load_state_dict({name: value.float() for name, value in weights.items()})
            if head.out_features != len(table.nouns):
                raise ValueError(f"{head.out_features} nouns, {CONFIG} has {len(table.nouns)}")
        return cls(table, head)


def _plain(table: PresenceTable) -> dict[str, Any]:
    """What `noun_presence.json` holds."""
    return {
        "nouns": table.nouns,
        "labels": table.labels,
        "coefficients": np.round(table.coefficients, 4).tolist(),
        "absent": {"slope": table.slope, "offset": table.offset, "threshold": table.threshold},
        "measured": table.measured,
    }


def read_table(directory: Path) -> PresenceTable:
    """The table of `noun_presence.json`, without the weights."""
    if not (directory / CONFIG).is_file():
        raise DatasetError(f"{directory} holds no {CONFIG}; make it with {REMAKE}")
    with damage_named(directory / CONFIG, REMAKE):
        config = orjson.loads((directory / CONFIG).read_bytes())
        nouns = tuple(str(noun) for noun in config["nouns"])
        labels = tuple(None if label is None else str(label) for label in config["labels"])
        coefficients = np.array(config["coefficients"], np.float64).reshape(len(nouns), 4)
        absent = {name: float(config["absent"][name]) for name in ("slope", "offset", "threshold")}
        return PresenceTable(nouns, labels, coefficients, **absent, measured=dict(config["measured"] or {}))


def pooled(elements: Tensor) -> Tensor:
    """Mean and maximum of cells: (b, c, d) -> (b, 2 d)."""
    return torch.cat([elements.mean(1), elements.amax(1)], 1)
