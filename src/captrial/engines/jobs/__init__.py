"""The jobs that engines run, one module each: caption, extract features, score, select images, ground.

They import what they need (torch, a captioner, the metrics), so import the module of the job you want.
"""

__all__ = ["caption", "extract_features", "ground", "score", "select"]
