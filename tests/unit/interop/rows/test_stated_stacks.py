"""Stacks of training rows: what their words say of compilers, of copies of parameters and of whose run it was."""

from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused, read_row
from simulator.interop.rows.stated import stacks
from simulator.interop.rows.training import Draft, Row, draft

ROW: dict[str, Any] = {
    "id": "row",
    "source": "a-user",
    "device": "H100-80GB",
    "devices": 16,
    "devices_per_node": 8,
    "model": "Qwen3-8B",
    "hidden": 4096,
    "layers": 36,
    "heads": 32,
    "kv_heads": 8,
    "ffn": 12288,
    "gated_ffn": True,
    "vocab": 151936,
    "seq_len": 4096,
    "precision": "bf16",
    "global_batch": 64,
    "micro_batch": 1,
    "tp": 2,
    "pp": 2,
    "recompute": "none",
    "framework": "Megatron-Bridge 0.1.0 (NeMo 25.09 container)",
    "primary_metric": "step_s",
    "step_s": 2.0,
}


def drafted(**changes: Any) -> Draft:
    return draft(read_row(Row, ROW | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "megatron-bridge"},
        {"url": "github NVIDIA-NeMo/Megatron-Bridge@067f987d docs/performance-summary.md"},
        {"table": "26.02 NeMo container, LLAMA3_70B"},
        {"table": "pretrain_performance, H100"},
        {"source": "nvidia-dgxc-benchmarking"},
        {"flags": "performance recipe"},
        {"source": "mlperf-training-v5.1"},
    ],
)
def test_benchmarks_of_nvidia_run_its_recipes_of_performance(changes: dict[str, Any]) -> None:
    assert drafted(**changes).stack == "nemo"
    assert drafted(**changes).open.least_chunks == 1


def test_a_run_of_ones_own_with_megatron_bridge_is_one_of_megatron_core() -> None:
    own = drafted()
    assert (own.stack, own.scenario.stack.gradient_bytes, own.open.least_chunks) == ("megatron-core", 4, None)
    assert "vpp 1, as recipes of the framework's library have it" in own.assumed
    assert drafted(framework="NeMo 25.02").stack == "nemo"
    experts = {"experts": 8, "topk": 2, "moe_ffn": 512, "ep": 8, "tp": 1, "pp": 1}
    assert drafted(**experts).scenario.training.dispatcher is None
    assert drafted(**experts, source="megatron-bridge").scenario.training.dispatcher == "deepep"
    assert drafted(**experts, flags="DeepEP").scenario.training.dispatcher == "deepep"


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({"framework": "Megatron-Core"}, 1),
        ({"framework": "Megatron-Core", "flags": "no virtual pipeline"}, None),
        ({"framework": "Megatron-Core", "notes": "non-interleaved"}, None),
        ({"framework": "NeMo (library recipe)"}, None),
        ({"framework": "Megatron-Core", "notes": "default recipe", "schedule": "interleaved 1F1B"}, 2),
        ({"schedule": "interleaved 1F1B"}, 2),
        ({"model": "Llama-3.1-70B"}, 1),
        ({"pp": 1}, None),
    ],
)
def test_stages_hold_several_chunks_unless_words_or_recipes_say_one(changes: dict[str, Any], least: int | None) -> None:
    assert drafted(**changes).open.least_chunks == least


FLAT: dict[str, Any] = {"tp": 1, "pp": 1, "framework": "PyTorch FSDP", "shard": "FSDP full shard"}


@pytest.mark.parametrize(
    ("framework", "flags", "stack"),
    [
        ("PyTorch DDP (nanoGPT)", None, "pytorch-ddp-compiled"),
        ("PyTorch DDP (nanoGPT)", "eager", "pytorch-ddp-eager"),
        ("nanoGPT, no compile", None, "pytorch-ddp-eager"),
        ("nanoGPT", "attn_implementation=eager", "pytorch-ddp-compiled"),
        ("nanoGPT", "eager attention", "pytorch-ddp-compiled"),
        ("nanoGPT", "torch.compile; eager data loading", "pytorch-ddp-compiled"),
        ("modded-nanogpt", "torch.compile=False", "pytorch-ddp-eager"),
        ("modded-nanogpt", None, "nanochat"),
        ("own PyTorch loop", "torch.compile", "pytorch-ddp-compiled"),
        ("custom PyTorch", "no torch.compile", "pytorch-ddp-eager"),
        ("PyTorch 2.4 (own code), SDPA", None, "pytorch-ddp-eager"),
    ],
)
def test_programs_of_ones_own_are_compiled_or_not(framework: str, flags: str | None, stack: str) -> None:
    found = drafted(tp=1, pp=1, framework=framework, flags=flags)
    assert found.stack == stack
    assert any("the most like it" in said for said in found.assumed) == ("modded" not in framework)


