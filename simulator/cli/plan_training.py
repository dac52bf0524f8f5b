"""`clustersim plan` for scenarios that train: the fastest layout, and the cheapest cluster that is done in time."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from simulator.cli.options import whole
from simulator.errors import InfeasibleError, InputError, Problem

if TYPE_CHECKING:
    from simulator.study.layouts.document import Asked
    from simulator.study.layouts.goal import By, Goal

OPTIONS = (
    "free",
    "clusters",
    "nodes",
    "tokens",
    "days",
    "budget",
    "by",
    "top",
    "grid",
    "cache",
    "no_cache",
    "write",
    "sample",
    "order",
)
"""Options that only plans of trainings have."""
FLAGS = ("megatron", "torchtitan")
"""What `--write-flags` writes of a training."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of plans of trainings."""
    group = parser.add_argument_group("scenarios that train")
    group.add_argument(
        "--free", metavar="NAME,NAME", help="choices that the scenario states and that are searched: `tp,pp`, or `all`"
    )
    group.add_argument("--clusters", metavar="NAME,NAME", help="clusters to choose from")
    group.add_argument(
        "--nodes", metavar="N:N", type=_nodes, help="numbers of nodes: 8,16 or 8:64 (doubling) or 8:64:8"
    )
    group.add_argument("--tokens", metavar="N", type=_tokens, help="tokens of the whole training, for example 1T")
    group.add_argument("--days", metavar="N", type=_days, help="days that it may take at most")
    group.add_argument("--budget", metavar="MONEY", type=_money, help="what it may cost at most, for example `5 MUSD`")
    group.add_argument("--by", choices=("time", "cost"), help="what to have least of (cost with --days, else time)")
    group.add_argument("--top", metavar="N", type=whole(1, 100), help="layouts to show (default 5)")
    group.add_argument(
        "--sample",
        metavar="N",
        type=whole(1, 100_000),
        help="of spaces too large to look at whole: draw so many layouts (needs `clustersim[optuna]`)",
    )
    group.add_argument("--grid", metavar="NAME", help="power grid, for carbon: `clustersim profiles grids`, or a file")
    group.add_argument("--cache", metavar="FILE", help="where priced layouts are kept (default as of `sweep`)")
    group.add_argument("--no-cache", action="store_true", help="keep nothing and look nothing up")
    group.add_argument("--write", metavar="FILE", help="write the best layout, or order of nodes, as a scenario")
    group.add_argument(
        "--order",
        action="store_true",
        help="search the order of nodes in place of the layout: which ranks should lie on which of unequal nodes",
    )


