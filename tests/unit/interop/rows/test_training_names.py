"""Words of training rows: synonyms mean the same, other words are refused, nothing is dropped on the way."""

from typing import Any

import pytest

from simulator.interop.rows import machines, schedules
from simulator.interop.rows import training_names as names
from simulator.interop.rows.jsonl import Refused, read_row
from simulator.interop.rows.stated import stacks
from simulator.interop.rows.stated.sharding import optimizer, sharding
from simulator.interop.rows.training import Row
from simulator.interop.rows.words import vocabulary
from simulator.run.measured.training import Mapped, map_row
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.training import Stack

ROW: dict[str, Any] = {
    "id": "r1",
    "source": "test",
    "device": "H100-80GB",
    "intra_node": "NVLink4 900 GB/s",
    "devices": 16,
    "devices_per_node": 8,
    "inter_node_gbps_per_device": 400,
    "model": "some gpt",
    "hidden": 1024,
    "layers": 8,
    "heads": 16,
    "kv_heads": 16,
    "ffn": 2816,
    "gated_ffn": True,
    "vocab": 51200,
    "seq_len": 1024,
    "precision": "bf16",
    "global_batch": 64,
    "micro_batch": 2,
    "tp": 2,
    "pp": 2,
    "vpp": 1,
    "sequence_parallel": True,
    "shard": "distributed optimizer",
    "schedule": "1f1b",
    "recompute": "full",
    "framework": "Megatron-Core",
    "primary_metric": "step_s",
    "step_s": 1.0,
}


def mapped(**changes: Any) -> Mapped:
    """A changed row as a scenario; None takes a key away."""
    data = {key: value for key, value in (ROW | changes).items() if value is not None}
    return map_row(read_row(Row, data))


def test_a_row_that_says_everything_leaves_nothing_to_assume() -> None:
    assert mapped().assumed == ()


def test_every_name_stands_for_a_profile() -> None:
    known = vocabulary()
    assert set(known.training.clusters) <= {card.name for card in known.cards}
    for name in known.training.clusters.values():
        assert load_spec(Cluster, name).devices
    for one in known.training.stacks:
        assert load_spec(Stack, one.name).kind == "training"


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "bfloat16"},
        {"precision": "BF16-mixed"},
        {"precision": "BF16 (mixed precision)"},
        {"device": "H100 SXM5 80GB"},
        {"device": "NVIDIA H100 80GB HBM3", "intra_node": None},
        {"shard": "DistributedOptimizer"},
        {"shard": "ZeRO Stage 1"},
        {"shard": "zero-1"},
        {"recompute": "Full"},
        {"recompute": "activation checkpointing"},
        {"recompute": "full recomputation (uniform, 1 layer)"},
        {"schedule": "1F1B"},
        {"schedule": "PipeDream-Flush"},
        {"framework": "Megatron-LM core_r0.11"},
        {"framework": "megatron core r0.12.0"},
        {"attention": "FlashAttention"},
        {"attention": "GQA"},
        {"task": "pre-training"},
        {"devices": "16", "tp": "2", "seq_len": "1,024", "step_s": "1.0", "sequence_parallel": "true"},
        {"global_batch": 64.0, "hidden": "1024"},
        {"cp": 1, "experts": 1},
        {"cp": "unknown"},
        {"flags": "activation_cpu_offload=False; flash attention; w/o MTP"},
    ],
)
def test_other_words_mean_the_same(changes: dict[str, Any]) -> None:
    found, plain = mapped(**changes).scenario, mapped().scenario
    attention = {"attention": found.training.attention}
    assert found.training == plain.training.model_copy(update=attention)
    assert (found.cluster, found.model, found.stack) == (plain.cluster, plain.model, plain.stack)


def test_rows_that_predict_more_tokens_have_a_module_on_the_last_stage() -> None:
    found = mapped(flags="DeepSeekV3 (w/ MTP)", layers=15, pp=8)
    assert found.scenario.model.mtp_layers == 1
    assert found.scenario.training.stages == (2, 2, 2, 2, 2, 2, 2, 1)
    assert any("multi-token" in words for words in found.assumed)
    assert mapped(flags="DeepSeekV3 (w/o MTP)").scenario.model.mtp_layers == 0
    for words in (
        "mtp=0",
        "MTP off; 16 microbatches",
        "MTP disabled",
        "no MTP",
        "mtp 0",
        "MTP: 0",
        "MTP modules not used",
    ):
        assert mapped(flags=words).scenario.model.mtp_layers == 0
    assert mapped(flags="MTP 1").scenario.model.mtp_layers == 1


@pytest.mark.parametrize(
    ("changes", "rank"),
    [
        ({"task": "lora finetune", "notes": "LoRA rank 8, packed sequences"}, 8),
        ({"task": "lora finetune"}, 16),
        ({"flags": "LoRA (frozen base weights)"}, 16),
        ({"task": "lora finetune", "framework": "peft", "tp": 1, "pp": 1, "shard": "none"}, 16),
        ({"flags": "no LoRA"}, None),
    ],
)
def test_adapters_by_the_words_of_a_row(changes: dict[str, Any], rank: int | None) -> None:
    found = mapped(**changes)
    adapters = found.scenario.training.lora
    assert (adapters and adapters.rank) == rank
    assert any(f"of rank {rank}" in text for text in found.assumed) == (rank == 16)


