"""What a step of a ring costs where pieces stream, figures of trees apart, hops that wait for their piece."""

from typing import Any

import pytest

from simulator import collectives
from simulator.errors import InputError
from simulator.fabric import Fabric, build
from simulator.specs.libraries.collectives import CollectiveProfile, Environment, Protocol
from tests.machines import cluster, figure, profile, scope

NODES, DEVICES = 4, 2
RANKS = NODES * DEVICES
STEPS = 2 * (RANKS - 1)
FAR = scope("9 us", "8 us", 0.5)


def machine() -> Fabric:
    """Four nodes of two devices, a card each."""
    return build(cluster(nodes=NODES, devices=DEVICES, nics=DEVICES))


def library(**more: Any) -> CollectiveProfile:
    """A library with one protocol, whose figures between nodes are these."""
    return profile({"only": {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": FAR | more}})


def seconds(size: float, algorithm: str, known: CollectiveProfile) -> float:
    return collectives.cost_of("all_reduce", range(RANKS), size, machine(), known, algorithm).slowest / 1e12


def parts(size: float, known: CollectiveProfile) -> tuple[float, float]:
    """Seconds of the hops of a step of the ring, and of its bytes."""
    cost = collectives.cost_of("all_reduce", range(RANKS), size, machine(), known, "ring")
    return (1e-6 + 8e-6) / 2, int(cost.moving[0]) / 1e12 / STEPS


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_pieces_that_are_whole_wait_for_their_hops(size: float) -> None:
    hops, moving = parts(size, library())
    assert seconds(size, "ring", library()) == pytest.approx(9e-6 + STEPS * (hops + moving))


@pytest.mark.parametrize(("stored", "inside"), [(0, 0.0), (0.5, 0.5)])
@pytest.mark.parametrize("size", [1e4, 1e6, 3e6, 1e8])
def test_hops_hide_behind_what_streams(stored: float, inside: float, size: float) -> None:
    known = library(stored=stored)
    hops, moving = parts(size, known)
    step = max(moving, hops + (0.5 + 0.5 * inside) * moving)  # half of the hops are between nodes: pieces are whole
    assert seconds(size, "ring", known) == pytest.approx(9e-6 + STEPS * step)


def test_streams_run_alike_in_closed_form_and_as_activities() -> None:
    for size in (1e5, 1e7):
        plan = collectives.plan("all_reduce", range(RANKS), size, machine(), library(stored=0), "ring")
        alone = sum(activity.latency + activity.work for activity in collectives.activities(plan))
        assert alone == collectives.cost(plan).slowest == collectives.duration(plan)


def test_trees_do_not_stream() -> None:
    assert seconds(1e8, "tree", library(stored=0)) == seconds(1e8, "tree", library())


def test_trees_have_figures_of_their_own() -> None:
    apart = {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": scope("20 us", "8 us", 0.25)}
    spec = {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": FAR, "trees": apart}
    known, same = profile({"only": spec}), library()
    assert seconds(1e8, "ring", known) == seconds(1e8, "ring", same)
    slow, fast = seconds(1e8, "tree", known) - 20e-6, seconds(1e8, "tree", same) - 9e-6
    hops = 2 * (1 * 1e-6 + 2 * 8e-6)
    assert slow - hops == pytest.approx(2 * (fast - hops))


def test_a_broadcast_moves_along_a_ring() -> None:
    """Its pieces go round once: every hop shows, and the figures are those of rings, not those of trees."""
    apart = {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": scope("20 us", "8 us", 0.25)}
    known = profile({"only": {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": FAR, "trees": apart}})
    streaming = library(stored=0)

    def took(library: CollectiveProfile) -> float:
        return collectives.cost_of("broadcast", range(RANKS), 1e8, machine(), library, "ring").slowest / 1e12

    # Two rails of 25 GB/s, half of which the protocol reaches; seven hops, half of them between nodes.
    assert took(known) == took(streaming) == pytest.approx(9e-6 + 3.5 * (1e-6 + 8e-6) + 1e8 / 2 / 12.5e9)


def test_lone_members_of_nodes_pass_pieces_on_as_rings_do() -> None:
    apart = {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": scope("20 us", "8 us", 0.25)}
    known = profile({"only": {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": FAR, "trees": apart}})

    def lone(algorithm: str) -> float:
        group = range(0, RANKS, DEVICES)
        return collectives.cost_of("all_reduce", group, 1e8, machine(), known, algorithm).slowest / 1e12

    assert lone("tree") == pytest.approx(9e-6 + 2 * 2 * 8e-6 + 2 * 1e8 / 12.5e9, rel=0.01)
    assert seconds(1e8, "tree", known) > 1.9 * seconds(1e8, "tree", library())


@pytest.mark.parametrize(("release", "left"), [("", 0.5), ("2.28.7", 0.5), ("2.29.2", 1.0)])
def test_peers_of_large_groups_get_fewer_channels(release: str, left: float) -> None:
    """Messages to the next rank around 40 ranks of five nodes move half of what they move around 32 of four."""
    spec = {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": FAR | {"crowded": figure(0.5)}}
    told = Environment(release=release) if release else None
    known = profile({"only": spec}, environment=told)
    fabric = build(cluster(nodes=5, devices=8, nics=8))
    few, many = (collectives.cost_of("shift", range(n), 1e9, fabric, known) for n in (32, 40))
    assert few.algorithms == many.algorithms == ("send/only",)
    assert int(few.moving[0]) / int(many.moving[0]) == pytest.approx(left)


def test_copies_of_a_piece_hide_behind_cards_and_not_behind_links() -> None:
    copying = profile({"only": {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": FAR}}, own_piece=figure(0.4))
    pair, node = (0, DEVICES), range(DEVICES)

    def took(group: Any, known: CollectiveProfile) -> float:
        return float(collectives.cost_of("all_reduce", group, 1e9, machine(), known, "ring").moving[0])

    assert took(pair, copying) == took(pair, library())
    assert took(node, copying) == pytest.approx(1.2 * took(node, library()))


def test_members_copy_no_piece_where_the_switch_adds_up() -> None:
    """NVLS over 5 to 8 H200 takes S (1 + 1/n) bytes of a link at one rate; a piece more each left 6 % between them."""
    scopes = {"scale_up": scope("5 us", "1 us", 1.0), "scale_out": FAR}
    copying, plain = profile({"only": scopes}, own_piece=figure(0.4)), library()

    def took(algorithm: str, known: CollectiveProfile) -> float:
        return float(collectives.cost_of("all_reduce", range(DEVICES), 1e9, machine(), known, algorithm).moving[0])

    assert took("nvls", copying) == took("nvls", plain)
    assert took("ring", copying) > took("ring", plain)


def test_a_hop_waits_for_a_piece_that_grows() -> None:
    known = library(piece={"wait": figure("20 us"), "bytes": figure("1 MB")})
    for size, wait in ((4e4, 4e-6), (2.5e5, 10e-6), (1e6, 20e-6), (1e8, 20e-6)):
        assert seconds(size, "tree", known) - seconds(size, "tree", library()) == pytest.approx(2 * 2 * wait, rel=1e-6)


def test_a_pipeline_holds_a_part_of_each_member() -> None:
    fill = {"fraction": figure(1.0), "bytes": figure("1 MB")}
    each, whole = library(fill=fill | {"each": True}), library(fill=fill | {"bytes": figure("2 MB")})
    assert seconds(1e8, "ring", each) == seconds(1e8, "ring", whole)
    assert seconds(1e8, "ring", each) > seconds(1e8, "ring", library(fill=fill))


@pytest.mark.parametrize(("key", "value"), [("stored", 1.5), ("stored", -0.1), ("piece", {"wait": figure("1 us")})])
def test_shares_and_pieces_are_checked(key: str, value: Any) -> None:
    with pytest.raises((InputError, ValueError)):
        Protocol.model_validate({"scale_up": FAR, "scale_out": FAR | {key: value}})


@pytest.mark.parametrize("more", [{"latency": figure("1000000 s")}, {"efficiency": figure(1e-18)}])
def test_more_time_than_the_clock_counts_is_told(more: dict[str, Any]) -> None:
    """All hops of a ring together, or the bytes of a step alone."""
    with pytest.raises(InputError, match="more than the clock counts"):
        seconds(1e6, "ring", library(**more))
