"""Simulate a scenario or workflow with every combination of the listed values: best points, trade-offs, heat maps.

KEY=V,V lists values of a key, KEY=VALUE changes all points. Outcomes are kept in a cache and never simulated twice: a
sweep that was interrupted goes on where it stopped when it is run again. Points that do not fit into memory or are
refused are rows with the reason. Exit code 4 where no point is left.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.options import offer_quiet, offer_reports, whole
from simulator.errors import InfeasibleError, InputError, Problem, SimulatorError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from simulator.results.documents.sweep import SweepDocument
    from simulator.study.sweep.table import SweepTable, View

SUMMARY = "every combination of listed values: best points, trade-offs, heat maps"
EXAMPLES = (
    "scenarios/quickstart.yaml training.parallel.tp=1,2,4 training.micro_batch=1,2 --no-cache",
    "scenarios/quickstart.yaml training.parallel.tp=1,2,4 training.micro_batch=1,2 --where 'peak_memory_bytes < 70 GB'"
    " --pareto mfu,peak_memory_bytes --csv table.csv",
    "scenarios/training/frontier-175b.yaml training.parallel.tp=1,2,4,8 training.parallel.pp=2,4,8,16"
    " training.micro_batch=1,2,4 --random 20 --heat tp,pp,mfu --html sweep.html",
)
CACHE = ".clustersim/sweeps.sqlite"
"""Where outcomes are kept unless another file is named, below the working folder."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `sweep`."""
    parser.add_argument("file", metavar="FILE", help="scenario or workflow (YAML)")
    parser.add_argument("items", metavar="KEY=V,V", nargs="*", help="values of a key; with one value, a change of all")
    parser.add_argument(
        "--vary", metavar="KEY=V,V", action="append", default=[], help="values of a key, as `compare` takes them"
    )
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        action="append",
        default=[],
        help="take only points with `key < value` (< <= > >= == !=), key of the scenario or metric; several times",
    )
    parser.add_argument("--random", metavar="N", type=whole(), help="only N points, drawn with the scenario's seed")
    parser.add_argument("--by", metavar="METRIC", help="metric that ranks the points")
    parser.add_argument("--top", metavar="N", type=whole(), default=10, help="points on the page (default 10)")
    parser.add_argument("--pareto", metavar="METRIC,METRIC", type=_two, help="the points that none beats in both")
    parser.add_argument("--heat", metavar="X,Y,METRIC", type=_three, help="a metric over two of the keys")
    parser.add_argument("--jobs", metavar="N", type=whole(), help="processes (default: one a core)")
    parser.add_argument("--executor", choices=("processes", "dask"), default="processes", help="what simulates")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster: tcp://host:8786")
    parser.add_argument("--cache", metavar="FILE", help=f"where outcomes are kept (default {CACHE})")
    parser.add_argument("--no-cache", action="store_true", help="keep nothing and look nothing up")
    parser.add_argument("--csv", metavar="FILE", help="write the table; `-` prints it and nothing else")
    parser.add_argument("--json", metavar="FILE", help="write the table; `-` prints it and nothing else")
    parser.add_argument("--parquet", metavar="FILE", help="write the table (needs the extra `parquet`)")
    offer_reports(parser, "heat map and front as PNG and SVG into a folder")
    offer_quiet(parser)


