"""One file an architecture, behind one contract (see `contract.py`); `create` and `Checkpoint` are the way in."""

from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.contract import Captioner, CaptionerConfig, Forced
from captrial.captioners.registry import ARCHITECTURES, PRESETS, build, create

__all__ = ["ARCHITECTURES", "PRESETS", "Captioner", "CaptionerConfig", "Checkpoint", "Forced", "build", "create"]
