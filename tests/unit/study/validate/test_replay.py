"""Measured runs of vLLM replayed: latencies within 10 %, where the data are there."""

from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.study.validate.replay import replay

RUNS = Path(__file__).parents[5] / "shared" / "data" / "serving_runs" / "RTXPRO6000"
CLUSTER = "workstation-2x-rtx-pro-6000"


@pytest.mark.skipif(not RUNS.is_dir(), reason="the measured runs are not part of the project")
def test_a_dense_run_is_replayed_within_ten_per_cent() -> None:
    """300 requests in 29 s, more than the device can take: most of TTFT is queueing."""
    found = replay(RUNS / "Llama-3.1-8B", "llama-3.1-8b", CLUSTER)
    errors = {part.metric: part.error for part in found.parts}
    assert set(errors) == {f"{f}_{n}_s" for f in ("mean", "p90") for n in ("ttft", "tpot", "e2e")}
    assert all(abs(error) < 0.1 for error in errors.values()), errors


@pytest.mark.skipif(not RUNS.is_dir(), reason="the measured runs are not part of the project")
def test_a_run_whose_replicas_share_experts() -> None:
    """They wait for each other in every layer; what waits in the queue is four times as far off as what runs."""
    found = replay(RUNS / "Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b", CLUSTER)
    errors = {part.metric: part.error for part in found.parts}
    assert max(abs(errors.pop("mean_ttft_s")), abs(errors.pop("p90_ttft_s"))) < 0.4
    assert all(abs(error) < 0.11 for error in errors.values()), errors


def test_files_that_are_missing_or_wrong_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"meta\.json"):
        replay(tmp_path, "llama-3.1-8b", CLUSTER)
    (tmp_path / "meta.json").write_text("{}")
    (tmp_path / "requests.jsonl").write_text('{"input_toks": 4, "output_toks": 2, "arrival_time": 0.0}\n')
    with pytest.raises(InputError, match="no measured requests"):
        replay(tmp_path, "llama-3.1-8b", CLUSTER)
