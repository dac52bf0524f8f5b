"""Names of collectives in other programs, such as nccl-tests' `alltoall` and `sendrecv_perf`, as operations of ours."""

from simulator.collectives.plan import OPERATIONS

_OTHERS = {
    "sendrecv": "shift",
    "reduce": "broadcast",
    "bcast": "broadcast",
    "moedispatch": "dispatch",
    "moecombine": "combine",
}
"""Names without `_` that are not an operation's own. nccl-tests' sendrecv passes a message on to the next rank while
one comes in. A reduce is a broadcast run the other way: NCCL plans both as one chain (`src/graph/tuning.cc`)."""
_OWN = {operation.replace("_", ""): operation for operation in OPERATIONS}


def operation_of(name: str) -> str:
    """The operation that a name means, with or without `_perf`, dashes and capitals; the name itself where none is
    known. What stands behind a colon is kept."""
    _, colon, rest = name.partition(":")
    plain = _plain(name)
    compact = plain.replace("_", "")
    return _OTHERS.get(compact, _OWN.get(compact, plain)) + colon + rest


def remark_on(name: str) -> str:
    """What a name of another program stands for where that is no mere spelling; empty else."""
    compact = _plain(name).replace("_", "")
    if compact == "reduce":
        return "reduce: as the broadcast run the other way, which has the same chain and bytes; its sums are left out"
    if compact == "sendrecv":
        return "sendrecv: each rank sends to the next while it receives (`shift`)"
    return ""


def _plain(name: str) -> str:
    """The word before a colon as operations are written."""
    return name.partition(":")[0].lower().replace("-", "_").removesuffix("_perf")
