"""What a comparison must say beside its figures: what does not fit, what is not the same work, what is left out."""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any

from simulator import units
from simulator.metrics import METRICS
from simulator.results.infeasibility import infeasibility, reason
from simulator.results.metrics import mean
from simulator.results.prices import missing_price, unpriced
from simulator.results.result import Result
from simulator.run.kinds import KINDS
from simulator.scenario_fields import at, word

PER_STEP = frozenset(
    {
        "step_time_s",
        "step_time_p50_s",
        "step_time_p90_s",
        "step_time_p95_s",
        "step_time_p99_s",
        "step_time_max_s",
        "exposed_communication_s",
        "energy_j",
        "cost_usd",
    }
)
"""Figures of a whole step: of steps of other sizes none is the best."""
_MOST_NAMED = 3
NOTABLE = 0.005
"""Share of a run's time below which a part is not named."""


def notes(results: Sequence[Result], names: Sequence[str], shown: Sequence[str]) -> Iterable[str]:
    """Sentences; `shown` are the metrics that are compared."""
    pairs = list(zip(results, names, strict=True))
    yield from _infeasible([(result, name) for result, name in pairs if not result.feasible])
    yield from _unpriced(results)
    if len({result.kind for result in results}) > 1:
        yield _kinds(pairs, shown)
    for kind, noted in _NOTED.items():
        alike = [(result, name) for result, name in pairs if result.kind == kind and result.metrics]
        if len(alike) > 1:
            yield from noted(alike)


def _infeasible(pairs: Sequence[tuple[Result, str]]) -> Iterable[str]:
    yield from (f"{name}: {reason(one)}" for one, name in pairs if infeasibility(one) != "out of memory")
    pairs = [(one, name) for one, name in pairs if infeasibility(one) == "out of memory"]
    for timed, but in ((True, "; figures say what would be if {} did"), (False, ", so that there are no figures")):
        names = [name for result, name in pairs if bool(result.metrics) == timed]
        if names:
            verb, it = ("does", "it") if len(names) == 1 else ("do", "they")
            yield f"{_listed(names)} {verb} not fit into memory{but.format(it)}"


def _unpriced(results: Sequence[Result]) -> Iterable[str]:
    """Why some runs have no cost."""
    lacking = [result for result in results if result.metrics and "cost_usd" not in result.metrics]
    if text := missing_price(dict.fromkeys(name for result in lacking for name in unpriced(result.scenario))):
        yield text


def step_tokens(result: Result) -> float:
    """Tokens of a training step; 0 where it has no figures, or none that is a number."""
    tokens = result.metrics.get("tokens_per_s", 0.0) * result.metrics.get("step_time_s", 0.0)
    return tokens if isfinite(tokens) else 0.0


def _kinds(pairs: Sequence[tuple[Result, str]], shown: Sequence[str]) -> str:
    """What runs of several kinds have in common."""
    named = {kind: _listed([name for result, name in pairs if result.kind == kind]) for kind in KINDS}
    what = _listed([f"{_WORDS[kind]} ({names})" for kind, names in named.items() if names])
    both = "both" if sum(map(bool, named.values())) == 2 else "all"
    known = {name for result, _ in pairs for name in result.metrics if name in METRICS}
    common = f"{both} have {_listed([METRICS[name].label for name in shown])}" if shown else "they share no figure"
    return (
        f"{what} do not do the same work: {common}, and {len(known) - len(shown)}"
        " figures that only one kind has are left out (`clustersim run FILE` shows all of a run);"
        " times are held against each other within a kind"
    )


def _training(pairs: Sequence[tuple[Result, str]]) -> Iterable[str]:
    yield from _models(pairs)
    sizes = {round(step_tokens(result)) for result, _ in pairs}
    if len(sizes) > 1:
        yield (
            f"steps are of {_listed([f'{size:,}' for size in sorted(sizes)])} tokens: times are compared for equal"
            " tokens, and of figures of a step none is marked"
        )
    yield from _differ(pairs, "sequence lengths", "training.sequence_length")
    yield from _devices(pairs)
    yield from _stalls(pairs)


