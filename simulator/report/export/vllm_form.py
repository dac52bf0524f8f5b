"""A serving run as the JSON that `vllm bench serve --save-result --save-detailed` writes, for scripts that read it.

Times of lists are seconds, from the first arrival on. Requests stand in the order of arrival; what vLLM reports as
failed was rejected here. Texts are empty, for nothing is generated. Sources of names and definitions: vLLM,
vllm/benchmarks/serve.py (`benchmark`, `calculate_metrics`, `main`).
"""

import json
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem
from simulator.results.result import Result, Service
from simulator.results.serving.service import FINISHED, SECOND, span
from simulator.results.serving.token_times import token_times
from simulator.results.summary import ordered_metrics
from simulator.results.writing import replacing
from simulator.scenario_fields import at, word

_WHOLE = {
    "completed",
    "failed",
    "unfinished",
    "total_input_tokens",
    "total_output_tokens",
    "max_concurrent_requests",
    "preemptions",
}
MOST_TOKENS = 50_000_000
"""Tokens of which single times are written; more would fill gigabytes."""


def write_vllm_form(result: Result, path: str | Path) -> None:
    """Write the figures and the lists of a serving run, whole or not at all.

    Raises InputError for a training run, for more than `MOST_TOKENS` tokens, and where the file cannot be written.
    """
    document = vllm_form(result)
    with replacing(path) as file:
        for piece in json.JSONEncoder(ensure_ascii=False, allow_nan=False).iterencode(document):
            file.write(piece.encode())
        file.write(b"\n")


def vllm_form(result: Result) -> dict[str, Any]:
    """The document that `write_vllm_form` writes."""
    service = result.service
    if service is None:
        raise InputError(Problem("only serving runs have details of requests", hint="leave out --detail"))
    tokens = int(service.requests.generated.sum())
    if tokens > MOST_TOKENS:
        message = f"the times of {tokens:,} tokens are more than the {MOST_TOKENS:,} that are written"
        raise InputError(Problem(message, hint="simulate fewer requests (requests.count) or leave out --detail"))
    return _about(result, service) | _figures(result) | _lists(service)


def _about(result: Result, service: Service) -> dict[str, Any]:
    """What was asked of what, as far as the scenario says."""
    arrivals = at(result.scenario, "requests.arrivals")
    arrivals = arrivals if isinstance(arrivals, dict) else {}
    gamma, loop = arrivals.get("gamma"), arrivals.get("closed_loop")
    rate = arrivals.get("poisson") or arrivals.get("constant") or at(arrivals, "gamma.rate")
    rate = rate or at(arrivals, "closed_loop.rate")
    return {
        "backend": word(result.scenario, "stack.name", "clustersim"),
        "endpoint_type": "clustersim",
        "label": result.name,
        "model_id": word(result.scenario, "model.name"),
        "tokenizer_id": None,
        "num_prompts": len(service.requests.arrival),
        "request_rate": rate if isinstance(rate, int | float) else "inf",
        "burstiness": gamma.get("burstiness", 1.0) if isinstance(gamma, dict) else 1.0,
        "max_concurrency": loop.get("clients") if isinstance(loop, dict) else None,
    }


def _figures(result: Result) -> dict[str, Any]:
    """The metrics; goodput is null where nothing is promised, and what nothing is known of is 0, as vLLM has it."""
    known = {"request_goodput": None} | ordered_metrics(result.metrics)
    return {name: _figure(value, name in _WHOLE) for name, value in known.items()}


def _figure(value: float | None, whole: bool) -> float | int | None:
    if value is None:
        return None
    number = value if isfinite(value) else 0.0
    return int(number) if whole else float(number)


def _lists(service: Service) -> dict[str, Any]:
    """The lists, with a place for each request; nothing is measured of those that did not finish."""
    requests = service.requests
    came = requests.arrival >= 0
    done = requests.status == FINISHED
    origin = span(service)[0]
    gaps: list[list[float]] = [[] for _ in requests.arrival]
    for request, moments in token_times(service):
        if done[request]:
            gaps[request] = (np.diff(moments) / SECOND).tolist()
    return {
        "input_lens": requests.prompt.tolist(),
        "output_lens": np.where(done, requests.generated, 0).tolist(),
        "ttfts": np.where(done, (requests.first_token - requests.arrival) / SECOND, 0.0).tolist(),
        "itls": gaps,
        "latencies": np.where(done, (requests.finish - requests.arrival) / SECOND, 0.0).tolist(),
        "start_times": np.where(came, (requests.arrival - origin) / SECOND, 0.0).tolist(),
        "generated_texts": [""] * len(requests.arrival),
        "errors": list(_errors(service)),
    }


def _errors(service: Service) -> Iterator[str]:
    words = {FINISHED: "", 1: "rejected: longer than the context or than the cache", 2: "still in flight at the end"}
    return (words[status] for status in service.requests.status.tolist())
