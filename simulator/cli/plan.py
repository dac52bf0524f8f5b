"""Find the best layout: of a training the fastest, or the cheapest cluster in time; of a serving system the rates.

Of a scenario that trains, layouts (sizes of axes, stages, microbatch, sharding, recomputation) are searched: for the
fastest on its cluster, with --clusters, --nodes, --tokens, --days and --budget for the cheapest cluster that is done in
time. What the scenario states stays; --free searches it, --only gives values. With --order the layout stays, and the
order of the nodes is searched: which ranks should lie on which, where pairs of nodes have unequal links.

Of one that serves, the largest rate of arrivals is found at which it keeps its objectives (`slo`).

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

from simulator.cli import plan_training
from simulator.cli.options import offer, whole
from simulator.errors import InfeasibleError

if TYPE_CHECKING:
    from simulator.study.plan.plan import Options

SUMMARY = "the best layout: fastest training, cheapest cluster in time, largest rate within objectives"
EXAMPLES = (
    "scenarios/training/gpt-175b-plain.yaml --free all --jobs 2 --write best.yaml",
    "scenarios/quickstart.yaml --free all --only recompute=none --nodes 2:16 --tokens 100B --days 30 --grid france",
    "uneven.yaml --order --write placed.yaml",
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
    parser.add_argument("file", metavar="FILE", help="scenario that trains, or one that serves, with `slo` (YAML)")
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
        "--only",
        metavar="NAME=V,V",
        action="append",
        default=[],
        help="of a training: values of a choice, as `tp=2,4`; of --frontier: `aggregated` or `disaggregated`",
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
        metavar="PROGRAM",
        choices=("vllm", "sglang", "tensorrt-llm", *plan_training.FLAGS),
        help="print the best system as command lines of vllm, sglang or tensorrt-llm, a training as flags of"
        " megatron or as a job of torchtitan",
    )
    plan_training.configure(parser)
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
    if plan_training.trains(arguments.file):
        _check_options(
            arguments, (*_OF_RATES, *_OF_FRONTIER[1:], "frontier"), "is of a scenario that serves", FLAGS_OF_TRAINING
        )
        return plan_training.execute(arguments)
    _check_options(arguments, plan_training.OPTIONS, "is of a scenario that trains", FLAGS_OF_SERVING)
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


FLAGS_OF_SERVING = ("vllm", "sglang", "tensorrt-llm")
FLAGS_OF_TRAINING = plan_training.FLAGS


def _check_options(arguments: Namespace, names: tuple[str, ...], how: str, flags: tuple[str, ...]) -> None:
    """InputError for options of the other kind of scenario, and for flags of programs that do not run this one."""
    from simulator.errors import InputError, Problem

    for name in (name for name in names if getattr(arguments, name) not in (None, False, [])):
        raise InputError(Problem(f"--{name.replace('_', '-')} {how}", file=arguments.file, hint="leave it out"))
    if arguments.write_flags and arguments.write_flags not in flags:
        hint = f"write one of {', '.join(flags)}"
        raise InputError(Problem(f"--write-flags {arguments.write_flags} is for another kind of scenario", hint=hint))


def _only(arguments: Namespace) -> str | None:
    """The kind of systems that a frontier is of; None for both."""
    from simulator.errors import InputError, Problem

    kinds = ("aggregated", "disaggregated")
    if any(word not in kinds for word in arguments.only) or len(arguments.only) > 1:
        raise InputError(Problem("--only takes one kind of systems", hint=f"write {' or '.join(kinds)}"))
    return arguments.only[0] if arguments.only else None


def _frontier(arguments: Namespace) -> int:
    """Search the frontier, write, show."""
    from simulator.cli import outputs
    from simulator.cli.progress import progress
    from simulator.study.frontier.document import document
    from simulator.study.frontier.search import search
    from simulator.study.frontier.start import start

    only = _only(arguments)
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
