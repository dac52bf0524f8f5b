"""Fit the coefficients of profiles and stacks to measurements, and report what is left and on what.

Nothing is written but into the folder of --out and the files that options name; what ships stays as it is. What WHAT
takes: `kernels MEASURED...` (what `clustersim measure` wrote) or `kernels TABLES ROWS`, `collectives DATA`, `stack
LOG... --scenario FILE` (one's own runs) or `stack ROWS`, `all-reduce TABLES`, `exchanges ROWS`, `lengths TRACES`
(docs/howto/own-machines.md and docs/howto/calibrate.md say where they come from). A fit of published tables takes
minutes to an hour.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from simulator.cli import console
from simulator.cli.options import whole

SUMMARY = "fit kernels, collectives and software stacks to measurements"
EXAMPLES = (
    "kernels aiconfigurator kernels.jsonl --profile l40s --out fitted",
    "kernels h200.jsonl --out fitted",
    "stack llama-8b.log llama-70b.log --scenario llama-8b.yaml --scenario llama-70b.yaml --out fitted",
    "collectives measured --profile nccl-v100",
    "collectives all_reduce.log --cluster dgx-h100 --out fitted",
    "stack workloads/measurements/training.jsonl --profile fsdp --samples 10 --out fitted",
    "stack workloads/measurements/serving.jsonl --as-is",
)
_WHAT = ("kernels", "collectives", "all-reduce", "exchanges", "stack", "lengths")
_OPTIONS = ("samples", "part", "jobs", "starts", "as_is", "intervals", "left_out", "held_out", "cluster", "report")
_OWN = ("accelerator", "scenario")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `calibrate`."""
    parser.add_argument("what", metavar="WHAT", choices=_WHAT, help=", ".join(_WHAT))
    parser.add_argument("files", metavar="FILE", nargs="*", help="measurements: files or folders")
    parser.add_argument("--profile", metavar="NAME", action="append", help="fit only this profile or stack; repeat it")
    parser.add_argument("--out", metavar="FOLDER", help="write the fitted files into this folder")
    parser.add_argument(
        "--samples", metavar="N", type=whole(), help="products of a table (kernels), rows of a source (stack) at most"
    )
    parser.add_argument("--part", choices=("products", "serving"), help="fit only this part of a kernel profile")
    parser.add_argument("--jobs", metavar="N", type=whole(), help="processes to simulate with (stack; default: 1)")
    parser.add_argument("--starts", metavar="N", type=whole(), help="descents of a fit (collectives; default: 1)")
    parser.add_argument("--as-is", action="store_true", default=None, help="report the shipped numbers, fit nothing")
    parser.add_argument(
        "--intervals", action="store_true", default=None, help="with --as-is, say which other numbers do as well"
    )
    parser.add_argument("--accelerator", metavar="NAME", help="on what MEASURED was timed, where it does not say it")
    parser.add_argument(
        "--scenario", metavar="FILE", action="append", help="what the runs of LOG were; one for all, or one for each"
    )
    parser.add_argument("--cluster", metavar="NAME", help="where a log of nccl-tests was measured (collectives)")
    parser.add_argument(
        "--left-out", metavar="FILE", type=Path, help="write the error of each row under a fit without its source"
    )
    parser.add_argument(
        "--held-out", metavar="FILE", type=Path, help="write errors under fits without rows of a kind (stack)"
    )
    parser.add_argument("--report", metavar="FILE", type=Path, help="write the table of errors as Markdown (kernels)")


def execute(arguments: Namespace) -> int:
    """Check the outputs, fit, report."""
    from simulator.calibration.asked import Asked
    from simulator.calibration.kinds import calibrate
    from simulator.cli import outputs

    named = {"--left-out": arguments.left_out, "--held-out": arguments.held_out, "--report": arguments.report}
    written = {option: str(path) for option, path in named.items() if path is not None}
    outputs.check(written, inputs=tuple(arguments.files), printable="")
    given = {name: value for name in (*_OPTIONS, *_OWN) if (value := getattr(arguments, name)) is not None}
    given |= {"scenario": tuple(given["scenario"])} if "scenario" in given else {}
    asked = Asked(
        tuple(map(Path, arguments.files)),
        tuple(arguments.profile or ()),
        Path(arguments.out) if arguments.out else None,
        **given,
        say=lambda text: console.write(text + "\n"),
    )
    calibrate(arguments.what, asked, tuple(given))
    return 0
