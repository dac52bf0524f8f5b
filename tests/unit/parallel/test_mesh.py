"""The mesh."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.parallel import build_mesh
from simulator.specs.training import Parallel


def test_megatron_order_puts_tensor_groups_side_by_side() -> None:
    mesh = build_mesh(Parallel(tp=4, pp=2, dp=2), 16)
    assert mesh.groups("tp").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert mesh.groups("dp").tolist()[0] == [0, 4]
    assert mesh.chains().tolist()[0] == [0, 8]


def test_order_is_the_scenarios() -> None:
    mesh = build_mesh(Parallel(tp=2, pp=2, dp=2, order="pp-tp-cp-ep-dp"), 8)
    assert mesh.groups("pp").tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mesh.groups("tp").tolist()[0] == [0, 2]


@pytest.mark.parametrize("axes", [("tp",), ("dp",), ("pp",), ("dp", "tp")])
def test_groups_partition_the_ranks(axes: tuple[str, ...]) -> None:
    mesh = build_mesh(Parallel(tp=4, pp=3, dp=2), 24)
    assert np.array_equal(np.sort(mesh.groups(*axes).ravel()), np.arange(24))


def test_data_parallelism_is_derived() -> None:
    assert build_mesh(Parallel(tp=8, pp=64), 3072).sizes["dp"] == 6


@pytest.mark.parametrize(
    ("parallel", "words"),
    [
        (Parallel(tp=8, pp=3), "tp 8 x cp 1 x dp 1 x pp 3 = 24, but the cluster has 32 devices"),
        (Parallel(tp=8, dp=5), "tp 8 x cp 1 x dp 5 x pp 1 = 40, but the cluster has 32 devices"),
        (Parallel(tp=64), "tp 64"),
        (Parallel(more={"nonsense": 2}), "unknown parallel axis `nonsense`"),
        (Parallel(order="tp-dp"), "must name each of tp, cp, dp, pp once"),
        (Parallel(order="tp-tp-cp-ep-dp-pp"), "must name each of"),
        (Parallel(order="tp-cp-ep-dp-pp-xp"), "must name each of"),
    ],
)
def test_sizes_that_do_not_fit_print_the_equation(parallel: Parallel, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")) as caught:
        build_mesh(parallel, 32)
    assert caught.value.problems[0].path.startswith("training.parallel")


def test_experts_lie_on_a_mesh_of_their_own() -> None:
    mesh = build_mesh(Parallel(tp=2, dp=4, pp=2), 16)
    experts = mesh.experts(ep=4, etp=1)
    assert experts.world == mesh.world
    assert experts.groups("ep").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert np.array_equal(experts.chains(), np.stack([np.arange(8), np.arange(8, 16)], axis=1))
    with pytest.raises(InputError, match="tp 2 x cp 1 x dp 4 = 8: etp 1 x ep 3 = 3 does not divide it"):
        mesh.experts(ep=3, etp=1)
    with pytest.raises(InputError, match="etp 3 x ep 1 = 3 does not divide it; a divisor of 8") as caught:
        mesh.experts(ep=1, etp=3)
    assert caught.value.problems[0].path == "training.parallel.etp"
    with pytest.raises(InputError, match="pp as the slowest axis"):
        build_mesh(Parallel(tp=2, dp=4, pp=2, order="pp-tp-cp-ep-dp"), 16).experts(4, 1)
