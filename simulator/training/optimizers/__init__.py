"""Optimizers: what they keep, compute and send to turn gradients into new parameters, one file a family.

A rule is registered by name and takes what a rank updates (`Share`). What each costs is in docs/models/optimizers.md.
"""

from simulator.training.optimizers.adafactor import Adafactor
from simulator.training.optimizers.base import OPTIMIZERS, Matrices, Share, UpdateRule
from simulator.training.optimizers.elementwise import Elementwise
from simulator.training.optimizers.muon import Muon

__all__ = ["OPTIMIZERS", "Adafactor", "Elementwise", "Matrices", "Muon", "Share", "UpdateRule"]
