"""Slices of TPU pods that published rows ran on."""

import re
from math import prod
from typing import TYPE_CHECKING

from simulator.interop.rows.jsonl import Refused
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.network import Multislice

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row


def stated(row: "Row", cluster: str, assumed: list[str]) -> "Row":
    """The row with slices where it has more chips than a pod and says nothing of them: whole pods over the data-centre
    network, each of which holds all states, as MaxText has it where nothing else is asked for
    (`dcn_data_parallelism: -1`)."""
    if not cluster.startswith("tpu") or re.search(r"slice", row.shard or ""):
        return row
    network = load_spec(Cluster, cluster).network
    many, rest = divmod(row.devices, network.largest or prod(network.shape))
    if many <= 1 or rest:
        return row
    assumed.append(f"{many} whole pods over the data-centre network, data-parallel")
    return row.model_copy(update={"shard": f"{row.shard or 'fsdp'}, {many} slices"})


def slice_of(cluster: Cluster, devices: int, many: int = 1, axes: tuple[int, ...] = ()) -> Cluster:
    """A slice of a torus with so many devices, or several equal ones over the data-centre network: as near to a cube
    (or square) as their number allows; of whole blocks where they are needed to close it. Refused where they are no
    whole hosts, or more than a pod.

    `axes` are sizes of parallelism from the innermost on: each lies on a whole side of that length where one is left,
    as `jax.experimental.mesh_utils.create_device_mesh` assigns them."""
    if devices < cluster.node.devices and many == 1:
        return _of_host(cluster, devices)
    if devices % (many * cluster.node.devices):
        raise Refused(f"{devices} devices are no multiple of {many * cluster.node.devices}, a host of each slice")
    size = devices // many
    if size > prod(cluster.network.shape):
        raise Refused(f"{size} devices are more than one pod of {prod(cluster.network.shape)}")
    if many > 1 and cluster.node.nics is None:
        raise Refused(f"{many} slices, whose hosts have cards of which nothing is known")
    slices = cluster.network.slices
    whole = slices is not None and not slices.apart and size % prod(slices.block) == 0
    block = slices.block if slices is not None and whole else (1,) * len(cluster.network.shape)
    sides = _even(size // prod(block), len(block))
    shape = _innermost([side * size for side, size in zip(sides, block, strict=True)], axes)
    joined = {"kind": "multislice", "more": Multislice()} if many > 1 else {}
    network = cluster.network.model_copy(update={"shape": shape, **joined})
    return cluster.model_copy(update={"network": network, "nodes": devices // cluster.node.devices})


def _of_host(cluster: Cluster, devices: int) -> Cluster:
    """Fewer chips than a host of the profile has: a host with as many, as clouds lend them (v5e-1 and -4, v6e-1), whose
    piece of the torus does not close."""
    sides = tuple(_even(devices, len(cluster.network.shape)))
    if any(side > whole for side, whole in zip(sorted(sides), sorted(cluster.network.shape), strict=True)):
        raise Refused(f"{devices} devices are no piece of a host of {cluster.node.devices}")
    node = cluster.node.model_copy(update={"devices": devices})
    network = cluster.network.model_copy(update={"shape": sides})
    return cluster.model_copy(update={"node": node, "nodes": 1, "network": network})


def part_of(cluster: Cluster, devices: int) -> Cluster:
    """A cluster whose slices are joined by cards, as a job on fewer devices than one slice has sees it: a piece of the
    torus, whose sides do not close (an instance with one chip, a quarter of one with 16). Others are as they are."""
    network = cluster.network
    if network.kind != "multislice" or devices >= prod(network.shape):
        return cluster
    shape = tuple(_even(devices, len(network.shape)))
    if any(side > whole for side, whole in zip(sorted(shape), sorted(network.shape), strict=True)):
        raise Refused(f"{devices} devices are no piece of a slice of {' x '.join(map(str, network.shape))}")
    return cluster.model_copy(
        update={"network": network.model_copy(update={"kind": "torus", "more": None, "shape": shape})}
    )


def _even(devices: int, dimensions: int) -> list[int]:
    """Sides of a cuboid of so many devices, as near to each other as the number allows."""
    sides, left = [], devices
    for open_sides in range(dimensions, 0, -1):
        root = round(left ** (1 / open_sides))
        side = next(s for s in range(max(root, 1), 0, -1) if left % s == 0) if open_sides > 1 else left
        sides.append(side)
        left //= side
    return sides


def _innermost(sides: list[int], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Sides with those last, whose neighbours have neighbouring ranks, that axes fill."""
    filled: list[int] = []
    for size in axes:
        if size > 1 and size in sides:
            sides.remove(size)
            filled.insert(0, size)
    return (*sides, *filled)
