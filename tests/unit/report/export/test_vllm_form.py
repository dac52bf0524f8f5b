import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.report.export import vllm_form as module
from simulator.report.export.vllm_form import vllm_form, write_vllm_form
from tests.factories import training_result
from tests.services import asked, serve, serving_result

REQUESTS = asked()
RESULT = serving_result(serve(REQUESTS, blocks=130))

LISTS = {"input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors"}
"""What `vllm bench serve --save-detailed` adds (vllm/benchmarks/serve.py)."""
FIGURES = {
    "duration",
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
} | {f"{kind}_{name}_ms" for kind in ("mean", "median", "std", "p99") for name in ("ttft", "tpot", "itl", "e2el")}
"""What `--save-result` writes of a run."""


def test_keys_are_those_of_vllm() -> None:
    document = vllm_form(RESULT)
    assert document.keys() >= LISTS | FIGURES | {"backend", "model_id", "num_prompts", "request_rate", "burstiness"}
    assert {len(document[name]) for name in LISTS} == {200}


def test_gaps_sum_to_the_time_from_first_to_last_token() -> None:
    document = vllm_form(RESULT)
    for one in REQUESTS:
        gaps = document["itls"][one.number]
        assert sum(gaps) == pytest.approx(document["latencies"][one.number] - document["ttfts"][one.number])
        assert len(gaps) == max(document["output_lens"][one.number] - 1, 0)
        np.testing.assert_allclose(gaps, np.diff(one.tokens) / 1e12)


def test_the_figures_follow_from_the_lists() -> None:
    document = vllm_form(RESULT)
    done = [i for i, error in enumerate(document["errors"]) if not error]
    assert len(done) == document["completed"]
    ttfts = np.array(document["ttfts"])[done]
    assert document["p99_ttft_ms"] == pytest.approx(1e3 * np.percentile(ttfts, 99))
    gaps = np.concatenate([document["itls"][i] for i in done])
    assert document["p99_itl_ms"] == pytest.approx(1e3 * np.percentile(gaps, 99))
    assert document["median_itl_ms"] == pytest.approx(1e3 * np.median(gaps))
    assert document["total_output_tokens"] == sum(document["output_lens"])


def test_rejected_requests_say_why() -> None:
    document = vllm_form(RESULT)
    assert document["errors"][0].startswith("rejected")
    assert (document["output_lens"][0], document["ttfts"][0], document["itls"][0]) == (0, 0.0, [])
    assert document["errors"][1] == ""


def test_what_was_asked() -> None:
    scenario = {
        "requests": {"arrivals": {"gamma": {"rate": 3.0, "burstiness": 0.5}}},
        "model": {"name": "M"},
        "stack": {"name": "vLLM"},
    }
    document = vllm_form(replace(RESULT, scenario=scenario))
    assert (document["request_rate"], document["burstiness"], document["max_concurrency"]) == (3.0, 0.5, None)
    loop = {"requests": {"arrivals": {"closed_loop": {"clients": 7}}}}
    assert vllm_form(replace(RESULT, scenario=loop))["max_concurrency"] == 7
    assert vllm_form(replace(RESULT, scenario={"requests": {"arrivals": 3}}))["request_rate"] == "inf"


def test_the_file_is_json_of_numbers(tmp_path: Path) -> None:
    write_vllm_form(serving_result(serve([]), None, comparisons=()), tmp_path / "none.json")
    document = json.loads((tmp_path / "none.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    assert document["request_goodput"] is None
    assert document["mean_ttft_ms"] == 0  # as vLLM has it
    write_vllm_form(RESULT, tmp_path / "some.json")
    assert json.loads((tmp_path / "some.json").read_text()) == vllm_form(RESULT)


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="only serving runs"):
        write_vllm_form(training_result(), tmp_path / "x.json")
    monkeypatch.setattr(module, "MOST_TOKENS", 100)
    with pytest.raises(InputError, match="more than the 100"):
        write_vllm_form(RESULT, tmp_path / "x.json")
    assert not list(tmp_path.iterdir())
