"""Rows of prefill and decode apart, as pools of workers."""

from math import exp
from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving import ServingRow, draft_serving
from simulator.run.measured import scores
from simulator.specs.scenario import ServingScenario
from simulator.study.validate.serving import validate_serving_row

PREFILL = {"workers": 2, "gpus_per_worker": 8, "tp": 1, "pp": 1, "attention_dp": 8, "moe_tp": 8, "moe_ep": 1}
DECODE = {"workers": 3, "gpus_per_worker": 8, "tp": 8, "pp": 1, "attention_dp": 1, "moe_tp": 1, "moe_ep": 8}
ROW: dict[str, Any] = {
    "id": "apart",
    "source": "InferenceX",
    "kind": "pd_disaggregated",
    "model": "DeepSeek-R1",
    "engine": "TensorRT-LLM",
    "engine_version": "0.8.1.post2",
    "accelerator": "NVIDIA GB200 192GB (NVL72)",
    "num_accelerators": 40,
    "parallelism": {"prefill": PREFILL, "decode": DECODE},
    "precision": {"weights": "fp8", "compute": "fp8"},
    "input_len": 1024,
    "output_len": 64,
    "length_range": [0.8, 1.0],
    "arrivals": "closed loop",
    "concurrency": 6,
    "spec_decoding": "none",
    "recipe": "ctx2_gen3_tep8_batch2_eplb0_mtp0",
    "metrics": {"ttft_s": 0.5, "tpot_s": 0.008},
}


def drafted(**changes: Any) -> ServingScenario:
    return draft_serving(ServingRow.model_validate(ROW | changes)).scenario


def with_decode(**changes: Any) -> dict[str, Any]:
    return {"prefill": PREFILL, "decode": DECODE | changes}


def test_a_worker_is_as_many_replicas_as_it_has_attention_ranks() -> None:
    prefill, decode = drafted().serving.pools
    assert prefill.parallel is not None and decode.parallel is not None
    assert (prefill.role, prefill.replicas, prefill.parallel.devices, prefill.parallel.sharers) == ("prefill", 16, 1, 8)
    assert (decode.role, decode.replicas, decode.parallel.devices, decode.parallel.sharers) == ("decode", 3, 8, 1)
    assert decode.parallel.expert_cut == 1 and decode.parallel.ep == 8


def test_the_recipe_says_how_many_sequences_a_decode_rank_takes() -> None:
    _, decode = drafted().serving.pools
    assert decode.batching is not None and decode.batching.max_sequences == 2


def test_the_engine_and_its_kernels_are_those_of_the_benchmark() -> None:
    found = draft_serving(ServingRow.model_validate(ROW))
    assert found.stack == "tensorrt-llm-serve"
    assert found.scenario.stack.expert_kernels[0] == "trtllm-gen"


def test_the_engine_reads_prompts_as_its_example_does() -> None:
    short, long = (drafted(input_len=tokens).serving.pools[0].batching for tokens in (1024, 8192))
    assert short is not None and long is not None
    assert (short.token_budget, short.max_sequences) == (4480, 4)
    assert (long.token_budget, long.max_sequences) == (8192 + 256, 1)


def test_a_rack_is_one_node_and_other_machines_are_as_many_as_workers_need() -> None:
    assert drafted().cluster.nodes == 1
    assert drafted(accelerator="NVIDIA B200 SXM 180GB").cluster.nodes == 5
    four = PREFILL | {"gpus_per_worker": 4, "attention_dp": 4, "moe_tp": 4}
    assert (
        drafted(accelerator="NVIDIA B200 SXM 180GB", parallelism={"prefill": four, "decode": DECODE}).cluster.nodes == 4
    )
    wide = with_decode(gpus_per_worker=16, tp=16, moe_ep=16)
    assert drafted(accelerator="NVIDIA H100 SXM 80GB", parallelism=wide).cluster.nodes == 8


