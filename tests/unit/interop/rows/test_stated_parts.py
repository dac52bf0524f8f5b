"""Parts of training rows that their words state: rings, kernels of attention, graphs, dispatchers, what is compiled."""

from typing import Any

import pytest

from simulator.interop.rows import training_names as names
from simulator.interop.rows.jsonl import Refused, read_row
from simulator.interop.rows.training import Row
from simulator.run.measured.training import Mapped, map_row

ROW: dict[str, Any] = {
    "id": "row",
    "source": "test",
    "device": "H100-80GB",
    "devices": 8,
    "devices_per_node": 8,
    "model": "some llama",
    "hidden": 1024,
    "layers": 4,
    "heads": 16,
    "kv_heads": 16,
    "ffn": 2816,
    "gated_ffn": True,
    "vocab": 32000,
    "seq_len": 4096,
    "precision": "bf16",
    "global_batch": 8,
    "micro_batch": 1,
    "tp": 1,
    "pp": 1,
    "framework": "torchtitan",
    "recompute": "none",
    "primary_metric": "step_s",
    "step_s": 1.0,
}
EXPERTS: dict[str, Any] = {"framework": "Megatron-Core", "experts": 8, "topk": 2, "moe_ffn": 512, "ep": 8}


def mapped(**changes: Any) -> Mapped:
    return map_row(read_row(Row, ROW | changes))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("zigzag ring attention", "zigzag"),
        ("ring attention", "ring"),
        ("sequence parallelism by all-to-all (Ulysses)", "ulysses"),
        ("all-gather CP", "all-gather"),
        ("dist_flash_attn", "lightseq"),
        ("bf16 all-gather", None),
        ("all-gather CP instead of ring attention, no Ulysses", "all-gather"),
        (None, None),
    ],
)
def test_kinds_of_context_parallelism(words: str | None, kind: str | None) -> None:
    assert names.context(words) == kind


def test_a_row_cuts_sequences_as_it_says() -> None:
    stated = mapped(cp=8, global_batch=1, flags="zigzag ring attention")
    assert stated.scenario.training.parallel.cp_kind == "zigzag"
    assert not any("cp_kind" in assumed for assumed in stated.assumed)
    assert "cp_kind all-gather (the stack's default)" in mapped(cp=8, global_batch=1).assumed


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        ("SDPA with cuDNN", "cudnn"),
        ("flash attention 2", "fa2"),
        ("FlashAttention-3", "fa3"),
        ("no FlashAttention-2", "sdpa"),  # eager torchtitan's own: what PyTorch dispatches to since 2.2
    ],
)
def test_the_kernel_of_attention_is_the_one_that_is_named(words: str, kernel: str) -> None:
    assert mapped(flags=words).scenario.stack.attention_kernel == kernel


@pytest.mark.parametrize(
    ("words", "graphs"),
    [
        ("HybridEP; partial CUDA graph over attention and MoE router", ("attention", "router")),
        ("CUDA graphs of moe_router and moe_preprocess; communication overlap", ("router",)),
        ("full-iteration CUDA graph", ("all",)),
        ("cuda_graph_scope=full_iteration", ("all",)),
        ("force balanced routing; no CUDA graph", ()),
        (None, ()),
    ],
)
def test_what_is_captured_in_graphs(words: str | None, graphs: tuple[str, ...]) -> None:
    assert names.graphs(words) == graphs
    assert mapped(**EXPERTS, flags=words).scenario.training.cuda_graphs == graphs


def test_hybridep_merges_copies_as_deepep_does() -> None:
    assert mapped(**EXPERTS, flags="HybridEP").scenario.training.dispatcher == "deepep"
    assert mapped(**EXPERTS).scenario.training.dispatcher is None


def test_natural_routing_is_not_forced_to_be_even() -> None:
    assert mapped(**EXPERTS, flags="natural routing").scenario.training.routing.load == "random"


