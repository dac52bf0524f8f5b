"""Numbers of nodes and devices of clusters of several kinds of nodes."""

import numpy as np
import pytest
from pydantic import ValidationError

from simulator.fabric.nodes import locate
from simulator.specs.hardware import Cluster
from simulator.specs.text.numbering import Numbering
from tests import machines

MIXED = Numbering((2, 3, 1), (4, 8, 1))


def test_kinds_are_numbered_one_after_the_other() -> None:
    assert (MIXED.all_nodes, MIXED.all_devices) == (6, 33)
    assert [MIXED.devices_of(node) for node in (0, 1, 2, 5)] == [range(4), range(4, 8), range(8, 16), range(32, 33)]
    assert [MIXED.of_kind(kind) for kind in range(3)] == [range(8), range(8, 32), range(32, 33)]


@pytest.mark.parametrize("numbering", [MIXED, Numbering((5,), (8,))], ids=["mixed", "equal"])
def test_every_device_is_where_its_node_has_it(numbering) -> None:
    kind, node, place = locate(numbering, np.arange(numbering.all_devices))
    for device in range(numbering.all_devices):
        assert numbering.node_of(device) == node[device]
        assert numbering.devices_of(node[device])[place[device]] == device
        assert numbering.kind_of(device) == (kind[device] if kind.ndim else 0)


def test_a_kind_is_a_cluster_of_its_own() -> None:
    cluster = machines.mixed((3, {"devices": 4}), nodes=2)
    assert (cluster.devices, [part.name for part in cluster.partitions]) == (28, ["kind 0", "kind 1"])
    one = cluster.only(1)
    assert (one.devices, one.node, one.more_nodes) == (12, cluster.more_nodes[0].node, ())
    assert cluster.only(0).devices == 16


def test_equal_nodes_say_nothing_of_kinds() -> None:
    equal = machines.cluster(2)
    assert equal.only(0) is equal
    assert {"partition", "more_nodes"}.isdisjoint(equal.model_dump())


def test_two_kinds_have_two_names() -> None:
    one = machines.mixed((1, {}))
    twins = (one.more_nodes[0], one.more_nodes[0])
    with pytest.raises(ValidationError, match="two kinds of nodes are called `kind 1`"):
        Cluster(name="twins", node=one.node, nodes=1, more_nodes=twins, network=one.network)
    Cluster(name="siblings", node=one.node, nodes=1, more_nodes=twins[:1], network=one.network)


def test_one_node_of_each_kind_needs_a_network() -> None:
    one = machines.mixed((1, {}))
    with pytest.raises(ValidationError, match="several nodes need a `network`"):
        Cluster(name="apart", node=one.node, nodes=1, more_nodes=one.more_nodes)
