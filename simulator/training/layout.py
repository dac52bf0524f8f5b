"""The device mesh: which rank holds which coordinate on which axis.

Ranks are numbered node after node. `order` names the axes from the fastest varying to the slowest, Megatron's
`tp-cp-ep-dp-pp` by default, so that tensor-parallel groups are neighbours. A *chain* is one pipeline replica: the
ranks that differ in their pipeline coordinate only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.specs.training import Parallel

AXES = ("tp", "cp", "ep", "dp", "pp")
PATH = "training.parallel"

Ranks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mesh:
    """Sizes of the axes and the place of every rank."""

    sizes: dict[str, int]
    """Devices along each axis."""
    order: tuple[str, ...]
    """Axes, fastest first."""

    @property
    def world(self) -> int:
        """Devices of the job."""
        return prod(self.sizes.values())

    def grid(self, *last: str) -> Ranks:
        """Ranks as an array with one dimension an axis: the remaining axes in mesh order (slowest first), then
        `last`."""
        slow_first = tuple(reversed(self.order))
        ranks = np.arange(self.world).reshape([self.sizes[a] for a in slow_first])
        kept = [i for i, a in enumerate(slow_first) if a not in last]
        return ranks.transpose(kept + [slow_first.index(a) for a in last])

    def groups(self, *axes: str) -> Ranks:
        """Groups of ranks that differ along `axes` only; shape (groups, ranks of a group), ordered by lowest rank."""
        size = prod(self.sizes[a] for a in axes)
        groups = np.sort(self.grid(*axes).reshape(-1, size), axis=1)
        return groups[np.argsort(groups[:, 0], kind="stable")]

    def chains(self) -> Ranks:
        """Pipeline replicas; shape (chains, pp), column s holds the ranks of stage s."""
        return self.grid("pp").reshape(-1, self.sizes["pp"])


_EXPERTS = "experts are spread over devices when serving only: mixtures of experts cannot be trained yet"
_ONLY_ONE = {
    "cp": (
        "context parallelism (a sequence cut over devices) is not modelled",
        "leave `cp` out; long sequences fit with a larger `tp`, or with `training.recompute: full`",
    ),
    "ep": (_EXPERTS, "leave `ep` out"),
    "etp": (_EXPERTS, "leave `etp` out"),
}
"""Axes of which only size 1 is simulated: why, and what to write."""


def build_mesh(parallel: Parallel, devices: int) -> Mesh:
    """The mesh for a number of devices; derives `dp` where it is left out.

    Raises InputError if the sizes do not multiply to the devices, with the equation.
    """
    order = tuple(parallel.order.split("-"))
    if sorted(order) != sorted(AXES):
        raise _refuse("order", f"`{parallel.order}` must name each of {', '.join(AXES)} once", "tp-cp-ep-dp-pp")
    for axis, (message, hint) in _ONLY_ONE.items():
        if getattr(parallel, axis) != 1:
            raise _refuse(axis, f"{getattr(parallel, axis)}: {message}", hint)
    fixed = parallel.tp * parallel.cp * parallel.pp
    dp = parallel.dp if parallel.dp is not None else max(devices // fixed, 1)
    if fixed * dp != devices:
        raise _refuse("", _equation(parallel, dp, devices), "change the sizes or `cluster.nodes`")
    sizes = {"tp": parallel.tp, "cp": parallel.cp, "ep": 1, "dp": dp, "pp": parallel.pp}
    return Mesh(sizes, order)


def _equation(parallel: Parallel, dp: int, devices: int) -> str:
    product = parallel.tp * parallel.cp * dp * parallel.pp
    return (
        f"tp {parallel.tp} x cp {parallel.cp} x dp {dp} x pp {parallel.pp} = {product}, "
        f"but the cluster has {devices} devices"
    )


def _refuse(field: str, message: str, hint: str) -> InputError:
    return InputError(Problem(message, path=f"{PATH}.{field}" if field else PATH, hint=hint))


def split_layers(layers: int, pp: int, vpp: int, stages: Sequence[int] | None) -> tuple[int, ...]:
    """Layers of each model chunk in the order of the layers; shape (pp x vpp,).

    Raises InputError if the layers do not divide and no `stages` are given, or the given ones do not fit.
    """
    chunks = pp * vpp
    if stages is None:
        if layers % chunks:
            message = f"{layers} layers do not divide into pp {pp} x vpp {vpp} = {chunks} chunks"
            raise InputError(
                Problem(message, path="training.stages", hint=f"write {chunks} numbers that sum to {layers}")
            )
        return (layers // chunks,) * chunks
    hint = f"write {chunks} numbers (pp {pp} x vpp {vpp}) that sum to the model's {layers} layers"
    if min(stages, default=0) < 0:
        message = f"{min(stages)} layers: a stage has 0 layers or more"
        raise InputError(Problem(message, path="training.stages", hint=hint))
    if len(stages) != chunks or sum(stages) != layers:
        message = f"{len(stages)} numbers that sum to {sum(stages)} layers"
        raise InputError(Problem(message, path="training.stages", hint=hint))
    return tuple(stages)
