"""Write the residuals of published collectives, exchanges and kernels, from which their intervals are made.

    python -m benchmarks.timed_residuals

It prints what the intervals hold of rows whose source they were not made from. Fits that have not seen a source are not
made for it: residuals of libraries that were fitted on their rows are too small where only one source was.
"""

from collections.abc import Mapping

from benchmarks import intervals
from benchmarks.validation import ship_residuals
from simulator.interop.rows.jsonl import read_lines
from simulator.specs import data_root
from simulator.study.validate.published import KINDS

FILES: Mapping[str, tuple[tuple[str, bool], ...]] = {
    "network": (
        ("network.jsonl", False),
        ("blind-network.jsonl", True),
        ("blind2-network.jsonl", True),
        ("blind5-network.jsonl", True),
    ),
    "exchange": (("exchanges.jsonl", False),),
    "kernel": (("kernels.jsonl", False),),
}
"""Files by kind of rows, and whether these were found after all fits."""
READ_AS = {"network": "network", "exchange": "exchanges", "kernel": "kernel"}


def main() -> None:
    """Price, write, print."""
    for kind, files in FILES.items():
        for file, unseen in files:
            lines = list(read_lines(data_root() / "workloads" / "measurements" / file))
            outcomes = KINDS[READ_AS[kind]].validate(lines, 1)
            own = [o for o in outcomes if o.like and o.like.conditions.kind == kind]  # not exchanges among collectives
            found = ship_residuals(kind, file, own, {}, unseen)
        print(kind, *intervals.lines(found), sep="\n")


if __name__ == "__main__":
    main()