def _names(text: str, number: int, example: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != number or not all(names) or len(set(names)) < number:
        raise ArgumentTypeError(f"{text!r} does not name {number} different things: write, for example, {example}")
    return names


def _two(text: str) -> tuple[str, ...]:
    return _names(text, 2, "mfu,peak_memory_bytes")


def _three(text: str) -> tuple[str, ...]:
    return _names(text, 3, "tp,pp,mfu")


def execute(arguments: Namespace) -> int:
    """Check everything, simulate, write, show."""
    from simulator.cli import outputs
    from simulator.cli.progress import counting
    from simulator.study.sweep.table import View
    from simulator.study.variants import parse_axes, told_apart

    overrides, axes = told_apart(arguments.items)
    axes += arguments.vary
    view = View(arguments.by, arguments.pareto, arguments.heat)
    view.check([axis.key.removeprefix("+") for axis in parse_axes(axes, 10**15)])
    _check_outputs(arguments)
    cache = outputs.cache_file(arguments.cache, arguments.no_cache, CACHE)
    from simulator.study.sweep.sweep import sweep

    begin, count = perf_counter(), _Count()
    try:
        with counting(f"sweeping {Path(arguments.file).stem}", arguments.quiet) as count.shown:
            table = sweep(
                arguments.file,
                axes,
                arguments.where,
                arguments.random,
                _executor(arguments),
                cache,
                count.tell,
                overrides=overrides,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(count.words(kept=cache is not None)) from None
    for note in table.notes:
        console.complain(f"clustersim: {note}")
    shown = _document(table, view)
    _write(table, arguments)
    if arguments.csv == "-":
        console.write(table.csv())
    from simulator.report.sweep.page import Effort

    how = Effort(table.simulated, table.reused, perf_counter() - begin)
    outputs.show("sweep", shown, arguments, how, printed=arguments.csv == "-", top=arguments.top)
    if any(row.status == "failed" for row in table.rows):
        return SimulatorError.exit_code
    return 0 if any(row.status == "ok" for row in table.rows) else InfeasibleError.exit_code


class _Count:
    """How many simulations are done, for a message after an interrupt."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self.shown: Callable[[int, int], None] | None = None

    def tell(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self.shown is not None:
            self.shown(done, total)

    def words(self, kept: bool) -> str:
        """`: 12 of 40 simulations are done and kept; run the same again to resume`."""
        then = "kept; run the same command again to resume" if kept else "lost; without --no-cache they would be kept"
        return f": {self.done:,} of {self.total:,} simulations are done and {then}" if self.total else ""


def _document(table: "SweepTable", view: "View") -> "SweepDocument":
    """The table as a document; a view of points that are not there shows nothing."""
    from simulator.study.sweep.table import View

    return table.described(view if any(row.status == "ok" for row in table.rows) else View())


def _check_outputs(arguments: Namespace) -> None:
    from simulator.cli import outputs
    from simulator.study.sweep.table import check_parquet

    if arguments.csv == "-" and arguments.json == "-":
        raise InputError(Problem("--csv and --json cannot both print", hint="name a file for one of them"))
    if arguments.plots and not (arguments.heat or arguments.pareto):
        raise InputError(Problem("--plots has nothing to draw", hint="add `--heat X,Y,METRIC` or `--pareto A,B`"))
    files = {"--json": arguments.json, "--html": arguments.html, "--parquet": arguments.parquet}
    files |= {"--csv": arguments.csv} if arguments.csv != "-" else {}
    outputs.check(files, inputs=(arguments.file,), folders={"--plots": arguments.plots})
    if arguments.parquet:
        check_parquet()


def _executor(arguments: Namespace) -> "AbstractContextManager[Executor] | None":
    from simulator.study import executors

    if arguments.executor == "dask":
        if not arguments.scheduler:
            raise InputError(Problem("--executor dask needs a cluster", hint="add `--scheduler tcp://host:8786`"))
        if arguments.jobs:
            raise InputError(Problem("--jobs has no meaning with --executor dask", hint="the cluster has its workers"))
        return executors.dask(arguments.scheduler, lambda text: console.complain(f"clustersim: {text}"))
    if arguments.scheduler:
        raise InputError(Problem("--scheduler has no meaning without --executor dask", hint="add `--executor dask`"))
    jobs = min(arguments.jobs or executors.cores(), 4 * executors.cores())
    return executors.processes(jobs) if jobs > 1 else None


def _write(table: "SweepTable", arguments: Namespace) -> None:
    """The tables that were asked for; each appears whole or not at all."""
    if arguments.csv and arguments.csv != "-":
        table.to_csv(arguments.csv)
    if arguments.parquet:
        table.to_parquet(arguments.parquet)
