"""Write the part about serving of docs/validation.md from a run over all published rows.

    python -m benchmarks.validation_serving [--jobs 2] [--runs FOLDER]

Reads benchmarks/left_out_serving.json (made by `clustersim calibrate stack ROWS --left-out FILE`) for the errors of
rows that the fit of their stack has not seen. FOLDER holds measured runs of vLLM to replay (casys-kaist/LLMServingSim);
without it the figures of the replays stay as they are on the page.
"""

import argparse
import json
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks.validation import HEAD, PAGE, ROOT, line, plot, ship, ship_residuals, written
from simulator.interop.rows.jsonl import read_lines
from simulator.specs import data_root
from simulator.study.validate.accuracy import SERVING, errors, grouped
from simulator.study.validate.causes import suspected
from simulator.study.validate.published import KINDS
from simulator.study.validate.replay import replay
from simulator.study.validate.serving import ServingOutcome

PLOT = ROOT / "docs" / "images" / "validation-serving.svg"
LEFT_OUT = Path(__file__).with_name("left_out_serving.json")
BEGIN, END = "<!-- serving: written by benchmarks/validation_serving.py -->", "<!-- end of serving -->"
BEGIN_RUNS, END_RUNS = "<!-- replays: written by benchmarks/validation_serving.py -->", "<!-- end of replays -->"
RUNS = (("Llama-3.1-8B", "llama-3.1-8b"), ("Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"))
MOST = 0.5
"""Share of the rows of a line of which more must have been left out once for its last cell."""


def tables(outcomes: list[ServingOutcome], left_out: dict[str, float], seconds: float) -> list[str]:
    """Everything that stands between the markers."""
    done = [o for o in outcomes if o.error is not None]
    scope = [o for o in outcomes if o.in_scope]
    engines = [o for o in scope if not o.stack.startswith("llama.cpp")]
    figures = KINDS["serving"].summary(outcomes, ())
    found = [
        f"Written on {date.today()} from `workloads/measurements/serving.jsonl`, simulated in {seconds:.0f} s. Of",
        f"{len(outcomes)} rows, {len(done)} could be simulated. In scope are dense models on A100, H100 and H200 SXM,",
        f"whose kernels are measured: {len(errors(scope))} of {len(scope)} rows.",
        "",
        "![simulated against measured serving figures](images/validation-serving.svg)",
        "",
        *HEAD,
        line("all in scope", scope, left_out, MOST),
        line("in scope, engines that batch", engines, left_out, MOST),
        line("complete rows in scope", [o for o in scope if not o.assumed]),
        line("rows with assumptions in scope", [o for o in scope if o.assumed]),
        line("all rows of all devices", done, left_out, MOST),
        "",
    ]
    for key in ("kind", "stack", "device", "source", "precision"):
        groups = grouped(done, SERVING[key])
        found += [f"By {key}, all simulated rows:", "", *HEAD]
        found += [line(name, rows, left_out, MOST) for name, rows in groups.items()] + [""]
    reasons = sorted(figures.refused.items(), key=lambda item: -item[1])
    found += ["Refused:", "", *(f"- {count}: {_plain(reason)}" for reason, count in reasons[:14]), ""]
    return found + worst(scope)


def worst(scope: Sequence[ServingOutcome]) -> list[str]:
    """The 20 worst rows with the suspected cause."""
    causes = KINDS["serving"].causes()
    rows = sorted((o for o in scope if o.error is not None), key=lambda o: -abs(o.error or 0.0))[:20]
    return [
        "The 20 worst rows in scope:",
        "",
        "| row | error | suspected cause |",
        "| --- | --- | --- |",
        *(f"| {o.id} | {100 * (o.error or 0):+.0f} % | {suspected(causes, o.id, o.error)} |" for o in rows),
        "",
    ]


def _plain(text: str) -> str:
    return text.replace("|", " ")[:140]


def replays(folder: Path) -> list[str]:
    """The table of measured runs."""
    found = ["| run | figure | measured | simulated | error |", "| --- | --- | --- | --- | --- |"]
    for name, model in RUNS:
        run = replay(folder / name, model, "workstation-2x-rtx-pro-6000")
        for p in run.parts:
            figure = p.metric.removesuffix("_s").replace("_", " ")
            cells = (f"{1e3 * p.measured:,.1f} ms", f"{1e3 * p.predicted:,.1f} ms", f"{100 * p.error:+.1f} %")
            found.append(f"| {name} | {figure} | " + " | ".join(cells) + " |")
    return [*found, ""]


def main() -> None:
    """Simulate, write, plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=Path)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    rows = data_root() / "workloads" / "measurements" / "serving.jsonl"
    outcomes = KINDS["serving"].validate(list(read_lines(rows)), arguments.jobs)
    seconds = time.perf_counter() - begin
    ship("serving.jsonl", outcomes)
    left_out = json.loads(LEFT_OUT.read_text()) if LEFT_OUT.exists() else {}
    ship_residuals("serving", "serving.jsonl", outcomes, left_out)
    lines = tables(outcomes, left_out, seconds)
    runs = replays(arguments.runs) if arguments.runs else None
    page = written(PAGE.read_text(), BEGIN, END, lines)
    PAGE.write_text(page if runs is None else written(page, BEGIN_RUNS, END_RUNS, runs))
    time_of = "time, s (of a token where a rate is published)"
    plot(PLOT, [o for o in outcomes if o.in_scope], SERVING["stack"], time_of, 2.0)
    print("\n".join([*lines, *(runs or [])]))


if __name__ == "__main__":
    main()