@pytest.mark.parametrize(
    ("words", "targets", "stored"),
    [
        ("LoRA rank 8", 2, None),
        ("LoRA rank 8 beside all linear layers", 4, None),
        ("QLoRA rank 8, attention and MLP", 4, "nf4"),
    ],
)
def test_products_with_adapters_and_what_they_are_beside(words: str, targets: int, stored: str | None) -> None:
    found, assumed = names.lora("lora finetune", words)
    assert found is not None
    assert (found.rank, len(found.targets), found.base_format) == (8, targets, stored)
    assert any("attention" in text for text in assumed) == (targets == 2)


def test_a_task_that_trains_everything_has_no_adapters_whatever_notes_say() -> None:
    assert names.lora("full fine-tuning", "packed; LoRA of rank 8 in the rows beside") == (None, [])
    assert names.lora("full or LoRA fine-tuning", "LoRA rank 8")[0] is not None


@pytest.mark.parametrize("words", ["llm.c", "llmq", "LLM.Q (CUDA)"])
def test_programs_without_a_framework_have_a_stack(words: str) -> None:
    found = mapped(framework=words, tp=None, pp=None)
    assert found.scenario.stack.name.startswith("CUDA programs")
    assert not any("most like it" in text for text in found.assumed)


@pytest.mark.parametrize("words", ["PyTorch DDP (nanochat)", "modded-nanogpt"])
def test_optimizers_of_nanochat_are_distributed(words: str) -> None:
    found = mapped(framework=words, tp=None, pp=None, shard=None, flags="Muon and AdamW, torch.compile").scenario
    assert (found.stack.zero, found.stack.fused_elementwise, found.stack.overlap_gradients) == (1, True, False)


@pytest.mark.parametrize(
    ("framework", "layers", "chunks", "stages"),
    [
        ("Megatron-Bridge (Megatron-Core)", 61, 16, (4,) * 15 + (1,)),
        ("NeMo/Megatron-Core", 61, 8, (8,) * 7 + (5,)),
        ("Megatron-Bridge", 61, 32, (1, 1, *(2,) * 29, 1)),
        ("NeMo AutoModel", 61, 16, (3, 3, *(4,) * 13, 3)),
    ],
)
def test_recipes_of_deepseek_fill_all_chunks_but_the_last(
    framework: str, layers: int, chunks: int, stages: tuple[int, ...]
) -> None:
    row = mapped(tp=None, pp=None).row.model_copy(
        update={"model": "DeepSeekV3", "framework": framework, "layers": layers, "schedule": None, "flags": None}
    )
    assert schedules.stages(row, chunks, []) == stages


@pytest.mark.parametrize(
    ("flags", "narrow"),
    [("full-iteration CUDA graph; fp8 attention", True), ("fp8 DPA", True), ("flash attention 2", False)],
)
def test_attention_in_8_bits_by_the_words_of_flags(flags: str, narrow: bool) -> None:
    assert names.quantized_attention(flags) == narrow


def test_accumulated_microbatches_say_how_many_devices_share_a_model() -> None:
    """64 sequences of 2 accumulated microbatches on 64 devices: 32 replicas of 2 devices; 8 replicas of 8."""
    nothing = {"tp": None, "pp": None, "cp": None, "dp": None, "micro_batch": None, "devices": 64, "global_batch": 64}
    found = mapped(**nothing, notes="grad accum 2").scenario.training.parallel
    assert (found.tp, found.pp) == (2, 1)
    with pytest.raises(Refused, match="16 devices a model leave several"):
        mapped(**nothing, notes="grad accum 16")


@pytest.mark.parametrize(
    ("words", "recipe"),
    [
        ("fp8", "fp8"),
        ("fp8 (hybrid, TE)", "fp8"),
        ("fp8-cs", "fp8-current"),
        ("fp8 current scaling", "fp8-current"),
        ("fp8 block scaling", "fp8-block"),
        ("fp8-mx", "mxfp8"),
        ("mxfp8", "mxfp8"),
        ("nvfp4", "nvfp4"),
    ],
)
def test_words_name_the_recipe_of_8_or_4_bits(words: str, recipe: str) -> None:
    assert mapped(precision=words, device="B200").scenario.training.precision == recipe


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"precision": "fp8/int4"}, "precision `fp8/int4`"),
        ({"precision": "bf16 (fp8 disabled)"}, "precision"),
        ({"precision": "some mix"}, "precision `some mix`"),
        ({"precision": "nvfp4 + fp8"}, "precision"),
        ({"device": "H200 NVL"}, "device `H200 NVL`"),
        ({"device": "A100/H100"}, "device"),
        ({"shard": "zero3 + nvme offload"}, "sharding"),
        ({"shard": "ZeRO++"}, "sharding"),
        ({"shard": "tensor slicing of a new kind"}, "sharding"),
        ({"recompute": "token-wise recompute + CPU swap"}, "recomputation"),
        ({"recompute": "some"}, "recomputation `some`"),
        ({"recompute": "memory budget 92"}, "recomputation `memory budget 92`"),
        ({"schedule": "zero-bubble"}, "schedule"),
        ({"schedule": "1f1b + vocabulary parallel"}, "schedule"),
        ({"attention": "MLA"}, "attention `MLA`"),
        ({"attention": "block sparse"}, "attention"),
        ({"framework": "Foundation-X"}, "framework `Foundation-X`"),
        ({"framework": None}, "framework"),
        ({"task": "qlora finetune"}, "task"),
        ({"flags": "prefix adapters, rank 16"}, "adapters other than LoRA"),
        ({"hidden": "1024 wide"}, "key `hidden`"),
        ({"tp": "two"}, "key `tp`"),
        ({"tp": 2.5}, "key `tp`"),
    ],
)
def test_unknown_words_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        mapped(**changes)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("kv_heads", "16 key and value heads"),
        ("ffn", "MLP of width"),
        ("gated_ffn", "gated MLP"),
        ("vocab", "vocabulary"),
        ("tp", "tp 1"),
        ("pp", "pp 1"),
        ("vpp", None),
        ("shard", "zero 1"),
        ("sequence_parallel", "sequence parallelism"),
        ("recompute", "recompute"),
        ("micro_batch", "micro_batch"),
        ("inter_node_gbps_per_device", "network as usual"),
    ],
)
def test_what_is_missing_is_listed(key: str, words: str | None) -> None:
    changes: dict[str, Any] = {key: None, "schedule": None if key == "vpp" else "1f1b"}
    found = mapped(**changes).assumed
    assert any((words or "vpp") in text for text in found)


