"""Fit length distributions to request traces: the files of workloads/requests that say so.

TRACES is a folder with `azure-2023/` (Azure/AzurePublicDataset) and `mooncake/` (kvcache-ai/Mooncake). A fit is an
empirical distribution function of about `POINTS` points, straight in between: those that bring the quantile function
nearest to the trace's (area between them), besides the quantiles that people quote. Prompt and answer are tied by
Spearman's coefficient of the trace. How arrivals cluster is reported, and stands in `source`, for arrivals are chosen
apart from lengths.
"""

from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.calibration.asked import Asked, save
from simulator.interop.traces import TraceColumns, read
from simulator.serving.workload.lengths import lengths
from simulator.specs import load_spec
from simulator.specs.requests import Lengths

POINTS = 40
QUOTED = (0.5, 0.9, 0.99)
DRAWS = 100_000


class Fitted(NamedTuple):
    """A trace of which we ship the lengths."""

    file: str
    """Below the folder of traces."""
    name: str
    source: str


FITTED = {
    "azure-conversation": Fitted(
        "azure-2023/AzureLLMInferenceTrace_conv.csv",
        "Azure LLM inference trace 2023, conversation",
        "Azure/AzurePublicDataset, AzureLLMInferenceTrace_conv.csv, CC-BY-4.0",
    ),
    "azure-code": Fitted(
        "azure-2023/AzureLLMInferenceTrace_code.csv",
        "Azure LLM inference trace 2023, code completion",
        "Azure/AzurePublicDataset, AzureLLMInferenceTrace_code.csv, CC-BY-4.0",
    ),
    "mooncake-conversation": Fitted(
        "mooncake/conversation_trace.jsonl",
        "Mooncake trace, conversation (long contexts)",
        "kvcache-ai/Mooncake, conversation_trace.jsonl, Apache-2.0; what its prompts share is not in the fit",
    ),
    "mooncake-synthetic": Fitted(
        "mooncake/synthetic_trace.jsonl",
        "Mooncake trace, synthetic (long documents, short answers)",
        "kvcache-ai/Mooncake, synthetic_trace.jsonl, Apache-2.0; what its prompts share is not in the fit",
    ),
}
"""By the name of the file."""


def points(values: NDArray[np.int64], wanted: int = POINTS) -> list[tuple[float, float]]:
    """(value, probability) of a distribution function with at most about `wanted` points.

    Whole numbers are drawn by rounding, so the function passes through (v + 1/2, share of at most v).
    """
    distinct, counts = np.unique(values, return_counts=True)
    edges = np.concatenate(([distinct[0] - 0.5], distinct + 0.5))
    shares = np.concatenate(([0.0], np.cumsum(counts) / len(values)))
    quoted = [int(np.searchsorted(shares, share)) for share in QUOTED]
    chosen = {0, len(edges) - 1, *quoted, *(place - 1 for place in quoted)}
    while len(chosen) < min(wanted, len(edges)):
        chosen.add(_worst(edges, shares, sorted(chosen)))
    return [(float(edges[i]), round(float(shares[i]), 6)) for i in sorted(chosen)]


def _worst(edges: NDArray[np.float64], shares: NDArray[np.float64], chosen: list[int]) -> int:
    """The point to add: the farthest from the straight line, in the stretch with the largest area beside it."""
    worst, place = -1.0, -1
    for start, end in pairwise(chosen):
        if end - start < 2:
            continue
        line = np.interp(edges[start : end + 1], edges[[start, end]], shares[[start, end]])
        apart = np.abs(shares[start : end + 1] - line)
        area = float(np.sum((apart[1:] + apart[:-1]) / 2 * np.diff(edges[start : end + 1])))
        if area > worst:
            worst, place = area, start + int(np.argmax(apart))
    return place


def spearman(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Rank correlation; equal values share their mean rank."""
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(values: NDArray[np.int64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place], np.float64)


def written(kind: Fitted, trace: TraceColumns) -> str:
    """The YAML file of a fit."""
    times = trace.arrival_s if trace.arrival_s is not None else np.zeros(len(trace.prompt))
    gaps = np.diff(times)
    said = (
        f"{kind.source}; fitted to its {len(times):,} requests (clustersim calibrate lengths). There they come at"
        f" {len(gaps) / times[-1]:.2f} /s, gaps with a coefficient of variation of {np.std(gaps) / np.mean(gaps):.2f}"
    )
    return (
        f"name: {kind.name}\nprompt:\n  cdf:\n{_listed(points(trace.prompt))}output:\n  cdf:\n"
        f"{_listed(points(trace.output))}correlation: {spearman(trace.prompt, trace.output):.3f}\nsource: >-\n"
        + "".join(f"  {line}\n" for line in _wrapped(said))
    )


def _listed(found: list[tuple[float, float]]) -> str:
    return "".join(f"    - [{value:g}, {share:g}]\n" for value, share in found)


def _wrapped(text: str, width: int = 116) -> list[str]:
    return wrap(text, width, break_on_hyphens=False)


def figures(prompt: NDArray[np.int64], output: NDArray[np.int64]) -> list[float]:
    """Mean, P50, P90 and P99 of both, and their rank correlation."""
    both = [[float(np.mean(c)), *map(float, np.percentile(c, (50, 90, 99)))] for c in (prompt, output)]
    return [*both[0], *both[1], spearman(prompt, output)]


def report(folder: Path, chosen: tuple[str, ...]) -> str:
    """The figures of each trace and those of `DRAWS` draws from its fit, as Markdown."""
    lines = ["| workload | | mean | P50 | P90 | P99 | mean | P50 | P90 | P99 | correlation |"]
    lines.append("| --- | --- |" + " --- |" * 9)
    for name in chosen:
        trace = read(folder / FITTED[name].file)
        for label, columns in (
            ("trace", (trace.prompt, trace.output)),
            ("drawn", lengths(load_spec(Lengths, name), DRAWS, seed=1)),
        ):
            *sizes, tie = figures(*columns)
            lines.append(f"| {name} | {label} | " + " | ".join(f"{size:,.1f}" for size in sizes) + f" | {tie:.3f} |")
    return "\n".join([*lines, "", *(f"{name}: {arrivals(read(folder / FITTED[name].file))}" for name in chosen)])


def arrivals(trace: TraceColumns) -> str:
    """How requests come, in words: rate, clustering of gaps, requests a minute over the trace."""
    times = trace.arrival_s if trace.arrival_s is not None else np.zeros(len(trace.prompt))
    gaps = np.diff(times)
    minutes = np.bincount((times / 60).astype(int))[:-1]
    spread = np.std(gaps) / np.mean(gaps)
    return (
        f"{len(gaps) / times[-1]:.2f} requests/s over {times[-1] / 60:.0f} min, coefficient of variation of the gaps"
        f" {spread:.2f} (gamma burstiness {spread**-2:.2f}), a minute {minutes.min()} to {minutes.max()},"
        f" median {np.median(minutes):.0f}, by ten minutes {', '.join(str(part.sum()) for part in _tens(minutes))}"
    )


def _tens(minutes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [minutes[start : start + 10] for start in range(0, len(minutes) - 9, 10)]


def calibrate(asked: Asked) -> None:
    """Fit the lengths asked for, or report how the shipped ones compare with their traces."""
    (folder,) = asked.files
    chosen = asked.chosen(FITTED, "lengths")
    if asked.as_is:
        return asked.say(report(folder, chosen))
    for name in chosen:
        text = written(FITTED[name], read(folder / FITTED[name].file))
        if asked.out:
            save(asked.out / f"{name}.yaml", text)
        else:
            asked.say(text)
    return None
