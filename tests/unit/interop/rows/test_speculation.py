"""How published rows draft, and what is assumed of them."""

from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving import ServingRow, draft_serving
from simulator.interop.rows.speculation import speculation

RANKS = {"tp": 1, "attention_dp": 8, "moe_tp": 1, "moe_ep": 8}


def row(**changes: Any) -> ServingRow:
    whole: dict[str, Any] = {
        "id": "one",
        "source": "InferenceX (SemiAnalysis)",
        "kind": "online_serving",
        "model": "DeepSeek-R1",
        "engine": "TensorRT-LLM",
        "engine_version": "1.2.0rc6.post3",
        "accelerator": "NVIDIA B200 SXM 180GB",
        "num_accelerators": 8,
        "parallelism": {"tp": 8, "moe_tp": 8},
        "precision": {"weights": "fp8", "compute": "fp8", "kv": "fp8"},
        "input_len": 1024,
        "output_len": 1024,
        "concurrency": 64,
        "arrivals": "closed loop",
        "spec_decoding": "mtp",
        "metrics": {"ttft_s": 0.1, "tpot_s": 0.01},
    }
    return ServingRow.model_validate(whole | changes)


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({}, 3),
        ({"parallelism": RANKS}, 1),
        ({"engine": "SGLang", "engine_version": "0.5.9"}, 2),
        ({"recipe": "ctx3_gen1_dep8_batch64_eplb0_mtp2"}, 2),
        ({"recipe": "ctx3_gen1_dep8_batch64_eplb0_mtp3_666"}, 3),
        ({"parallelism": {"prefill": RANKS, "decode": {"tp": 8}}}, 3),
        ({"parallelism": {"prefill": {"tp": 8}, "decode": RANKS}}, 1),
    ],
)
def test_draft_lengths_of_recipes_and_scripts(changes: dict[str, Any], length: int) -> None:
    assumed: list[str] = []
    found = speculation(row(**changes), assumed)
    assert found is not None
    assert found.draft_length == length
    assert found.acceptance == (0.82, 0.64, 0.64)[:length]
    assert any("accepted with 82 %" in text for text in assumed)


def test_the_acceptance_gives_what_was_measured_of_seven_drafts() -> None:
    found = speculation(row(), [])
    assert found is not None
    seven = found.model_copy(update={"draft_length": 7, "acceptance": (0.82, *(0.64,) * 6)})
    assert seven.mean() == pytest.approx(3.2, abs=0.03)
    assert [round(found.mean(length), 2) for length in (1, 2, 3)] == [1.82, 2.34, 2.68]


@pytest.mark.parametrize("word", [None, "none"])
def test_rows_without_drafts_have_none(word: str | None) -> None:
    assert speculation(row(spec_decoding=word), []) is None


def test_rows_that_do_not_say_enough_are_refused() -> None:
    with pytest.raises(Refused, match="how many tokens"):
        speculation(row(engine="vLLM", engine_version="0.11"), [])
    with pytest.raises(Refused, match="speculative decoding `unknown`"):
        draft_serving(row(spec_decoding="unknown"))


def test_a_row_becomes_a_scenario_that_speculates() -> None:
    drawn = draft_serving(row(parallelism=RANKS))
    assert drawn.scenario.serving.speculation is not None
    assert drawn.scenario.serving.speculation.draft_length == 1


def test_engines_are_built_for_verified_rows() -> None:
    """(3 + 1) 64 + 8192 + 64 tokens, so that a prompt fits beside all that decode."""
    drawn, plain = (draft_serving(row(input_len=8192, spec_decoding=word)) for word in ("mtp", "none"))
    assert drawn.scenario.serving.batching.token_budget == 4 * 64 + 8192 + 64
    assert plain.scenario.serving.batching.token_budget == 64 + 8192 + 64
