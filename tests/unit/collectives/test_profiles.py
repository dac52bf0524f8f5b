"""The shipped collective profiles."""

import pytest
from pydantic import ValidationError

from simulator import collectives
from simulator.collectives import Routing
from simulator.collectives.algorithms import ALGORITHMS, EXCHANGES
from simulator.fabric import build
from simulator.specs.catalog import names
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from tests.machines import cluster, profile, scope

EXCHANGING = [n for n in names(CollectiveProfile) if "dispatch" in load_spec(CollectiveProfile, n).algorithms]
SHIPPED = [name for name in names(CollectiveProfile) if name not in EXCHANGING]


def test_there_are_profiles_of_all_families() -> None:
    wanted = {"nccl-a100", "nccl-h100", "nccl-generic", "rccl", "hccl", "ici", "ethernet", "generic"}
    assert wanted <= {name.removeprefix("collectives/") for name in SHIPPED}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_profile_names_algorithms_that_exist(name: str) -> None:
    library = load_spec(CollectiveProfile, name)
    assert {a for serving in library.algorithms.values() for a in serving} <= set(ALGORITHMS.names())
    assert set(library.algorithms) | {"shift"} == set(collectives.OPERATIONS)  # a shift is made of sends


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("operation", collectives.OPERATIONS)
def test_time_grows_with_size_and_never_beats_the_links(name: str, operation: str) -> None:
    library = load_spec(CollectiveProfile, name)
    fabric = build(cluster(nodes=4))
    for group in ([0, 1], [3, 20]) if operation == "send" else (range(8), range(32), range(0, 32, 8)):
        before = 0
        for size in (1e2, 1e4, 1e6, 1e8, 1e10):
            cost = collectives.cost_of(operation, [group], size, fabric, library)
            # A rule that changes the algorithm at a size need not be a wise one: each algorithm grows by itself.
            assert cost.slowest >= before or any(rule.below for rule in library.rules)
            assert cost.slowest / 1e12 >= (cost.load / fabric.capacity).max() * (1 - 1e-9)
            before = cost.slowest


@pytest.mark.parametrize("name", EXCHANGING)
@pytest.mark.parametrize("operation", collectives.EXCHANGED)
def test_exchanges_grow_with_size_and_never_beat_the_links(name: str, operation: str) -> None:
    library, fabric = load_spec(CollectiveProfile, name), build(cluster(nodes=4))
    assert set(library.algorithms) == set(collectives.EXCHANGED)
    assert {a for serving in library.algorithms.values() for a in serving} <= set(EXCHANGES.names())
    for group in (range(8), range(32)):
        before = 0
        for size in (1e2, 1e4, 1e6, 1e8, 1e10):
            cost = collectives.cost_of(operation, [group], size, fabric, library, routing=Routing(64, 4))
            assert cost.slowest > before
            assert cost.slowest / 1e12 >= (cost.load / fabric.capacity).max() * (1 - 1e-9)
            before = cost.slowest


def test_an_algorithm_needs_a_protocol() -> None:
    only = {"only": {"algorithms": ("tree",), "scale_up": scope(0, 0, 1.0), "scale_out": scope(0, 0, 1.0)}}
    with pytest.raises(ValidationError, match="no protocol serves the algorithm direct, ring, send"):
        profile(only)
