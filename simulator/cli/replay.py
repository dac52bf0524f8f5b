"""Play executions that others recorded on a cluster: Chakra's traces, or those of PyTorch's profiler.

A FILE is the trace of a rank (`trace.3.et`, or JSON; `.json` and `.json.gz` of the profiler); one trace stands for all
ranks. Operations take what was measured, or what their work takes on the cluster's device; communication is priced on
the cluster. What if: --network 2 (links twice as fast), --ranks 64 (groups of so many), another --cluster.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.options import offer_quiet, whole

if TYPE_CHECKING:
    from simulator.interop.executions.graph import Execution
    from simulator.run.replay import Replayed

SUMMARY = "play Chakra's or PyTorch's traces on a cluster"
EXAMPLES = (
    "trace.0.et trace.1.et --cluster dgx-h100",
    "rank-0.json.gz --cluster dgx-h100 --nodes 4 --ranks 32",
    "rank-0.json --cluster dgx-h100 --network 2 --json -",
    "rank-0.json --cluster dgx-h100 --chakra trace --kineto .",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `replay`."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="traces, one a rank")
    parser.add_argument("--cluster", metavar="CLUSTER", required=True, help="cluster profile: a name or a file")
    parser.add_argument("--nodes", metavar="N", type=whole(), help="nodes of the cluster")
    parser.add_argument("--ranks", metavar="N", type=whole(), help="ranks of a collective (default: as the trace says)")
    parser.add_argument("--network", metavar="FACTOR", type=_factor, default=1.0, help="bandwidth of all links, times")
    parser.add_argument(
        "--measured", action="store_true", help="communication takes what was measured, over the factor of --network"
    )
    parser.add_argument("--chakra", metavar="PREFIX", help="write PREFIX.RANK.et, as ASTRA-sim reads them")
    parser.add_argument("--kineto", metavar="FOLDER", help="write rank-RANK.json into a folder that exists")
    parser.add_argument("--json", metavar="FILE", help="write the figures; `-` prints them and nothing else")
    offer_quiet(parser)


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-6 <= value <= 1e6:
        raise ArgumentTypeError(f"{text[:40]!r} is no factor above 0")
    return value


def execute(arguments: Namespace) -> int:
    """Read, play, report."""
    from simulator.cli import outputs
    from simulator.run.replay import Asked, replay
    from simulator.specs.hardware import Cluster
    from simulator.specs.resolve import load_file

    outputs.check({"--json": arguments.json}, inputs=tuple(arguments.files), folders={"--kineto": arguments.kineto})
    changes = [] if arguments.nodes is None else [f"nodes={arguments.nodes}"]
    cluster = load_file(Cluster, arguments.cluster, changes).spec
    executions = [_read(name, number, len(arguments.files)) for number, name in enumerate(arguments.files)]
    found = replay(executions, cluster, Asked(arguments.ranks, arguments.network, arguments.measured))
    _write(arguments, executions, found)
    figures = {
        "makespan_s": found.makespan_s,
        "measured_s": found.measured_s or None,
        "exposed_communication_s": found.exposed_s,
        "busy_s": dict(found.busy_s),
        "ranks": found.ranks,
        "operations": found.operations,
        "notes": list(found.notes),
    }
    if not outputs.as_json(figures, arguments.json) and not arguments.quiet:
        console.write(_page(found))
    return 0


def _read(name: str, number: int, count: int) -> "Execution":
    """The execution of a file, whose form shows in its first bytes; without ranks in names the n-th is rank n."""
    from dataclasses import replace

    from simulator.interop.executions import formats

    found = formats.read(name)
    return replace(found, rank=number) if count > 1 and not found.rank else found


def _write(arguments: Namespace, executions: list["Execution"], found: "Replayed") -> None:
    from pathlib import Path

    from simulator.interop.executions import chakra, kineto
    from simulator.results.writing import replacing, write

    for execution, times in zip(executions, found.times, strict=True):
        if arguments.chakra:
            with replacing(f"{arguments.chakra}.{execution.rank}.et") as file:
                file.write(chakra.encoded(execution))
        if arguments.kineto:
            path = Path(arguments.kineto) / f"rank-{execution.rank}.json"
            write(path, kineto.written(execution, times, found.ranks))


def _page(found: "Replayed") -> str:
    from simulator import units

    lines = [f" {units.format(found.makespan_s, 'time'):>10}  {found.operations:,} operations, {found.ranks:,} ranks"]
    if found.measured_s:
        off = found.makespan_s / found.measured_s - 1
        lines.append(f" {units.format(found.measured_s, 'time'):>10}  as it was measured ({100 * off:+.1f} %)")
    lines += [f" {units.format(value, 'time'):>10}  {name}" for name, value in found.busy_s.items()]
    lines.append(f" {units.format(found.exposed_s, 'time') if found.exposed_s else '-':>10}  of it communication alone")
    return "\n".join([*lines, *(f" {'':>10}  {note}" for note in found.notes)]) + "\n"