def test_what_the_model_of_a_name_has_fills_gaps() -> None:
    known = {
        "model": "Llama-2-7B",
        "hidden": 4096,
        "heads": 32,
        "layers": 32,
        "kv_heads": None,
        "vocab": None,
        "ffn": None,
    }
    model = mapped(**known).scenario.model
    assert (model.kv_heads, model.vocabulary, model.ffn) == (32, 32000, 11008)
    other = mapped(**known | {"hidden": 2048}).scenario.model
    assert other.vocabulary == 51200


def test_an_open_tensor_parallel_size_follows_from_dp() -> None:
    found = mapped(tp=None, dp=4, global_batch=64)
    assert (found.scenario.training.parallel.tp, found.assumed) == (2, ())


def test_sizes_that_contradict_the_devices_are_listed() -> None:
    assert mapped(dp=4).assumed == ()
    assert mapped(dp=8).assumed == ("16 devices, where tp x pp x cp x dp says 32",)


@pytest.mark.parametrize(
    ("words", "name", "vpp"),
    [
        ("ZB-H1", "zb-h1", 1),
        ("zb-2p", "zb-h2", 1),
        ("zbv", "zb-v", 2),
        ("V-Half", "v-half", 2),
        ("v-min", "v-min", 2),
        ("DualPipeV", "dualpipev", 2),
        ("looped BFS", "breadth-first", 2),
        ("Hanayo", "hanayo", 2),
        ("GPipe", "gpipe", 1),
        ("1f1b", None, 1),
    ],
)
def test_schedules_by_the_names_of_their_papers(words: str, name: str | None, vpp: int) -> None:
    assert mapped(schedule=words, vpp=vpp).scenario.training.schedule == name


def test_an_open_number_of_chunks_is_the_fastest_that_fits() -> None:
    found = mapped(vpp=None, schedule=None, global_batch=32, micro_batch=1)
    assert found.scenario.training.parallel.vpp > 1
    assert any("the fastest that fits" in text for text in found.assumed)
    assert mapped(vpp=None).scenario.training.parallel.vpp == 1  # plain 1f1b is stated
    deepspeed = mapped(vpp=None, schedule=None, framework="Megatron-DeepSpeed", device="A100-80GB")
    assert deepspeed.scenario.training.parallel.vpp == 1  # its engine has no interleaved schedule


@pytest.mark.parametrize(
    ("framework", "precision", "kept"),
    [
        ("Megatron-DeepSpeed", "fp16", 2),
        ("Megatron-DeepSpeed", "bf16", 4),
        ("Megatron-LM", "bf16", 4),
        ("Megatron-Core", "bf16", 4),
        ("Megatron-Core", "fp16", 2),
        ("DeepSpeed", "bf16", 2),
    ],
)
def test_gradients_follow_the_stated_precision(framework: str, precision: str, kept: int) -> None:
    pipeline = {} if framework != "DeepSpeed" else {"pp": 1, "tp": 1}
    changes = {"device": "A100-80GB", "sequence_parallel": False, "source": "2021", **pipeline}
    found = mapped(framework=framework, precision=precision, **changes)
    assert found.job.reduce_bytes == found.scenario.stack.gradient_bytes == kept


def test_pure_sixteen_bits_reduce_in_them() -> None:
    assert mapped(precision="pure bf16", framework="PyTorch FSDP", shard="fsdp", pp=1).job.reduce_bytes == 2
    assert mapped(precision="amp_bf16", framework="PyTorch FSDP", shard="fsdp", pp=1).job.reduce_bytes == 4


