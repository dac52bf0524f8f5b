"""Why the best layout is the best, what the next one lacks, and what was ruled out by how much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator import units
from simulator.axes import EP, ETP
from simulator.results.result import Result
from simulator.run.kinds import TRAINING
from simulator.run.spread.compared import confidence
from simulator.study.compare.comparison import compare
from simulator.study.layouts.answer import Answer, Leader
from simulator.study.layouts.goal import Goal
from simulator.study.layouts.layout import NAMES

_PARTS = 3
_WORDS = {
    "memory": ("GB of memory", 1e-9),
    "days": ("days", 1.0),
    "budget": ("MUSD", 1e-6),
}
_REASONS = 4


@dataclass(frozen=True)
class Held:
    """Another layout held against the best."""

    ratio: float
    """What is minimised over that of the best, less 1."""
    parts: Mapping[str, float]
    """What each part of the step adds to the ratio, the largest first; empty on another number of devices."""
    confidence: float | None
    """How sure it is that the best one is better; None where no published run says so."""


def held(answer: Answer) -> list[Held]:
    """Each of the others held against the best."""
    leaders, goal = answer.leaders, answer.found.goal
    if len(leaders) < 2:
        return []
    compared = compare([one.result for one in leaders], [_name(one) for one in leaders]).differences
    first = leaders[0]
    best = goal.value(first.scenario, first.result.metrics["step_time_s"])
    found = []
    for one, difference in zip(leaders[1:], compared, strict=True):
        ratio = goal.value(one.scenario, one.result.metrics["step_time_s"]) / best - 1.0
        alike = one.scenario.cluster == first.scenario.cluster
        known = first.result.ground.circumstances, one.result.ground.circumstances
        found.append(Held(ratio, difference.parts if alike else {}, confidence(*known, ratio)))
    return found


def _name(one: Leader) -> str:
    return one.priced.candidate.layout.name


def why(answer: Answer, others: Sequence[Held]) -> list[str]:
    """Sentences about the winner and the runner-up."""
    if not answer.leaders:
        return []
    goal, best = answer.found.goal, answer.leaders[0]
    said = [f"{_name(best)} wins: {_figures(goal, best)}; {_made_of(best.result)}"]
    if not others:
        return [*said, "no other layout fits into memory and keeps the limits"]
    second = answer.leaders[1]
    said.append(f"{_name(second)} is next: {_figures(goal, second)}; {_lacks(goal, best, second, others[0])}")
    if (sure := others[0].confidence) is not None:
        what = "faster" if goal.by == "time" else "cheaper"
        said.append(f"that the winner is {what} is {100 * sure:.0f} % sure, from how published runs like the two err")
    return said


def _figures(goal: Goal, one: Leader) -> str:
    step_s = one.result.metrics["step_time_s"]
    text = f"a step takes {units.format(step_s, 'time')}"
    if goal.tokens is not None:
        text += f", the training {units.plain(goal.seconds(one.scenario, step_s) / 86_400)} days"
        if (cost := goal.cost(one.scenario, step_s)) is not None:
            text += f" and {units.format(cost, 'money')}"
    if goal.tokens is not None or one.priced.candidate.machine.overrides:
        text += f" on {one.priced.candidate.machine.name}"
    return text


def _made_of(result: Result) -> str:
    """The largest parts of a step that are no computation."""
    parts = TRAINING.parts(result)
    whole = sum(parts.values())
    lost = sorted(((value, name) for name, value in parts.items() if name != "compute"), reverse=True)
    shown = ", ".join(
        f"{100 * value / whole:.0f} % {_word(name)}" for value, name in lost[:_PARTS] if value > 0.005 * whole
    )
    return f"{100 * parts.get('compute', 0.0) / whole:.0f} % of it computes" + (f", {shown}" if shown else "")


def _word(part: str) -> str:
    return f"waits for {part.removeprefix('exposed_')}" if part.startswith("exposed_") else part.replace("_", " ")


def _lacks(goal: Goal, best: Leader, second: Leader, held: Held) -> str:
    """In what the runner-up differs from the winner."""
    word = "slower" if goal.by == "time" else "dearer"
    far = f"{100 * held.ratio:.1f} % {word}"
    added = [f"{100 * value:+.1f} % {_word(name)}" for name, value in held.parts.items() if abs(value) > 0.002]
    more = f" ({', '.join(added[:_PARTS])})" if added else ""
    pairs = zip(NAMES, best.priced.candidate.layout, second.priced.candidate.layout, strict=True)
    shown = set(NAMES) if best.scenario.model.experts else set(NAMES) - {EP.name, ETP.name}
    differ = [f"{name} {other} for {own}" for name, own, other in pairs if own != other and name in shown]
    where = "" if not differ else f" with {', '.join(differ)}"
    return f"{far}{more}{where}"


def ruled_out(answer: Answer) -> list[str]:
    """What was infeasible, and by how much the nearest of it."""
    said = []
    counts = answer.found.counts
    for limit, near in counts.nearest.items():
        if near.layout is None:
            continue
        unit, scale = _WORDS[limit]
        number = getattr(counts, limit)
        size = f"{near.need * scale:.4g} {unit}, and {near.limit * scale:.4g} is the most"
        over = f"{100 * (near.need / near.limit - 1):.2g} % over"
        said.append(
            f"{number:,} need more {_LIMITED[limit]}; nearest {near.layout.name} on {near.machine}: {size} ({over})"
        )
    common = sorted(counts.reasons.items(), key=lambda item: -item[1])[:_REASONS]
    said += [f"{number:,} are refused: {reason}" for reason, number in common]
    return said


_LIMITED = {"memory": "memory than a device has", "days": "days", "budget": "money"}
