"""Ways between two devices: those of the fabric, found for many neighbours at once, and named by what lies on them."""

import pytest

from simulator import fabric
from simulator.fabric.pairs import Pairs
from simulator.random import stream
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster


@pytest.mark.parametrize("cluster", ["dgx-h100", "gb200-nvl72"])
def test_ways_are_those_of_the_fabric(cluster: str) -> None:
    network = fabric.build(load_spec(Cluster, cluster).model_copy(update={"nodes": 100}))
    pairs, random = Pairs(network), stream(1, "pairs")
    for source, target in (random.choice(network.devices, 2).tolist() for _ in range(200)):
        links, _ = pairs.way(source, target)
        assert links == list(dict.fromkeys(network.route(source, target)))


def test_ways_of_a_device_are_found_for_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network = fabric.build(load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 48}))
    asked: list[int] = []
    paths = fabric.Fabric.paths

    def counted(self: fabric.Fabric, src: object, dst: object, parts: int = 1) -> object:
        asked.append(1)
        return paths(self, src, dst, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(fabric.Fabric, "paths", counted)
    pairs = Pairs(network)
    for target in range(network.devices):
        pairs.way(3, target)
    assert len(asked) == 1


def test_ways_over_the_same_kinds_of_links_are_alike() -> None:
    """Within a node, between neighbours under a leaf, and farther."""
    network = fabric.build(load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 64}))
    pairs = Pairs(network)
    near, same, far = (pairs.way(0, 8 * node)[1] for node in (1, 2, 63))
    assert near == same != far
    assert pairs.way(0, 1)[1] == pairs.way(9, 15)[1] != near
    slowed = Pairs(network.slowed(pairs.way(0, 8)[0][:1], 0.5))
    assert slowed.way(0, 8)[1] != slowed.way(1, 8)[1]