def _nodes(text: str) -> tuple[int, ...]:
    from simulator.study.layouts.machines import numbers

    try:
        return numbers(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


_SIZES = {"k": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


def _tokens(text: str) -> float:
    word = text.strip().removesuffix("tokens").strip()
    size = _SIZES.get(word[-1:], 1.0)
    return _number(word[:-1] if size != 1.0 else word, "tokens", "1T", 1.0, 1e18 / size) * size


def _days(text: str) -> float:
    return _number(text.strip().removesuffix("d").strip(), "days", "30", 1e-6, 1e6)


def _number(text: str, what: str, example: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not low <= value <= high:
        raise ArgumentTypeError(f"{text[:40]!r} is no number of {what}: write, for example, {example}")
    return value


def _money(text: str) -> float:
    from simulator import units

    try:
        value = units.parse(text, "money")
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
    if value <= 0:
        raise ArgumentTypeError("a budget is more than nothing: write, for example, `5 MUSD`")
    return value


def trains(file: str) -> bool:
    """Whether a scenario file trains, before its keys are looked at."""
    from simulator.run.kinds import TRAINING, kind_of_fields
    from simulator.specs.resolve import read_template

    sections = read_template(file).root.children()
    return kind_of_fields(dict.fromkeys(sections)) is TRAINING and "training" in sections


def execute(arguments: Namespace) -> int:
    """Read, search, write, show."""
    from simulator.cli import outputs
    from simulator.cli.progress import counting
    from simulator.cli.sweep import CACHE
    from simulator.study.layouts.document import document

    if arguments.order:
        return _order(arguments)
    asked = _asked(arguments)
    files = {"--json": arguments.json, "--html": arguments.html, "--write": arguments.write}
    outputs.check(files, inputs=(arguments.file,))
    begin, cache = perf_counter(), outputs.cache_file(arguments.cache, arguments.no_cache, CACHE)
    from simulator.study.layouts.answer import Answer, answer
    from simulator.study.layouts.search import TOP, Planner, planned

    jobs = min(arguments.jobs, os.cpu_count() or 1)
    top = arguments.top or TOP
    with counting(f"planning {asked.spaces[0][0].scenario.name}", arguments.quiet) as tell:

        def work(planner: Planner) -> Answer:
            return answer(planner, asked.goal, top, arguments.sample, asked.spaces[0][0].scenario.seed)

        found = planned(asked.spaces, work, jobs, cache, tell)
    shown = document(asked, found)
    outputs.show("layouts", shown, arguments, elapsed_s=perf_counter() - begin)
    if shown.layouts:
        _write(arguments, (*arguments.overrides, *shown.layouts[0].overrides))
    return 0 if shown.feasible else InfeasibleError.exit_code


def _order(arguments: Namespace) -> int:
    """Search an order of nodes for the scenario's layout."""
    from simulator.cli import outputs
    from simulator.cli.progress import progress
    from simulator.study.order import best_order

    others = [name for name in (*OPTIONS, "only", "html", "plots", "write_flags") if name not in ("order", "write")]
    for name in (name for name in others if getattr(arguments, name)):
        hint = "leave out one of the two: a plan searches layouts, or orders of one layout"
        raise InputError(Problem(f"--{name.replace('_', '-')} is not of --order", hint=hint))
    outputs.check({"--json": arguments.json, "--write": arguments.write}, inputs=(arguments.file,))
    begin = perf_counter()
    with progress("searching an order of nodes", arguments.quiet):
        found = best_order(arguments.file, tuple(arguments.overrides))
    outputs.show("order", found, arguments, elapsed_s=perf_counter() - begin)
    if arguments.write:
        from simulator.results.writing import write
        from simulator.study.layouts.written import scenario_text

        nodes = f"placement={{nodes: [{', '.join(map(str, found.nodes))}]}}"
        write(arguments.write, scenario_text(arguments.file, arguments.write, (*arguments.overrides, nodes)))
    return 0


def _asked(arguments: Namespace) -> "Asked":
    from simulator.specs import load_spec
    from simulator.specs.grid import Grid
    from simulator.study.layouts.document import Asked
    from simulator.study.layouts.machines import machines
    from simulator.study.layouts.space import space

    if arguments.plots:
        raise InputError(Problem("--plots draws plans of scenarios that serve", hint="write `--html FILE`"))
    clusters, free = _words(arguments.clusters), _words(arguments.free)
    found = machines(arguments.file, arguments.overrides, clusters, arguments.nodes or ())
    spaces = [(machine, space(machine.scenario, arguments.only, free)) for machine in found]
    goal = _goal(arguments, found[0].scenario)
    grid = None if arguments.grid is None else (arguments.grid, load_spec(Grid, arguments.grid))
    return Asked(goal, spaces, grid)


def _words(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(word.strip() for word in text.split(",") if word.strip())


def _goal(arguments: Namespace, scenario: Any) -> "Goal":
    from simulator.study.layouts.goal import Goal

    tokens = arguments.tokens or scenario.training.tokens
    for name in ("days", "budget"):
        if getattr(arguments, name) is not None and tokens is None:
            hint = "add `--tokens 1T`"
            raise InputError(Problem(f"--{name} is of a whole training, whose length is not given", hint=hint))
    usual: By = "cost" if arguments.days is not None else "time"
    by: By = arguments.by or usual
    return Goal(by, tokens, arguments.days, arguments.budget)


def _write(arguments: Namespace, overrides: tuple[str, ...]) -> None:
    """The winner as a scenario and as flags of a framework, where they were asked for."""
    from simulator.results.writing import write
    from simulator.study.layouts.written import scenario_text

    if arguments.write:
        write(arguments.write, scenario_text(arguments.file, arguments.write, overrides))
    if not arguments.write_flags:
        return
    import sys

    from simulator.cli import console
    from simulator.interop.flags import flags
    from simulator.specs import load_scenario

    text = flags(load_scenario(arguments.file, overrides).scenario, arguments.write_flags)
    if arguments.json == "-":
        sys.stderr.write(text)
    else:
        console.write("\n" + text)
