"""What is known by name: lists of accelerators, nodes, clusters, stacks and models, and one of them in full."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.errors import InputError, Problem, nearest
from simulator.report.explain import explain
from simulator.report.page import draw
from simulator.report.plain import clean
from simulator.report.sections import heading
from simulator.report.wording import count, plural
from simulator.specs import load_file, load_spec, names
from simulator.specs.base import Spec
from simulator.specs.hardware import Accelerator, Cluster, Node
from simulator.specs.model import Model
from simulator.specs.training import Stack


class Room(NamedTuple):
    """One kind of profile as it is listed."""

    kind: type[Spec]
    """Its spec."""
    columns: tuple[str, ...]
    """Headings after the name."""
    cells: Callable[[Any], tuple[str, ...]]
    """Headline figures of one spec."""


def profiles(name: str | None, *, width: int, colour: bool) -> str:
    """The page of all profiles, of one kind (`clusters`), or of one profile in full with its sources.

    Raises InputError for a name that is neither, nor a file.
    """
    if name is None or name in ROOMS:
        return draw(_lists(list(ROOMS) if name is None else [name]), width=width, colour=colour)
    return "\n".join(_in_full(name, colour))


def _lists(rooms: list[str]) -> Iterator[RenderableType]:
    for name in rooms:
        room = ROOMS[name]
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        for column in ("", *room.columns):
            table.add_column(
                column,
                justify="left",
                overflow="fold" if column in ("system", "model") else "ellipsis",
                no_wrap=column == "",
            )
        for reference in names(room.kind):
            table.add_row(Text(clean(reference), "cyan"), *_cells(room, f"{name}/{reference}"))
        yield heading(name)
        yield table


def _cells(room: Room, reference: str) -> tuple[str, ...]:
    try:
        return tuple(map(clean, room.cells(load_spec(room.kind, reference))))
    except InputError as error:
        return (f"cannot be read: {clean(str(error.problems[0]))}",)


def _in_full(name: str, colour: bool) -> Iterator[str]:
    """Every profile of that name; a name may stand for a node and for a cluster."""
    found = [kind for kind, room in ROOMS.items() if name in names(room.kind) or _qualified(name, kind, room)]
    if not found and not Path(name).is_file():
        raise _unknown(name)
    for kind in found or _kinds_of_file(name):
        loaded = load_file(ROOMS[kind].kind, name if "/" in name or not found else f"{kind}/{name}")
        yield f"# {kind}/{clean(name.removeprefix(kind + '/'))}"
        yield explain(loaded.spec, loaded.origins, colour=colour)


def _qualified(name: str, kind: str, room: Room) -> bool:
    """Whether `name` is `kind/NAME` of this room."""
    return name.removeprefix(kind + "/") in names(room.kind) if name.startswith(kind + "/") else False


def _unknown(name: str) -> InputError:
    known = [*ROOMS, *(profile for room in ROOMS.values() for profile in names(room.kind))]
    return InputError(Problem(f"there is no profile `{name}`", hint=nearest(name.rpartition("/")[2], known)))


def _kinds_of_file(name: str) -> list[str]:
    """The kind of which a file is: that of its folder, else the only one whose keys fit."""
    folder = Path(name).absolute().parent.name
    if folder in ROOMS:
        return [folder]
    errors: dict[str, InputError] = {}
    for kind, room in ROOMS.items():
        try:
            load_file(room.kind, name)
            return [kind]
        except InputError as error:
            errors[kind] = error
    raise min(errors.values(), key=lambda error: len(error.problems))


def _accelerator(spec: Accelerator) -> tuple[str, ...]:
    kind = next((name for name in ("bf16", "fp16", "int8", "fp32") if name in spec.peak), next(iter(spec.peak), None))
    peak = f"{units.format(spec.peak[kind].value, 'flop_rate')} {kind}" if kind else "-"
    power = units.format(spec.power.peak.value, "power") if spec.power else "-"
    memory = units.format(spec.memory.capacity.value, "bytes")
    return spec.name, str(spec.year), peak, memory, units.format(spec.memory.bandwidth.value, "bandwidth"), power


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
    return spec.name, ", ".join(defaults)


def _model(spec: Model) -> tuple[str, ...]:
    attention = f"{spec.heads}" if spec.heads == spec.kv_heads else f"{spec.heads}/{spec.kv_heads}"
    return (
        spec.name,
        plural(spec.layers, "layer"),
        f"{spec.hidden:,}",
        attention,
        f"{spec.ffn:,}",
        f"{spec.vocabulary:,}",
    )


ROOMS: dict[str, Room] = {
    "accelerators": Room(Accelerator, ("system", "year", "peak", "memory", "bandwidth", "power"), _accelerator),
    "nodes": Room(Node, ("system", "scale-up", "network cards"), _node),
    "clusters": Room(Cluster, ("system", "devices", "network"), _cluster),
    "stacks": Room(Stack, ("system", "defaults"), _stack),
    "models": Room(Model, ("model", "depth", "width", "heads/kv", "ffn", "vocabulary"), _model),
}
"""Kinds of profile by the word that stands for them in references."""
