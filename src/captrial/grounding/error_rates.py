"""Error rates of verdicts: how often they were wrong on photographs the detector was not made with (docs/ground.md).

They are those of the detector that made the regions, for verdicts by the references and for those checked by eye.
"""

from __future__ import annotations

from collections.abc import Mapping

from captrial.attribution.methods.registry import DEFAULT_METHOD
from captrial.grounding.presence import learnt_names
from captrial.grounding.score import Verdict
from captrial.vision.detectors.noun_presence import NounCalibration

THINGS, BACKGROUND = "things", "scenery and clothes"  # kinds of nouns whose verdicts are wrong at other rates
NO_RATE = "no measured error rate for this detector"


def error_rates(calibration: NounCalibration | None, method: str = DEFAULT_METHOD) -> dict[str, float] | None:
    """The error rate of every verdict by the references of photographs; None if none was measured for the detector.

    Rates were measured with attention and with integrated gradients; other methods get those of integrated gradients.
    """
    if calibration is None or calibration.measured is None:
        return None
    measured = calibration.measured.get("verdicts", {})
    rates = measured.get(method, measured.get(DEFAULT_METHOD, {}))
    return {verdict: float(entry["error"]) for verdict, entry in rates.items()}


def rates_by_eye(calibration: NounCalibration | None) -> dict[str, dict[str, float]] | None:
    """Verdicts that were checked by eye: `error`, its interval `low` and `high`, and how many `nouns` could be told.

    A reference that does not mention a thing does not show that it is absent, so these rates are the ones to trust.
    Those of *not in the image* are also given by kind of noun: things, scenery and clothes.
    """
    if calibration is None or calibration.measured is None:
        return None
    return {name: dict(entry) for name, entry in calibration.measured.get("by eye", {}).items()} or None


def absence_error(calibration: NounCalibration | None, noun: str) -> float | None:
    """How often *not in the image* is wrong by eye for nouns of this kind; None where that was not measured."""
    rates = rates_by_eye(calibration)
    if calibration is None or calibration.measured is None or rates is None:
        return None
    background = calibration.measured.get(BACKGROUND, ())
    kind = BACKGROUND if noun in background or learnt_names(noun, tuple(background)) else THINGS
    entry = rates.get(f"{Verdict.NOT_IN_IMAGE}, {kind}", rates.get(Verdict.NOT_IN_IMAGE))
    return None if entry is None else float(entry["error"])


def error_note(calibration: NounCalibration | None, method: str = DEFAULT_METHOD) -> str:
    """The rates as one line below tables and pages."""
    rates = error_rates(calibration, method)
    if not rates:
        return NO_RATE
    shown = ", ".join(f"{verdict} {rate:.0%}" for verdict, rate in rates.items() if verdict in set(Verdict))
    note = f"measured on test photographs of Flickr8k by their references, these verdicts are wrong: {shown}"
    eye = rates_by_eye(calibration) or {}
    if absent := eye.pop(Verdict.NOT_IN_IMAGE, None):
        named = {name.removeprefix(f"{Verdict.NOT_IN_IMAGE}, "): rate for name, rate in eye.items()}
        kinds = ", ".join(f"{kind} {_shown(rate)}" for kind, rate in named.items())
        note += f"; by eye, {Verdict.NOT_IN_IMAGE} {_shown(absent)}" + (f" ({kinds})" if kinds else "")
    return f"{note} (docs/ground.md)"


def _shown(rate: Mapping[str, float]) -> str:
    return f"{rate['error']:.0%} [{rate['low']:.0%}, {rate['high']:.0%}]"
