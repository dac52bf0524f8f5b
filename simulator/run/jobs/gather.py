"""From jobs that ran at one time to a Result: what each took beside the others and alone, and where they met."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import simulator
from simulator import units
from simulator.results.ground import weakest_of
from simulator.results.places import place_in_words
from simulator.results.result import Comparison, JobRecord, Meeting, Result, no_spans
from simulator.run.jobs.meetings import meetings_of
from simulator.run.kinds import KINDS
from simulator.run.links.notes import one_profile
from simulator.specs.resolve import dump, scenario_hash

if TYPE_CHECKING:
    from simulator.run.jobs.simulate import Together


def gather(together: "Together") -> Result:
    """The Result of all jobs."""
    records = tuple(_record(together, i) for i in range(len(together.jobs)))
    meetings = meetings_of(together)
    scenario = together.scenario
    return Result(
        kind="jobs",
        name=scenario.name,
        metrics=_metrics(together, records, meetings),
        classes=(),
        breakdown=(),
        spans=no_spans(),
        memory=(),
        comparisons=_published(records),
        warnings=_told(records, "warnings"),
        assumptions=(*_placements(together), *one_profile(scenario.cluster), *_told(records, "assumptions")),
        ground=weakest_of([record.result.ground for record in records]),
        feasible=all(record.result.feasible for record in records),
        provenance={
            "version": simulator.__version__,
            "seed": scenario.seed,
            "scenario": scenario_hash(scenario),
            "events": together.site.clock.events,
        },
        scenario=dump(scenario),
        jobs=records,
        meetings=meetings,
    )


def _record(together: "Together", number: int) -> JobRecord:
    job, devices = together.jobs[number], together.places[number]
    result = job.result()
    alone, whole = job.alone, KINDS[result.kind].whole
    slowdown = result.metrics.get(whole, math.nan) / alone[whole] if alone.get(whole) else math.nan
    end_s = units.to_seconds(together.ended[job.name])
    return JobRecord(job.name, job.spec.start, end_s, devices, slowdown, alone, result, job.shown_from)


def _metrics(together: "Together", records: tuple[JobRecord, ...], meetings: tuple[Meeting, ...]) -> dict[str, float]:
    slow = [record.slowdown for record in records if math.isfinite(record.slowdown)]
    found = {
        "makespan_s": units.to_seconds(max(together.ended.values(), default=0)),
        "worst_slowdown": max(slow, default=math.nan),
        "mean_slowdown": float(np.mean(slow)) if slow else math.nan,
        "shared_link_s": max((meeting.full_s for meeting in meetings), default=0.0),
    }
    of_jobs = ((record.name, {"slowdown": record.slowdown, **record.result.metrics}) for record in records)
    return found | {f"{job}: {name}": value for job, figures in of_jobs for name, value in figures.items()}


def _published(records: tuple[JobRecord, ...]) -> tuple[Comparison, ...]:
    """Published figures of each job, named as among the metrics."""
    return tuple(
        replace(comparison, metric=f"{record.name}: {comparison.metric}")
        for record in records
        for comparison in record.result.comparisons
    )


def _told(records: tuple[JobRecord, ...], kind: str) -> tuple[str, ...]:
    return tuple(f"{record.name}: {text}" for record in records for text in getattr(record.result, kind))


def _placements(together: "Together") -> tuple[str, ...]:
    """Where jobs lie that did not say so."""
    node_of = together.scenario.cluster.numbering.node_of
    said = []
    for job, devices in zip(together.scenario.jobs, together.places, strict=True):
        if isinstance(job.placement, str):
            said.append(f"{job.name}: placement {job.placement}: {place_in_words(devices, node_of)}")
    return tuple(said)
