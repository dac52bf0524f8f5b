"""Draw a pipeline schedule and say what it costs, without a model or a machine.

Times are those of a microbatch on a device, in any unit; the chunks of a device share them. A file is in the form that
PyTorch's pipelining reads and writes: a line a device. Without a name the schedules that there are.
"""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from fractions import Fraction
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.options import offer_quiet, whole

if TYPE_CHECKING:
    from simulator.study.schedule import AskedSchedule

SUMMARY = "draw a pipeline schedule: its bubble and its memory"
EXAMPLES = (
    "",
    "1f1b --stages 8 --microbatches 16",
    "interleaved-1f1b --stages 4 --microbatches 8 --chunks 2 --weight-gradient 0.5 --send 0.03 --svg order.svg",
    "vocab-2 --stages 4 --microbatches 8 --scores 0.4 --scores-gradient 0.2",
    "workloads/schedules/zb-h1-4x8.csv --input-gradient 0.9765 --weight-gradient 0.5041",
)
_OUTPUTS = ("svg", "png", "csv", "json")
_SIZES = (
    "stages",
    "microbatches",
    "chunks",
    "pair",
    "memory_limit",
    "slices",
    "attention",
    "cut",
    "paths",
    "layers",
    "speeds",
    "kept_for_weights",
)
_MOST = 4097  # entries of a list that are read, one more than there are devices
_TIMES = {  # what costs are unless given
    "forward": Fraction(1),
    "input_gradient": Fraction(1),
    "weight_gradient": Fraction(1),
    "send": Fraction(0),
    "scores": Fraction(1, 2),
    "scores_gradient": Fraction(1, 2),
}


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `schedule`."""
    parser.add_argument("schedule", metavar="SCHEDULE", nargs="?", help="a name, or a file that ends in .csv")
    parser.add_argument("--stages", metavar="N", type=whole(high=4096), help="devices of the pipeline")
    parser.add_argument("--microbatches", metavar="N", type=whole(high=100_000), help="microbatches of a step")
    parser.add_argument(
        "--chunks", metavar="N", type=whole(high=64), help="of each device (default: 1, or 2 if needed)"
    )
    _offer_time(parser, "forward", "time of a forward pass")
    _offer_time(parser, "input_gradient", "time of the input's half of a backward pass")
    _offer_time(parser, "weight_gradient", "time of the weights' half of it")
    _offer_time(parser, "send", "time of a send between neighbours")
    _offer_time(parser, "scores", "time of scores of a device's part of the vocabulary")
    _offer_time(parser, "scores_gradient", "time of their gradients")
    parser.add_argument("--pair", metavar="TIME", type=_time, help="time of F and B side by side (default: their sum)")
    parser.add_argument("--memory-limit", metavar="N", type=_limit, help="microbatches that a device may keep at most")
    parser.add_argument(
        "--no-barrier",
        action="store_true",
        help="devices do not wait at the end of a step: `auto` weighs their own spans",
    )
    parser.add_argument("--slices", metavar="N", type=whole(high=64), help="of each microbatch along its sequence")
    parser.add_argument(
        "--attention",
        metavar="SHARE",
        type=_share,
        help="of F and I that goes with pairs of tokens, of slices (default: 0)",
    )
    parser.add_argument(
        "--cut", choices=("even", "balanced"), help="slices of equal tokens, or of equal forward passes (default: even)"
    )
    parser.add_argument(
        "--paths", metavar="LIST", type=_paths, help="stages that microbatches go through in turn, as 0-1-3,0-2-3"
    )
    parser.add_argument(
        "--kept-for-weights",
        metavar="SHARE",
        type=_time,
        help="of a microbatch's activations, kept from I to W (default: 1)",
    )
    parser.add_argument("--layers", metavar="LIST", type=_list, help="of each stage, as 9,8,8,7: times are of the mean")
    parser.add_argument("--speeds", metavar="LIST", type=_list, help="of each device, as 1,1,0.5,1: times are of 1")
    parser.add_argument("--svg", metavar="FILE", help="write the chart as SVG")
    parser.add_argument("--png", metavar="FILE", help="write the chart as PNG")
    parser.add_argument("--csv", metavar="FILE", help="write the order in PyTorch's form")
    parser.add_argument("--json", metavar="FILE", help="write figures and passes; `-` prints them and nothing else")
    offer_quiet(parser)


def _offer_time(parser: ArgumentParser, name: str, words: str) -> None:
    option, default = f"--{name.replace('_', '-')}", _TIMES[name]
    parser.add_argument(
        option, metavar="TIME", type=_time, default=default, help=f"{words} (default: {float(default):g})"
    )


def _time(text: str) -> Fraction:
    """An exact time from its decimal digits."""
    from simulator.study.schedule import exact_time

    try:
        return exact_time(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text[:40]!r} {error}") from None


def _share(text: str) -> Fraction:
    value = _time(text)
    if value > 1:
        raise ArgumentTypeError(f"{text[:40]!r} is no share from 0 to 1")
    return value


def _paths(text: str) -> tuple[tuple[int, ...], ...]:
    if not re.fullmatch(r"\d{1,4}(-\d{1,4})*(,\d{1,4}(-\d{1,4})*)*", text):
        raise ArgumentTypeError(f"{text[:40]!r} is no list of paths; write stages as 0-1-3,0-2-3")
    return tuple(tuple(map(int, path.split("-"))) for path in text.split(","))


def _list(text: str) -> tuple[Fraction, ...]:
    found = tuple(_time(one) for one in text.split(",")[:_MOST])
    if not all(found):
        raise ArgumentTypeError(f"{text[:40]!r} has a 0, or a place without a number")
    return found


def _limit(text: str) -> float:
    value = float(_time(text))
    if not value:
        raise ArgumentTypeError("a device that computes keeps something: more than 0")
    return value


def execute(arguments: Namespace) -> int:
    """List, or make, run and show."""
    if arguments.schedule is None:
        return _listed(arguments)
    from simulator.cli import outputs
    from simulator.report.svg.figures import check_library
    from simulator.study.schedule import make, run

    asked = _asked(arguments)
    named = {f"--{name}": getattr(arguments, name) for name in _OUTPUTS}
    outputs.check(named, inputs=(asked.source,) if asked.is_file else ())
    if arguments.png:
        check_library()
    schedule = make(asked)
    document = run(asked, schedule)
    if arguments.csv:
        from simulator.program.csv_form import write_csv

        write_csv(schedule.actions(), arguments.csv)
    if arguments.svg or arguments.png:
        from simulator.report.schedule.picture import save_png, save_svg

        if arguments.svg:
            save_svg(document, arguments.svg)
        if arguments.png:
            save_png(document, arguments.png)
    if not outputs.as_json(document, arguments.json) and not arguments.quiet:
        from simulator.report.schedule.page import page

        console.write(page(document, width=console.width(), colour=console.coloured()))
    return 0


def _asked(arguments: Namespace) -> "AskedSchedule":
    from simulator.study.schedule import AskedCosts, AskedSchedule

    costs = AskedCosts(
        **{name: getattr(arguments, name) for name in _TIMES},
        pair=arguments.pair,
        attention=arguments.attention or Fraction(0),
        balanced=arguments.cut == "balanced",
        layers=arguments.layers or (),
        speeds=arguments.speeds or (),
        kept_for_weights=Fraction(1) if arguments.kept_for_weights is None else arguments.kept_for_weights,
    )
    return AskedSchedule(
        arguments.schedule,
        arguments.stages,
        arguments.microbatches,
        arguments.chunks,
        costs,
        arguments.memory_limit,
        arguments.slices,
        arguments.paths or (),
        not arguments.no_barrier,
    )


def _listed(arguments: Namespace) -> int:
    """Every registered schedule with a line; InputError where sizes, costs or outputs are given without a name."""
    from simulator.errors import InputError, Problem
    from simulator.report.schedule.page import listing
    from simulator.training.schedules import SCHEDULES

    given = [name for name in (*_SIZES, *_OUTPUTS) if getattr(arguments, name) is not None]
    given += [name for name, time in _TIMES.items() if getattr(arguments, name) != time]
    if given:
        hint = "`clustersim schedule` lists the names"
        raise InputError(Problem(f"`--{given[0].replace('_', '-')}` needs the name of a schedule", hint=hint))
    lines = (
        (name, " ".join((SCHEDULES.get(name).__doc__ or "").split("\n\n")[0].split())) for name in SCHEDULES.names()
    )
    console.write(listing(lines, width=console.width(), colour=console.coloured()))
    return 0
