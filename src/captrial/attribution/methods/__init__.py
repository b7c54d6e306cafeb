"""The attribution methods, one file each; `registry` lists them and imports no torch."""

from captrial.attribution.methods.registry import METHODS, AttributionMethod, AttributionSettings, Needs, attribute

__all__ = ["METHODS", "AttributionMethod", "AttributionSettings", "Needs", "attribute"]