@pytest.mark.parametrize(
    ("words", "zero", "group"),
    [
        ("none (no distributed optimizer)", 0, None),
        ("NO_SHARD", 0, None),
        ("DDP", 0, None),
        ("SHARD_GRAD_OP", 2, None),
        ("full-shard", 3, None),
        ("HYBRID_SHARD", 3, "node"),
        ("fsdp (dp_shard=64)", 3, 64),
        ("dp_shard 8 dp_replicate 4", 3, 8),
        ("zero1 within 8 GPUs", 1, 8),
        ("fsdp (zero-2 style: shard optimizer+grads, params kept)", 2, None),
        (None, None, None),
    ],
)
def test_words_of_sharding(words: str | None, zero: int | None, group: int | str | None) -> None:
    assert sharding(words)[:2] == (zero, group)


@pytest.mark.parametrize(
    ("words", "what", "layers", "share"),
    [
        ("full, 21 layers (block)", "full", 21, None),
        ("full (uniform, 1 layer)", "full", None, None),
        ("selective AC option 2", "full", None, 0.5),
        ("every second layer", "full", None, 0.5),
        ("25% of blocks", "full", None, 0.25),
        ("0 of 32 layers", "none", None, None),
        ("selective (norm, act)", "selective", None, None),
        ("No", "none", None, None),
        ("no activation checkpointing", "none", None, None),
        ("full activation recomputation", "full", None, None),
        ("gradient checkpointing", "full", None, None),
        ("selective (op)", "full", None, None),
        ("core attention only", "selective", None, None),
        ("mla_up_proj, layernorm", "selective", None, None),
        ("activation_memory_budget 1.0", "none", None, None),
        ("memory budget 0", "full", None, None),
        ("memory budget 30 %", "full", None, 0.7),
        ("selective (memory budget 0.75)", "full", None, 0.5),
    ],
)
def test_words_of_recomputation(words: str, what: str, layers: int | None, share: float | None) -> None:
    found = names.recomputation(words)
    assert (found.what, found.layers, found.share) == (what, layers, share)


@pytest.mark.parametrize(
    ("framework", "stack"),
    [
        ("NeMo 24.05", "nemo"),
        ("NVIDIA NeMo Framework", "nemo"),
        ("torchtitan", "fsdp-eager"),
        ("PyTorch FSDP (fms-fsdp)", "fsdp-eager"),
        ("PyTorch FSDP2", "fsdp-eager"),
        ("PyTorch FSDP (lit-gpt)", "fsdp"),
        ("LitGPT", "fsdp-eager"),
        ("NeMo AutoModel (PyTorch FSDP2 + TE + DeepEP)", "fsdp2"),
        ("MosaicML LLM Foundry", "fsdp"),
        ("Megatron-LM + FlashAttention-2", "megatron-lm-2021"),
        ("flash-attention training (PyTorch)", "pytorch-ddp"),
        ("MegatronDeepSpeed", "megatron-deepspeed"),
        ("PyTorch FSDP2 (Transformer Engine)", "fsdp2"),
        ("FSDP2 + TE", "fsdp2"),
        ("BioNeMo recipes", "fsdp2"),
        ("torchtitan, FSDP2 and TP", "fsdp-eager"),
        ("TorchNeuron", "neuronx-distributed"),
        ("own PyTorch loop", "pytorch-ddp-eager"),
        ("PyTorch", None),
    ],
)
def test_frameworks(framework: str, stack: str | None) -> None:
    assert stack_of(framework) == stack


def stack_of(framework: str, shard: str | None = None) -> str | None:
    known = stacks.family(framework, shard)
    return known.name if known else None


@pytest.mark.parametrize(
    ("family", "words", "stack"),
    [
        ("megatron-core", "Megatron-Core r0.8.0 some-table", "megatron-core-0.8"),
        ("megatron-core", "Megatron-LM core_r0.7 some-table", "megatron-core-0.8"),
        ("megatron-core", "Megatron-Core v0.12 some-table", "megatron-core"),
        ("megatron-core", "Megatron-Core weak-scaling", "megatron-core"),
        ("megatron-core", "Megatron-Core, NeMo 24.03", "megatron-core"),
        ("nemo", "NeMo/Megatron-Core nemo-24.07-h100", "nemo-2024"),
        ("nemo", "NeMo 24.03 (Megatron-Core)", "nemo-2024"),
        ("nemo", "NeMo/Megatron-Core nemo-long-sequence", "nemo-2024"),
        ("megatron-core", "Megatron-Core nemo-long-sequence", "megatron-core"),
        ("nemo", "NeMo 24.09", "nemo"),
        ("nemo", "NeMo 23.11", "nemo-2023"),
        ("nemo", "NeMo/Megatron-Core mlperf-training-v3.1", "nemo-2023"),
        ("nemo", "NeMo/Megatron-Core mlperf-training-v4.0", "nemo"),
        ("nemo", "Megatron-Core 0.6, NeMo 25.02", "nemo"),
    ],
)
def test_earlier_releases_are_a_generation(family: str, words: str, stack: str) -> None:
    assert stacks.generation(family, words) == stack


