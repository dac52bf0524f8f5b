"""Find the largest rate of arrivals at which a serving system keeps its objectives (`slo`), and compare layouts by it.

The rate of the scenario's arrivals is varied, with the same requests each time. --vary lists values of a key, and
--layouts auto the layouts that the cluster has room for; every combination is planned. With --rate the cheapest one
that carries a rate is marked. --frontier searches layouts, batch limits and the ratio of prefill to decode workers, and
draws tokens per second and GPU against tokens per second and user. Exit code 4 where no layout meets the objectives, or
none carries the rate.
"""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from time import perf_counter
from typing import TYPE_CHECKING

from simulator.cli.options import offer, whole
from simulator.errors import InfeasibleError

if TYPE_CHECKING:
    from simulator.study.plan.plan import Options

SUMMARY = "largest rate within the objectives, cheapest layout that carries one"
EXAMPLES = (
    'scenarios/serving/quickstart.yaml "+slo={ttft: 1 s, tpot: 50 ms}"',
    "scenarios/serving/disaggregated-70b-h100.yaml requests.count=2000 --html plan.html",
    'scenarios/serving/quickstart.yaml "+slo={ttft: 1 s}" --vary serving.parallel.tp=1,2,4 --jobs 2',
    "scenarios/serving/disaggregated-70b-h100.yaml cluster.nodes=8 --frontier --jobs 2 --plots .",
    'scenarios/serving/quickstart.yaml "+slo={ttft: 1 s}" --layouts auto --rate "20 /s" requests.count=3000',
)

