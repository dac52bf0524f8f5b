"""Runs of several jobs for tests: one made by hand, and small ones that are simulated."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from simulator.results.result import JobRecord, Meeting, Result, no_spans
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
from tests.factories import training_result
from tests.services import asked, serve, serving_result

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios" / "jobs"
SPINE = Path(__file__).parent / "unit" / "run" / "jobs" / "two-jobs-one-spine.yaml"
BESIDE = SCENARIOS / "training-beside-serving.yaml"
SMALL = (
    "jobs.0.training.global_batch=32",
    "jobs.1.training.global_batch=16",
    "jobs.0.training.steps=2",
    "jobs.1.training.steps=2",
)
"""What makes the two jobs on one spine short."""


@cache
def simulated(*overrides: str) -> Result:
    """The two jobs on one spine, made short."""
    return simulate(load_scenario(SPINE, (*SMALL, *overrides)).scenario)


@cache
def beside() -> Result:
    """The training beside a service, made short."""
    return simulate(load_scenario(BESIDE, ("jobs.1.requests.count=12", "jobs.0.training.steps=2")).scenario)


def jobs_result(**changes: Any) -> Result:
    """A training and a service that met on a link, with everything that a page can show."""
    step = replace(training_result(), name="train")
    chat = replace(serving_result(serve(asked(40))), name="chat")
    alone = {name: value * 0.8 for name, value in step.metrics.items()}
    records = (
        JobRecord("train", 0.0, 2.0, tuple(range(192)), 1.25, alone, step, 10**12),
        JobRecord("chat", 0.5, 40.0, (192, 193), 1.0, dict(chat.metrics), chat),
    )
    rates = (
        (0, {"train": 20e9}),
        (10**12, {"train": 12e9, "chat": 13e9}),
        (3 * 10**12, {"chat": 5e9}),
        (4 * 10**12, {}),
    )
    met = Meeting(
        link="leaf up 3",
        kind="leaf up",
        links=4,
        capacity=25e9,
        bytes={"train": 44e9, "chat": 31e9},
        at_once={"train": 24e9, "chat": 26e9},
        together_s=2.0,
        full_s=2.0,
        rates=rates,
    )
    metrics = {"makespan_s": 40.0, "worst_slowdown": 1.25, "mean_slowdown": 1.125, "shared_link_s": 2.0}
    for record in records:
        own = {"slowdown": record.slowdown, **record.result.metrics}
        metrics |= {f"{record.name}: {name}": value for name, value in own.items()}
    cluster = {"nodes": 25, "node": {"devices": 8, "accelerator": {"name": "A100"}}}
    result = Result(
        kind="jobs",
        name="a training beside a service",
        metrics=metrics,
        classes=(),
        breakdown=(),
        spans=no_spans(),
        memory=(),
        warnings=tuple(f"{job.name}: {line}" for job in records for line in job.result.warnings),
        assumptions=(
            "train: placement packed: 192 devices of nodes 0 to 23",
            *(f"{job.name}: {line}" for job in records for line in job.result.assumptions),
        ),
        provenance={"version": "0.1.0", "seed": 0, "scenario": "0f3a" * 4, "events": 999},
        scenario={
            "name": "a training beside a service",
            "cluster": cluster,
            "jobs": [{"name": "train", "repeat": True}, {"name": "chat"}],
            "perturbations": [{"kind": "slow-links", "links": ["NIC 17"], "factor": 0.1, "start": 2.0, "lasts": 1.0}],
        },
        jobs=records,
        meetings=(met,),
    )
    return replace(result, **changes)
