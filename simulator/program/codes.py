"""Codes of the operations of a step: instructions of its schedule, and what it does around them."""

from simulator.program.actions import BARRIERS, COMPUTE, Kind

FORWARD, BACKWARD, INPUT, WEIGHT, SCORES, SCORES_GRADIENT = (int(kind) for kind in COMPUTE)
SEND_FORWARD, SEND_BACKWARD = int(Kind.SEND_F), int(Kind.SEND_B)
GATHER, REDUCE = int(Kind.UNSHARD), int(Kind.REDUCE_GRAD)
EMBEDDING, OPTIMIZER, MEETING = len(Kind), len(Kind) + 1, len(Kind) + 2

PASSES = (FORWARD, BACKWARD, INPUT, WEIGHT, SCORES, SCORES_GRADIENT)
BROADCAST, SUMS, SUMMED_GRADIENT = (int(kind) for kind in BARRIERS)

KINDS = (
    "forward",
    "backward",
    "input gradient",
    "weight gradient",
    "vocabulary scores",
    "vocabulary gradients",
    "send forward",
    "receive forward",
    "send backward",
    "receive backward",
    "gather parameters",
    "drop parameters",
    "reduce gradients",
    "overlapped passes",
    "broadcast to the vocabulary",
    "sum scores",
    "sum vocabulary gradients",
    "sum embedding gradients",
    "optimizer",
    "meet group",
)
"""Names of operations by code: those of `Kind`, then what a step does around its schedule."""