_TOLERANCES = (1e-4, 0.5)
_MOST_RATES = 200
_MOST_RUNS = 100_000


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `plan`."""
    parser.add_argument("file", metavar="FILE", help="scenario that serves, with `slo` (YAML)")
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="changes of the scenario, as for `run`")
    parser.add_argument(
        "--vary",
        metavar="KEY=V,V",
        action="append",
        default=[],
        help="plan with each of these values of a key; several times for all combinations",
    )
    parser.add_argument(
        "--layouts",
        choices=("auto",),
        help="plan with tensor and pipeline parallelism in powers of two and replicas on all devices",
    )
    parser.add_argument(
        "--every",
        action="store_true",
        help="of `--layouts auto`: find the rate of layouts that cannot be the best for each device too",
    )
    parser.add_argument(
        "--rate",
        metavar="RATE",
        type=_rate,
        help="arrivals per second that must be carried (20 /s); `--layouts auto` then takes as few replicas as it can",
    )
    parser.add_argument(
        "--tolerance", metavar="SHARE", type=_tolerance, help="how close to the largest rate to come (default 1 %%)"
    )
    parser.add_argument(
        "--curve",
        metavar="N",
        type=whole(0, _MOST_RATES),
        help="rates to simulate besides those of the search (default 8; of several layouts 0)",
    )
    parser.add_argument(
        "--frontier",
        action="store_true",
        help="search layouts, batch limits and prefill beside decode workers: tokens/s/GPU against tokens/s/user",
    )
    parser.add_argument(
        "--only", choices=("aggregated", "disaggregated"), help="of --frontier: one of the two kinds of systems"
    )
    parser.add_argument(
        "--sequences",
        metavar="N,N",
        type=_sizes,
        help="of --frontier: limits of running sequences (default 64,256,1024)",
    )
    parser.add_argument(
        "--chunks",
        metavar="N,N",
        type=_sizes,
        help="of --frontier: limits of tokens in a step (default 1024,2048,8192)",
    )
    parser.add_argument(
        "--simulations", metavar="N", type=whole(1, _MOST_RUNS), help="of --frontier: most simulations (default 200)"
    )
    parser.add_argument("--jobs", metavar="N", type=whole(), default=1, help="processes to plan several layouts with")
    parser.add_argument(
        "--write-flags",
        metavar="ENGINE",
        choices=("vllm", "sglang", "tensorrt-llm"),
        help="print the best system as command lines of an engine: vllm, sglang or tensorrt-llm",
    )
    offer(parser, "all that was found")


def _quantity(text: str, dimension: str, what: str, low: float, high: float) -> float:
    from simulator import units

    try:
        value = units.parse(text, dimension)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
    if not low <= value <= high:
        raise ArgumentTypeError(f"{text!r} is out of range: write {what}")
    return value


def _sizes(text: str) -> tuple[int, ...]:
    read = whole(1, 1 << 17)
    return tuple(sorted({read(word.strip()) for word in text.split(",")}))


def _rate(text: str) -> float:
    return _quantity(text, "rate", "a rate above 0, for example `20 /s`", 1e-6, 1e9)


def _tolerance(text: str) -> float:
    return _quantity(text, "fraction", "a share from 0.01 % to 50 %, for example `1 %`", *_TOLERANCES)


def execute(arguments: Namespace) -> int:
    """Read, search, write, show."""
    _check_together(arguments)
    if arguments.frontier:
        return _frontier(arguments)
    from simulator.cli import outputs
    from simulator.cli.progress import progress
    from simulator.study.plan.layouts import candidates
    from simulator.study.variants import parse_axes

    axes = parse_axes(arguments.vary)
    found = candidates(arguments.file, arguments.overrides, axes, arguments.layouts == "auto")
    files = {"--json": arguments.json, "--html": arguments.html}
    outputs.check(files, inputs=(arguments.file,), folders={"--plots": arguments.plots})
    from simulator.study.plan.document import document
    from simulator.study.plan.plan import plan

    begin, options = perf_counter(), _options(arguments, len(found))
    what = f"planning {found[0].scenario.name}" if len(found) == 1 else f"planning {len(found)} layouts"
    with progress(what, arguments.quiet):
        plans = plan(found, options, min(arguments.jobs, os.cpu_count() or 1))
    shown = document(plans, options)
    outputs.show("plan", shown, arguments, elapsed_s=perf_counter() - begin)
    best = next((one for one in shown.layouts if one.cheapest), None)
    best = best or next((one for one in shown.layouts if one.best_per_device), None)
    if arguments.write_flags and best is not None:
        _flags(arguments, (*arguments.overrides, *best.overrides))
    return 0 if shown.feasible else InfeasibleError.exit_code


def _options(arguments: Namespace, layouts: int) -> "Options":
    from simulator.study.plan.plan import CURVE, TOLERANCE, Options

    curve = arguments.curve if arguments.curve is not None else CURVE if layouts == 1 else 0
    cut = arguments.layouts == "auto" and not arguments.every
    return Options(arguments.tolerance or TOLERANCE, curve, arguments.rate, cut)


_OF_FRONTIER = ("only", "sequences", "chunks", "simulations")
_OF_RATES = ("vary", "layouts", "every", "rate", "tolerance", "curve")


def _check_together(arguments: Namespace) -> None:
    """InputError for an option that the other way of planning has."""
    from simulator.errors import InputError, Problem

    wrong = _OF_RATES if arguments.frontier else _OF_FRONTIER
    for name in (name for name in wrong if getattr(arguments, name)):
        how = "is of a plan without --frontier" if arguments.frontier else "is of --frontier"
        hint = "leave out one of the two" if arguments.frontier else "add --frontier"
        raise InputError(Problem(f"--{name} {how}", hint=hint))


def _frontier(arguments: Namespace) -> int:
    """Search the frontier, write, show."""
    from simulator.cli import outputs
    from simulator.cli.progress import progress
    from simulator.study.frontier.document import document
    from simulator.study.frontier.search import search
    from simulator.study.frontier.start import start

    only = arguments.only
    scenario, base, settings = start(
        arguments.file, arguments.overrides, arguments.sequences, arguments.chunks, only, arguments.simulations
    )
    files = {"--json": arguments.json, "--html": arguments.html}
    outputs.check(files, inputs=(arguments.file,), folders={"--plots": arguments.plots})
    begin = perf_counter()
    with progress(f"searching the frontier of {scenario.name}", arguments.quiet):
        found = search(scenario, base, settings, min(arguments.jobs, os.cpu_count() or 1))
    shown = document(scenario, found)
    outputs.show("frontier", shown, arguments, elapsed_s=perf_counter() - begin)
    if arguments.write_flags and shown.winner is not None:
        _flags(arguments, (*arguments.overrides, *shown.points[shown.winner].overrides))
    return 0 if shown.feasible else InfeasibleError.exit_code


def _flags(arguments: Namespace, overrides: tuple[str, ...]) -> None:
    """Print the command lines of an engine for the scenario with changes; on standard error where JSON is printed."""
    import sys

    from simulator.cli import console
    from simulator.interop.engines.write import command_lines
    from simulator.study.plan.layouts import candidate

    text = command_lines(candidate(arguments.file, overrides).scenario, arguments.write_flags)
    if arguments.json == "-":
        sys.stderr.write(text)
    else:
        console.write("\n" + text)
