"""From jobs that ran at one time to a Result: what each took beside the others and alone, and where they met."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import simulator
from simulator import units
from simulator.engine.load import Span
from simulator.results.ground import weakest_of
from simulator.results.result import JobRecord, Meeting, Result, no_spans
from simulator.run.jobs.training import Trainer
from simulator.run.kinds import KINDS
from simulator.run.network_notes import one_profile
from simulator.specs.resolve import dump, scenario_hash

if TYPE_CHECKING:
    from simulator.run.jobs.simulate import Together

FULL = 1 - 1e-6
"""Share of a capacity from which a link is full; the rest is rounding."""


def gather(together: "Together") -> Result:
    """The Result of all jobs."""
    records = tuple(_record(together, i) for i in range(len(together.jobs)))
    meetings = _meetings(together)
    scenario = together.scenario
    return Result(
        kind="jobs",
        name=scenario.name,
        metrics=_metrics(together, records, meetings),
        classes=(),
        breakdown=(),
        spans=no_spans(),
        memory=(),
        comparisons=tuple(comparison for record in records for comparison in record.result.comparisons),
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
    alone = gather_alone(job) if isinstance(job, Trainer) else job.own.metrics
    whole = KINDS[result.kind].whole
    slowdown = result.metrics.get(whole, math.nan) / alone[whole] if alone.get(whole) else math.nan
    end_s = units.to_seconds(together.ended[job.name])
    return JobRecord(job.name, job.spec.start, end_s, devices, slowdown, alone, result)


def gather_alone(job: Trainer) -> dict[str, float]:
    """The figures of a training that has the machine for itself."""
    from simulator.run.gather import gather

    return gather(job.own).metrics


def _metrics(together: "Together", records: tuple[JobRecord, ...], meetings: tuple[Meeting, ...]) -> dict[str, float]:
    slow = [record.slowdown for record in records if math.isfinite(record.slowdown)]
    found = {
        "makespan_s": units.to_seconds(max(together.ended.values(), default=0)),
        "worst_slowdown": max(slow, default=math.nan),
        "mean_slowdown": float(np.mean(slow)) if slow else math.nan,
        "shared_link_s": max((meeting.full_s for meeting in meetings), default=0.0),
    }
    return found | {
        f"{record.name}: {name}": value for record in records for name, value in record.result.metrics.items()
    }


def _told(records: tuple[JobRecord, ...], kind: str) -> tuple[str, ...]:
    return tuple(f"{record.name}: {text}" for record in records for text in getattr(record.result, kind))


def _placements(together: "Together") -> tuple[str, ...]:
    """Where jobs lie that did not say so."""
    node_of = together.scenario.cluster.numbering.node_of
    said = []
    for job, devices in zip(together.scenario.jobs, together.places, strict=True):
        if isinstance(job.placement, str):
            where = f"nodes {listed(sorted({node_of(device) for device in devices}))}"
            said.append(f"{job.name}: placement {job.placement}: {len(devices)} devices of {where}")
    return tuple(said)


def listed(numbers: list[int]) -> str:
    """`0 to 3, 8`; every second one as `0, 2 to 14`."""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    shown = [f"{row[0]} to {row[-1]}" if len(row) > 1 else str(row[0]) for row in rows]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:11], f"... {shown[-1]}"])


# ---- where they met ----------------------------------------------------------------------------------------------


def _meetings(together: "Together") -> tuple[Meeting, ...]:
    """Links on which several jobs sent at one time; of those on which the same jobs fared alike one."""
    found: dict[tuple[str, str, float], list[Meeting]] = {}
    counted: dict[int, int] = {}
    for link, names in together.met.items():
        stands = together.alike.get(link, link)
        if len(set(names)) > 1:
            counted[stands] = counted.get(stands, 0) + 1
    for link, count in counted.items():
        meeting = _meeting(together, link, count)
        if meeting.together_s > 0:
            found.setdefault((meeting.kind, " ".join(meeting.bytes), meeting.full_s), []).append(meeting)
    merged = [_as_one(alike) for alike in found.values()]
    return tuple(sorted(merged, key=lambda meeting: (-meeting.full_s, -meeting.together_s, meeting.link)))


def _as_one(alike: list[Meeting]) -> Meeting:
    return replace(alike[0], links=sum(meeting.links for meeting in alike))


def _meeting(together: "Together", link: int, count: int) -> Meeting:
    fabric = together.site.fabric
    spans = together.load.of(link)
    rates = [_by_job(span) for span in spans]
    lasts = [units.to_seconds(span.stop - span.start) for span in spans]
    both = [sum(rate > 0 for rate in by.values()) > 1 for by in rates]
    full = [shared and span.load >= FULL * span.capacity for shared, span in zip(both, spans, strict=True)]
    sent: dict[str, float] = {}
    for by, seconds in zip(rates, lasts, strict=True):
        for name, rate in by.items():
            sent[name] = sent.get(name, 0.0) + rate * seconds
    last = [(spans[-1].stop, dict[str, float]())] if spans else []
    return Meeting(
        link=fabric.links[link],
        kind=fabric.kinds[fabric.block_of(link)],
        links=count,
        capacity=float(fabric.capacity[link]),
        bytes=sent,
        together_s=sum((seconds for seconds, shared in zip(lasts, both, strict=True) if shared), 0.0),
        full_s=sum((seconds for seconds, whole in zip(lasts, full, strict=True) if whole), 0.0),
        rates=(*((span.start, by) for span, by in zip(spans, rates, strict=True)), *last),
    )


def _by_job(span: Span) -> dict[str, float]:
    """Bytes per second of each job."""
    found: dict[str, float] = {}
    for label, rate in span.by.items():
        name = str(label[0]) if isinstance(label, tuple) else str(label)
        found[name] = found.get(name, 0.0) + rate * units.TICKS_PER_SECOND
    return found
