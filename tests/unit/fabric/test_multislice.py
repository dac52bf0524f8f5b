"""Slices of TPU pods on one data-centre network: ways, capacities, collectives in closed form, bad input."""

from typing import Any

import numpy as np
import pytest

from simulator import collectives
from simulator.cli import main
from simulator.errors import InputError
from simulator.fabric import Fabric, build
from simulator.specs.hardware import Cluster
from simulator.specs.resolve import load_spec
from tests.machines import profile

HOST = 4
OWN = 64


def slices(many: int = 2, **more: Any) -> Cluster:
    cluster = load_spec(Cluster, "tpu-v5p-multislice")
    keys = cluster.network.more
    assert keys is not None
    network = cluster.network.model_copy(update={"more": keys.model_copy(update=more)})
    return cluster.model_copy(update={"nodes": many * OWN // HOST, "network": network})


def names(fabric: Fabric, src: int, dst: int) -> list[str]:
    return [fabric.links[link] for link in fabric.route(src, dst)]


def test_ways_inside_a_slice_are_those_of_a_torus_and_between_slices_those_of_cards() -> None:
    fabric, alone = build(slices()), build(slices(1))
    assert fabric.devices == 2 * OWN
    for src, dst in ((0, 1), (0, 21), (5, 63)):
        there, again = fabric.route(src, dst), fabric.route(OWN + src, OWN + dst)
        assert len(there) == len(again) == len(alone.route(src, dst))
        assert not set(there) & set(again)
    way = names(fabric, 0, OWN + 3)
    assert [name.rpartition(" ")[0] for name in way] == ["NIC up", "slice up", "slice down", "NIC down"]
    assert not set(names(fabric, 0, OWN)) & set(names(fabric, OWN, 0))


def test_cards_and_ways_out_of_a_slice_have_what_hosts_have() -> None:
    cluster = slices(3, oversubscription=4.0)
    fabric, nics = build(cluster), cluster.node.nics
    assert nics is not None
    host = nics.count * nics.bandwidth.value
    way = fabric.route(0, OWN)
    capacity = [float(fabric.capacity[link]) for link in way]
    assert capacity[0] == capacity[3] == pytest.approx(nics.bandwidth.value)
    assert capacity[1] == capacity[2] == pytest.approx(OWN / HOST * host / 4)


@pytest.mark.parametrize("many", [2, 4])
def test_an_all_reduce_is_one_in_every_slice_around_one_between_them(many: int) -> None:
    """Between slices each device reduces its 64th with its peers: cards carry 2 (s - 1) / s of the size of a slice."""
    fabric, library, size = build(slices(many)), profile(), 1e9
    everybody, alone = [range(fabric.devices)], build(slices(1))
    cost = collectives.cost_of("all_reduce", everybody, size, fabric, library, "multislice")
    inside = [
        collectives.cost_of(operation, [range(OWN)], size, alone, library, "torus").slowest
        for operation in ("reduce_scatter", "all_gather")
    ]
    ring = np.arange(many * OWN).reshape(many, OWN).T
    between = collectives.cost_of("all_reduce", ring, size / OWN, fabric, library, "ring").slowest
    assert cost.slowest == pytest.approx(sum(inside) + between, rel=1e-6)
    cards = [link for link, name in enumerate(fabric.links) if name.startswith("NIC up")]
    assert cost.load[cards].sum() == pytest.approx(many * 2 * (many - 1) / many * size)


@pytest.mark.parametrize(("operation", "part"), [("reduce_scatter", 0.5), ("all_gather", 0.5)])
def test_halves_of_an_all_reduce_load_cards_half(operation: str, part: float) -> None:
    fabric, library, size = build(slices()), profile(), 1e9
    load = [
        collectives.cost_of(one, [range(fabric.devices)], size, fabric, library, "multislice").load
        for one in ("all_reduce", operation)
    ]
    cards = [link for link, name in enumerate(fabric.links) if name.startswith("NIC")]
    np.testing.assert_allclose(load[1][cards], part * load[0][cards])


def test_groups_that_fill_no_box_in_each_slice_take_a_ring() -> None:
    """Seven devices of one slice and one of the other."""
    fabric = build(slices())
    ranks = [[*range(7), OWN]]
    with pytest.raises(InputError):
        collectives.cost_of("all_reduce", ranks, 1e6, fabric, profile(), "multislice")
    assert collectives.cost_of("all_reduce", ranks, 1e6, fabric, profile(), "ring").slowest > 0


@pytest.mark.parametrize("ranks", [[0, OWN], [0, 1, OWN, OWN + 1], list(range(2 * OWN))])
def test_a_ring_passes_all_slices(ranks: list[int]) -> None:
    """Whatever boxes its members fill: every member sends the ring's share."""
    fabric, n = build(slices()), len(ranks)
    load = collectives.cost_of("all_reduce", [ranks], 1e6, fabric, profile(), "ring").load
    cards = [link for link, name in enumerate(fabric.links) if name.startswith("NIC up")]
    assert load[cards].sum() == pytest.approx(2 * 2 * (n - 1) / n * 1e6)


def test_devices_that_are_no_whole_slices(capsys: Any) -> None:
    assert main(["collective", "tpu-v5p-multislice", "--nodes", "17", "--op", "all_reduce", "--sizes", "1M:1M"]) == 2
    assert "no whole slices of 4 x 4 x 4" in capsys.readouterr().err
    with pytest.raises(InputError, match="no whole slices"):
        build(slices().model_copy(update={"nodes": 17}))