def test_a_row_runs_the_generation_of_its_release() -> None:
    found = {
        (framework, source): mapped(framework=framework, source=source).stack
        for framework in ("Megatron-Core r0.8.0", "NeMo/Megatron-Core")
        for source in ("a table", "mlperf-training-v3.0")
    }
    assert found == {
        ("Megatron-Core r0.8.0", "a table"): "megatron-core-0.8",
        ("Megatron-Core r0.8.0", "mlperf-training-v3.0"): "megatron-core-0.8",
        ("NeMo/Megatron-Core", "a table"): "nemo",
        ("NeMo/Megatron-Core", "mlperf-training-v3.0"): "nemo-2023",
    }
    old, now = (load_spec(Stack, name) for name in ("nemo-2023", "nemo"))
    assert old.compute_efficiency.value == load_spec(Stack, "megatron-core-0.8").compute_efficiency.value
    assert old.compute_efficiency.value < now.compute_efficiency.value
    assert old.gradient_bytes == now.gradient_bytes


def test_adapters_of_nemo_see_packed_samples() -> None:
    lora = {"task": "lora finetune", "seq_len": 4096}
    found = mapped(framework="NeMo/Megatron-Core", **lora).scenario.training.documents
    assert found is not None
    assert found.listed == (256,) * 16
    for changes in ({"source": "mlperf-training-v4.1"}, {"task": "pretrain"}, {"seq_len": 4000}):
        assert mapped(**({"framework": "NeMo/Megatron-Core"} | lora | changes)).scenario.training.documents is None


def test_under_a_general_framework_the_sharding_decides() -> None:
    assert stack_of("PyTorch 2.4", "FSDP full shard") == stack_of("PyTorch training loop", "FSDP") == "fsdp"
    assert stack_of("Hugging Face Accelerate", "zero3 (DeepSpeed)") == "transformers-deepspeed"
    assert stack_of("Accelerate", "FSDP full shard") == "transformers-fsdp"
    assert (stack_of("Accelerate", "HSDP"), stack_of("PyTorch", "full shard")) == ("transformers-fsdp", "fsdp")
    assert stack_of("PyTorch 2.4", "none") == "pytorch-ddp-eager"
    assert stack_of("Hugging Face Transformers", "none") == "transformers"
    assert stack_of("LLaMA-Factory (DeepSpeed)", "DeepSpeed ZeRO") == "transformers-deepspeed"
    assert stack_of("Hugging Face TRL, FSDP2", "FSDP2") == "transformers-fsdp"
    assert stack_of("Accelerate (FSDP)", "FSDP full shard") == "transformers-fsdp"


def test_later_chips_do_not_run_the_megatron_of_2021() -> None:
    assert mapped(framework="Megatron-LM", source="2021").stack == "megatron-core"
    assert mapped(framework="Megatron-LM", source="2021", device="A100-80GB").stack == "megatron-lm-2021"


@pytest.mark.parametrize(
    ("words", "counted"),
    [
        ("Megatron hardware formula (4x2 coefficient, with recompute)", True),
        ("megatron-hardware (4x fwd)", True),
        ("model flops (without recomputation)", False),
        ("MFU: 72*B*l*s*h^2; HFU adds the recomputed attention", False),
        ("model flops, no recompute; see hardware page", False),
        (None, False),
    ],
)
def test_conventions_of_flops(words: str | None, counted: bool) -> None:
    assert names.counts_recomputation(words) is counted


@pytest.mark.parametrize(
    ("words", "framework", "experts", "halved"),
    [
        ("model flops (Megatron-Core counter)", "Megatron-Core", True, True),
        ("model flops (Megatron-Core throughput counter)", "Megatron-Core r0.8.0", False, False),
        ("model flops, causal attention halved", "JAX", False, True),
        ("MaxText counter early 2024 (full, non-halved causal attention)", "MaxText (JAX)", False, False),
        ("model flops (NeMo counter)", "NeMo/Megatron-Core", False, False),
        (None, None, True, False),
    ],
)
def test_conventions_of_attention(words: str | None, framework: str | None, experts: bool, halved: bool) -> None:
    assert names.counts_half_square(words, framework, experts) is halved


def test_a_gate_that_deals_experts_out_in_turn_sends_rows_to_neighbours() -> None:
    """With 8 experts on 4 devices, 2 a row, a row visits one device; of free choices more."""
    experts = {"experts": 8, "topk": 2, "moe_ffn": 512, "tp": 1, "pp": 1, "vpp": None, "recompute": None}
    layout = {"ep": 4, "devices": 8, "devices_per_node": 8, "dp": 8, "schedule": None, "shard": "fsdp2"}
    automodel = {"framework": "NeMo AutoModel (PyTorch FSDP2 + TE + DeepEP)", "flags": "balanced gate"}
    exchange = mapped(**experts, **layout, **automodel).job.exchange
    assert exchange is not None
    assert exchange.targets.distinct(4) == pytest.approx(1)
    free = mapped(**experts, **layout, **automodel | {"flags": "real routing"}).job.exchange
    assert free is not None
    assert free.targets.distinct(4) > 1.5


@pytest.mark.parametrize(
    ("words", "modules"),
    [
        ("selective (norm, act)", ("norm", "activation")),
        ("selective (layernorm, moe_act, mla_up_proj)", ("norm", "activation", "latent")),
        ("selective (layernorm, moe)", ("norm", "experts")),
        ("selective recompute of MoE and norms", ("norm", "experts")),
        ("moe layer recompute", ("experts",)),
        ("recompute norm", ("norm",)),
        ("selective (GELU)", ("activation",)),
        ("recompute gelu", ("activation",)),
        ("SwiGLU and layernorm recompute", ("norm", "activation")),
        ("-r 1", ("activation",)),
        ("llm.c -r 2", ("norm", "activation")),
        ("llm.c -r 0", ()),
        ("selective (core attn)", ()),
        ("selective activation recomputation", ()),
        ("full", ()),
    ],
)
def test_modules_that_are_recomputed(words: str, modules: tuple[str, ...]) -> None:
    assert names.recomputation(words).modules == modules


