"""The captioners that come with the package: small, trained by this project on Flickr8k (see their cards)."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
DEFAULT = "ort"  # the best of them


def shipped() -> dict[str, Path]:
    """Name -> checkpoint folder of every shipped captioner."""
    return {path.parent.name: path.parent for path in sorted(FOLDER.glob("*/config.json"))}
