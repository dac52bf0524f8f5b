"""What is known by name: lists of accelerators, nodes, clusters, stacks and models, and one of them in full."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.errors import InputError, Problem, nearest
from simulator.report.catalogue.explain import explain
from simulator.report.text.blocks import headed, heading
from simulator.report.text.plain import clean
from simulator.report.text.terminal import draw
from simulator.report.text.wording import count, plural
from simulator.run import ground
from simulator.specs import load_file, load_spec, names
from simulator.specs.base import Spec
from simulator.specs.grid import Grid
from simulator.specs.hardware import Accelerator, Cluster, Node
from simulator.specs.long_runs.failures import FailureRates
from simulator.specs.model import Model
from simulator.specs.serving import ServingStack
from simulator.specs.training import Stack


class Room(NamedTuple):
    """One kind of profile as it is listed."""

    kind: type[Spec]
    """Its spec."""
    columns: tuple[str, ...]
    """Headings after the name."""
    cells: Callable[[Any], tuple[str, ...]]
    """Headline figures of one spec."""
    holds: Callable[[str], bool] = lambda name: True
    """Whether a file of the folder is of this kind, where files of two kinds share a folder."""

    @property
    def word(self) -> str:
        """What stands before the name in a reference: `clusters`."""
        return Path(self.kind.folder or "").name

    def names(self) -> list[str]:
        """Names of its profiles."""
        return [name for name in names(self.kind) if self.holds(name)]

    def has(self, name: str) -> bool:
        """Whether a profile of that name is one of its; no other file is read."""
        return name in names(self.kind) and self.holds(name)


def profiles(name: str | None, *, width: int, colour: bool) -> str:
    """The page of all profiles, of one kind (`clusters`), or of one profile in full with its sources.

    Raises InputError for a name that is neither, nor a file.
    """
    listed = [title for title, room in ROOMS.items() if name in (None, title, room.word)]
    if name is None or listed:
        return draw(_lists(listed), width=width, colour=colour)
    return "\n".join(_in_full(name, colour))


def _lists(rooms: list[str]) -> Iterator[RenderableType]:
    for name in rooms:
        room = ROOMS[name]
        table = headed()
        for column in ("", *room.columns):
            table.add_column(
                column,
                justify="left",
                overflow="fold" if column in ("system", "model") else "ellipsis",
                no_wrap=column == "",
            )
        for reference in room.names():
            table.add_row(Text(clean(reference), "cyan"), *_cells(room, f"{room.word}/{reference}"))
        yield heading(name)
        yield table


def _cells(room: Room, reference: str) -> tuple[str, ...]:
    try:
        return tuple(map(clean, room.cells(load_spec(room.kind, reference))))
    except InputError as error:
        return (f"cannot be read: {clean(str(error.problems[0]))}",)


def _in_full(name: str, colour: bool) -> Iterator[str]:
    """Every profile of that name; a name may stand for a node and for a cluster."""
    found = [room for room in ROOMS.values() if room.has(name.removeprefix(f"{room.word}/"))]
    if not found and not Path(name).is_file():
        raise _unknown(name)
    for room in found or _rooms_of_file(name):
        loaded = load_file(room.kind, name if "/" in name or not found else f"{room.word}/{name}")
        yield f"# {room.word}/{clean(name.removeprefix(room.word + '/'))}"
        if words := _stands(loaded.spec):
            yield f"# Ground: {clean(words)}"
        yield explain(loaded.spec, loaded.origins, colour=colour)


def _stands(spec: Spec) -> str:
    """What simulations with a device or a stack stand on; empty for other kinds of profile."""
    if isinstance(spec, (Stack, ServingStack)):
        return ground.of_stack(spec)
    holder = spec.node if isinstance(spec, Cluster) else spec
    device = holder.accelerator if isinstance(holder, Node) else holder
    return ground.of_accelerator(device) if isinstance(device, Accelerator) else ""


def _unknown(name: str) -> InputError:
    words = {room.word: None for room in ROOMS.values()}
    known = [*words, *(profile for room in ROOMS.values() for profile in names(room.kind))]
    return InputError(Problem(f"there is no profile `{name}`", hint=nearest(name.rpartition("/")[2], known)))


def _rooms_of_file(name: str) -> list[Room]:
    """The kind of which a file is: that of its folder, else the only one whose keys fit."""
    folder = Path(name).absolute().parent.name
    rooms = [room for room in ROOMS.values() if room.word == folder] or list(ROOMS.values())
    errors: list[InputError] = []
    for room in rooms:
        try:
            load_file(room.kind, name)
            return [room]
        except InputError as error:
            errors.append(error)
    raise min(errors, key=lambda error: len(error.problems))


def _serves(name: str) -> bool:
    """Whether a stack is for serving; one that cannot be read is, where it says so or cannot say anything."""
    try:
        load_spec(ServingStack, f"stacks/{name}")
    except InputError as error:
        return all(problem.path != "kind" for problem in error.problems)
    return True


def _word(stands: str) -> str:
    """The status alone, for lists."""
    return stands.partition(",")[0]


def _accelerator(spec: Accelerator) -> tuple[str, ...]:
    kind = next((name for name in ("bf16", "fp16", "int8", "fp32") if name in spec.peak), next(iter(spec.peak), None))
    peak = f"{units.format(spec.peak[kind].value, 'flop_rate')} {kind}" if kind else "-"
    power = units.format(spec.power.peak.value, "power") if spec.power else "-"
    memory = units.format(spec.memory.capacity.value, "bytes")
    bandwidth = units.format(spec.memory.bandwidth.value, "bandwidth")
    return spec.name, str(spec.year), peak, memory, bandwidth, power, _word(ground.of_accelerator(spec))


def _node(spec: Node) -> tuple[str, ...]:
    inside: str = spec.scale_up.kind
    if spec.scale_up.bandwidth is not None:
        inside += f", {units.format(spec.scale_up.bandwidth.value, 'bandwidth')}"
    outside = f"{spec.nics.count} x {units.format(spec.nics.bandwidth.value, 'bandwidth')}" if spec.nics else "none"
    return f"{spec.devices} x {spec.accelerator.name}", inside, outside


def _cluster(spec: Cluster) -> tuple[str, ...]:
    network = spec.network
    detail = {"tree": " > ".join(level.name for level in network.levels), "torus": " x ".join(map(str, network.shape))}
    kind = f"rail-optimised {network.kind}" if network.rail_optimised else network.kind
    named = detail.get(network.kind, "")
    return f"{spec.nodes:,} x {spec.node.name}", count(spec.devices), f"{kind}, {named}" if named else kind


def _stack(spec: Stack) -> tuple[str, ...]:
    defaults = [spec.precision, f"{spec.attention} attention", f"zero {spec.zero}", f"recompute {spec.recompute}"]
    return spec.name, ", ".join(defaults), _word(ground.of_stack(spec))


def _serving_stack(spec: ServingStack) -> tuple[str, ...]:
    cached = {"none": "no prefix caching"}.get(spec.prefix_caching, f"{spec.prefix_caching} prefixes")
    limits = f"{spec.token_budget:,} tokens, {spec.max_sequences:,} sequences"
    return (
        spec.name,
        ", ".join([spec.policy, limits, f"blocks of {spec.block_size}", cached]),
        _word(ground.of_stack(spec)),
    )


def _model(spec: Model) -> tuple[str, ...]:
    attention = f"{spec.heads}" if spec.heads == spec.kv_heads else f"{spec.heads}/{spec.kv_heads}"
    return (
        spec.name,
        plural(spec.layers, "layer"),
        f"{spec.hidden:,}",
        attention,
        f"{spec.top_k}/{spec.experts} x {spec.expert_ffn or spec.ffn:,}" if spec.experts else f"{spec.ffn:,}",
        f"{spec.vocabulary:,}",
    )


def _grid(spec: Grid) -> tuple[str, ...]:
    return spec.name, f"{units.format(spec.carbon.value, 'carbon_rate')} ({spec.carbon.status})"


def _failures(rates: FailureRates) -> tuple[str, ...]:
    """The rate is of nodes, so that machines compare; a run's own failures are those of the machine it was seen on."""
    seen, total = rates.observed, 0.0
    for cause in rates.causes:
        if cause.left is not None or cause.planned:
            continue
        if cause.count is not None and seen is not None:
            total += 1000 * cause.count / seen.nodes / seen.days
        elif cause.mtbf is not None and cause.of == "node":
            total += 1000 * 86_400 / cause.mtbf
        else:
            return rates.name, str(len(rates.causes)), "", rates.source
    return rates.name, str(len(rates.causes)), f"{total:.3g}", rates.source


ROOMS: dict[str, Room] = {
    "accelerators": Room(
        Accelerator, ("system", "year", "peak", "memory", "bandwidth", "power", "ground"), _accelerator
    ),
    "nodes": Room(Node, ("system", "scale-up", "network cards"), _node),
    "clusters": Room(Cluster, ("system", "devices", "network"), _cluster),
    "training stacks": Room(Stack, ("system", "defaults", "ground"), _stack, lambda name: not _serves(name)),
    "serving stacks": Room(ServingStack, ("system", "defaults", "ground"), _serving_stack, _serves),
    "grids": Room(Grid, ("grid", "carbon"), _grid),
    "failures": Room(FailureRates, ("seen on", "causes", "stops of 1,000 nodes a day", "source"), _failures),
    "models": Room(Model, ("model", "depth", "width", "heads/kv", "ffn", "vocabulary"), _model),
}
"""Kinds of profile by the title of their list; the last word stands for them in references."""
