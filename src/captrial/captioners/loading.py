"""Any captioner by what names it: a run folder, a checkpoint, or the address of an endpoint (without torch)."""

from __future__ import annotations

from captrial.captioners.running import AnyCaptioner
from captrial.captioners.shipped import shipped
from captrial.errors import MissingExtraError


def load_captioner(source: str, beam: int = 5) -> AnyCaptioner:
    """A captioner by its name (shipped), run folder or checkpoint, or by an endpoint (`http://host/v1#model`)."""
    if source.startswith(("http://", "https://")):
        from captrial.captioners.endpoint import EndpointCaptioner

        return EndpointCaptioner.parse(source)
    try:
        from captrial.captioners.trained import TrainedCaptioner
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"captioner {source} ({error.name} is not installed)", "models") from None
    return TrainedCaptioner.load(shipped().get(source, source), beam)
