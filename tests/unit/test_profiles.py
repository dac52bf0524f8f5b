"""The shipped hardware and models: every file loads, every number has its source, and the numbers fit each other."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from pathlib import Path

import pytest

from simulator.cost.device import compile_device
from simulator.cost.gemm import gemm_seconds
from simulator.fabric import build
from simulator.report.catalogue.profiles import ROOMS
from simulator.serving.policies import POLICIES
from simulator.specs import data_root, load_spec, names
from simulator.specs.base import Figure, Spec
from simulator.specs.hardware import Accelerator, Cluster, Node
from simulator.specs.model import Model
from simulator.specs.serving import ServingStack
from tests.parameters import parameters

ACCELERATORS = names(Accelerator)
NODES = names(Node)
CLUSTERS = names(Cluster)
MODELS = names(Model)
SERVING = ROOMS["serving stacks"].names()

SLOWER_TO_FASTER = (
    ("fp64", "fp32"),
    ("fp32", "tf32"),
    ("tf32", "bf16"),
    ("fp32", "fp16"),
    ("bf16", "fp8"),
    ("fp32", "int8"),
    ("fp8", "fp4"),
    ("int8", "int4"),
)
"""Formats of which the second is at least as fast on every device that has both."""

IN_MEMORY = ("pim-gpt",)
"""Devices whose banks multiply what they hold: no operation without its bytes."""

DEVICES = {
    "selene": 4480,
    "meta-roce-24k": 24576,
    "frontier": 75264,
    "cloudmatrix384": 384,
    "cloudmatrix384-dies": 768,
    "gb200-nvl72": 576,
    "tpu-v4-pod": 4096,
    "tpu-v5e-pod": 256,
    "tpu-v5p-pod": 8960,
    "tpu-v6e-pod": 256,
    "tpu7x-pod": 9216,
    "bloom-jean-zay": 384,
    "ascend-910": 2048,
    "dgx-2": 400,
    "dgx-h100-superpod": 1024,
    "edge-cell": 4,
}
"""What the owners say of their machines."""

PUBLISHED = {
    "bitnet-b1.58-0.7b": 7.288e8,
    "bloom-1.1b": 1.0653e9,
    "bloom-1.7b": 1.7224e9,
    "bloom-3b": 3.0026e9,
    "bloom-7.1b": 7.069e9,
    "bloom-176b": 176.25e9,
    "bloom-560m": 5.592e8,
    "codellama-7b": 6.74e9,
    "codellama-13b": 1.3016e10,
    "codellama-34b": 3.374e10,
    "codellama-70b": 6.898e10,
    "deepseek-67b": 67.4e9,
    "r1-distill-llama-8b": 8.03e9,
    "r1-distill-llama-70b": 7.055e10,
    "r1-distill-qwen-1.5b": 1.777e9,
    "r1-distill-qwen-7b": 7.616e9,
    "r1-distill-qwen-14b": 1.477e10,
    "r1-distill-qwen-32b": 3.276e10,
    "falcon-7b": 6.92e9,
    "falcon-40b": 41.3e9,
    "gemma-2-2b": 2.614e9,
    "gemma-2-9b": 9.242e9,
    "gemma-2-27b": 2.723e10,
    "gemma-2b": 2.506e9,
    "gemma-3-1b": 9.9989e8,
    "gemma-3-4b": 3.88e9,
    "gemma-3-12b": 1.177e10,
    "gemma-3-27b": 2.701e10,
    "gemma-7b": 8.54e9,
    "gpt-j-6b": 6.05e9,
    "gpt-neox-20b": 20.55e9,
    "gpt-oss-20b": 2.091e10,
    "gpt-oss-120b": 1.1683e11,
    "gpt2-1.5b": 1.5576e9,
    "gpt2-124m": 1.2444e8,
    "gpt2-355m": 3.5482e8,
    "gpt2-774m": 7.7403e8,
    "internlm-7b": 7.32e9,
    "llama-2-7b": 6.74e9,
    "llama-2-13b": 13.016e9,
    "llama-2-70b": 68.98e9,
    "llama-3-8b": 8.030e9,
    "llama-3-70b": 70.55e9,
    "llama-3.1-8b": 8.030e9,
    "llama-3.1-70b": 70.55e9,
    "llama-3.1-405b": 405.85e9,
    "llama-3.2-1b": 1.236e9,
    "llama-3.2-3b": 3.213e9,
    "llama-3.3-70b": 70.55e9,
    "llama-7b": 6.74e9,
    "llama-13b": 13.016e9,
    "llama-33b": 32.53e9,
    "llama-65b": 65.29e9,
    "mistral-7b": 7.242e9,
    "mistral-large-123b": 1.226e11,
    "mistral-nemo-12b": 1.225e10,
    "mistral-small-24b": 2.357e10,
    "mixtral-8x7b": 4.67e10,
    "mixtral-8x22b": 1.406e11,
    "mpt-1b": 1.316e9,
    "mpt-3b": 2.6518e9,
    "mpt-7b": 6.6589e9,
    "mpt-70b": 64.8624e9,
    "nemotron-4-15b": 15.6e9,
    "openllama-3b": 3.426e9,
    "opt-1.3b": 1.316e9,
    "opt-2.7b": 2.652e9,
    "opt-6.7b": 6.658e9,
    "opt-13b": 12.85e9,
    "opt-30b": 29.97e9,
    "opt-66b": 65.72e9,
    "opt-125m": 125.2e6,
    "pangu-alpha-200b": 207e9,
    "phi-1.5": 1.418e9,
    "phi-2": 2.78e9,
    "phi-3-medium": 1.396e10,
    "phi-3-mini": 3.821e9,
    "phi-4": 1.466e10,
    "qwen1.5-moe-a2.7b": 1.432e10,
    "qwen2-0.5b": 4.94e8,
    "qwen2-1.5b": 1.544e9,
    "qwen2-7b": 7.616e9,
    "qwen2-57b-a14b": 5.741e10,
    "qwen2-72b": 7.271e10,
    "qwen2.5-0.5b": 494e6,
    "qwen2.5-1.5b": 1.544e9,
    "qwen2.5-3b": 3.086e9,
    "qwen2.5-7b": 7.616e9,
    "qwen2.5-14b": 14.77e9,
    "qwen2.5-32b": 32.76e9,
    "qwen2.5-72b": 72.71e9,
    "qwen3-0.6b": 5.96e8,
    "qwen3-1.7b": 1.721e9,
    "qwen3-4b": 4.022e9,
    "qwen3-8b": 8.191e9,
    "qwen3-14b": 1.4768e10,
    "qwen3-30b-a3b": 3.053e10,
    "qwen3-32b": 3.2762e10,
    "qwen3-235b-a22b": 2.3509e11,
    "starcoder2-3b": 3.03e9,
    "starcoder2-7b": 7.174e9,
    "starcoder2-15b": 1.596e10,
    "tinyllama-1.1b": 1.1e9,
    "vicuna-7b": 6.738e9,
    "vicuna-13b": 1.3016e10,
    "vicuna-33b": 3.253e10,
    "vocabulary-parallel-4b": 3.83e9,
    "yi-6b": 6.061e9,
    "yi-9b": 8.829e9,
    "yi-34b": 34.39e9,
}
"""Parameters as published, wherever they are known better than the name says; all experts of a mixture counted."""

ROWS = {
    "A100-40GB": "generic-a100-40gb",
    "A100-80GB": "generic-a100",
    "A800-80GB": "a800-cluster",
    "B200": "dgx-b200",
    "B300": "dgx-b300",
    "GB200": "gb200-nvl64",
    "H100-80GB": "generic-h100",
    "H200-141GB": "dgx-h200",
    "L40S": "l40s-cluster",
    "MI250X-GCD": "frontier",
    "MI300X": "mi300x-cluster",
    "TPU-v4": "tpu-v4-pod",
    "TPU-v5e": "tpu-v5e-pod",
    "TPU-v5p": "tpu-v5p-pod",
    "TPU-v6e": "tpu-v6e-pod",
}
"""Cluster of each device that published training measurements name."""

SERVED = {
    "a100-sxm-80gb": "dgx-a100",
    "a100-pcie-80gb": "server-4x-a100-pcie-80gb",
    "a40": "server-4x-a40",
    "ascend-910c": "cloudmatrix384",
    "b200-sxm": "dgx-b200",
    "gb200": "gb200-nvl72",
    "gh200-96gb": "gh200",
    "h100-pcie-80gb": "server-4x-h100-pcie",
    "h100-sxm-80gb": "dgx-h100",
    "h200-sxm": "dgx-h200",
    "l40s": "l40s-cluster",
    "mi300x": "mi300x-cluster",
    "rtx-3090": "server-8x-rtx-3090",
    "rtx-4090": "workstation-4x-rtx-4090",
    "rtx-6000-ada": "workstation-4x-rtx-6000-ada",
    "rtx-a6000": "workstation-4x-a6000",
    "rtx-pro-6000": "server-8x-rtx-pro-6000",
    "NVIDIA 3070 8GB": "workstation-4x-rtx-3070",
    "NVIDIA 3080 Ti 12GB": "workstation-4x-rtx-3080-ti",
    "NVIDIA 4070 Ti 12GB": "workstation-4x-rtx-4070-ti",
    "NVIDIA RTX 4000 Ada 20GB": "workstation-4x-rtx-4000-ada",
    "NVIDIA RTX 5000 Ada 32GB": "workstation-4x-rtx-5000-ada",
    "Apple M1 Max 32-Core GPU 64GB": "mac-m1-max",
    "Apple M2 Ultra 76-Core GPU 192GB": "mac-studio-m2-ultra",
    "Apple M4 (Mac mini 16GB)": "mac-mini-m4",
    "Intel Arc Pro B60 24GB": "workstation-4x-arc-b60",
    "AMD KV260 FPGA": "kv260-tellme",
    "CPU laptop (home testbed)": "laptop-cell",
    "CPU edge device (Klonet emulated testbed)": "cpu-cell",
}
"""Cluster of each device that published serving measurements name, by its id or, without one, its name."""

MEASURED = Path(__file__).parents[3] / "shared" / "measurements" / "training.jsonl"


def figures(spec: Spec, path: str = "") -> Iterator[tuple[str, Figure[float]]]:
    """Every figure of a spec with its path, those of the specs inside it included."""
    for name in type(spec).model_fields:
        value = getattr(spec, name)
        for key, item in _items(value):
            here = f"{path}.{name}.{key}".strip(".")
            if isinstance(item, Figure):
                yield here, item
            elif isinstance(item, Spec):
                yield from figures(item, here)


def _items(value: object) -> Iterable[tuple[object, object]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, tuple) else [("", value)]


def named_size(name: str) -> float:
    """Parameters that a name such as `gpt-1.7b` states."""
    match = re.search(r"-(\d+(?:\.\d+)?)([mbt])$", name)
    assert match, name
    return float(match[1]) * {"m": 1e6, "b": 1e9, "t": 1e12}[match[2]]


@pytest.mark.parametrize("kind", [Accelerator, Node, Cluster, Model])
def test_there_are_profiles_with_kebab_case_names(kind: type[Spec]) -> None:
    assert names(kind)
    assert all(re.fullmatch(r"[a-z0-9.]+(-[a-z0-9.]+)*", name) for name in names(kind))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in (Accelerator, Node, Cluster) for name in names(kind)],
)
def test_every_figure_is_positive_and_says_where_it_was_read(kind: type[Spec], name: str) -> None:
    for path, figure in figures(load_spec(kind, name)):
        assert figure.value > 0, path
        assert len(figure.source) > 5, path
        if figure.source.startswith(("unverified", "derived", "usual", "taken as", "that of")):
            assert figure.status == "estimate", path


@pytest.mark.parametrize("name", SERVING)
def test_a_serving_stack_says_where_its_numbers_come_from(name: str) -> None:
    stack = load_spec(ServingStack, name)
    assert (stack.memory_share is None) != (stack.free_share is None)
    assert stack.policy in POLICIES.names()
    assert len(stack.notes) > 50
    for path, figure in figures(stack):
        assert figure.value >= 0, path
        assert len(figure.source) > 5, path


def test_serving_stacks_stand_for_the_engines_of_published_rows() -> None:
    assert set(SERVING) >= {"vllm", "vllm-v0", "sglang", "tensorrt-llm", "tensorrt-llm-0.9", "llama.cpp", "tgi"}
    assert load_spec(ServingStack, "llama.cpp").split == "layer"
    assert load_spec(ServingStack, "deepspeed-fastgen").policy == "splitfuse"


@pytest.mark.parametrize(
    ("name", "groups", "heads"),
    [
        ("tensorrt-llm-0.5", (), ()),
        ("tensorrt-llm-0.8", (8,), (128,)),
        ("tensorrt-llm-0.9", (1, 8), (128,)),
        ("tensorrt-llm-0.12", (1, 8, 16), (128, 256)),
        ("tensorrt-llm", (1, 4, 8, 16), (64, 128, 256)),
        ("vllm", (1, 4, 8, 16), (64, 128, 256)),
    ],
)
def test_grouped_kernels_by_version(name: str, groups: tuple[int, ...], heads: tuple[int, ...]) -> None:
    stack = load_spec(ServingStack, name)
    assert tuple(one for one in (1, 4, 8, 16) if stack.groups(one, 128)) == groups
    assert tuple(size for size in (64, 128, 256) if stack.groups(8, size)) == heads
    assert not load_spec(ServingStack, "tensorrt-llm").groups(71, 64)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_narrower_formats_are_at_least_as_fast(name: str) -> None:
    peak = load_spec(Accelerator, name).peak
    for slower, faster in SLOWER_TO_FASTER:
        if slower in peak and faster in peak:
            assert peak[slower].value <= peak[faster].value, (slower, faster)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_products_of_narrower_formats_take_no_longer(name: str) -> None:
    device = compile_device(load_spec(Accelerator, name))
    peaks = device.peaks
    for wide, narrow in (("fp32", "bf16"), ("bf16", "fp8"), ("bf16", "int8"), ("fp8", "fp4")):
        if wide in peaks and peaks.get(narrow, 0.0) >= peaks[wide]:  # GB300 has hardly any int8
            for rows, columns, depth in product((1, 16, 64, 256, 4096), (6144, 28672), (4096, 14336)):
                before, after = (gemm_seconds(rows, columns, depth, 1, device.gemm[each])[0] for each in (wide, narrow))
                assert after < 1.05 * before, (wide, narrow, rows, columns, depth)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_an_accelerator_is_of_this_world(name: str) -> None:
    device = load_spec(Accelerator, name)
    fastest = max(figure.value for figure in device.peak.values())
    assert 1e-3 < device.memory.capacity.value / device.memory.bandwidth.value < 1
    assert (1 if name in IN_MEMORY else 10) <= fastest / device.memory.bandwidth.value < 4000
    assert device.on_chip is None or device.on_chip.value < device.memory.capacity.value / 50
    assert device.host_link is None or device.host_link.value < device.memory.bandwidth.value
    assert device.power is None or device.power.idle is None or device.power.idle.value < device.power.peak.value
    assert device.sustained is None or device.sustained.value == 1
    assert 2015 < device.year < 2027


@pytest.mark.parametrize("pair", [("mi250x-gcd", "mi250x"), ("ascend-910c-die", "ascend-910c")])
def test_a_package_is_two_dies(pair: tuple[str, str]) -> None:
    die, package = (load_spec(Accelerator, name) for name in pair)
    assert package.memory.capacity.value == pytest.approx(2 * die.memory.capacity.value)
    assert package.memory.bandwidth.value == pytest.approx(2 * die.memory.bandwidth.value)
    assert {key: figure.value for key, figure in package.peak.items()} == pytest.approx(
        {key: 2 * figure.value for key, figure in die.peak.items()}
    )


@pytest.mark.parametrize("name", NODES)
def test_the_parts_of_a_node_fit(name: str) -> None:
    node = load_spec(Node, name)
    board = node.accelerator.power
    if node.power and board:
        assert node.power.value >= node.devices * board.peak.value
    if node.scale_up.kind == "links":
        ends = [device for link in node.scale_up.links for device in link.between]
        assert set(ends) == set(range(node.devices))
    if node.nics and node.scale_up.bandwidth:
        inside = node.scale_up.bandwidth.value * (1 if node.scale_up.kind == "host" else node.devices)
        assert node.nics.count * node.nics.bandwidth.value < inside


def test_the_links_of_uneven_nodes_add_up_to_the_ports_of_their_devices() -> None:
    for name, ports in (("dgx-1-v100", {6}), ("frontier-node", {6, 7})):
        node = load_spec(Node, name)
        used = [sum(link.count for link in node.scale_up.links if i in link.between) for i in range(node.devices)]
        assert set(used) == ports


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_is_joined(name: str) -> None:
    cluster = load_spec(Cluster, name)
    sizes = [level.nodes for level in cluster.network.levels]
    assert sizes == sorted(set(sizes))
    if cluster.network.kind == "torus":
        assert prod(cluster.network.shape) == cluster.devices
    fabric = build(cluster)
    assert fabric.devices == cluster.devices == DEVICES.get(name, cluster.devices)
    if cluster.devices > 1:
        assert len(fabric.route(0, cluster.devices - 1)) > 0
    assert (fabric.capacity > 0).all()


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_can_be_given_more_nodes_where_they_have_network_cards(name: str) -> None:
    cluster = load_spec(Cluster, name)
    assert (cluster.network.kind == "none") <= (cluster.node.nics is None)


def test_every_named_kernel_and_collective_profile_exists() -> None:
    profiles = data_root() / "hardware_profiles"
    kernels = {load_spec(Accelerator, name).kernels for name in ACCELERATORS}
    collectives = {load_spec(Cluster, name).collectives for name in CLUSTERS}
    assert [name for name in sorted(kernels) if not (profiles / "kernels" / f"{name}.yaml").exists()] == []
    assert [name for name in sorted(collectives) if not (profiles / "collectives" / f"{name}.yaml").exists()] == []


def test_frontier_and_meta_have_the_bandwidth_that_their_owners_state() -> None:
    frontier, meta = load_spec(Cluster, "frontier"), load_spec(Cluster, "meta-roce-24k")
    assert frontier.network.global_bandwidth and frontier.node.nics
    injected = 128 * frontier.node.nics.count * frontier.node.nics.bandwidth.value
    assert frontier.network.global_bandwidth.value / injected == pytest.approx(0.57, abs=0.01)
    rack, pod = meta.network.levels
    assert (rack.nodes * meta.node.devices, rack.oversubscription) == (16, 1)
    assert (pod.nodes * meta.node.devices, pod.oversubscription) == (3072, 7)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_parameters_that_its_name_states(name: str) -> None:
    model = load_spec(Model, name)
    assert model.source
    if model.published_parameters and name not in PUBLISHED:
        return  # tests/unit/model/test_parameters.py holds it to what its authors state
    expected = PUBLISHED.get(name) or named_size(name)
    assert parameters(model) == pytest.approx(expected, rel=0.005 if name in PUBLISHED else 0.03)


def test_published_sizes_are_of_models_that_exist() -> None:
    assert set(PUBLISHED) <= set(MODELS)


@pytest.mark.skipif(not MEASURED.exists(), reason="the published measurements lie beside a checkout only")
def test_published_training_rows_have_a_cluster_of_the_same_device() -> None:
    with MEASURED.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for device, peak, per_node in {(row["device"], row["peak_flops_bf16"], row["devices_per_node"]) for row in rows}:
        cluster = load_spec(Cluster, ROWS[device])
        assert cluster.node.accelerator.peak["bf16"].value == pytest.approx(peak, rel=0.03), device
        if not device.startswith(("TPU", "GB200")):
            assert cluster.node.devices == per_node, device


@pytest.mark.parametrize(("device", "cluster"), SERVED.items())
def test_devices_of_published_serving_rows_have_a_machine(device: str, cluster: str) -> None:
    node = load_spec(Cluster, cluster).node
    stated = re.search(r"\b(\d+)GB$", device)
    if stated and "Apple" not in device:  # whose memory is shared with the CPU
        assert node.accelerator.memory.capacity.value == pytest.approx(float(stated[1]) * 1e9, rel=0.09)
