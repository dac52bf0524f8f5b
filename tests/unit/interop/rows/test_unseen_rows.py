"""Rows as sources may write them that are not shipped: what they leave to common knowledge is assumed, and said."""

from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused, read_row
from simulator.interop.rows.serving import ServingRow
from simulator.interop.rows.training import Draft, Row, draft
from simulator.run.measured.serving import map_serving_row

DENSE = {"model": "Llama-3.1-70B", "hidden": 8192, "layers": 80, "heads": 64, "kv_heads": 8, "ffn": 28672}
DEEPSEEK = {
    "model": "DeepSeek-V3",
    "hidden": 7168,
    "layers": 61,
    "heads": 128,
    "ffn": 18432,
    "experts": 256,
    "topk": 8,
    "moe_ffn": 2048,
    "shared_experts": 1,
    "dense_layers": 3,
    "attention": "mla",
    "pp": 16,
    "ep": 64,
    "global_batch": 15360,
    "devices": 2048,
    "device": "H800-80GB",
    "precision": "fp8 (block scaled)",
    "framework": "HAI-LLM",
    "schedule": "DualPipe",
}


def drafted(**keys: Any) -> Draft:
    """A row of the 70B model on 64 H100, with other keys."""
    usual = {
        "id": "row",
        "source": "elsewhere",
        "device": "H100-80GB",
        "devices": 64,
        "devices_per_node": 8,
        "vocab": 128256,
        "gated_ffn": True,
        "seq_len": 4096,
        "global_batch": 128,
        "micro_batch": 1,
        "tp": 8,
        "pp": 2,
        "precision": "bf16",
        "framework": "Megatron-LM",
        "primary_metric": "step_s",
        "step_s": 10.0,
    }
    return draft(read_row(Row, {**usual, **DENSE, **keys}))


