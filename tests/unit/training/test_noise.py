"""What the noise of a scenario draws and whom it meets."""

from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.fabric import Fabric, build
from simulator.parallel import Mesh
from simulator.run.simulate import simulate
from simulator.specs.noise import Noise
from simulator.training.noise import MOST_FACTORS, fold_keys, perturb, slowdowns
from tests import jobs, machines


def fabric(nodes: int = 2, **of_node: Any) -> Fabric:
    return build(machines.cluster(nodes, **of_node))


def noise(**said: Any) -> Noise:
    return Noise.model_validate(said)


def stragglers(**said: Any) -> dict[str, Any]:
    return {"stragglers": {"slowdown": 1.5} | said}


def slow(**said: Any) -> dict[str, Any]:
    return {"slow_links": {"factor": 0.5} | said}


def test_nothing_is_disturbed_where_nothing_is_said() -> None:
    clean = fabric()
    found = perturb(Noise(), clean, 10, 0)
    assert found.factors is None
    assert found.fabric is clean
    assert not len(found.slow) and not found.assumptions


def test_named_stragglers() -> None:
    factors = perturb(noise(**stragglers(devices=[3, 11])), fabric(), 5, 0).factors
    assert factors is not None
    assert factors.tolist() == [[1.5 if device in (3, 11) else 1.0 for device in range(16)]]


def test_drawn_stragglers_follow_the_seed_and_are_told() -> None:
    drawn = [perturb(noise(**stragglers(count=3)), fabric(), 1, seed) for seed in (0, 0, 1, 2)]
    chosen = [np.flatnonzero(one.factors[0] > 1).tolist() for one in drawn if one.factors is not None]
    assert chosen[0] == chosen[1]
    assert len({tuple(devices) for devices in chosen}) > 1
    assert drawn[0].assumptions == (f"stragglers are not named: devices {', '.join(map(str, chosen[0]))} (seed 0)",)


def test_one_straggler_more_keeps_those_before() -> None:
    few, more = (perturb(noise(**stragglers(count=n)), fabric(), 1, 7).factors for n in (2, 5))
    assert few is not None and more is not None
    assert (more >= few).all()


def test_consumers_do_not_move_each_other() -> None:
    jitter = perturb(noise(jitter=0.1), fabric(), 4, 3).factors
    both = perturb(noise(jitter=0.1, **stragglers(count=2), **slow(count=1)), fabric(), 4, 3)
    alone = perturb(noise(**slow(count=1)), fabric(), 4, 3)
    assert jitter is not None and both.factors is not None
    ratio = both.factors / jitter
    assert np.allclose(ratio, np.where(ratio > 1.2, 1.5, 1.0))
    assert both.slow.tolist() == alone.slow.tolist()


def test_more_steps_keep_the_first_ones() -> None:
    few, many = (perturb(noise(jitter=0.1), fabric(), steps, 3).factors for steps in (4, 9))
    assert few is not None and many is not None
    np.testing.assert_array_equal(few, many[:4])


def test_jitter_has_mean_one_and_its_spread_and_is_never_negative() -> None:
    factors = perturb(noise(jitter="30 %"), fabric(), 20_000, 0).factors
    assert factors is not None and factors.shape == (20_000, 16)
    assert factors.min() > 0
    assert factors.mean() == pytest.approx(1.0, abs=0.003)
    assert factors.std() == pytest.approx(0.3, abs=0.01)
    assert abs(np.corrcoef(factors[:, 0], factors[:, 1])[0, 1]) < 0.03


def test_a_card_is_slow_both_ways() -> None:
    clean = fabric()
    found = perturb(noise(**slow(links=["NIC 5"])), clean, 1, 0)
    assert [clean.links[link] for link in found.slow.tolist()] == ["NIC up 5", "NIC down 5"]
    changed = np.flatnonzero(found.fabric.capacity != clean.capacity)
    assert changed.tolist() == found.slow.tolist()
    assert (found.fabric.capacity[changed] == 0.5 * clean.capacity[changed]).all()
    np.testing.assert_array_equal(found.fabric.rated, clean.capacity)


