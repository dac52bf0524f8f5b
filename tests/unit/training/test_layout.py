"""The mesh and the split of layers."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.specs.training import Parallel
from simulator.training.layout import build_mesh, split_layers


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
        (Parallel(order="tp-dp"), "must name each of"),
        (Parallel(cp=2), "2: context parallelism .* is not modelled"),
    ],
)
def test_sizes_that_do_not_fit_print_the_equation(parallel: Parallel, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")) as caught:
        build_mesh(parallel, 32)
    assert caught.value.problems[0].path.startswith("training.parallel")


def test_layers() -> None:
    assert split_layers(96, 4, 2, None) == (12,) * 8
    assert split_layers(10, 4, 1, (2, 3, 3, 2)) == (2, 3, 3, 2)


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        (None, "10 layers do not divide"),
        ((5, 5), "2 numbers"),
        ((4, 4, 1, 2), "sum to 11"),
        ((-1, 4, 4, 3), "-1 layers: a stage has 0 layers or more"),
    ],
)
def test_layers_that_do_not_divide_name_stages(stages: tuple[int, ...] | None, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        split_layers(10, 4, 1, stages)
    assert caught.value.problems[0].path == "training.stages"
    assert "write 4 numbers" in caught.value.problems[0].hint
