"""Stages of training: cross-entropy, self-critical training, and what single architectures need besides.

`Stage` is what the loop needs of a stage; `captrial.training.stages.plan.make_stages` gives the stages of a run, which
are trained in order.
"""

from captrial.training.stages.base import CrossEntropy, SelfCritical, Stage

__all__ = ["CrossEntropy", "SelfCritical", "Stage"]
