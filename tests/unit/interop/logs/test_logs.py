"""Logs of training and results of serving benchmarks as their tools write them, and damaged ones."""

import json
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.interop.logs.serving import read_serving_log
from simulator.interop.logs.training import read_training_log


def megatron(step: int, ms: str, batch: int = 256) -> str:
    return (
        f" [2026-01-02 03:04:05] iteration {step:8d}/     500 | consumed samples: {step * batch:12d} | "
        f"elapsed time per iteration (ms): {ms} | throughput per GPU (TFLOP/s/GPU): 412.3 | "
        f"learning rate: 1.0E-04 | global batch size: "
        f"{batch:5d} | lm loss: 9.1E+00 |"
    )


def titan(step: int, tps: str) -> str:
    return (
        f"\x1b[32m[titan] 2026-01-02 03:04:05,678 - root - INFO - \x1b[31mstep: {step:2} \x1b[32mloss:  8.1234  "
        f"\x1b[34mmemory: 40.20GiB(50.25%)  \x1b[36mtps: {tps}  \x1b[35mtflops: 412.30  mfu: 41.69%\x1b[39m"
    )


def test_a_log_of_megatron_gives_the_median_of_steps_after_the_first_and_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    times = [90000.0, 9000.0, 3000.0, *[1200.0 + step % 3 for step in range(30)]]
    ramp = [megatron(1, "100.0", 64)]
    path.write_text("\n".join(["NCCL INFO ready", *ramp, *(megatron(i, str(ms)) for i, ms in enumerate(times, 2))]))
    found = read_training_log(path)
    assert found is not None and found.refused == ()
    assert (found.tool, found.count) == ("Megatron-LM", 30)
    assert found.figures == {"step_time_s": pytest.approx(1.201)}
    assert found.states == {"training.global_batch": 256.0}
    assert 0 < found.spread < 0.001


def test_a_log_of_torchtitan_gives_tokens_a_second_and_device(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join([titan(1, "311"), *(titan(i, f"7,{100 + i}") for i in range(2, 12))]))
    found = read_training_log(path)
    assert found is not None
    assert found.tool == "torchtitan"
    assert 7100 < found.figures["tokens_per_s_per_device"] < 7112
    assert found.states == {}


@pytest.mark.parametrize("word", ["nan", "inf", "-1", "0.0", "1e9", "1" * 40, "__import__('os')", ""])
def test_damaged_steps_are_refused_with_their_line_and_the_others_count(word: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join([megatron(1, "1200.0"), megatron(2, word), titan(3, word), megatron(4, "1200.0")]))
    found = read_training_log(path)
    assert found is not None and found.figures == {"step_time_s": pytest.approx(1.2)}
    assert [reason.split(": ")[0] for reason in found.refused] == [f"{path}:2", f"{path}:3"]


def test_a_log_without_a_step_that_counts(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("loss 3.1\n")
    assert read_training_log(path) is None
    path.write_text(megatron(1, "nan"))
    with pytest.raises(InputError, match=r"no step of it can be used: .*run.log:1"):
        read_training_log(path)


RESULT = {
    "backend": "vllm",
    "num_prompts": 500,
    "completed": 500,
    "request_rate": "inf",
    "max_concurrency": 64,
    "output_throughput": 4321.5,
    "mean_ttft_ms": 210.5,
    "mean_tpot_ms": 14.25,
    "ttfts": [0.1] * 20000,
}
PRINTED = """INFO: warming up
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 64
Successful requests:                     500
Output token throughput (tok/s):         4321.50
----------------------- Time to First Token --------------------
Mean TTFT (ms):                          210.50
Mean TPOT (ms):                          14.25
=================================================="""


@pytest.mark.parametrize(
    "text",
    [json.dumps(RESULT), json.dumps(RESULT, indent=2), json.dumps(RESULT | {"backend": "sglang"}), PRINTED],
    ids=["vllm", "indented", "sglang", "printed"],
)
def test_results_of_engines_in_each_of_their_forms(text: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    (found,) = read_serving_log(path)
    assert found.figures == {"mean_ttft_ms": 210.5, "mean_tpot_ms": 14.25, "output_throughput": 4321.5}
    assert found.states == {"requests.count": 500.0, "requests.arrivals.closed_loop.clients": 64.0}
    assert (found.count, found.file) == (500, str(path))


DAMAGED = [
    ("{", "not a JSON object"),
    ("[" * 50000, "not a JSON object"),
    ("[1]", "not a JSON object but list"),
    ("{}", "neither `mean_ttft_ms` nor `mean_tpot_ms`"),
    (json.dumps({"mean_tpot_ms": -1}), "`mean_tpot_ms` of -1"),
    (json.dumps({"mean_tpot_ms": float("nan")}), "`mean_tpot_ms` of nan"),
    (json.dumps({"mean_tpot_ms": True}), "`mean_tpot_ms` of True"),
    (json.dumps({"mean_tpot_ms": "rm -rf"}), "`mean_tpot_ms` of rm -rf"),
    (json.dumps({"mean_tpot_ms": 3.0, "failed": 7}), "7 of its requests failed"),
]


@pytest.mark.parametrize(("text", "words"), DAMAGED, ids=[words for _, words in DAMAGED])
def test_a_damaged_run_is_refused_with_its_line_and_the_others_count(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([json.dumps({"mean_tpot_ms": 3.0}), text, json.dumps({"mean_tpot_ms": 4.0})]))
    found = read_serving_log(path)
    assert [run.figures["mean_tpot_ms"] for run in found] == [3.0, 4.0]
    (refused,) = found[-1].refused
    assert refused.startswith(f"{path}:2: ") and words in refused


def test_a_file_of_no_benchmark_is_none_and_one_without_a_good_run_an_error(tmp_path: Path) -> None:
    path = tmp_path / "any.txt"
    path.write_text("hello\n")
    assert read_serving_log(path) == ()
    path.write_text('{"mean_tpot_ms": 0}')
    with pytest.raises(InputError, match=r"no run of it can be used: .*any.txt:1"):
        read_serving_log(path)
    with pytest.raises(InputError, match="is no regular file"):
        read_serving_log(tmp_path)
