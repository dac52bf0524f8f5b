"""Time kernels of this machine through PyTorch, and one block of a transformer beside its prediction.

Products over shapes and formats, attention of prompts and of cached tokens, mixtures of experts, passes over memory,
launches, copies from and to the host, all-reduces where there are several devices, a product beside a copy or a
collective, and a block forward and backward. What is written `clustersim calibrate kernels` fits a profile to, and
`calibrate collectives` the all-reduces. Nothing is written but the file of --out, whole or not at all. PyTorch is not
part of clustersim; without it nothing is measured, and --dry-run lists what would be.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from simulator.cli import console
from simulator.cli.options import offer_quiet

SUMMARY = "time this machine's kernels through PyTorch, for `calibrate`"
EXAMPLES = (
    "--dry-run",
    "--out h200.jsonl --seconds 300",
    "--out products.csv --only gemm,memory --device cuda:0 --accelerator ./my-device.yaml",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `measure`."""
    parser.add_argument(
        "--out", metavar="FILE", help="write what was measured: JSON lines, or a table where it ends in .csv"
    )
    parser.add_argument(
        "--only",
        metavar="LIST",
        help="kinds: gemm, attention, decode, moe, memory, launch, copies, all-reduce, beside, block",
    )
    parser.add_argument(
        "--seconds", metavar="S", type=_seconds, default=120.0, help="time for all of it, about (default: 120)"
    )
    parser.add_argument("--device", metavar="NAME", help="cuda, cuda:N or cpu (default: cuda where there is one)")
    parser.add_argument("--accelerator", metavar="NAME", help="profile of the device, where its name does not say it")
    parser.add_argument("--dry-run", action="store_true", help="list what would be measured, measure nothing")
    offer_quiet(parser)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= 86400:
        raise ArgumentTypeError(f"{text[:40]!r} is no number of seconds from 0.1 to 86400")
    return found


def execute(arguments: Namespace) -> int:
    """Check the output, measure, write, show."""
    from simulator.cli import outputs
    from simulator.cli.progress import counting
    from simulator.errors import InputError, Problem
    from simulator.interop.rows.benchmarks import as_text
    from simulator.report.measure.page import page
    from simulator.results.writing import write
    from simulator.specs.hardware import Accelerator
    from simulator.specs.resolve import load_spec
    from simulator.study.measure.measured import device_of, document, measure, planned, torch_module

    only = tuple(part.strip() for part in (arguments.only or "").split(",") if part.strip())
    outputs.check({"--out": arguments.out}, inputs=(), printable="")
    if arguments.accelerator:
        load_spec(Accelerator, arguments.accelerator)
    if arguments.dry_run:
        console.write(_listed(arguments.device, only))
        return 0
    if arguments.out is None:
        raise InputError(Problem("`--out FILE` is missing", hint="write `--out measured.jsonl`, or `--dry-run`"))
    on = device_of(torch_module(), arguments.device)
    chosen = planned(on.target(), only)
    with counting("measuring", arguments.quiet) as tell:
        session = measure(on, chosen, arguments.seconds, arguments.accelerator, tell)
    if not session.rows:
        raise InputError(Problem(f"nothing could be measured: {session.results[0].why}"))
    write(arguments.out, as_text(session.header, session.rows, arguments.out.lower().endswith(".csv")))
    if not arguments.quiet:
        console.write(page(document(session, arguments.out)))
    return 0


def _listed(device: str | None, only: tuple[str, ...]) -> str:
    """What would be measured; on a GPU of 80 GB where PyTorch cannot be asked."""
    from simulator.report.measure.page import plan
    from simulator.study.measure.measured import dry_run

    return plan(dry_run(device, only))
