"""Metrics from learned embeddings: semantic, facts and unsupported words from sentence embeddings; CLIPScore."""

from captrial.metrics.semantic.clipscore import clip_score
from captrial.metrics.semantic.facts import fact_reports, facts
from captrial.metrics.semantic.semantic import semantic
from captrial.metrics.semantic.words import unsupported

__all__ = ["clip_score", "fact_reports", "facts", "semantic", "unsupported"]