MIXTURE = {"experts": 8, "topk": 2, "moe_ffn": 512, "tp": 1, "pp": 1, "vpp": None, "schedule": None, "dp": 8, "ep": 4}


def test_parts_that_are_recomputed_and_not_named_are_the_cheapest_that_fit() -> None:
    layout = MIXTURE | {"devices": 8, "devices_per_node": 8, "recompute": "selective"}
    small = mapped(**layout)
    assert small.job.recompute_modules == ()
    large = mapped(**layout | {"seq_len": 65536, "layers": 32})
    assert large.job.recompute_modules == ("norm", "experts")
    assert any("computed again, the cheapest that fit" in said for said in large.assumed)
    assert mapped(**layout | {"recompute": "selective (norm)", "seq_len": 65536}).job.recompute_modules == ("norm",)


def test_experts_are_cut_as_the_framework_does_unless_the_row_says() -> None:
    layout = MIXTURE | {"tp": 2, "dp": 4, "ep": 4, "devices": 8, "devices_per_node": 8}
    nemo = mapped(**layout, framework="NeMo/Megatron-Core")
    assert (nemo.job.experts.sizes["etp"], "etp 2" in nemo.assumed) == (2, True)
    assert mapped(**layout, framework="NeMo/Megatron-Core", etp=1).job.experts.sizes["etp"] == 1
    assert mapped(**layout, framework="Megatron-Bridge (NeMo)").job.experts.sizes["etp"] == 1
    assert mapped(**layout, framework="Megatron-Core").job.experts.sizes["etp"] == 1


def test_a_flag_that_names_fully_sharded_parameters_is_used() -> None:
    layout = MIXTURE | {"devices": 8, "devices_per_node": 8, "shard": "distributed optimizer"}
    assert mapped(**layout, flags="DeepEP, Megatron-FSDP").job.zero == 3
    assert mapped(**layout, flags="DeepEP").job.zero == 1


def test_attention_kernels_are_those_that_the_row_names() -> None:
    assert mapped(framework="Megatron-DeepSpeed, FlashAttention 2").job.attention == "fused"
    assert mapped(framework="Megatron-DeepSpeed", device="A100-80GB").job.attention == "unfused"
    assert mapped(framework="Megatron-DeepSpeed").job.attention == "fused"
    assert mapped(framework="Megatron-DeepSpeed", flags="no flash attention").job.attention == "unfused"


def test_megatron_deepspeed_by_what_a_row_runs() -> None:
    """Fused attention, or a chip that came with it, is of 2023 and after."""
    assert mapped(framework="Megatron-DeepSpeed").stack == "megatron-deepspeed-2023"
    for words, name in ((None, "megatron-deepspeed"), ("FlashAttention", "megatron-deepspeed-2023")):
        found = mapped(framework="Megatron-DeepSpeed", device="A100-80GB", attention=words)
        assert found.stack == name


def test_compiled_blocks_have_a_stack_of_their_own() -> None:
    flat: dict[str, Any] = {"tp": 1, "pp": 1, "shard": "FSDP2", "framework": "torchtitan", "sequence_parallel": None}
    assert mapped(**flat, flags="torch.compile; selective AC").stack == "fsdp-compiled"
    assert mapped(**flat, flags="no torch.compile").stack == mapped(**flat).stack == "fsdp-eager"
    forge = mapped(**(flat | {"framework": "KempnerForge", "tp": 2}), flags="torch.compile")
    assert (forge.stack, forge.job.cut.gathers_each, forge.job.cut.whole_logits) == (
        "kempnerforge-compiled",
        True,
        True,
    )


def test_nemo_of_2022_and_2023_has_the_kernels_of_its_years() -> None:
    named = {"framework": "NeMo 2022-23 (Megatron)", "flags": None, "shard": None}
    assert mapped(**named, device="A100-80GB").stack == "megatron-lm-2022"
    assert mapped(**named, device="H100-80GB").stack == "nemo-2023"
    assert mapped(framework="NeMo 24.12", device="A100-80GB", flags=None, shard=None).stack == "nemo"


def test_llama_does_not_run_the_megatron_of_2021() -> None:
    old = {"framework": "Megatron-LM", "device": "A100-80GB", "sequence_parallel": None}
    assert mapped(**old).stack == "megatron-lm-2021"
    assert mapped(**old, model="LLaMA-13B").stack == "megatron-lm-2022"


TIGHT: dict[str, Any] = {
    "model": "a wide one",
    "hidden": 8192,
    "layers": 48,
    "heads": 64,
    "kv_heads": 8,
    "ffn": 28672,
    "seq_len": 24576,
    "tp": 8,
    "pp": 2,
    "micro_batch": 1,
    "global_batch": 8,
    "schedule": None,
    "recompute": None,
}


