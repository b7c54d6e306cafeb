"""Metrics of nouns and objects: NW and Coverage (Cornia 2022, Eq. 14-15), noun IoU and CHAIR."""

from captrial.metrics.nouns.chair import chair
from captrial.metrics.nouns.coverage import coverage
from captrial.metrics.nouns.needleman_wunsch import nw
from captrial.metrics.nouns.noun_iou import noun_iou

__all__ = ["chair", "coverage", "noun_iou", "nw"]