def test_drawn_links_are_cards_or_any_link_where_there_are_none() -> None:
    clean = fabric()
    drawn = perturb(noise(**slow(count=2)), clean, 1, 0)
    assert {clean.links[link][:3] for link in drawn.slow.tolist()} == {"NIC"}
    assert len(drawn.slow) == 4
    inside = perturb(noise(**slow(count=2)), fabric(1, nics=0), 1, 0)
    assert len(inside.slow) == 2
    assert "node 0: " in inside.assumptions[0]


@pytest.mark.parametrize(
    ("said", "path", "words"),
    [
        (stragglers(count=17), "training.noise.stragglers.count", "17 devices are to be slow, and the cluster has 16"),
        (stragglers(devices=[0, 16]), "training.noise.stragglers.devices", "there is no device 16"),
        (slow(count=17), "training.noise.slow_links.count", "17 network cards are to be slow, and the cluster has 16"),
        (slow(links=["NIC 16"]), "training.noise.slow_links.links", "the cluster has no link `NIC 16`"),
        (slow(links=["node 2: 0 > switch"]), "training.noise.slow_links.links", "no link `node 2: 0 > switch`"),
        (slow(links=["switch"]), "training.noise.slow_links.links", "no link `switch`"),
    ],
)
def test_what_is_not_there(said: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        perturb(noise(**said), fabric(), 1, 0)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert problem.hint


def test_too_many_draws_are_refused() -> None:
    with pytest.raises(InputError, match=r"needs more than 50,000,000 draws.*at most 3,125,000 steps"):
        perturb(noise(jitter=0.1), fabric(), MOST_FACTORS // 16 + 1, 0)


def test_a_tensor_parallel_group_goes_at_the_pace_of_its_slowest() -> None:
    mesh = Mesh({"tp": 2, "cp": 1, "ep": 1, "dp": 2, "pp": 2}, ("tp", "cp", "ep", "dp", "pp"))
    factors = np.array([[1, 3, 1, 1, 2, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 5]], np.float64)
    pace = slowdowns([mesh.groups("tp", "cp")], mesh.chains(), factors)
    assert pace.shape == (4, 2, 2)
    by_first_rank = {int(chain[0]): pace[i].tolist() for i, chain in enumerate(mesh.chains())}
    assert by_first_rank[0] == by_first_rank[1] == [[3, 1], [2, 1]]
    assert by_first_rank[2] == by_first_rank[3] == [[1, 1], [1, 5]]
    number = dict(zip(mesh.chains()[:, 0].tolist(), fold_keys(pace).tolist(), strict=True))
    assert number[0] == number[1] != number[2] == number[3]


def test_devices_that_experts_lie_over_go_at_the_pace_of_the_slowest() -> None:
    """Experts over two pairs of neighbours; with tensor parallelism across them, all four meet."""
    pairs, across, chains = np.array([[0, 1], [2, 3]]), np.array([[0, 2], [1, 3]]), np.arange(4).reshape(4, 1)
    factors = np.array([[1, 3, 1, 1]], np.float64)
    assert slowdowns([pairs], chains, factors).ravel().tolist() == [3, 3, 1, 1]
    assert slowdowns([pairs, across], chains, factors).ravel().tolist() == [3, 3, 3, 3]


def test_a_slow_device_slows_those_that_it_shares_experts_with() -> None:
    """Merged or not, chains beside it are as late as it is; where every device has all experts they are not."""
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512)
    slow = {"noise": {"stragglers": {"devices": [7], "slowdown": 2.0}}}
    for ep, classes in ((1, [7, 1]), (4, [4, 4])):
        scenario = jobs.scenario(shape=shape, ep=ep, zero=1, training=slow)
        folded, apart = (simulate(scenario, fold=fold) for fold in ("exact", "none"))
        assert [one.ranks for one in folded.classes] == classes
        assert folded.metrics["exposed_communication_s"] == pytest.approx(apart.metrics["exposed_communication_s"])
