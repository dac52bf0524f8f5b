"""Write the part about serving of docs/validation.md from a run over all published rows.

    python -m benchmarks.validation_serving [--jobs 2] [--runs FOLDER]

Reads benchmarks/left_out_serving.json (made by `python benchmarks/fit_serving_stacks.py ROWS --leave-out`) for the
errors of rows that the fit of their stack has not seen. FOLDER holds measured runs of vLLM to replay
(casys-kaist/LLMServingSim); without it the figures of the replays stay as they are on the page.
"""

import argparse
import json
import re
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from simulator.specs import data_root
from simulator.study.accuracy import statistics
from simulator.study.causes import suspected
from simulator.study.lines import read_lines
from simulator.study.published import KINDS
from simulator.study.serving_accuracy import in_scope, serving_grouped, serving_summary
from simulator.study.serving_replay import replay
from simulator.study.serving_validate import ServingOutcome, validate_serving

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "validation.md"
PLOT = ROOT / "docs" / "images" / "validation-serving.svg"
LEFT_OUT = Path(__file__).with_name("left_out_serving.json")
BEGIN, END = "<!-- serving: written by benchmarks/validation_serving.py -->", "<!-- end of serving -->"
BEGIN_RUNS, END_RUNS = "<!-- replays: written by benchmarks/validation_serving.py -->", "<!-- end of replays -->"
RUNS = (("Llama-3.1-8B", "llama-3.1-8b"), ("Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"))
HEAD = [
    "| | rows | mean | median | P90 | signed | mean, left out |",
    "| --- | --- | --- | --- | --- | --- | --- |",
]


def errors(outcomes: Sequence[ServingOutcome]) -> list[float]:
    """Errors of the simulated ones."""
    return [o.error for o in outcomes if o.error is not None]


def line(name: str, outcomes: Sequence[ServingOutcome], left_out: dict[str, float] | None = None) -> str:
    """A row of a table of errors; the last cell only where most rows were left out once."""
    s = statistics(errors(outcomes))
    if not s["rows"]:
        return f"| {name} | 0 | | | | | |"
    unseen = [left_out[o.id] for o in outcomes if left_out and o.id in left_out]
    cells = [f"{100 * s[k]:.1f} %" for k in ("mean", "median", "p90")] + [f"{100 * s['signed']:+.1f} %"]
    last = f"{100 * statistics(unseen)['mean']:.1f} %" if len(unseen) > 0.5 * s["rows"] else ""
    return f"| {name} | {s['rows']:.0f} | " + " | ".join(cells) + f" | {last} |"


def tables(outcomes: list[ServingOutcome], left_out: dict[str, float], seconds: float) -> list[str]:
    """Everything that stands between the markers."""
    done = [o for o in outcomes if o.error is not None]
    scope = [o for o in outcomes if in_scope(o)]
    engines = [o for o in scope if o.stack != "llama.cpp"]
    figures = serving_summary(outcomes)
    found = [
        f"Written on {date.today()} from `workloads/measurements/serving.jsonl`, simulated in {seconds:.0f} s. Of",
        f"{len(outcomes)} rows, {len(done)} could be simulated. In scope are dense models on A100, H100 and H200 SXM,",
        f"whose kernels are measured: {len(errors(scope))} of {len(scope)} rows.",
        "", "![simulated against measured serving figures](images/validation-serving.svg)", "", *HEAD,
        line("all in scope", scope, left_out),
        line("in scope, engines that batch", engines, left_out),
        line("complete rows in scope", [o for o in scope if not o.assumed]),
        line("rows with assumptions in scope", [o for o in scope if o.assumed]),
        line("all rows of all devices", done, left_out), "",
    ]  # fmt: skip
    for key in ("kind", "stack", "device", "source", "precision"):
        groups = serving_grouped(done, key)
        found += [f"By {key}, all simulated rows:", "", *HEAD]
        found += [line(name, rows, left_out) for name, rows in groups.items()] + [""]
    reasons = sorted(figures["refused"].items(), key=lambda item: -item[1])
    found += ["Refused:", "", *(f"- {count}: {_plain(reason)}" for reason, count in reasons[:14]), ""]
    return found + worst(scope)


def worst(scope: Sequence[ServingOutcome]) -> list[str]:
    """The 20 worst rows with the suspected cause."""
    causes = KINDS["serving"].causes()
    rows = sorted((o for o in scope if o.error is not None), key=lambda o: -abs(o.error or 0.0))[:20]
    return [
        "The 20 worst rows in scope:", "", "| row | error | suspected cause |", "| --- | --- | --- |",
        *(f"| {o.id} | {100 * (o.error or 0):+.0f} % | {suspected(causes, o.id, o.error)} |" for o in rows), "",
    ]  # fmt: skip


def _plain(text: str) -> str:
    return text.replace("|", " ")[:140]


def replays(folder: Path) -> list[str]:
    """The table of measured runs."""
    found = ["| run | figure | measured | simulated | error |", "| --- | --- | --- | --- | --- |"]
    notes = []
    for name, model in RUNS:
        run = replay(folder / name, model, "workstation-2x-rtx-pro-6000")
        for p in run.parts:
            figure = p.metric.removesuffix("_s").replace("_", " ")
            cells = (f"{1e3 * p.measured:,.1f} ms", f"{1e3 * p.predicted:,.1f} ms", f"{100 * p.error:+.1f} %")
            found.append(f"| {name} | {figure} | " + " | ".join(cells) + " |")
        notes += [f"{name}: {text}." for text in run.assumed]
    return [*found, "", *notes, ""]


def written(page: str, begin: str, end: str, lines: Sequence[str]) -> str:
    """A page with new lines between two markers."""
    body = "\n".join([begin, "", *lines, end])
    return re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _: body, page, flags=re.S)


def plot(outcomes: Sequence[ServingOutcome]) -> None:
    """Simulated over measured time, a colour a stack, ten per cent either way as a band."""
    plt.rcParams["svg.hashsalt"] = "clustersim"
    figure, axes = plt.subplots(figsize=(8, 6))
    markers = "osD^v<>Ph*Xpd"
    for i, (name, rows) in enumerate(serving_grouped([o for o in outcomes if o.error is not None], "stack").items()):
        times, ratio = [o.measured_s for o in rows], [1 + (o.error or 0.0) for o in rows]
        axes.scatter(times, ratio, s=14, alpha=0.7, label=name, marker=markers[i % len(markers)], color=f"C{i % 10}")
    axes.axhspan(0.9, 1.1, color="0.9", zorder=0)
    axes.axhline(1.0, color="0.4", linewidth=0.8)
    label = "measured time, s (of a token where a rate is published)"
    axes.set(xscale="log", xlabel=label, ylabel="simulated / measured", ylim=(0.0, 2.0))
    axes.legend(fontsize=7, ncols=2, loc="upper right", frameon=False)
    figure.tight_layout()
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    """Simulate, write, plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=Path)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    rows = data_root() / "workloads" / "measurements" / "serving.jsonl"
    outcomes = validate_serving(list(read_lines(rows)), arguments.jobs)
    seconds = time.perf_counter() - begin
    left_out = json.loads(LEFT_OUT.read_text()) if LEFT_OUT.exists() else {}
    lines = tables(outcomes, left_out, seconds)
    runs = replays(arguments.runs) if arguments.runs else None
    page = written(PAGE.read_text(), BEGIN, END, lines)
    PAGE.write_text(page if runs is None else written(page, BEGIN_RUNS, END_RUNS, runs))
    plot([o for o in outcomes if in_scope(o)])
    print("\n".join([*lines, *(runs or [])]))


if __name__ == "__main__":
    main()
