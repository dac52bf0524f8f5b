"""All-reduces of serving engines' own kernels."""

import pytest

from simulator import fabric
from simulator.collectives.closed_form import cost_of
from simulator.collectives.custom_all_reduce import custom_seconds, serves
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile, CustomAllReduce
from simulator.units import TICKS_PER_SECOND

MEASURED = {
    ("nccl-a100", "vllm"): ("dgx-a100", {(2, 8192): 5.34, (4, 262144): 14.5, (8, 65536): 11.4, (8, 2097152): 45.4}),
    ("nccl-h100", "vllm"): ("dgx-h100", {(2, 8192): 4.5, (4, 262144): 11.4, (8, 65536): 7.9, (8, 2097152): 30.8}),
    ("nccl-h100", "sglang"): ("dgx-h100", {(2, 8192): 2.7, (4, 262144): 8.2, (8, 1048576): 20.1, (8, 4194304): 62.9}),
    ("nccl-h100", "trtllm"): ("dgx-h100", {(2, 8192): 2.8, (4, 262144): 7.9, (8, 1048576): 35.5, (8, 4194304): 79.4}),
    ("nccl-b200", "vllm"): ("dgx-b200", {(2, 8192): 7.1, (4, 8192): 7.4, (8, 8192): 8.1, (4, 1048576): 23.8}),
    ("nccl-b200", "trtllm"): ("dgx-b200", {(2, 8192): 5.2, (4, 262144): 7.2, (8, 1048576): 30.4, (8, 4194304): 55.4}),
    ("rccl", "vllm"): ("mi300x-cluster", {(2, 4096): 7.07, (2, 16384): 7.53, (4, 2048): 7.18, (4, 32768): 7.58}),
    ("rccl-mi355x", "vllm"): ("mi355x-cluster", {(8, 196608): 10.0, (8, 786432): 16.0, (8, 1572864): 24.2}),
}
"""Microseconds by (devices, bytes) of ai-dynamo/aiconfigurator's tables; on AMD's devices of ROCm/aiter pull request
801, vllm-project/vllm pull requests 19744 and 39080."""


def engine(profile: str, name: str) -> CustomAllReduce:
    """Figures of an engine's kernels."""
    return load_spec(CollectiveProfile, profile).engines[name]


@pytest.mark.parametrize(("profile", "name"), MEASURED)
def test_near_what_was_measured(profile: str, name: str) -> None:
    cluster, rows = MEASURED[profile, name]
    network, spec = fabric.build(load_spec(Cluster, cluster)), engine(profile, name)
    for (members, size), microseconds in rows.items():
        time = custom_seconds(size, tuple(range(members)), network, spec)
        assert time == pytest.approx(microseconds * 1e-6, rel=0.2), (members, size)


def test_two_devices_take_one_shot() -> None:
    network, spec = fabric.build(load_spec(Cluster, "dgx-h100")), engine("nccl-h100", "vllm")
    slope = custom_seconds(2e6, (0, 1), network, spec) - custom_seconds(1e6, (0, 1), network, spec)
    assert slope == pytest.approx(1e6 / (450e9 * spec.efficiency.value))


def test_only_neighbours_in_a_node_are_served() -> None:
    network = fabric.build(load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 2}))
    assert serves((0, 1, 2, 3), network)
    assert not serves((7, 8), network)
    assert not serves((0, 1), fabric.build(load_spec(Cluster, "l40s-cluster")))


@pytest.mark.parametrize("members", [2, 4, 8])
def test_cards_of_a_server_with_switches_reach_one_rate_however_many_they_are(members: int) -> None:
    """Rings on PCIe go as fast as their slowest step; tables of TensorRT-LLM on two to eight L40S imply 17 to 19."""
    cluster = load_spec(Cluster, "l40s-cluster")
    network, profile = fabric.build(cluster), load_spec(CollectiveProfile, cluster.collectives)
    seconds = cost_of("all_reduce", [range(members)], 64e6, network, profile).slowest / TICKS_PER_SECOND
    assert 16e9 < 2 * (members - 1) / members * 64e6 / seconds < 19e9