@pytest.mark.parametrize(("workers", "cards"), [((1, 1), 4), ((3, 1), 2), ((2, 2), 2)])
def test_workers_share_the_node_where_a_row_does_not_say_how(workers: tuple[int, int], cards: int) -> None:
    said = dict(zip(("prefill_workers", "decode_workers"), workers, strict=True))
    sglang = {"engine": "SGLang", "accelerator": "NVIDIA H200 SXM 141GB", "recipe": None, "num_accelerators": None}
    pools = drafted(parallelism=said, **sglang).serving.pools
    assert [pool.parallel and pool.parallel.tp for pool in pools] == [cards, cards]
    assert [pool.replicas for pool in pools] == list(workers)


def test_workers_by_number_have_the_cards_of_the_benchmark() -> None:
    said = {"prefill_workers": 3, "decode_workers": 1, "tp_per_worker": 2}
    lengths = {"output_len": None, "max_output_len": 128, "length_range": None}
    metrics = {"mean_output_tokens": 63.96, "ttft_mean_s": 1.2, "tpot_mean_s": 0.013}
    row = {"model": "GPT-OSS-120B", "engine": "SGLang", "accelerator": "NVIDIA H200 SXM 141GB", "recipe": None}
    found = drafted(parallelism=said, metrics=metrics, precision={"weights": "mxfp4"}, **row, **lengths)
    assert [(pool.replicas, pool.parallel and pool.parallel.tp) for pool in found.serving.pools] == [(3, 2), (1, 2)]
    assert found.cluster.nodes == 1
    assert found.requests.lengths is not None
    answers = found.requests.lengths.output
    assert (answers.low, answers.high) == (1, 128) and answers.exponential is not None
    assert answers.exponential * (1 - exp(-128 / answers.exponential)) == pytest.approx(63.96)
    lengths["max_output_len"] = None
    alike = drafted(
        parallelism=said, metrics=metrics, precision={"weights": "mxfp4"}, **row, **lengths
    ).requests.lengths
    assert alike is not None and alike.output.fixed == 64


