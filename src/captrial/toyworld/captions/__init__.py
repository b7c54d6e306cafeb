"""Captions of toy world scenes: `describe` writes five different ones, with phrases that refer to objects."""

from captrial.toyworld.captions.caption_writer import CaptionWriter, PhraseMention, ToyCaption, describe, tokens
from captrial.toyworld.captions.phrasing import Phraser

__all__ = ["CaptionWriter", "PhraseMention", "Phraser", "ToyCaption", "describe", "tokens"]
