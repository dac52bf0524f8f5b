"""A step and the run that is made of it: failures, checkpoints and recovery over weeks, as a part of the Result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from math import ceil, inf, isinf
from statistics import fmean

import numpy as np

from simulator import units
from simulator.errors import InfeasibleError, InputError, Problem
from simulator.results.long_run import PARTS, TICKS_PER_SECOND, LongRun
from simulator.results.metrics import compare
from simulator.results.result import Comparison, Result
from simulator.run.long import checkpoint
from simulator.run.long.advice import Advice, advise, young
from simulator.run.long.arrivals import LAST, Arrival, Source, arrivals
from simulator.run.long.checkpoint import Cost
from simulator.run.long.kept import Kept
from simulator.run.long.life import Life, Record, Rules
from simulator.run.long.pace import Simulate, StepTimes, ticks
from simulator.run.long.sources import mtbf_s, sources
from simulator.run.long.trace import read_trace
from simulator.run.long.waits import DATA, Waits, sentence, waits_of
from simulator.specs.hardware import idle_w
from simulator.specs.long_runs.run import LongRun as Spec
from simulator.specs.scenario import Scenario
from simulator.training.communication import Network
from simulator.training.job import Job

DAY = 86_400
MOST_STRIKES, HOPELESS = 200_000, 50
"""Failures after which a run is given up, and how many times as many as without them it may see at least."""
HOPELESS_AFTER = 1000
"""Failures after which a run is given up that has come nowhere."""
MOST_STEPS = 10**10
ADVICE_FAILURES, ADVICE_SAMPLES = 1000, 8
"""Failures that an interval is judged by; samples where they are bound to the run itself."""
ADVICE_LONGEST, ADVICE_MOST = LAST / TICKS_PER_SECOND / 8, 32
"""Seconds of a run by which it is judged at most, nine years; where failures are too rare for it several such runs."""
_FIGURES = {"fewer nodes": "fewer_nodes", "lost work": "lost_work", "idle": "waiting"}
_ADVICE = 1 << 20  # number of the first sample of the search, beyond those of the run


@dataclass(frozen=True, slots=True)
class Machine:
    """A run on its machine, before anything happens."""

    spec: Spec
    seed: int
    step_s: float
    """From a step to the next."""
    waits: Waits
    parts: Mapping[str, float]
    """Shares of it that are no training."""
    cost: Cost
    sources: Sequence[Source]
    recorded: Sequence[Arrival]
    pace: StepTimes
    rules: Rules
    """With the goal of the run, and no interval yet."""
    kept: Kept | None = None

    @property
    def mtbf_s(self) -> float:
        """Between failures that stop the run."""
        return mtbf_s(self.sources)

    @property
    def training(self) -> float:
        """Share of the time from a step to the next that is the step."""
        return 1.0 - sum(self.parts.values())

    @property
    def fails(self) -> bool:
        """Whether anything does."""
        return bool(self.recorded) or any(source.rate > 0 for source in self.sources)

    def live(self, rules: Rules, sample: int) -> Record:
        """One run."""

        def run() -> Record:
            return Life(rules, self.sources, arrivals(self.sources, self.recorded, self.seed, sample), self.pace).run()

        return run() if self.kept is None else self.kept.record(f"{sample} {astuple(rules)}", run)


def extended(
    result: Result,
    scenario: Scenario,
    job: Job,
    network: Network,
    again: Simulate,
    advising: bool = True,
    kept: Kept | None = None,
) -> Result:
    """The Result with the whole run where the scenario asks for one and the step fits into memory.

    `again` gives the step time of a changed scenario. Without `advising` no interval is searched for where one is
    given. What is `kept` is not simulated again. InputError for what cannot be, InfeasibleError for a run that does
    not get on.
    """
    spec = scenario.training.run
    if spec is None or not result.feasible:
        return result
    machine = _machine(result, scenario, job, network, again, kept)
    given = _given(machine)
    _check_hope(machine, given)
    advice = _advice(machine) if machine.fails and (advising or given is None) else None
    every = given if given is not None else advice.steps if advice is not None else 0
    _check_interval(machine, every)
    rules = replace(machine.rules, every=every)
    records = [machine.live(rules, sample) for sample in range(spec.samples if machine.fails else 1)]
    _check_progress(machine, records)
    run = _gathered(machine, rules, records, advice)
    figures = _metrics(machine, run, advice, result.metrics, scenario)
    said = _assumptions(machine, scenario, every, given is None and advice is not None)
    others = tuple(one for one in result.comparisons if one.metric not in figures)
    return replace(
        result,
        run=run,
        metrics={**result.metrics, **figures},
        comparisons=others + _compared(scenario, figures),
        assumptions=(*result.assumptions, *said),
        warnings=(*result.warnings, *_warnings(machine)),
    )


# ---- what it is made of ------------------------------------------------------------------------------------------


def _machine(
    result: Result, scenario: Scenario, job: Job, network: Network, again: Simulate, kept: Kept | None
) -> Machine:
    spec, cluster, fabric = scenario.training.run, scenario.cluster, network.fabric
    assert spec is not None
    cost, recovery = checkpoint.cost(cluster, job, spec.checkpoints), spec.recovery
    found, recorded = sources(spec.failures, cluster, fabric, recovery.detection), list[Arrival]()
    if spec.trace is not None:
        more, recorded = read_trace(spec.trace, cluster, fabric, len(found), _ticks(recovery.detection))
        found = [*found, *more]
    alone, replicas = result.metrics["step_time_s"], checkpoint.replicas(job)
    waits = waits_of(cluster, scenario.training.global_batch, spec.data, spec.evaluation)
    step_s, parts = waits.period(alone, cluster.nodes), waits.parts(alone, cluster.nodes)
    goal, horizon = _length(spec, scenario, step_s, result.metrics["tokens_per_s"] * alone)
    ideal = goal * step_s if goal is not None else (horizon or 0) / TICKS_PER_SECOND
    memory = spec.checkpoints.kind == "memory"
    rules = Rules(
        goal=goal,
        horizon=horizon,
        every=0,
        stall=_ticks(cost.stall),
        write=_ticks(cost.write),
        store=_ticks(cost.store),
        persist=spec.checkpoints.persist if memory else 0,
        load=_ticks(cost.load),
        load_memory=_ticks(cost.load_memory if memory else cost.load),
        reshard=_ticks(cost.reshard),
        restart=_ticks(recovery.restart),
        swap=_ticks(recovery.swap),
        repair=None if recovery.repair is None else _ticks(recovery.repair),
        spares=recovery.spares,
        elastic=recovery.elastic,
        nodes=cluster.nodes,
        replicas=replicas,
        most=_most(ideal, found),
    )
    pace = StepTimes(scenario, alone, replicas, fabric, again, waits, kept)
    return Machine(spec, scenario.seed, step_s, waits, parts, cost, found, recorded, pace, rules, kept)


def _most(ideal_s: float, found: Sequence[Source]) -> int:
    rate = sum(source.rate for source in found)
    return int(min(MOST_STRIKES, 1000 + HOPELESS * ideal_s * rate))


def _ticks(seconds: float) -> int:
    return min(round(seconds * TICKS_PER_SECOND), LAST)


def _length(spec: Spec, scenario: Scenario, step_s: float, step_tokens: float) -> tuple[int | None, int | None]:
    """(steps, ticks) of which one is None."""
    if spec.days is not None:
        return None, _ticks(spec.days * DAY)
    tokens = spec.tokens if spec.tokens is not None else scenario.training.tokens
    goal = spec.steps if spec.steps is not None else ceil((tokens or 0.0) / step_tokens - 1e-9)
    if goal > MOST_STEPS or goal * step_s > LAST / TICKS_PER_SECOND / HOPELESS:
        years = goal * step_s / DAY / 365
        message = f"a run of {goal:,} steps takes {years:,.0f} years, longer than the clock of a run counts"
        raise InputError(Problem(message, path="training.run", hint="write fewer tokens or steps"))
    return max(goal, 1), None


# ---- the interval ------------------------------------------------------------------------------------------------


def _given(machine: Machine) -> int | None:
    """Steps between checkpoints that the scenario asks for."""
    spec = machine.spec.checkpoints
    if spec.interval is not None:
        return max(round(spec.interval / machine.step_s), 1)
    return spec.steps


def _least(machine: Machine) -> int:
    """Steps that an interval has at least, so that a checkpoint is whole before the next one begins."""
    rules, step = machine.rules, ticks(machine.step_s)
    needed = ceil(max(rules.write - rules.stall, 0) / step)
    if rules.persist:
        needed = max(needed, ceil(max(rules.store / rules.persist - rules.stall, 0) / step))
    return max(needed, 1)


def _check_interval(machine: Machine, every: int) -> None:
    """InputError for an interval that is over before its checkpoint is written."""
    if not every or every >= (least := _least(machine)):
        return
    interval, cost = every * machine.step_s, machine.cost
    writing = cost.write if cost.write > interval + cost.stall else cost.store / machine.spec.checkpoints.persist
    name = "interval" if machine.spec.checkpoints.interval is not None else "steps"
    message = (
        f"an interval of {units.format(interval, 'time')} is shorter than the writing of its checkpoint, "
        f"{units.format(writing, 'time')}"
    )
    hint = f"write {units.format(least * machine.step_s, 'time')}, {least:,} steps, at least; or `synchronous`"
    raise InputError(Problem(message, path=f"{checkpoint.PATH}.{name}", hint=hint))


def _advice(machine: Machine) -> Advice:
    """The best interval of the run, of a longer one like it where failures are few."""
    rules, step_s, mtbf = machine.rules, machine.step_s, machine.mtbf_s
    samples = 1
    if isinf(mtbf):
        mtbf = _recorded_mtbf_s(machine)
    elif rules.spares is None and not machine.recorded:
        goal = min(max(ceil(min(ADVICE_FAILURES * mtbf, ADVICE_LONGEST) / step_s), 1), MOST_STEPS)
        samples = min(max(ceil(ADVICE_FAILURES * mtbf / (goal * step_s) - 1e-9), 1), ADVICE_MOST)
        most = int(HOPELESS * ADVICE_FAILURES * sum(source.rate for source in machine.sources) * mtbf)
        rules = replace(rules, goal=goal, horizon=None, most=max(most, 1000))
    else:
        samples = ADVICE_SAMPLES

    def ratio(steps: int) -> float:
        lives = [machine.live(replace(rules, every=steps), _ADVICE + sample) for sample in range(samples)]
        if any(life.stuck for life in lives):
            return 0.0
        return fmean(life.ticks["training"] / life.end for life in lives)

    own = machine.rules
    longest = own.goal or max((own.horizon or 0) // ticks(step_s), 1)
    start = young(machine.cost.stall, mtbf) / step_s if not isinf(mtbf) else longest
    return advise(ratio, round(min(start, longest)), _least(machine), max(longest, _least(machine)))


def _recorded_mtbf_s(machine: Machine) -> float:
    """Between the failures of a trace that stop the run."""
    stops = [one.tick for one in machine.recorded if one.left is None]
    return max(stops[-1] / len(stops) / TICKS_PER_SECOND, machine.step_s) if stops else inf


# ---- what became of it -------------------------------------------------------------------------------------------


def _check_hope(machine: Machine, given: int | None) -> None:
    """InfeasibleError, before any interval is searched for, for a run that does not get anywhere near its end.

    Its beginning is judged, with ten times the failures that it may see in all.
    """
    if machine.rules.goal is None or not machine.fails or machine.recorded:
        return
    tried = replace(machine.rules, every=given or _least(machine), most=min(HOPELESS_AFTER, machine.rules.most))
    record = machine.live(tried, _ADVICE - 1)
    if record.stuck and record.steps * 10 * machine.rules.most < machine.rules.goal * tried.most:
        _check_progress(machine, [record])


def _check_progress(machine: Machine, records: Sequence[Record]) -> None:
    """InfeasibleError for a run that does not get on, with what it comes to."""
    stuck = next((record for record in records if record.stuck), None)
    if stuck is None and any(record.steps for record in records):
        return
    record, rules = stuck or records[0], machine.rules
    days = max(record.end / TICKS_PER_SECOND / DAY, 1e-9)
    plain, done = DAY / machine.step_s, record.steps / days
    why = record.stuck or "no step is ever saved"
    so_far = f"{record.steps:,} steps in {units.plain(days)} days, {units.plain(done)} a day"
    message = f"the run does not finish: {why}; {so_far}"
    if rules.goal is not None:
        years = rules.goal / done / 365 if done else inf
        takes = f"{units.plain(years)} years" if done else "for ever"
        message += f" of {units.plain(plain)} without failures, so that {rules.goal:,} steps take {takes}"
    raise InfeasibleError(f"{message}; mean time between failures {units.format(machine.mtbf_s, 'time')}")


def _gathered(machine: Machine, rules: Rules, records: Sequence[Record], advice: Advice | None) -> LongRun:
    ratios = [machine.training * record.ticks["training"] / record.end for record in records]
    shown = int(np.argsort(ratios, kind="stable")[(len(ratios) - 1) // 2])
    second, cost = TICKS_PER_SECOND, machine.cost
    mean: Callable[[str], float] = lambda part: fmean(record.ticks[part] for record in records) / second  # noqa: E731
    taken = fmean(record.checkpoints for record in records)
    interval = rules.every * machine.step_s
    stepping = mean("training")
    waits = {part: share * stepping for part, share in machine.parts.items()}
    return LongRun(
        seconds={"training": machine.training * stepping, **waits} | {part: mean(part) for part in PARTS[1:]},
        failures={
            source.name: fmean(record.strikes[number] for record in records)
            for number, source in enumerate(machine.sources)
        },
        checkpoint={
            "bytes": cost.size,
            "stall_s": cost.stall,
            "write_s": cost.write,
            "store_s": cost.store,
            "load_s": cost.load,
            "interval_s": interval,
            "interval_steps": float(rules.every),
            "taken": taken,
        },
        tried=tuple(
            {"interval_s": point.steps * machine.step_s, "ratio": machine.training * point.ratio}
            for point in (advice.tried if advice is not None else ())
        ),
        samples=tuple(
            {
                "time_s": record.end / second,
                "ratio": ratio,
                "failures": float(record.strikes.total()),
                "steps": float(record.steps),
                "lost_s": record.ticks["lost work"] / second,
            }
            for record, ratio in zip(records, ratios, strict=True)
        ),
        shown=shown,
        bands=np.array(records[shown].bands, np.int64).reshape(-1, 3),
    )


def _metrics(
    machine: Machine, run: LongRun, advice: Advice | None, step: dict[str, float], scenario: Scenario
) -> dict[str, float]:
    times, ratios = ([one[name] for one in run.samples] for name in ("time_s", "ratio"))
    time_s, steps = fmean(times), fmean(one["steps"] for one in run.samples)
    tokens = steps * step["tokens_per_s"] * step["step_time_s"]
    found = {
        "run_time_s": time_s,
        "run_time_p10_s": float(np.percentile(times, 10)),
        "run_time_p90_s": float(np.percentile(times, 90)),
        "run_steps": steps,
        "run_tokens": tokens,
        "goodput_tokens_per_s": tokens / time_s,
        "effective_time_ratio": fmean(ratios),
        "effective_time_ratio_p10": float(np.percentile(ratios, 10)),
        "effective_time_ratio_p90": float(np.percentile(ratios, 90)),
        **{
            f"{_FIGURES.get(part, part)}_fraction": run.seconds[part] / time_s
            for part in run.seconds
            if part != "training"
        },
        "failures": fmean(one["failures"] for one in run.samples),
        "checkpoint_bytes": run.checkpoint["bytes"],
        "checkpoint_stall_s": run.checkpoint["stall_s"],
        "checkpoint_write_s": run.checkpoint["write_s"],
        "checkpoint_load_s": run.checkpoint["load_s"],
        "checkpoint_interval_s": run.checkpoint["interval_s"],
    }
    if not isinf(machine.mtbf_s):
        found["mtbf_s"] = machine.mtbf_s
    if advice is not None:
        found["advised_interval_s"] = advice.steps * machine.step_s
    return found | _economy(machine, run, step, scenario, time_s)


def _economy(
    machine: Machine, run: LongRun, step: dict[str, float], scenario: Scenario, time_s: float
) -> dict[str, float]:
    """Energy of steps at their power and of everything else at that of waiting devices; money of all nodes, spares
    included, all the time."""
    found, power = {}, scenario.cluster.node.accelerator.power
    stepping = sum(run.seconds[part] for part in ("training", "slow", "fewer nodes", "lost work"))
    if "energy_j" in step and power is not None:
        waiting = (time_s - stepping) * idle_w(power) * scenario.cluster.devices
        found["run_energy_j"] = step["energy_j"] / step["step_time_s"] * stepping + waiting
    if "cost_usd" in step:
        nodes = scenario.cluster.nodes + (machine.spec.recovery.spares or 0)
        found["run_cost_usd"] = step["cost_usd"] / step["step_time_s"] * time_s * nodes / scenario.cluster.nodes
    return found


def _compared(scenario: Scenario, figures: dict[str, float]) -> tuple[Comparison, ...]:
    """Published figures of the run."""
    return tuple(
        compare(p.metric, p.value, figures[p.metric], p.source, p.note)
        for p in scenario.published
        if p.metric in figures
    )


def _assumptions(machine: Machine, scenario: Scenario, every: int, advised: bool) -> list[str]:
    said, recovery = list(machine.cost.assumptions), machine.spec.recovery
    if advised:
        interval = units.format(every * machine.step_s, "time")
        said.append(f"the interval of checkpoints is not given: {interval}, {every:,} steps, as advised")
    if not machine.fails:
        return said
    left = [name for name in ("detection", "restart") if name not in recovery.model_fields_set]
    said += [f"`recovery.{name}` is not given: {units.format(getattr(recovery, name), 'time')}" for name in left]
    if recovery.spares is None:
        said.append("failed nodes are replaced at once: the number of `recovery.spares` is not given")
    return said


def _warnings(machine: Machine) -> list[str]:
    said = list[str]()
    if not machine.fails:
        said.append("nothing fails in this run: write `training.run.failures`, such as `failures/llama-3-h100`")
    if DATA in machine.parts:
        said.append(sentence(machine.waits, machine.rules.nodes))
    recovery = machine.spec.recovery
    if recovery.spares is None and (recovery.elastic or recovery.repair is not None):
        said.append("no effect: `elastic` and `repair` without a number of `spares`: there is always one")
    return said
