"""Fixtures of all tests of compete."""

from compete.competitions import files, scorer, small

__all__ = ["files", "scorer", "small"]
