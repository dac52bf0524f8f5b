"""The device mesh: which rank holds which coordinate on which axis.

Ranks are numbered node after node. `order` names the axes from the fastest varying to the slowest, Megatron's
`tp-cp-ep-dp-pp` by default, so that tensor-parallel groups are neighbours. A *chain* is one pipeline replica: the
ranks that differ in their pipeline coordinate only. Experts may lie on a mesh of their own over the same devices
(Megatron's folding, arXiv:2504.14960): what attention spreads over tp, cp and dp they spread over etp, ep and the rest.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from simulator.axes import AXES, CP, DP, EP, ETP, PP, TP, mesh_axes
from simulator.errors import InputError, Problem
from simulator.specs.training import Parallel

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
        return self.grid(PP.name).reshape(-1, self.sizes[PP.name])

    def experts(self, ep: int, etp: int) -> "Mesh":
        """The mesh of the experts over the same devices: etp fastest, then ep, then their replicas, then pp.

        InputError where tp x cp x dp is no multiple of ep x etp, or pipeline ranks are not the slowest.
        """
        pp = self.sizes[PP.name]
        flat = self.world // pp
        if flat % (ep * etp):
            stage = _product({name: size for name, size in self.sizes.items() if name != PP.name})
            message = f"experts lie over the devices of a stage, {stage}: {_product({ETP.name: etp, EP.name: ep})}"
            axis, hint = (ETP, f"a divisor of {flat}") if flat % etp else (EP, f"a divisor of {flat // etp}")
            raise _refuse(axis.name, f"{message} does not divide it", hint)
        if self.order[-1] != PP.name and pp > 1:
            raise _refuse("order", "experts on a mesh of their own need pp as the slowest axis", "tp-cp-ep-dp-pp")
        sizes = {ETP.name: etp, EP.name: ep, DP.name: flat // (ep * etp), PP.name: pp}
        return Mesh(sizes, (ETP.name, EP.name, DP.name, PP.name))


def build_mesh(parallel: Parallel, devices: int) -> Mesh:
    """The mesh for a number of devices; derives `dp` where it is left out.

    Raises InputError if the sizes do not multiply to the devices, with the equation; for an order that lacks or
    repeats an axis, and for sizes of axes that are not simulated.
    """
    sizes = {name: size for name, size in parallel.sizes().items() if size is not None}
    for name, size in sizes.items():
        axis = AXES.get(name, f"{PATH}.{name}")
        if size != 1 and axis.missing:
            raise _refuse(name, f"{size}: {axis.missing}", axis.instead)
    sizes = {axis.name: sizes.get(axis.name, 1) for axis in mesh_axes() if not axis.folded}
    fixed = prod(size for name, size in sizes.items() if name != DP.name)
    if parallel.dp is None:
        sizes[DP.name] = max(devices // fixed, 1)
    if fixed * sizes[DP.name] != devices:
        raise _refuse("", _equation(parallel, sizes, devices), "change the sizes or `cluster.nodes`")
    return Mesh(sizes, _order(parallel, sizes))


def _order(parallel: Parallel, sizes: dict[str, int]) -> tuple[str, ...]:
    """The axes, fastest first; those of plug-ins that a default order does not know stand at their usual place, and
    those of the experts have no place among the others."""
    order = [name for name in parallel.order.split("-") if not (AXES.has(name) and AXES.get(name).folded)]
    if not parallel.states("order"):
        order += [name for name in sizes if name not in order]
        order.sort(key=lambda name: list(sizes).index(name))
    needed = {axis for axis in sizes if axis in Parallel.model_fields or sizes[axis] > 1}
    if len(set(order)) != len(order) or not needed <= set(order) <= set(sizes):
        usual = [name for name in sizes if name in needed]
        raise _refuse("order", f"`{parallel.order}` must name each of {', '.join(usual)} once", "-".join(usual))
    return tuple(order + [name for name in sizes if name not in order])


def _equation(parallel: Parallel, sizes: dict[str, int], devices: int) -> str:
    """Both meshes, that of the experts where it is spoken of."""
    said = _product({name: size for name, size in sizes.items() if size > 1 or name in _ALWAYS})
    if parallel.ep > 1 or parallel.etp is not None:
        experts = {ETP.name: parallel.etp or sizes[TP.name], EP.name: parallel.ep, PP.name: sizes[PP.name]}
        said += f" (experts: {_product(experts)}, times their replicas)"
    return f"{said}, but the cluster has {devices} devices"


def _product(sizes: dict[str, int]) -> str:
    return f"{' x '.join(f'{name} {size}' for name, size in sizes.items())} = {prod(sizes.values())}"


_ALWAYS = (TP.name, CP.name, DP.name, PP.name)


def _refuse(field: str, message: str, hint: str) -> InputError:
    return InputError(Problem(message, path=f"{PATH}.{field}" if field else PATH, hint=hint))
