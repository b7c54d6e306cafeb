"""Captioners: twelve architectures to train, captioners and VLMs of the transformers library, and endpoints.

| name | what it is |
| --- | --- |
| `load_captioner`, `caption` | any captioner by its source, and its captions (`captrial.load`, `captrial.caption`) |
| `AnyCaptioner`, `Explainable` | what a captioner of your own has to offer |
| `ARCHITECTURES`, `PRESETS`, `create`, `build` | the architectures, their named sizes, and new captioners of them |
| `Captioner`, `CaptionerConfig`, `TeacherForced` | the contract of the architectures |
| `Checkpoint`, `TrainedCaptioner` | a trained captioner on disk, and with its backbone |
| `shipped_captioners`, `DEFAULT_CAPTIONER` | the captioners that come with the package |
| `EndpointCaptioner` | an OpenAI-compatible HTTP endpoint |

Names are imported when first used, so that endpoints and caption files need no torch.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.captioners.base import Captioner, CaptionerConfig, TeacherForced
    from captrial.captioners.checkpoint import Checkpoint
    from captrial.captioners.endpoint import EndpointCaptioner
    from captrial.captioners.loading import caption, load_captioner
    from captrial.captioners.protocols import AnyCaptioner, Explainable
    from captrial.captioners.registry import (
        ARCHITECTURES,
        DEFAULT_CAPTIONER,
        PRESETS,
        build,
        create,
        shipped_captioners,
    )
    from captrial.captioners.trained import TrainedCaptioner

__all__ = [
    "ARCHITECTURES",
    "DEFAULT_CAPTIONER",
    "PRESETS",
    "AnyCaptioner",
    "Captioner",
    "CaptionerConfig",
    "Checkpoint",
    "EndpointCaptioner",
    "Explainable",
    "TeacherForced",
    "TrainedCaptioner",
    "build",
    "caption",
    "create",
    "load_captioner",
    "shipped_captioners",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "base": "Captioner CaptionerConfig TeacherForced",
        "checkpoint": "Checkpoint",
        "endpoint": "EndpointCaptioner",
        "loading": "caption load_captioner",
        "protocols": "AnyCaptioner Explainable",
        "registry": "ARCHITECTURES DEFAULT_CAPTIONER PRESETS build create shipped_captioners",
        "trained": "TrainedCaptioner",
    },
)
