"""The files of a competition's directory: manifest, caption pool, selections and labels; and how they are created."""

from captrial.compete.storage.caption_pool import Block, CaptionPool, CaptionSource, StoredPool, gather
from captrial.compete.storage.creation import add_model, check_empty, create, verbosity_note
from captrial.compete.storage.labels import Judgement, Labels, read_judgements, read_labels
from captrial.compete.storage.manifest import Manifest, ModelEntry, SelectionSettings
from captrial.compete.storage.selection_files import ActiveSelection, PairSelection, SelectionFiles, active_selection

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
    "SelectionFiles",
    "SelectionSettings",
    "StoredPool",
    "active_selection",
    "add_model",
    "check_empty",
    "create",
    "gather",
    "read_judgements",
    "read_labels",
    "verbosity_note",
]