@pytest.mark.parametrize(
    ("changes", "pure"),
    [
        ({"precision": "pure bf16"}, True),
        ({"notes": "model loaded in bf16"}, True),
        ({"flags": "torch_dtype=torch.bfloat16"}, True),
        ({"flags": "bf16 master weights"}, True),
        ({"framework": "MaxText", "notes": "weights in bf16"}, True),
        ({"notes": "loaded in bf16, fp32 master weights"}, False),
        ({"notes": "not loaded in bf16"}, False),
        ({"flags": "param_dtype=bfloat16, reduce in fp32"}, False),
        ({"framework": "Megatron-Core", "shard": None, "precision": "pure bf16"}, False),
    ],
)
def test_parameters_in_16_bits_and_no_copy_of_them(changes: dict[str, Any], pure: bool) -> None:
    found = drafted(**FLAT | changes)
    stack, optimizer = found.scenario.stack, found.scenario.training.optimizer
    assert stacks.pure(found.row) == pure
    if pure:
        assert (stack.master_weights, stack.fp32_parameters, stack.gradient_bytes) == (False, False, 2)
        assert optimizer is not None and optimizer.moments == "bf16"
    else:
        assert optimizer is None and stack.master_weights


def test_memory_of_parameters_in_16_bits_is_half() -> None:
    """Parameters, gradients and two moments in 2 bytes each, of 4 in fp32."""
    flags = "no master weights; bf16 optimizer states; bf16 gradient reduction"
    found = drafted(**FLAT | {"framework": "llm.c", "shard": None}, flags=flags).scenario
    assert found.training.optimizer is not None
    assert (found.stack.master_weights, found.training.optimizer.moments) == (False, "bf16")
    assert found.training.reduce_precision == "bf16"


def test_a_compiler_that_may_keep_a_share_drops_the_cheapest_results_first() -> None:
    much, little = (drafted(**FLAT | {"recompute": f"selective (memory budget {share})"}) for share in ("0.9", "0.25"))
    assert much.scenario.training.recompute_keeps == ("attention", "products")
    assert much.scenario.training.recompute_share == pytest.approx(0.2)
    assert (little.scenario.training.recompute_keeps, little.scenario.training.recompute_share) == ((), 0.75)
    assert all(any("activation memory budget" in said for said in one.assumed) for one in (much, little))
    assert not much.open.gives_way


@pytest.mark.parametrize(
    ("changes", "stack"),
    [
        ({"framework": "PyTorch", "devices": 1}, "pytorch-ddp-eager"),
        ({"framework": "PyTorch", "dp": 16}, "pytorch-ddp-eager"),
        ({"framework": "PyTorch DDP"}, "pytorch-ddp-eager"),
        ({"framework": "flash-attention training (PyTorch)", "shard": "zero1 (DDP)"}, "pytorch-ddp"),
        ({"framework": "ScaleTorch (PyTorch, torch_npu)", "shard": "none"}, "picotron"),
        ({"framework": "JAX (own code), splash attention"}, "jax"),
        ({"framework": "MaxText (JAX)"}, "maxtext"),
        ({"framework": "ms-swift (FSDP)", "shard": "FSDP full shard"}, "transformers-fsdp"),
        ({"framework": "PyTorch FSDP + bitsandbytes (fsdp_qlora train.py)"}, "transformers-fsdp"),
    ],
)
def test_code_of_ones_own_is_a_stack_of_its_library(changes: dict[str, Any], stack: str) -> None:
    assert drafted(**{"tp": 1, "pp": 1} | changes).stack == stack


def test_a_library_with_kernels_of_its_own_is_refused() -> None:
    with pytest.raises(Refused, match="nmoe"):
        drafted(tp=1, pp=1, dp=16, framework="nmoe (PyTorch + CUDA)")


@pytest.mark.parametrize(
    ("changes", "loss", "wide", "foreach"),
    [
        ({}, False, True, True),
        ({"flags": "Liger kernels"}, True, False, True),
        ({"flags": "no Liger"}, False, True, True),
        ({"notes": "fused AdamW"}, False, True, False),
        ({"framework": "PyTorch DDP (nanoGPT)", "flags": "eager"}, False, True, False),
    ],
)
def test_kernels_that_words_name_replace_those_of_the_stack(
    changes: dict[str, Any], loss: bool, wide: bool, foreach: bool
) -> None:
    stack = drafted(**{"tp": 1, "pp": 1, "framework": "PyTorch DDP"} | changes).scenario.stack
    assert (stack.fused_loss, stack.fp32_logits, stack.foreach_optimizer) == (loss, wide, foreach)


