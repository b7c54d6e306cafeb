"""The files of a competition's directory: manifest, caption pool, selections and labels; and how they are created.

Names are imported when first used: reading a competition does not load what creates one.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.compete.storage.caption_pool import Block, CaptionPool, CaptionSource, StoredPool, gather
    from captrial.compete.storage.creation import add_model, check_empty, create, verbosity_note
    from captrial.compete.storage.judgements import Judgement, read_judgements
    from captrial.compete.storage.labels import Labels, read_labels
    from captrial.compete.storage.manifest import Manifest, ModelEntry, SampleSettings, SelectionSettings, Wave
    from captrial.compete.storage.selection_files import (
        ActiveSelection,
        PairSelection,
        SelectionFiles,
        active_selection,
    )

__all__ = [
    "ActiveSelection",
    "Block",
    "CaptionPool",
    "CaptionSource",
    "Judgement",
    "Labels",
    "Manifest",
    "ModelEntry",
    "PairSelection",
    "SampleSettings",
    "SelectionFiles",
    "SelectionSettings",
    "StoredPool",
    "Wave",
    "active_selection",
    "add_model",
    "check_empty",
    "create",
    "gather",
    "read_judgements",
    "read_labels",
    "verbosity_note",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "caption_pool": "Block CaptionPool CaptionSource StoredPool gather",
        "creation": "add_model check_empty create verbosity_note",
        "judgements": "Judgement read_judgements",
        "labels": "Labels read_labels",
        "manifest": "Manifest ModelEntry SampleSettings SelectionSettings Wave",
        "selection_files": "ActiveSelection PairSelection SelectionFiles active_selection",
    },
)
