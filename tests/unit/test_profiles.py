"""The shipped hardware and models: every file loads, every number has its source, and the numbers fit each other."""

import json
import re
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import pytest

from simulator.fabric import build
from simulator.specs import data_root, load_spec, names
from simulator.specs.base import Figure, Spec
from simulator.specs.hardware import Accelerator, Cluster, Node
from simulator.specs.model import Model

ACCELERATORS = names(Accelerator)
NODES = names(Node)
CLUSTERS = names(Cluster)
MODELS = names(Model)

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
    "bloom-jean-zay": 384,
    "ascend-910": 2048,
    "dgx-2": 400,
    "dgx-h100-superpod": 1024,
    "edge-cell": 4,
}
"""What the owners say of their machines."""

PUBLISHED = {
    "falcon-7b": 6.92e9,
    "falcon-40b": 41.3e9,
    "gemma-7b": 8.54e9,
    "gpt-j-6b": 6.05e9,
    "gpt-neox-20b": 20.55e9,
    "internlm-7b": 7.32e9,
    "llama-7b": 6.74e9,
    "llama-2-7b": 6.74e9,
    "llama-3.2-1b": 1.236e9,
    "llama-3.2-3b": 3.213e9,
    "mistral-7b": 7.242e9,
    "mpt-1b": 1.316e9,
    "mpt-3b": 2.6518e9,
    "mpt-7b": 6.6589e9,
    "mpt-70b": 64.8624e9,
    "nemotron-4-15b": 15.6e9,
    "pangu-alpha-200b": 207e9,
    "qwen2.5-7b": 7.616e9,
    "qwen2.5-14b": 14.77e9,
    "vocabulary-parallel-4b": 3.83e9,
}
"""Parameters as published, for names that round by 3 % and more, and for some that are known exactly."""

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


def parameters(model: Model) -> float:
    """Weights, biases, norms and embeddings of a model."""
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    matrices = model.hidden * (2 * queries + 2 * keys + (3 if model.gated_ffn else 2) * model.ffn)
    biases = queries + 2 * keys + 2 * model.hidden + (2 if model.gated_ffn else 1) * model.ffn
    norm = (2 if model.norm == "layernorm" else 1) * model.hidden
    embeddings = model.vocabulary * model.hidden * (1 if model.tied_embeddings else 2)
    positions = (model.max_sequence or 0) * model.hidden if model.position == "learned" else 0
    return model.layers * (matrices + biases * model.biases + 2 * norm) + norm + embeddings + positions


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


@pytest.mark.parametrize("name", ACCELERATORS)
def test_narrower_formats_are_at_least_as_fast(name: str) -> None:
    peak = load_spec(Accelerator, name).peak
    for slower, faster in SLOWER_TO_FASTER:
        if slower in peak and faster in peak:
            assert peak[slower].value <= peak[faster].value, (slower, faster)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_an_accelerator_is_of_this_world(name: str) -> None:
    device = load_spec(Accelerator, name)
    fastest = max(figure.value for figure in device.peak.values())
    assert 1e-3 < device.memory.capacity.value / device.memory.bandwidth.value < 1
    assert 10 < fastest / device.memory.bandwidth.value < 3000
    assert device.on_chip is None or device.on_chip.value < device.memory.capacity.value / 50
    assert device.host_link is None or device.host_link.value < device.memory.bandwidth.value
    assert device.power is None or device.power.idle is None or device.power.idle.value < device.power.peak.value
    assert device.sustained is None
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


@pytest.mark.parametrize("name", [name for name in CLUSTERS if name not in ("workstation", "workstation-4x-l40s")])
def test_a_cluster_can_be_given_more_nodes(name: str) -> None:
    assert load_spec(Cluster, name).network.kind != "none"


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
    expected = PUBLISHED.get(name) or named_size(name)
    assert parameters(model) == pytest.approx(expected, rel=0.005 if name in PUBLISHED else 0.03)
    assert model.source


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
