"""The axes of parallelism by name: how each is called, drawn and handed to a collective library.

An axis is a dimension of the device mesh along which work is cut. Results, tables, colours and the choice of algorithms
take its words from here. A plug-in adds one with `AXES.add("xp")(Axis(...))`; its size is then a key of
`training.parallel`, and `Mesh` has its groups.
"""

from dataclasses import dataclass

from simulator.registry import Registry


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the mesh."""

    name: str
    """Key in scenarios and results, such as `tp`."""
    title: str
    """In a sentence: `tensor parallelism`."""
    adjective: str
    """Before a noun: `tensor-parallel`."""
    rank: int
    """Place in the usual order of the mesh, fastest varying first."""
    colour: str = "cyan"
    """Of its exposed time in terminals."""
    glyph: str = "▒"
    """Of its exposed time where there is no colour."""
    slot: int = 5
    """Of its exposed time in the palette of drawings."""
    algorithm: str = "dp"
    """Field of `training.algorithms` that chooses its collectives' algorithm."""
    missing: str = ""
    """Why a size above 1 cannot be simulated in training; empty where it can."""
    instead: str = ""
    """What to write where it cannot."""
    folded: bool = False
    """Whether only experts are cut along it: it lies on their mesh over the same devices (arXiv:2504.14960)."""

    @property
    def exposed(self) -> str:
        """Name of the part of a step in which nothing but its communication runs."""
        return f"exposed_{self.name}"


AXES: Registry[Axis] = Registry("parallel axis")


def _known(axis: Axis) -> Axis:
    return AXES.add(axis.name)(axis)


TP = _known(Axis("tp", "tensor parallelism", "tensor-parallel", 0, colour="blue", glyph="▓", slot=3, algorithm="tp"))
CP = _known(
    Axis(
        "cp",
        "context parallelism",
        "context-parallel",
        1,
        colour="magenta",
        glyph="▞",
        slot=5,
        algorithm="cp",
    )
)
EP = _known(
    Axis(
        "ep", "expert parallelism", "expert-parallel", 2, colour="green", glyph="▛", slot=2, algorithm="ep", folded=True
    )
)
ETP = _known(
    Axis("etp", "expert tensor parallelism", "expert-tensor-parallel", 2, colour="blue", glyph="▓", slot=3, folded=True)
)
DP = _known(Axis("dp", "data parallelism", "data-parallel", 3, colour="yellow", glyph="▚", slot=4))
PP = _known(Axis("pp", "pipeline parallelism", "pipeline", 4, colour="cyan", glyph="▒", slot=6))


def mesh_axes() -> tuple[Axis, ...]:
    """All axes in the usual order of the mesh, those of plug-ins included; before data parallelism where they tie."""
    return tuple(sorted((AXES.get(name) for name in AXES.names()), key=lambda axis: (axis.rank, axis.name)))
