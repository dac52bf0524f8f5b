"""Codes of the operations of a step: instructions of its schedule, and what it does around them."""

from simulator.program.actions import BARRIERS, COMPUTE, Kind

FORWARD, BACKWARD, INPUT, WEIGHT, SCORES, SCORES_GRADIENT = (int(kind) for kind in COMPUTE)
SEND_FORWARD, SEND_BACKWARD = int(Kind.SEND_F), int(Kind.SEND_B)
GATHER, REDUCE = int(Kind.UNSHARD), int(Kind.REDUCE_GRAD)
EMBEDDING, OPTIMIZER, MEETING = len(Kind), len(Kind) + 1, len(Kind) + 2

(
    STORE_ACTIVATIONS,
    FETCH_ACTIVATIONS,
    FETCH_PARAMETERS,
    STORE_GRADIENTS,
    FETCH_STATES,
    STORE_STATES,
    STORE_PARAMETERS,
    CAST_GRADIENTS,
    HOST_UPDATE,
    NVME_READ,
    NVME_WRITE,
) = range(MEETING + 1, MEETING + 12)
"""What travels between a device and what is beside its memory, and what the host does with it."""
TIER_CODES = tuple(range(STORE_ACTIVATIONS, NVME_WRITE + 1))
ON_CORES = (CAST_GRADIENTS, HOST_UPDATE)
"""Of these, what the cores of the host do."""

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
    "offload activations",
    "fetch activations",
    "fetch parameters",
    "offload gradients",
    "fetch states",
    "offload states",
    "offload parameters",
    "cast gradients on the host",
    "update on the host",
    "read NVMe",
    "write NVMe",
)
"""Names of operations by code: those of `Kind`, then what a step does around its schedule."""