def test_launchers_that_checkpoint_do_so_where_a_row_is_silent() -> None:
    silent = mapped(framework="metaseq (FSDP)", shard="FSDP", recompute=None)
    assert silent.scenario.training.recompute == "full"
    assert any("unless told otherwise" in assumed for assumed in silent.assumed)
    assert mapped(framework="metaseq (FSDP)", shard="FSDP").scenario.training.recompute == "none"


def test_a_compiled_model_without_sharding() -> None:
    found = mapped(framework="PyTorch DDP (nanoGPT)", flags="torch.compile").scenario
    assert (found.stack.fused_elementwise, found.stack.zero, found.stack.gradient_bytes) == (True, 0, 4)
    assert mapped(framework="LitGPT", flags="Thunder with Transformer Engine").stack == "fsdp-compiled"


def test_a_dense_model_that_is_known_has_its_norms_of_heads() -> None:
    shape = {"model": "Qwen3-8B", "hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}
    assert mapped(**shape).scenario.model.head_norms
    assert mapped(**shape).job.stack.fused_head_norms is False
    assert not mapped().scenario.model.head_norms


@pytest.mark.parametrize(
    ("words", "precision"),
    [("float8 rowwise dynamic (torchao), bf16", "fp8-rowwise"), ("float8 tensorwise dynamic (torchao)", "fp8-current")],
)
def test_recipes_of_torchao(words: str, precision: str) -> None:
    assert names.numbers(words).precision == precision


@pytest.mark.parametrize(
    ("words", "overlaps"),
    [
        ("expert all-to-all overlapped; HybridEP dispatcher", True),
        ("all-to-all overlapped", True),
        ("1f1b A2A overlap", True),
        ("overlapped all-to-all", True),
        ("expert all-to-all not overlapped", False),
        ("overlap-grad-reduce, overlap-param-gather", False),
    ],
)
def test_exchanges_overlap_where_words_say_so(words: str, overlaps: bool) -> None:
    assert mapped(**EXPERTS, flags=words).scenario.training.overlap_experts is overlaps


@pytest.mark.parametrize(
    ("words", "keeps", "waits"),
    [
        (
            "custom: decoder_layer_input, query_proj, key_proj, value_proj, out_proj offloaded",
            ("attention in", "attention out", "summed"),
            True,
        ),
        ("custom: inputs of layers offloaded to the host", (), True),
        ("qkv_proj_offloaded", ("attention in",), True),
        ("save_qkv_proj", ("attention in",), False),
    ],
)
def test_results_that_maxtext_keeps_and_where(words: str, keeps: tuple[str, ...], waits: bool) -> None:
    found = names.recomputation(words)
    assert (found.what, found.keeps, names.inputs_elsewhere(words)) == ("full", keeps, waits)


def test_a_custom_policy_of_unknown_names_is_refused() -> None:
    with pytest.raises(Refused, match="something_else"):
        names.recomputation("custom: query_proj, something_else")


def test_kernels_of_their_own_take_the_place_of_norms_in_model_code() -> None:
    assert not mapped().scenario.stack.fused_norms
    assert mapped(flags="Liger kernels").scenario.stack.fused_norms
    assert mapped(framework="Hugging Face Transformers, DeepSpeed (XTuner)").scenario.stack.fused_norms
    assert not mapped(flags="no fused RMSNorm").scenario.stack.fused_norms


def test_loss_and_model_are_compiled_where_the_framework_says_so() -> None:
    assert mapped(framework="torchtitan (FSDP2, torch.compile of model and loss)").stack == "fsdp-compiled"


def test_trays_of_grace_blackwell_are_racks_unless_they_stand_alone() -> None:
    tray: dict[str, Any] = {"device": "GB300", "devices": 64, "devices_per_node": 4, "global_batch": 64}
    assert mapped(**tray, intra_node="NVLink").scenario.cluster.node.devices == 64
    assert mapped(**tray, intra_node="NVLink, NVL4").scenario.cluster.node.devices == 4
    assert mapped(**tray, intra_node="NVLink5 1800 GB/s, NVL72 domain").scenario.cluster.node.devices == 64