def test_chunks_are_chosen_with_what_gives_way_to_the_memory() -> None:
    """A chunk of one layer gives up all or nothing; chunks of more layers give up the fewest that fit."""
    training = mapped(**TIGHT, vpp=None).scenario.training
    given = training.recompute_layers or training.offload_layers
    assert given is not None and given < 24 // training.parallel.vpp


def test_scores_alone_are_recomputed_where_that_suffices() -> None:
    changes = {"attention": "unfused", "seq_len": 4096, "recompute": None, "micro_batch": 8, "tp": 1, "layers": 16}
    assert any("recompute selective" in text for text in mapped(**changes, heads=32, kv_heads=32).assumed)


@pytest.mark.parametrize(
    ("words", "precision"),
    [
        ("fp16 with loss scaling", "fp16"),
        ("fp8 (E4M3 forward, E5M2 backward)", "fp8"),
        ("FP8 block-wise 128x128", "fp8-block"),
        ("MXFP8 + bf16 attention", "mxfp8"),
        ("bf16 w/ fp32 reduce", "bf16"),
        ("mixed precision bf16", "bf16"),
        ("float8 (torchao)", "fp8-current"),
        ("float8 tensorwise dynamic (torchao), bf16", "fp8-current"),
    ],
)
def test_words_beside_a_format(words: str, precision: str) -> None:
    assert names.numbers(words).precision == precision


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ("interleaved 1F1B (vpp 4)", "interleaved-1f1b"),
        ("Interleaved1F1B", "interleaved-1f1b"),
        ("1F1B with overlapped p2p", "1f1b"),
        ("circular (MaxText)", "interleaved-1f1b"),
        ("DualPipe", "dualpipe"),
        ("n/a", None),
    ],
)
def test_words_beside_an_order(words: str, order: str | None) -> None:
    assert schedules.schedule(words, 4) == order


@pytest.mark.parametrize(
    ("words", "count"),
    [("interleaved 1F1B (vpp 4)", 4), ("interleaved, v=2, with p2p overlap", 2), ("1F1B, 3 chunks", 3), ("1F1B", None)],
)
def test_chunks_that_only_the_words_of_a_schedule_count(words: str, count: int | None) -> None:
    assert schedules.chunks(words) == count


def test_chunks_of_a_schedule_are_those_of_the_run() -> None:
    stated = mapped(schedule="interleaved 1F1B (vpp 2)", vpp=None, global_batch=32, micro_batch=1)
    assert stated.scenario.training.parallel.vpp == 2
    with pytest.raises(Refused, match="beside vpp 4"):
        mapped(schedule="interleaved 1F1B (vpp 2)", vpp=4)


def test_a_schedule_that_only_flags_name_is_used() -> None:
    assert mapped(schedule=None, flags="ZB-H1, distributed optimizer").scenario.training.schedule == "zb-h1"
    assert mapped(schedule=None, flags="no zero bubble", vpp=1).scenario.training.schedule is None
    with pytest.raises(Refused, match="schedule `zero bubble`"):
        mapped(schedule=None, flags="zero bubble")


def test_sends_that_overlap_are_said_to_be_as_the_stack_has_them() -> None:
    assert any("what stages send" in text for text in mapped(schedule="1F1B with overlapped p2p").assumed)


@pytest.mark.parametrize(
    ("words", "reduced"),
    [
        ("bf16, fp32 reduce", "fp32"),
        ("bf16 (bf16 gradients)", "bf16"),
        ("fp8 with gradient accumulation in fp32", "fp32"),
        ("bf16 with fp32 optimizer states", None),
        ("bf16", None),
    ],
)
def test_the_format_of_reductions_by_the_words_of_a_precision(words: str, reduced: str | None) -> None:
    assert names.numbers(words).reduced == reduced


def test_the_format_of_reductions_by_the_words_of_sharding() -> None:
    assert sharding("FSDP, bf16 reduce").reduced == "bf16"
    assert sharding("zero1, gradients reduced in fp32").reduced == "fp32"


def test_a_share_of_a_peak_that_the_device_lacks_is_refused() -> None:
    share = {"primary_metric": "mfu", "mfu": 0.3, "precision": "bf16", "device": "V100-32GB"}
    with pytest.raises(Refused, match="mfu of bf16"):
        mapped(**share)


@pytest.mark.parametrize(
    ("shard", "flags", "parts"),
    [
        ("zero3 + cpu offload", None, {"optimizer", "parameters"}),
        ("ZeRO-2 + CPU offload", None, {"optimizer"}),
        ("ZeRO-3", "optimizer offload", {"optimizer"}),
        ("ZeRO-3", "parameter and optimizer offload", {"optimizer", "parameters"}),
        ("ZeRO-1", "activation offload", {"activations"}),
        ("FSDP2", "activation checkpoints offloaded to the host; chunked loss", {"activations"}),
        ("ZeRO-1", "no offload; flash attention", set()),
        ("ZeRO-1", "activation_cpu_offload=False", set()),
    ],
)
def test_what_lives_on_hosts(shard: str, flags: str | None, parts: set[str]) -> None:
    zero = sharding(shard).zero
    found = names.offload(zero, shard, flags)
    assert {name for name in ("activations", "optimizer", "parameters") if found and getattr(found, name)} == parts


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ("1f1b + vocabulary parallel (1 barrier)", "vocab-1"),
        ("1F1B + vocabulary parallel (2 barriers)", "vocab-2"),
        ("Vocab-2", "vocab-2"),
        ("interlaced (TP-style vocabulary layers)", "interlaced"),
        ("1f1b, layer redistribution", "1f1b"),
    ],
)
def test_schedules_that_spread_the_vocabulary(words: str, order: str) -> None:
    assert schedules.schedule(words, 8) == order


