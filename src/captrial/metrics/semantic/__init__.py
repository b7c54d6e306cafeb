"""Metrics from learned embeddings: CLIPScore and RefCLIPScore."""

from captrial.metrics.semantic.clipscore import clip_score

__all__ = ["clip_score"]
