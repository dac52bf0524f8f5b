"""Write the list of numbers at a bound of their search into docs/validation.md.

    python -m benchmarks.bounds

The numbers are found by the program; why each is there stands beside it, and in the notes of its profile.
"""

from fnmatch import fnmatch

from benchmarks.validation import PAGE, written
from simulator.calibration.at_bounds import AtBound, at_bounds

MARKS = "<!-- bounds: written by benchmarks/bounds.py -->", "<!-- end of bounds -->"
WHY = {
    "*gemm.*.softness": "cuBLAS gives a wave of tiles to the cores as a whole",
    "l40s gemm.*.launch": "not told apart from filling a tile",
    "* decode.sequence": "nothing of a sequence beside its blocks",
    "* decode.overlap": "reading hides all",
    "b200* attention.*.tail": "cores finish apart by a whole block",
    "l40s attention.paged.tail": "cores finish together",
    "l40s attention.paged.launch": "the benchmark's loop finds its data in the cache of 96 MB",
    "l40s experts.cutlass.fp8.launch": "the benchmark's loop finds its data in the cache of 96 MB",
    "b200* experts.cutlass.fp8.*": "not identified by its rows; an estimate",
    "b200* experts.trtllm-gen.fp4.ramp": "kernels that begin before the one before them ends",
    "l40s decode.*": "the benchmark's loop finds its data in the cache of 96 MB",
    "* scans.*.launch": "part of the first wave; small scans are left out",
    "* weight_only.*": "widening costs nothing that its rows show",
    "* layer_overhead": "left out of the fit: other values do as well (see the number's source)",
    "tensorrt-llm* iteration_overhead": "what one launch of a graph takes",
    "tensorrt-llm* sequence_overhead": "the work of a sequence overlaps with the device",
}


def why(one: AtBound) -> str:
    """Why a number is at its bound; empty where it is not known."""
    name = f"{one.profile} {one.coefficient}"
    return next((words for pattern, words in WHY.items() if fnmatch(name, pattern)), "")


def lines() -> list[str]:
    """The table."""
    found = at_bounds()
    open_ = sum(not why(one) for one in found)
    return [
        f"{len(found)} fitted numbers lie at a bound of the range in which they are searched; {open_} unexplained.",
        "",
        "| profile | number | value | range | why |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {one.profile} | `{one.coefficient}` | {one.value:.4g} | {one.low:.4g} to {one.high:.4g} | {why(one)} |"
            for one in found
        ),
        "",
    ]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), *MARKS, lines()))
    print("\n".join(lines()))