@pytest.mark.parametrize(
    ("vocabulary", "layers"),
    [
        (32000, (4, 4, 4, 4, 4, 4, 4, 4)),
        (64000, (4, 4, 4, 4, 4, 4, 5, 3)),
        (128000, (4, 4, 4, 4, 4, 5, 5, 2)),
        (256000, (4, 4, 4, 5, 5, 5, 5, 0)),
    ],
)
def test_redistributed_layers_are_those_of_the_artifact(vocabulary: int, layers: tuple[int, ...]) -> None:
    """sail-sg/VocabularyParallelism, artifact/exp_one_host.csv, 2,048 tokens."""
    row = {**ROW, "layers": 32, "hidden": 3072, "ffn": 12288, "seq_len": 2048, "vocab": vocabulary, "gated_ffn": False}
    row["schedule"] = "1f1b, layer redistribution"
    assert schedules.stages(read_row(Row, row), 8, []) == layers


@pytest.mark.parametrize(
    ("flags", "found"),
    [("offloaded; chunked loss", True), ("cut cross entropy", True), ("chunked prefill", False), (None, False)],
)
def test_a_loss_in_parts_never_holds_all_logits(flags: str | None, found: bool) -> None:
    assert names.loss_in_parts(flags) == found


@pytest.mark.parametrize(
    ("words", "precision"),
    [
        ("amp (16 bit, not further stated)", "bf16"),
        ("mixed precision", "bf16"),
        ("fp8 hybrid delayed scaling, fp8 parameters", "fp8"),
        ("DeepSeek fine-grained FP8", "fp8-block"),
        ("fp8 128x128 blocks", "fp8-block"),
        ("MXFP8 (1x32 blocks)", "mxfp8"),
        ("weights in fp32, bf16 compute", "bf16"),
        ("bfloat16 activations, float32 weights", "bf16"),
    ],
)
def test_formats_by_other_words(words: str, precision: str) -> None:
    assert names.numbers(words).precision == precision


@pytest.mark.parametrize(
    ("words", "zero", "group"),
    [
        ("sharding stage 2 (ZeRO-2)", 2, None),
        ("distributed optimizer, bf16 moments", 1, None),
        ("FSDP over 256 (weights in fp32, bf16 compute)", 3, 256),
        ("FSDP over 128 cores", 3, None),
        ("FSDP 16-way", 3, 16),
        ("DP only", 0, None),
        ("FSDP + EP", 3, None),
        ("SimpleFSDP", 3, None),
        ("distributed optimizer with overlap of param gather", 1, None),
    ],
)
def test_sharding_by_other_words(words: str, zero: int, group: int | None) -> None:
    assert sharding(words)[:2] == (zero, group)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("distributed optimizer, bf16 moments", {"name": "adam", "moments": "bf16"}),
        ("precision-aware optimizer", {"name": "adam", "moments": "bf16"}),
        ("paged AdamW 8-bit", {"name": "adam-8bit"}),
        ("Muon", {"name": "muon"}),
        ("no Muon", None),
        ("fused AdamW", None),
    ],
)
def test_optimizers_by_words(words: str, found: dict[str, str] | None) -> None:
    assert optimizer(words) == found


def test_inputs_of_layers_wait_on_the_host_where_the_words_say_so() -> None:
    job = mapped(recompute="custom: inputs of layers offloaded to the host").scenario.training
    assert job.recompute == "full" and job.offload is not None and job.offload.activations is not None


def test_latent_attention_has_the_sizes_of_the_model_of_its_name() -> None:
    stated = names.shape_of_attention("MLA q_lora_rank=1536 kv_lora_rank=512 qk_rope 64 qk_nope 128 v_head 128")
    sizes = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    assert stated == {"attention": "mla", "v_head_dim": 128, **sizes}
    assert names.shape_of_attention("MLA (kv_lora_rank 512)") == {"attention": "mla", "kv_lora_rank": 512}


def test_devices_of_a_node_with_listed_links_are_the_first_ones_where_links_join_them() -> None:
    row = {"device": "MI250X-GCD", "intra_node": None, "devices_per_node": 8, "inter_node_gbps_per_device": None}
    four = mapped(**row, devices=4, pp=1).scenario.cluster.node
    assert four.devices == 4 and four.scale_up.kind == "links"
    assert {device for link in four.scale_up.links for device in link.between} == {0, 1, 2, 3}
    whole = mapped(**row, devices=8, pp=1).scenario.cluster.node
    assert len(whole.scale_up.links) > len(four.scale_up.links)


def test_devices_that_no_listed_link_joins_are_refused() -> None:
    node = load_spec(Cluster, "frontier").node
    links = tuple(link for link in node.scale_up.links if set(link.between) != {0, 1})
    apart = node.model_copy(update={"scale_up": node.scale_up.model_copy(update={"links": links})})
    with pytest.raises(Refused, match="2 of 8 devices of a node, which its links do not join"):
        machines.with_devices(apart, 2)
