"""The gallery of pipeline schedules: each registered one drawn and weighed, formulas beside what is simulated."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
from markdown_tables import table
from schedule_facts import KNOWN, MEASURED, Measured, Sizes
from stage_times import MEASURED_STAGES, Stages
from stage_times import MICROBATCHES as STEP_MICROBATCHES

from simulator.errors import InputError
from simulator.program.schedule import Schedule
from simulator.program.timing import Costs, time_schedule
from simulator.report.schedule.picture import svg
from simulator.report.text.wording import percent
from simulator.results.documents.schedule import ScheduleDocument
from simulator.study.schedule import AskedCosts, AskedSchedule, make, run
from simulator.training.schedules import SCHEDULES, Pipeline

DEVICES, MICROBATCHES = 4, 8
"""Sizes of the gallery."""
PRODUCTS_OF_SCORES = {"vocab-1": 1, "vocab-2": 2, "interlaced": 1}
"""Of the three products with a part of the vocabulary those that S makes, by schedule."""


class _Shown(NamedTuple):
    """A registered schedule at some number of chunks."""

    name: str
    document: ScheduleDocument
    sends: int

    @property
    def sizes(self) -> Sizes:
        """Of the document."""
        return Sizes(self.document.devices, self.document.stages // self.document.devices, self.document.microbatches)

    @property
    def title(self) -> str:
        """Name and chunks."""
        return self.name if self.sizes.v == 1 else f"{self.name}, {self.sizes.v} chunks"


@cache
def _shown() -> tuple[_Shown, ...]:
    """Every registered schedule with one chunk and with two, where it takes them and no earlier one has that order."""
    found: list[_Shown] = []
    orders: set[bytes] = set()
    for name in sorted(SCHEDULES.names(), key=lambda name: (name not in KNOWN, [*KNOWN, name].index(name))):
        variants = dict(_variants(name))
        new = [order for order in variants if order not in orders]
        found += [variants[order] for order in new or [*variants][-1:]]
        orders |= set(new)
    return tuple(found)


def _variants(name: str) -> Iterator[tuple[bytes, _Shown]]:
    """A schedule with one chunk and with two, as far as it takes them, by their orders."""
    for chunks in (1, 2):
        asked = AskedSchedule(name, DEVICES, MICROBATCHES, chunks)
        try:
            made = make(asked)
        except InputError:
            continue
        yield (
            b" ".join(column.tobytes() for column in (made.kind, made.stage, made.microbatch)),
            _Shown(name, run(asked, made), _sends(made)),
        )


def _sends(schedule: Schedule) -> int:
    """Hand-overs between devices in a step."""
    from simulator.program.lowering import takes_from

    passes = schedule.passes()
    source, rank = takes_from(passes), passes.rank
    return int(((source >= 0) & (rank[source] != rank)).sum()) // schedule.steps


def schedule_gallery() -> str:
    """A picture of each schedule and a sentence about it."""
    return "\n".join(_drawn(shown) for shown in _shown())


def _drawn(shown: _Shown) -> str:
    sentence = (SCHEDULES.get(shown.name).__doc__ or "").split("\n\n")[0]
    chunks = f" --chunks {shown.sizes.v}" if shown.sizes.v > 1 else ""
    command = f"clustersim schedule {shown.name} --stages {DEVICES} --microbatches {MICROBATCHES}{chunks}"
    picture = f'<div class="schedule">\n{svg(shown.document)}\n</div>'
    return f"### {shown.title}\n\n{sentence} `{command}`\n\n{picture}\n"


def schedule_figures() -> str:
    """What each schedule comes to, with its formulas."""
    rows = (_figures(shown) for shown in _shown())
    return table(("schedule", "bubble", "idle", "formula", "activations", "formula", "sends"), rows)


def _figures(shown: _Shown) -> tuple[str, ...]:
    document, known = shown.document, KNOWN.get(shown.name)
    idle = max(device.own_idle if known and known.own else device.idle for device in document.by_device)
    plain = next(one.sends for one in _shown() if one.name == "1f1b")
    return (
        f"`{shown.name}`" + (f", {shown.sizes.v} chunks" if shown.sizes.v > 1 else ""),
        percent(document.bubble),
        f"{idle:.4g}" + (", own" if known and known.own else ""),
        _formula(known.idle, known.idle_of, shown.sizes) if known else "",
        f"{document.peak:.4g}",
        _formula(known.kept, known.kept_of, shown.sizes) if known else "",
        f"{shown.sends / plain:.3g} x",
    )


def _formula(words: str, value: Callable[[Sizes], Fraction] | None, sizes: Sizes) -> str:
    return f"`{words}` = {float(value(sizes)):.4g}" if value is not None else ""


def schedule_choice() -> str:
    """When to use which."""
    names = [name for name in KNOWN if name in SCHEDULES.names()]
    return table(("schedule", "when"), ((f"`{name}`", KNOWN[name].use) for name in names))


def _bubble_of(name: str, row: Measured) -> float:
    """The simulated bubble rate, (cost - m (T_F + T_B + T_W)) / cost, of the longest time from first to last pass."""
    asked = AskedSchedule(name, row.p, row.m, costs=AskedCosts(*map(Fraction, row.costs)))
    return run(asked, make(asked)).own_bubble


def zero_bubble_rates() -> str:
    """Published bubbles beside simulated ones."""
    names = [name for name in MEASURED[0].bubbles if name in SCHEDULES.names()]
    heads = ["model", "p", "m", "F, I, W, send", *(f"`{name}`: published, simulated" for name in names)]
    return table(heads, (_rates(row, names) for row in MEASURED))


def _rates(row: Measured, names: list[str]) -> Iterator[str]:
    yield from (row.model, str(row.p), str(row.m), ", ".join(row.costs))
    yield from (f"{row.bubbles[name]:.4f}, {_bubble_of(name, row):.4f}" for name in names)


def uneven_stages() -> str:
    """Measured steps beside those of the schedule with the measured passes."""
    heads = ("stages", "sequence", "vocabulary", "passes of the stages, ms", "measured step", "simulated", "error")
    return table(heads, (_uneven(row) for row in MEASURED_STAGES))


def _uneven(row: Stages) -> Iterator[str]:
    simulated = _step_of(row)
    scores = row.scores_us or (0,) * len(row.forward_us)
    passes = [sum(times) / 1e3 for times in zip(row.forward_us, row.backward_us, scores, strict=True)]
    yield from (row.method, f"{row.sequence:,}", f"{row.vocabulary:,}", ", ".join(f"{time:.1f}" for time in passes))
    yield from (f"{row.step_s:.2f} s", f"{simulated:.2f} s", percent(simulated / row.step_s - 1, signed=True))


def _step_of(row: Stages) -> float:
    """Seconds of a step, sends left out: under 1F1B, or under the schedule that the vocabulary is cut for."""
    forward, backward = (np.array(times, np.int64) for times in (row.forward_us, row.backward_us))
    stages, name = len(forward), row.method if row.scores_us else "1f1b"
    costs = Costs(forward, backward, np.zeros_like(forward), np.ones(stages), np.ones(stages))
    if row.scores_us:
        both = np.array(row.scores_us, np.int64)
        scores = np.rint(both * PRODUCTS_OF_SCORES[name] / 3).astype(np.int64)
        barrier = 0 if name == "interlaced" else row.sum_us
        costs = replace(costs, scores=scores, scores_gradient=both - scores, barrier=barrier)
    made = SCHEDULES.get(name)(Pipeline(stages, 1, STEP_MICROBATCHES, costs=costs))
    return time_schedule(made, costs).makespan / 1e6
