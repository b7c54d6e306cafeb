"""Fixtures of the commands of compete."""

from compete.competitions import files, small

__all__ = ["files", "small"]