def _stalls(pairs: Sequence[tuple[Result, str]]) -> Iterable[str]:
    """What communication costs beyond the figure of exposed communication."""
    found = [(name, mean(result.breakdown, [c.ranks for c in result.classes])) for result, name in pairs]
    lost = {name: parts.get("stall", 0.0) for name, parts in found if parts}
    if any(parts.get("stall", 0.0) >= NOTABLE * sum(parts.values()) > 0 for _, parts in found):
        listed = _listed([f"{units.format(seconds, 'time')} of {name}" for name, seconds in lost.items()])
        yield (
            "exposed communication is the time in which devices do nothing but communicate; that passes are slower"
            f" beside a collective (stall) comes on top of it: {listed}"
        )


def _serving(pairs: Sequence[tuple[Result, str]]) -> Iterable[str]:
    yield from _models(pairs)
    asked = [tuple(result.metrics.get(name, 0.0) for name in _ASKED) for result, _ in pairs]
    if len(set(asked)) > 1:
        yield "the runs do not answer the same requests: part of a difference in latency is one of their lengths"
    unlike = _values(pairs, lambda result: at(result.scenario, "requests.arrivals"))
    if unlike > 1:
        yield "requests do not arrive at the same times: a run under less load answers faster"
    for result, name in pairs:
        done, rest = result.metrics.get("completed", 0.0), _rest(result)
        if rest and done:
            yield f"of {name} {done:,.0f} requests are done and {rest:,.0f} are not: latencies are of those done"
    yield from _devices(pairs)


_ASKED = ("total_input_tokens", "total_output_tokens", "completed")


def _rest(result: Result) -> float:
    rest = result.metrics.get("failed", 0.0) + result.metrics.get("unfinished", 0.0)
    return rest if isfinite(rest) else 0.0


def _models(pairs: Sequence[tuple[Result, str]]) -> Iterable[str]:
    yield from _differ(pairs, "models", "model.name")


def _devices(pairs: Sequence[tuple[Result, str]]) -> Iterable[str]:
    """Runs on unlike numbers of devices: throughput then says little without the figures for each device."""
    counts = [size for result, _ in pairs if (size := _number_of_devices(result))]
    if len(set(counts)) > 1:
        shown = _listed([f"{count:,}" for count in dict.fromkeys(counts)])
        yield f"the runs have {shown} devices: figures for each device are the fairer ones"


def _number_of_devices(result: Result) -> int:
    return KINDS[result.kind].devices(result)


def _differ(pairs: Sequence[tuple[Result, str]], what: str, path: str) -> Iterable[str]:
    found = [str(value) for result, _ in pairs if (value := at(result.scenario, path)) is not None]
    if len(set(found)) > 1:
        yield f"{what} differ: {_listed(list(dict.fromkeys(found)))}"


def _values(pairs: Sequence[tuple[Result, str]], value: Callable[[Result], Any]) -> int:
    return len({repr(found) for result, _ in pairs if (found := value(result)) is not None})


def _listed(words: Sequence[str]) -> str:
    """`a, b and c`; of many the first few and how many more."""
    if len(words) > _MOST_NAMED + 1:
        return f"{', '.join(words[:_MOST_NAMED])} and {len(words) - _MOST_NAMED} more"
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def _jobs(pairs: Sequence[tuple[Result, str]]) -> Iterable[str]:
    """Runs of other jobs are other work; slowdowns can be held against each other all the same."""
    unlike = _values(pairs, lambda result: {job.name: _work(job.result) for job in result.jobs})
    if unlike > 1:
        yield "the runs do not have the same jobs: times until all are done are of other work"


def _work(result: Result) -> dict[str, Any]:
    """What decides how much a job has to do."""
    training = {key: at(result.scenario, f"training.{key}") for key in ("global_batch", "sequence_length", "steps")}
    return {
        "model": word(result.scenario, "model.name"),
        "training": training,
        "requests": at(result.scenario, "requests"),
    }


def _workflows(pairs: Sequence[tuple[Result, str]]) -> Iterable[str]:
    """Workflows of other stages do other work in an iteration."""
    if _values(pairs, lambda result: sorted(result.critical_path.by_operation)) > 1:
        yield "the last runs hang on other stages: parts are of the chain of stages on which each workflow's end hangs"
    yield from _devices(pairs)


_WORDS = {"training": "training", "serving": "serving", "jobs": "several jobs", "workflow": "workflows"}
_NOTED = {"training": _training, "serving": _serving, "jobs": _jobs, "workflow": _workflows}
"""What is said of runs of one kind."""
