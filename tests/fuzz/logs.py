"""Logs to calibrate with, sound or damaged: of nccl-tests, of training and of serving, and tables of kernels."""

import json
from functools import cache
from random import Random
from typing import Any

from tests.fuzz import crossed
from tests.fuzz.commands import CLUSTERS
from tests.fuzz.drawing import some
from tests.fuzz.files import SERVE, SMALL, damaged_json
from tests.fuzz.harness import Answer, Input
from tests.fuzz.mutations import ROOT, spoil

TIMES = ("12.5", "0.01", "690", "99999999", "0", "-1", "nan", "1e3")

RELEASES = ("#", "#", "NCCL version 2.18.3+cuda12.1", "# nccl-library=22105", "NCCL version 99.0", "nccl-library=00000")


def logs(random: Random) -> Input:
    """A log of one operation, fitted or held against what ships."""
    from simulator.calibration.collectives.own import WORDS  # loads pandas, which other kinds do without

    named = random.choice((*WORDS, *WORDS, *WORDS, "nothing"))
    each, nodes = random.choice((1, 2, 4, 4, 8, 8, 8, 8, 16)), random.choice((1, 1, 2, 3))
    data = bytearray(_log(random, each, nodes).encode())
    for _ in range(random.choice((0, 0, 1, 2))):
        spoil(data, random)
    words = ["calibrate", "collectives", f"{named}_perf.log"]
    words += ["--cluster", random.choice(CLUSTERS)] if random.random() < 0.95 else []
    words += ["--as-is"] if random.random() < 0.7 else random.choice(([], ["--out", "o"]))
    return Input(words, {f"{named}_perf.log": bytes(data)}, _told)


def _log(random: Random, each: int, nodes: int) -> str:
    ranks = [f"#  Rank {i:2} Group  0 Pid  {i + 1} on node{i // each} device  {i % each}" for i in range(each * nodes)]
    rows = []
    for size in sorted(random.sample([2**power for power in range(3, 35)], random.choice((1, 3, 12)))):
        sound = f"{8 + size / random.choice((2e3, 2e5)):.2f}"
        time = sound if random.random() < 0.97 else random.choice(TIMES)
        rows.append(f"{size:12} {size // 4:12} float sum -1 {time} 1.0 1.0 0 {sound} 1.0 1.0 0")
    return "\n".join([random.choice(RELEASES), *ranks, *rows]) + "\n"


def _told(answer: Answer) -> str | None:
    return "reports no rows" if answer.code == 0 and "| rows |" not in answer.out else None


def fits(random: Random) -> Input:
    """Logs of one's own runs, or times of one's own kernels, fitted or held against what ships."""
    return random.choice((_trained, _served, _kernels, _published, _published))(random)


_WHEN = " [2026-01-02 03:04:05]"


def _trained(random: Random) -> Input:
    lines = []
    titan = random.random() < 0.4
    for step in range(1, random.choice((2, 8, 8, 20))):
        ms = random.choice(("20.5", "21.0", "1200.0", "19.9")) if random.random() < 0.97 else random.choice(TIMES)
        if titan:
            lines.append(
                f"[titan] 2026-01-02 03:04:05,678 - root - INFO - step: {step:2}  loss:  8.1  tps: {ms}  mfu: 4%"
            )
        else:
            head = (
                f"{_WHEN} iteration {step:8d}/     500 | consumed samples: {step * 4:12d} | elapsed time per iteration"
            )
            lines.append(
                f"{head} (ms): {ms} | global batch size: {random.choice((4, 4, 4, 8)):5d} | lm loss: 9.1E+00 |"
            )
    data = bytearray("\n".join(lines).encode())
    return _fitted(random, "run.log", data, SMALL)


def _served(random: Random) -> Input:
    runs = []
    for _ in range(random.choice((1, 1, 2, 3))):
        run: dict[str, Any] = {"backend": "vllm", "num_prompts": 5, "completed": 5, "request_rate": "inf"}
        run |= {"mean_ttft_ms": 210.5, "mean_tpot_ms": random.choice((14.25, 0.1, 3000))}
        rest = {
            "max_concurrency": (1, 64, 0),
            "output_throughput": (4321.5, 0.0, "x"),
            "failed": (0, 1),
            "request_rate": (4.0, "inf", -1),
            "num_prompts": (5, 50, 10**9),
            "ttfts": ([0.1] * 9,),
        }
        runs.append(json.dumps(run | some(random, rest, 0.25)))
    data = bytearray("\n".join(runs).encode())
    if random.random() < 0.3:
        data = bytearray(damaged_json(runs[0].encode(), random))
    return _fitted(random, "runs.jsonl", data, SERVE)


def _fitted(random: Random, name: str, data: bytearray, scenario: bytes) -> Input:
    """A calibration of a stack with one log, sometimes of the scenario of another kind, or with two logs."""
    for _ in range(random.choice((0, 0, 0, 1))):
        spoil(data, random)
    logs = [name, name] if random.random() < 0.1 else [name]
    words = ["calibrate", "stack", *logs, "--scenario", "s.yaml"]
    words += random.choice((["--as-is"], ["--as-is"], [], ["--out", "o"]))
    scenario = random.choice((SMALL, SERVE)) if random.random() < 0.1 else scenario
    return Input(words, {name: bytes(data), "s.yaml": scenario})


def _kernels(random: Random) -> Input:
    rows = random.sample(_timed(), random.choice((1, 8, 16)))
    lines = [damaged_json(row, random) if random.random() < 0.05 else row for row in rows]
    words = ["calibrate", "kernels", "rows.jsonl"]
    words += ["--accelerator", random.choice(("h100-sxm", "a100-sxm-80gb", "l40s", "mi300x", "nope"))]
    words += random.choice(([], ["--report", "r.md"], ["--out", "o"], ["--as-is"]))
    return Input(words, {"rows.jsonl": b"\n".join(lines)})


def _published(random: Random) -> Input:
    """Rows of collectives, or of dispatches and combines, with words of others."""
    what, kind = random.choice((("collectives", "network"), ("exchanges", "exchanges")))
    lines = [
        crossed.row(kind, random) if random.random() < 0.4 else _row(kind, random)
        for _ in range(random.choice((1, 4, 9)))
    ]
    words = ["calibrate", what, "rows.jsonl", *random.choice((["--as-is"], ["--as-is"], [], ["--out", "o"]))]
    return Input(words, {"rows.jsonl": b"\n".join(lines)})


def _row(kind: str, random: Random) -> bytes:
    return random.choice((ROOT / f"workloads/measurements/{kind}.jsonl").read_bytes().splitlines())


@cache
def _timed() -> tuple[bytes, ...]:
    """Shipped kernels, as `measure` writes them."""
    return tuple((ROOT / "workloads/measurements/kernels.jsonl").read_bytes().splitlines())