@pytest.mark.parametrize(
    ("parallelism", "words"),
    [
        ({"tp": 8}, "how many workers"),
        (with_decode(moe_ep=4), "decode: attention tp 8 x dp 1, experts tp 1 x ep 4: not the same devices"),
        (with_decode(gpus_per_worker=4), "is not 4 accelerators of a worker"),
        (with_decode(workers=0), "key `parallelism.decode.workers`"),
        (with_decode(tp=-8), "key `parallelism.decode.tp`"),
        (with_decode(workers="many"), "key `parallelism.decode.workers`"),
    ],
)
def test_a_layout_that_is_not_one_is_refused(parallelism: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        drafted(parallelism=parallelism)


def test_slots_of_the_decode_side_bind_and_their_queue_is_in_the_time_to_the_first_token() -> None:
    """Of twice as many requests in flight as there are slots, half wait: a request takes two answers, the first of them
    before its first token, however long its prompt takes meanwhile."""
    parts = validate_serving_row(ServingRow.model_validate(ROW | {"concurrency": 12})).parts
    found = {part.metric: part.predicted for part in parts}
    assert found["ttft_s"] == pytest.approx((12 / 6 - 1) * 0.9 * 64 * found["tpot_s"], rel=0.1)


def test_many_ranks_of_a_rack_send_rows_to_their_experts_alone() -> None:
    """TensorRT-LLM over NVLink from more ranks on than a row has experts; elsewhere ranks gather the rows of all."""
    wide = {"gpus_per_worker": 32, "workers": 1, "tp": 1, "attention_dp": 32, "moe_ep": 32}
    prefill, decode = drafted(parallelism=with_decode(**wide), num_accelerators=48).serving.pools
    assert prefill.experts is None and decode.experts is not None
    assert decode.experts.dispatcher == "deepep-low-latency-b200" and decode.experts.dispatch_precision is None
    packed = drafted(parallelism=with_decode(**wide), num_accelerators=48, precision={"weights": "nvfp4"})
    assert packed.serving.pools[1].experts is not None
    assert packed.serving.pools[1].experts.dispatch_precision == "nvfp4"
    assert (
        drafted(engine="SGLang", parallelism=with_decode(**wide), num_accelerators=48).serving.pools[1].experts is None
    )


def test_since_2026_the_ranks_of_a_rack_may_be_few() -> None:
    few = {"gpus_per_worker": 8, "workers": 1, "tp": 1, "attention_dp": 8, "moe_ep": 8}
    dispatchers = {
        day: drafted(parallelism=with_decode(**few), num_accelerators=24, measured_on=day).serving.pools[1].experts
        for day in ("2025-12-19", "2026-02-05")
    }
    assert dispatchers["2025-12-19"] is None
    assert dispatchers["2026-02-05"] is not None
    assert dispatchers["2026-02-05"].dispatcher == "deepep-low-latency-b200"


def test_rows_with_and_without_drafts_do_not_share_what_iterations_cost() -> None:
    plain = ServingRow.model_validate(ROW)
    drafting = ServingRow.model_validate(ROW | {"spec_decoding": "mtp", "recipe": "ctx2_gen3_tep8_batch2_eplb0_mtp3"})
    before = validate_serving_row(plain).errors
    assert validate_serving_row(drafting).errors["tpot"] < before["tpot"]
    assert validate_serving_row(plain).errors == before
    scores._costs.clear()
    after = validate_serving_row(drafting).errors
    assert validate_serving_row(plain).errors == before
    assert validate_serving_row(drafting).errors == after


def sglang(recipe: str, lengths: tuple[int, int] = (8192, 1024), **changes: Any) -> ServingScenario:
    """A row of SGLang on B200 with eight attention ranks on either side."""
    worker = {"workers": 1, "gpus_per_worker": 8, "tp": 1, "attention_dp": 8, "moe_tp": 1, "moe_ep": 8}
    row = {
        "source": "InferenceX (SemiAnalysis)",
        "engine": "SGLang",
        "engine_version": "0.5.8",
        "accelerator": "NVIDIA B200 SXM 180GB",
        "precision": {"weights": "fp8"},
        "parallelism": {"prefill": worker, "decode": worker},
        "recipe": recipe,
    }
    return drafted(**row | {"input_len": lengths[0], "output_len": lengths[1]} | changes)


def test_ranks_share_the_limits_of_the_worker_that_the_recipe_states() -> None:
    prefill, decode = sglang("8k1k_stp_maxtpt_1").serving.pools
    assert prefill.batching is not None and decode.batching is not None
    assert (prefill.batching.token_budget, prefill.batching.max_sequences) == (65_536 // 8, 1)
    assert decode.batching.max_sequences == 256 // 8
    assert prefill.kv_cache is not None and prefill.kv_cache.memory_share == 0.6
    assert sglang("8k1k_stp_maxtpt_1").serving.precision.kv == "fp8"


def test_prompts_reach_ranks_of_sglang_at_random_unless_the_recipe_says_otherwise() -> None:
    assert sglang("max-tpt-dep8-1p1d").serving.router == "random"
    assert sglang("8k1k_stp_maxtpt_1").serving.router == "round-robin"
    one = {"workers": 2, "gpus_per_worker": 8, "tp": 8, "attention_dp": 1, "moe_tp": 1, "moe_ep": 8}
    assert sglang("some", parallelism={"prefill": one, "decode": one}).serving.router == "round-robin"
    assert sglang("max-tpt-dep8-1p1d", engine="TensorRT-LLM").serving.router == "round-robin"


def test_a_recipe_that_is_not_published_leaves_the_engine_its_defaults() -> None:
    prefill, decode = sglang("max-tpt-dep8-1p1d").serving.pools
    assert prefill.batching is not None and decode.batching is not None
    assert (prefill.batching.token_budget, prefill.batching.max_sequences) == (16_384 // 8, None)
    assert decode.batching.max_sequences is None


def test_verification_beside_the_next_iteration_takes_no_time_of_its_own() -> None:
    assert sglang("8k1k_mtp_maxtpt_1", spec_decoding="mtp").stack.verify_overhead is None
    assert sglang("something else", spec_decoding="mtp").stack.verify_overhead is not None
