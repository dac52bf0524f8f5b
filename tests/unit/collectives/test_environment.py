"""`NCCL_ALGO` and `NCCL_PROTO`: what is left to choose from."""

from typing import Any

import pytest

from simulator import collectives
from simulator.errors import InputError
from simulator.fabric import build
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile, Environment
from simulator.specs.resolve import load_spec

CLUSTER = load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 2})


def taken(operation: str, size: float, **words: Any) -> str:
    """What a library told so runs over two nodes."""
    profile = load_spec(CollectiveProfile, "nccl-h100").model_copy(update={"environment": Environment(**words)})
    (found,) = collectives.cost_of(operation, [range(16)], size, build(CLUSTER), profile).algorithms
    return found


def test_nothing_said_changes_nothing() -> None:
    assert taken("all_reduce", 2.0**30) == "nvls_tree/NVLS tree"


@pytest.mark.parametrize(
    ("words", "algorithm"),
    [
        ({"NCCL_ALGO": "Ring"}, "ring/Simple"),
        ({"NCCL_ALGO": "^NVLSTree,NVLS", "NCCL_PROTO": "LL128"}, "ring/LL128"),
        ({"NCCL_ALGO": "tree", "NCCL_PROTO": "^simple,ll128"}, "tree/LL"),
        ({"NCCL_ALGO": "allgather:ring;allreduce:tree", "NCCL_PROTO": "Simple"}, "tree/Simple"),
        ({"NCCL_ALGO": "allgather:ring"}, "nvls_tree/NVLS tree"),
        ({"NCCL_PROTO": "^Simple"}, "ring/LL128"),
        ({"NCCL_NVLS_ENABLE": 0}, "ring/Simple"),
        ({"NCCL_NVLS_ENABLE": 1}, "nvls_tree/NVLS tree"),
    ],
)
def test_lists_allow_or_bar(words: dict[str, Any], algorithm: str) -> None:
    assert taken("all_reduce", 2.0**30, **words) == algorithm


def test_sends_and_all_to_alls_have_neither() -> None:
    assert taken("all_to_all", 2.0**26, NCCL_ALGO="Tree") == taken("all_to_all", 2.0**26)


@pytest.mark.parametrize(
    ("operation", "words", "problem"),
    [
        ("all_gather", {"NCCL_ALGO": "Tree"}, "NCCL_ALGO=Tree leaves no algorithm for all_gather"),
        ("all_reduce", {"NCCL_ALGO": "NVLSTree", "NCCL_NVLS_ENABLE": 0}, "NCCL_NVLS_ENABLE=0 leaves no algorithm"),
        ("all_reduce", {"NCCL_ALGO": "Rings"}, "unknown word `rings`"),
        ("all_reduce", {"NCCL_PROTO": "LL256"}, "unknown word `ll256`"),
    ],
)
def test_what_leaves_nothing_is_refused(operation: str, words: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        taken(operation, 1e6, **words)
