"""Measured runs of vLLM replayed request by request: the same arrivals and lengths, mean and P90 of the latencies.

A run is a folder with `requests.jsonl` (a line a request: input_toks, output_toks, arrival_time, queued_ts,
first_token_ts, last_token_ts, in seconds) and `meta.json` (model, engine_kwargs), as casys-kaist/LLMServingSim
publishes them. Latencies count from when the engine queued a request.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.run.measured.scores import Part
from simulator.run.serve import run_serving
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, Layout, NumberFormats, Serving, ServingStack
from simulator.units import TICKS_PER_SECOND

Times = dict[str, NDArray[np.float64]]
"""ttft, tpot and e2e of each request, seconds."""
FORMATS = {"bfloat16": "bf16", "float16": "fp16", "auto": None}


@dataclass(frozen=True, slots=True)
class Replay:
    """A measured run and the simulated one."""

    name: str
    parts: tuple[Part, ...]
    """Mean and P90 of TTFT, TPOT and E2E."""


def replay(folder: Path, model: str, cluster: str, stack: str = "vllm") -> Replay:
    """Simulate the run of a folder on a machine; InputError where a file is missing or not of that form."""
    meta = _object(folder / "meta.json")
    scenario = _scenario(folder, meta.get("engine_kwargs", {}), model, cluster, stack)
    ledger = run_serving(scenario).ledger
    arrival, first, last = (
        np.array(column) / TICKS_PER_SECOND for column in (ledger.arrival, ledger.first_token, ledger.finish)
    )
    simulated = _times(arrival, first, last, np.array(ledger.output))
    measured = _measured(folder / "requests.jsonl")
    parts = [
        Part(f"{figure}_{name}_s", float(value(measured[name])), float(value(simulated[name])), False)
        for name in ("ttft", "tpot", "e2e")
        for figure, value in (("mean", np.mean), ("p90", lambda times: np.percentile(times, 90)))
    ]
    return Replay(str(meta.get("model", folder.name)), tuple(parts))


def _scenario(folder: Path, settings: dict[str, Any], model: str, cluster: str, stack: str) -> ServingScenario:
    replicas = int(settings.get("data_parallel_size") or 1)
    tp = int(settings.get("tensor_parallel_size") or 1)
    serving = Serving(
        replicas=replicas,
        router="least-outstanding",  # vLLM's balancer of data-parallel ranks counts requests
        parallel=Layout(tp=tp, ep=replicas * tp if settings.get("enable_expert_parallel") else 1),
        precision=NumberFormats(weights=FORMATS.get(str(settings.get("dtype")))),  # type: ignore[arg-type]
        batching=Batching(
            token_budget=settings.get("max_num_batched_tokens"), max_sequences=settings.get("max_num_seqs")
        ),
    )
    return ServingScenario(
        version=1,
        name=f"replay of {folder.name}",
        cluster=load_spec(Cluster, cluster),
        model=load_spec(Model, model),
        stack=load_spec(ServingStack, stack),
        serving=serving,
        requests=Requests(trace=str(folder / "requests.jsonl")),
    )


def _measured(path: Path) -> Times:
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        arrival, first, last, output = (
            np.array([float(row[key]) for row in rows])
            for key in ("queued_ts", "first_token_ts", "last_token_ts", "output_toks")
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(Problem(f"no measured requests: {error}", file=str(path))) from None
    return _times(arrival, first, last, output)


def _times(
    arrival: NDArray[np.float64], first: NDArray[np.float64], last: NDArray[np.float64], output: NDArray[Any]
) -> Times:
    return {"ttft": first - arrival, "tpot": (last - first) / np.maximum(output - 1, 1), "e2e": last - arrival}


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(Problem(f"cannot be read: {error}", file=str(path))) from None
    return found if isinstance(found, dict) else {}