@pytest.mark.parametrize(
    ("device", "per_node", "network", "name"),
    [
        ("GB300", 4, "NVL4", "NVIDIA GB300"),
        ("MI325X", 8, "xGMI", "AMD Instinct MI325X"),
        ("MI355X", 8, "Infinity Fabric", "AMD Instinct MI355X"),
        ("Ascend-910B", 8, "HCCS", "Huawei Ascend 910B"),
        ("GH200", 4, "NVLink4", "NVIDIA GH200"),
        ("L4", 8, "PCIe", "NVIDIA L4"),
        ("RTX 4090", 8, "PCIe", "NVIDIA GeForce RTX 4090"),
    ],
)
def test_devices_on_several_nodes(device: str, per_node: int, network: str, name: str) -> None:
    row = drafted(device=device, devices_per_node=per_node, intra_node=network, inter_node_gbps_per_device=100)
    cluster = row.scenario.cluster
    assert cluster.node.accelerator.name.startswith(name)
    assert (cluster.node.devices, cluster.nodes) == (per_node, 64 // per_node)
    assert cluster.network.kind != "none" and cluster.node.nics is not None
    assert cluster.node.nics.count * cluster.node.nics.bandwidth.value == pytest.approx(per_node * 12.5e9)


def test_servers_without_a_network_need_a_rate() -> None:
    with pytest.raises(Refused, match="inter_node_gbps_per_device"):
        drafted(device="RTX 4090", inter_node_gbps_per_device=0)


def test_an_mfu_is_a_share_of_the_data_sheet() -> None:
    row = drafted(primary_metric="mfu", mfu=0.4)
    assert row.row.peak_flops_bf16 == row.scenario.cluster.node.accelerator.peak["bf16"].value
    assert any("peak of the data sheet, 989" in text for text in row.assumed)
    with pytest.raises(Refused, match="fewer than 16 bits"):
        drafted(primary_metric="mfu", mfu=0.4, precision="fp8")


def test_a_batch_that_is_nearly_one_that_ranks_share_is_rounded() -> None:
    """992 sequences for 976 over 124 ranks (OPT-175B: two million tokens); a step's time stands for its own batch."""
    keys: dict[str, Any] = {"devices": 992, "global_batch": 976, "tp": 8, "pp": 1}
    rate = {"primary_metric": "tokens_per_s_per_device", "tokens_per_s_per_device": 100.0, "step_s": None}
    row = drafted(**keys, **rate)
    assert row.row.global_batch == row.scenario.training.global_batch == 992
    assert any("992 for 976" in text for text in row.assumed)
    assert drafted(**{**keys, "global_batch": 992}, **rate).assumed == tuple(
        text for text in row.assumed if "for 976" not in text
    )
    assert drafted(**keys).row.global_batch == 976
    assert drafted(**{**keys, "global_batch": 700}, **rate).row.global_batch == 700


def test_the_framework_of_deepseek() -> None:
    """DualPipe hides the exchange by DeepEP, and sizes of latents are those of the model of that name."""
    row = drafted(tp=1, intra_node="NVLink 400 GB/s", **DEEPSEEK)
    training, model = row.scenario.training, row.scenario.model
    assert (training.schedule, training.dispatcher, training.overlap_experts) == ("dualpipe", "deepep", True)
    assert (model.kv_lora_rank, model.q_lora_rank, model.qk_rope_head_dim) == (512, 1536, 64)
    assert any("`HAI-LLM` as megatron-core" in text for text in row.assumed)
    with pytest.raises(Refused, match="without its sizes"):
        drafted(**{**DEEPSEEK, "model": "another-v3"})


def test_gradients_of_a_pipeline_are_reduced_once() -> None:
    row = drafted(shard="ZeRO-2")
    assert row.scenario.training.parallel.zero == 1
    assert any("reduced once a step" in text for text in row.assumed)
    assert drafted(shard="fsdp (zero-2 style: shard optimizer+grads, params kept)").scenario.training.parallel.zero == 2
    assert drafted(shard="ZeRO-2", pp=1).scenario.training.parallel.zero == 2


def test_checkpointing_by_operator_keeps_what_torchtitan_keeps() -> None:
    training = drafted(framework="torchtitan", recompute="selective (op)", tp=1, pp=1, shard="FSDP2").scenario.training
    assert training.recompute == "full"
    assert training.recompute_keeps == ("attention", "reductions", "every-second-product")


def test_slices_over_the_data_centre_network() -> None:
    """Each slice shards over its own devices; the others are copies that the hosts' cards join."""
    shard = "fsdp over ICI (256 chips), 4 slice(s) over DCN data parallel"
    row = drafted(
        device="TPU-v5e",
        devices=1024,
        devices_per_node=4,
        framework="MaxText",
        tp=1,
        pp=1,
        shard=shard,
        global_batch=1024,
    )
    cluster, parallel = row.scenario.cluster, row.scenario.training.parallel
    assert (cluster.network.kind, cluster.network.shape, cluster.devices) == ("multislice", (16, 16), 1024)
    assert (parallel.zero, parallel.shard_size) == (3, 256)
    with pytest.raises(Refused, match="a host of each slice"):
        drafted(device="TPU-v5e", devices=1016, devices_per_node=4, framework="MaxText", tp=1, pp=1, shard=shard)


SERVED = {
    "id": "row",
    "source": "elsewhere",
    "kind": "online_serving",
    "model": "Llama-3.1-8B",
    "engine": "vLLM",
    "engine_version": "0.11.0",
    "precision": {"weights": "bf16"},
    "input_len": 1024,
    "output_len": 256,
    "concurrency": 8,
    "metrics": {"ttft_s": 0.2, "tpot_s": 0.02},
}


def served(accelerator: str, devices: int, **keys: Any) -> Any:
    row = {**SERVED, "accelerator": accelerator, "num_accelerators": devices, "parallelism": {"tp": devices}, **keys}
    return map_serving_row(read_row(ServingRow, row))


@pytest.mark.parametrize(
    ("accelerator", "devices", "name"),
    [
        ("NVIDIA GB300 288GB (NVL72)", 4, "NVIDIA GB300"),
        ("AMD MI355X 288GB", 8, "AMD Instinct MI355X"),
        ("AMD Instinct MI325X", 8, "AMD Instinct MI325X"),
        ("NVIDIA L4", 1, "NVIDIA L4"),
        ("NVIDIA RTX 5090", 1, "NVIDIA GeForce RTX 5090"),
        ("TPU v6e", 1, "Google TPU v6e"),
    ],
)
def test_accelerators_that_serve(accelerator: str, devices: int, name: str) -> None:
    cluster = served(accelerator, devices).scenario.cluster
    assert cluster.node.accelerator.name.startswith(name)
    assert devices <= cluster.devices


def test_a_slice_that_serves_has_whole_hosts() -> None:
    cluster = served("TPU v5e", 12).scenario.cluster
    assert (cluster.devices, cluster.network.shape) == (16, (4, 4))


def test_an_engine_without_a_stack_is_taken_for_the_most_similar_one() -> None:
    found = served("NVIDIA A100 SXM 80GB", 1, engine="LightLLM", engine_version="1.0")
    assert "engine `LightLLM` as vllm-v0, the most like it" in found.assumed
    assert not any("most like it" in text for text in served("NVIDIA A100 SXM 80GB", 1).assumed)


def on_pods(**keys: Any) -> Draft:
    """A row of MaxText on 1,024 chips of TPU v5p."""
    usual = {"device": "TPU-v5p", "devices": 1024, "devices_per_node": None, "framework": "MaxText", "pp": 1}
    usual |= {"shard": "fsdp=16 x tensor=8 over ICI", "micro_batch": None, "global_batch": 2048}
    return drafted(**usual | keys)


@pytest.mark.parametrize(
    ("policy", "keeps"),
    [
        ("full", ()),
        ("minimal", ("products", "summed")),
        ("save_dot_except_mlpwi", ("attention in", "attention out", "summed", "mlp out")),
        ("save_qkv_proj", ("attention in",)),
    ],
)
def test_policies_of_maxtext_keep_what_their_names_say(policy: str, keeps: tuple[str, ...]) -> None:
    training = on_pods(recompute=policy).scenario.training
    assert (training.recompute, training.recompute_keeps) == ("full", keeps)


@pytest.mark.parametrize(("devices", "shape"), [(1024, (8, 16, 8)), (1536, (12, 16, 8)), (512, (8, 8, 8))])
def test_axes_lie_on_whole_sides_of_a_slice(devices: int, shape: tuple[int, ...]) -> None:
    assert on_pods(devices=devices, global_batch=2 * devices).scenario.cluster.network.shape == shape


def test_int8_of_tpus_is_a_recipe() -> None:
    assert on_pods(precision="int8 (AQT) training").scenario.training.precision == "int8"


def test_the_capacity_that_a_row_states_is_used() -> None:
    mixture = {"experts": 8, "topk": 2, "shard": "fsdp", "tp": None}
    assert on_pods(flags="token drop, capacity_factor=1.25", **mixture).scenario.training.routing.capacity == 1.25
    assert on_pods(flags="token drop", **mixture).scenario.training.routing.capacity == 1.0


@pytest.mark.parametrize(
    ("device", "devices", "pods"), [("TPU-v6e", 1024, 4), ("TPU-v5e", 512, 2), ("TPU-v5p", 17920, 2)]
)
def test_more_chips_than_a_pod_are_whole_pods(device: str, devices: int, pods: int) -> None:
    found = on_pods(device=device, devices=devices, shard="fsdp (see recipe)", tp=None, global_batch=devices)
    assert found.scenario.cluster.network.kind == "multislice"
    assert found.scenario.training.parallel.shard_size == devices // pods
    assert any(f"{pods} whole pods" in text for text in found.assumed)


@pytest.mark.parametrize(
    ("device", "devices", "shape"),
    [("Trainium2", 1, (1, 1)), ("Trainium2", 4, (2, 2)), ("trn2.48xlarge", 8, (2, 4)), ("Trainium1", 1, (1, 1))],
)
def test_parts_of_an_instance_are_pieces_of_its_torus(device: str, devices: int, shape: tuple[int, ...]) -> None:
    alone = {"inter_node_gbps_per_device": None, "tp": 1, "pp": 1, "framework": "NeuronX Distributed"}
    cluster = drafted(device=device, devices=devices, devices_per_node=None, global_batch=16, **alone).scenario.cluster
    network = cluster.network
    assert (cluster.devices, network.kind, network.shape, any(network.closed)) == (devices, "torus", shape, False)


def test_a_whole_instance_is_a_slice_and_what_no_piece_fills_is_refused() -> None:
    alone = {"device": "Trainium2", "devices_per_node": None, "tp": 1, "pp": 1, "framework": "NeuronX Distributed"}
    whole = drafted(**alone, devices=16).scenario.cluster.network
    assert (whole.kind, whole.shape) == ("multislice", (4, 4))
    with pytest.raises(Refused, match="5 devices are no piece of a slice of 4 x 4"):
        drafted(**alone, devices=5, global_batch=10)