QLORA: dict[str, Any] = {"task": "lora", "tp": 1, "pp": 1, "shard": "FSDP full shard"}


def test_adapters_are_those_of_the_program_unless_the_row_says_otherwise() -> None:
    program = {"framework": "PyTorch FSDP + bitsandbytes (fsdp_qlora train.py)"}
    precision = {"precision": "qlora (NF4 weights, bf16 compute)"}
    found = drafted(**QLORA | program | precision).scenario.training.lora
    assert found is not None
    assert (found.rank, len(found.targets), found.dropout, found.base_format) == (64, 4, 0.1, "nf4")
    said = drafted(**QLORA | program | precision | {"flags": "rank 8"}).scenario.training.lora
    assert said is not None and said.rank == 8


@pytest.mark.parametrize("words", ["fp16 weights, no mixed precision", "bf16 parameters, without amp"])
def test_parameters_are_computed_with_as_they_are_kept(words: str) -> None:
    found = drafted(**FLAT | {"precision": words})
    assert found.scenario.stack.gradient_bytes == 2
    assert found.scenario.training.precision == words[:4]


def test_the_batch_follows_from_a_pass_of_each_rank() -> None:
    rate = {"primary_metric": "tokens_per_s_per_device", "tokens_per_s_per_device": 1000.0, "pp": 1}
    row = {key: value for key, value in ROW.items() if key not in ("global_batch", "step_s")} | {"micro_batch": 2}
    found = draft(read_row(Row, row | rate))
    assert found.scenario.training.global_batch == found.row.global_batch == 16
    assert "global_batch 16: 1 pass of each of 8 ranks" in found.assumed
    assert draft(read_row(Row, row | rate | {"flags": "grad accum 4"})).row.global_batch == 64
    step = {"primary_metric": "step_s", "step_s": 2.0}
    for changes in (step, rate | {"pp": 2}, rate | {"micro_batch": None}):
        with pytest.raises(Refused, match="without key `global_batch`"):
            draft(read_row(Row, row | changes))


def test_encoders_attend_both_ways() -> None:
    assert not drafted(attention="bidirectional").scenario.training.causal
    assert drafted(attention="GQA").scenario.training.causal


@pytest.mark.parametrize(("each", "cards"), [(4, 4), (8, 8)])
def test_servers_of_fewer_devices_have_fewer_cards(each: int, cards: int) -> None:
    node = drafted(devices=32, devices_per_node=each).scenario.cluster.node
    assert node.nics is not None
    assert (node.devices, node.nics.count) == (each, cards)


@pytest.mark.parametrize(("devices", "shape"), [(1, {1}), (4, {2}), (8, {2, 4})])
def test_a_tpu_host_may_have_fewer_chips(devices: int, shape: set[int]) -> None:
    found = drafted(device="TPU v5e", devices=devices, framework="JAX", tp=1, pp=1, devices_per_node=None)
    assert found.scenario.cluster.node.devices * found.scenario.cluster.nodes == devices
    assert set(found.scenario.cluster.network.shape) == shape


@pytest.mark.parametrize(
    ("changes", "zero"),
    [
        ({}, 1),
        ({"precision": "fp16"}, 0),
        ({"framework": "Megatron-LM"}, 0),
        ({"shard": "ZeRO-2"}, 1),  # behind a pipeline
    ],
)
def test_deepspeed_shards_states_of_bf16_without_zero_too(changes: dict[str, Any], zero: int) -> None:
    row = {"framework": "Megatron-DeepSpeed", "device": "MI250X-GCD", "shard": "none"} | changes
    assert drafted(**row).scenario.training.parallel.zero == zero


@pytest.mark.parametrize(
    ("framework", "flags", "stack"),
    [
        ("PyTorch + DeepSpeed", "flash attention", "transformers-deepspeed"),
        ("PyTorch + DeepSpeed", None, "deepspeed"),
        ("HF Trainer + DeepSpeed", None, "transformers-deepspeed"),
        ("ColossalAI", "flash attention", "deepspeed"),
    ],
)
def test_deepspeed_of_2023_is_another_stack(framework: str, flags: str | None, stack: str) -> None:
    found = drafted(framework=framework, flags=flags, device="A100 80GB SXM", tp=1, pp=1, shard="ZeRO-3")
    assert found.stack == stack
