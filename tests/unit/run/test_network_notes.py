"""Notes on the network that a run was taken to have."""

import pytest

from simulator.results.result import LinkLoad
from simulator.run.links.notes import ordered_rings, unused_oversubscription
from tests.machines import cluster, level


@pytest.mark.parametrize(("nodes", "told"), [(2, True), (8, True), (16, False)])
def test_oversubscription_of_the_highest_level_is_named_where_nothing_leaves_it(nodes: int, told: bool) -> None:
    levels = [level("leaf", 2), level("spine", 8, oversubscription=4)]
    found = unused_oversubscription(cluster(nodes=nodes, network={"kind": "tree", "levels": levels}))
    assert bool(found) == told
    assert not told or found[0].startswith("no effect: oversubscription 4 of `spine`")


def test_a_lower_level_that_a_small_job_does_not_leave_is_not_named() -> None:
    levels = [level("leaf", 4, oversubscription=8), level("spine", 8)]
    assert unused_oversubscription(cluster(nodes=2, network={"kind": "tree", "levels": levels})) == ()


def test_an_order_that_spares_an_oversubscribed_leaf_is_told() -> None:
    levels = [level("leaf", 2, oversubscription=8), level("spine", 8)]
    machine = cluster(nodes=8, network={"kind": "tree", "levels": levels})
    loads = [LinkLoad("leaf up", 4, 25e9, 1e9, 0.1), LinkLoad("NIC up", 64, 25e9, 1e9, 0.1)]
    [note] = ordered_rings(machine, loads)
    assert "`leaf` (1:8)" in note
    assert ordered_rings(machine, loads[1:]) == ()
