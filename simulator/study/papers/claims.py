"""What published systems claim, as data, and how a figure of a claim comes out of scenarios.

A claim is a figure: a metric of one run, the price of one iteration, the largest rate that keeps an objective, the
longest sequence that fits, a point of a curve, a figure of a pipeline schedule alone, or a ratio, difference or product
of such figures. The claims are `workloads/measurements/papers.yaml`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from simulator import units
from simulator.results.result import Result
from simulator.run.dispatch import simulate
from simulator.run.serve import serve
from simulator.run.tiers import memory_of
from simulator.serving.costs.iteration import ReplicaCost
from simulator.serving.fleet.system import System, resolve
from simulator.serving.workload.generate import generate
from simulator.specs import data_root, load_file
from simulator.specs.base import Count, Spec
from simulator.specs.resolve import load_run
from simulator.specs.scenario import AnyRun, Scenario, ServingScenario
from simulator.study.papers.exchanges import Exchange, of_exchange
from simulator.study.papers.latency_models import Latencies, serve_fitted
from simulator.study.papers.orders import Order, of_order
from simulator.study.papers.sublayers import SubLayers, of_sublayers
from simulator.study.plan.layouts import Candidate
from simulator.study.plan.plan import Options, plan_layout
from simulator.training.build import build_job
from simulator.training.memory import peak_memory

CLAIMS = Path("workloads") / "measurements" / "papers.yaml"
FOLDER = "papers"
"""Where they are, below `scenarios`, and below `workloads/workflows` where they are workflows."""
TOLERANCE = 0.03
"""Relative distance of the two ends of a search for a rate."""


class Iteration(Spec):
    """One iteration of the first replica, all stages after each other; its seconds. Ranks that run in step with it do
    as much."""

    prompts: tuple[tuple[int, int], ...] = ()
    """Pieces of prompts: tokens, and tokens that are in the cache before them."""
    decodes: int = 0
    """Sequences that decode."""
    context: int = 0
    """Tokens of all of them that are in the cache."""


class Curve(Spec):
    """A metric where another one reaches a value, interpolated over a sweep of one key."""

    metric: str
    """What is read off."""
    where: str
    """The other metric."""
    equals: float
    """Its value."""
    over: str
    """Key of the scenario that is changed."""
    values: tuple[int, ...]
    """Its values."""


class Reach(Spec):
    """The largest value of a key at which a training job fits into the memory of its devices."""

    over: str
    """Key of the scenario that is changed."""
    also: str | None = None
    """Another key that takes the same value."""
    step: Count
    """Values are multiples of it."""
    most: Count
    """The largest of them."""
    doubling: bool = False
    """Whether only powers of two times the step are tried."""

    @property
    def values(self) -> Sequence[int]:
        """What is tried, rising."""
        times = self.most // self.step
        if self.doubling:
            return [self.step << power for power in range(times.bit_length())]
        return range(self.step, self.most + 1, self.step)

    def changes(self, value: int) -> tuple[str, ...]:
        """Overrides for one of them."""
        return tuple(f"{key}={value}" for key in (self.over, self.also) if key is not None)


class Figure(Spec):
    """One way to a number; exactly one of the keys besides `of` and `changes`."""

    of: str = ""
    """Scenario below scenarios/papers, or workflow below workloads/workflows/papers."""
    changes: tuple[str, ...] = ()
    """Overrides of it."""
    metric: str | None = None
    """A metric of its result."""
    iteration: Iteration | None = None
    """Seconds of an iteration."""
    cache_bytes: Literal["token"] | None = None
    """Bytes of keys and values of one token on all devices of a replica."""
    ledger: str | None = None
    """Bytes of a kind of memory on the fullest device of a replica: `weights`, `activations` and so on."""
    kept: tuple[str, ...] | None = None
    """Bytes of kinds of memory on the fullest device of a training run, at their worst moment."""
    goodput: Literal["per device"] | None = None
    """Requests per second and device up to which the scenario keeps its objectives."""
    latencies: str | None = None
    """For `goodput`: iterations take what was fitted to this engine, see `Fit`, in place of our prices."""
    gaps: Literal["variation"] | None = None
    """Coefficient of variation of the gaps between arrivals."""
    forward: Literal["seconds"] | None = None
    """Seconds of the forward pass of a training step's first microbatch, which is what a prompt takes."""
    curve: Curve | None = None
    """A point of a sweep."""
    longest: Reach | None = None
    """How far memory reaches; 0 where no value fits."""
    order: Order | None = None
    """A figure of a pipeline schedule alone; no scenario."""
    exchange: Exchange | None = None
    """A figure of one collective of all devices of the scenario's cluster, with nothing else on the network."""
    sublayers: SubLayers | None = None
    """Speed-up of products whose results are summed beside them; no scenario."""
    value: float | None = None
    """A number."""
    ratio: "tuple[Figure, Figure] | None" = None
    """The first over the second."""
    difference: "tuple[Figure, Figure] | None" = None
    """The first less the second."""
    product: "tuple[Figure, Figure] | None" = None
    """One times the other."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        beside = {"of", "changes", "latencies"}
        given = [name for name in type(self).model_fields if name not in beside and getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("a figure has exactly one key besides `of`, `changes` and `latencies`")
        if self.latencies is not None and self.goodput is None:
            raise ValueError("`latencies` goes with `goodput`")
        alone = self.value is not None or self.order is not None or self.sublayers is not None
        if not self.parts and not alone and not self.of:
            raise ValueError("`of` names the scenario")
        return self

    @property
    def parts(self) -> "tuple[Figure, ...]":
        """The figures that it is made of."""
        return self.ratio or self.difference or self.product or ()

    @property
    def searches(self) -> bool:
        """Whether it asks what would fit."""
        return self.longest is not None or self.ledger is not None or any(part.searches for part in self.parts)


class Check(Spec):
    """A suspected cause, changed to see whether it explains the difference."""

    what: str
    """The change in words."""
    changes: tuple[str, ...]
    """Overrides of every scenario of the figure."""


class Claim(Spec):
    """A published figure and ours."""

    paper: str
    """Folder of its scenarios."""
    claim: str
    """What is claimed."""
    published: float
    """The figure."""
    bound: Literal["least", "most"] | None = None
    """Whether the authors say that it is at least or at most so much ("over 3", "up to 2")."""
    unit: str = ""
    """Its unit; none for ratios."""
    source: str
    """Where it was published."""
    figure: Figure
    """How ours is found."""
    spread: float | None = None
    """Relative spread that the source itself gives, where it is wider than 10 %: what lies in it is reproduced."""
    by_construction: str = ""
    """Why ours could not be another figure, such as a quotient of sizes; it is shown and not counted."""
    assumed: str = ""
    """What the authors leave open, what is taken for it, and that the figure hangs on it: a ratio then has the right
    direction at best, however near it comes. `published: 1` with a `bound` is a direction that has no number."""
    reason: str = ""
    """Why ours differs, as far as it was looked into."""
    checks: tuple[Check, ...] = ()
    """What was changed to look into it; the page shows what each change comes to."""

    @model_validator(mode="after")
    def _has_a_direction(self) -> Self:
        if self.assumed and (self.figure.ratio is None or self.unit):
            raise ValueError("`assumed` goes with a `ratio` without a unit, which has a direction")
        if self.assumed and self.published == 1 and self.bound is None:
            raise ValueError("a direction without a number needs `bound`: `least` for more than 1, `most` for less")
        return self


class Fit(Spec):
    """A latency model that authors fitted to their measurements: milliseconds a + b x + c y."""

    of: str
    """Scenario below scenarios/papers of that model."""
    tp: int
    """Devices of a tensor-parallel group."""
    engine: str
    """Whose kernels were measured."""
    prefill: tuple[float, float, float]
    """x: tokens of all prompts, y: sum of their squares."""
    decode_small: tuple[float, float, float]
    """Of batches below `threshold`; x: cached tokens of all sequences, y: sequences."""
    decode_large: tuple[float, float, float]
    """Of larger batches."""
    stack: str | None = None
    """Software that ours is priced with, where it is not that of the scenario."""

    @property
    def changes(self) -> tuple[str, ...]:
        """Overrides of the scenario."""
        return (f"serving.parallel.tp={self.tp}", *([] if self.stack is None else [f"stack={self.stack}"]))


class Fits(Spec):
    """Fits of one source and where to compare them."""

    paper: str
    """Folder of the scenarios."""
    source: str
    threshold: int
    """Sequences from which a batch is large."""
    prompts: tuple[int, ...]
    """Tokens of single prompts."""
    decodes: tuple[int, ...]
    """Sequences."""
    contexts: tuple[int, ...]
    """Cached tokens of each."""
    models: tuple[Fit, ...]


class Absent(Spec):
    """A published figure that is not reproduced."""

    paper: str
    claim: str
    why: str


class Papers(Spec):
    """The file of claims."""

    serving: dict[str, str]
    """Title of each paper on serving by its folder."""
    training: dict[str, str]
    """Title of each paper on training by its folder."""
    claims: tuple[Claim, ...]
    fits: tuple[Fits, ...] = ()
    absent: tuple[Absent, ...] = ()

    @property
    def titles(self) -> dict[str, str]:
        """Titles of all papers."""
        return self.serving | self.training


Figure.model_rebuild()


def known_claims() -> Papers:
    """The shipped file of claims."""
    return load_file(Papers, data_root() / CLAIMS).spec


def any_scenario(name: str, changes: Iterable[str] = ()) -> AnyRun:
    """A scenario or a workflow of a paper."""
    return load_run(f"{FOLDER}/{name}", tuple(changes)).spec


def scenario(name: str, changes: Iterable[str] = ()) -> ServingScenario:
    """A serving scenario of a paper."""
    spec = any_scenario(name, changes)
    assert isinstance(spec, ServingScenario)
    return spec


@dataclass(slots=True)
class Bench:
    """Runs scenarios, each once."""

    fits: tuple[Fits, ...] = ()
    _metrics: dict[tuple[str, tuple[str, ...]], dict[str, float]] = field(default_factory=dict)
    _costs: dict[tuple[str, tuple[str, ...]], ReplicaCost] = field(default_factory=dict)
    _goodputs: dict[tuple[str, tuple[str, ...], str | None], float] = field(default_factory=dict)

    def value(self, figure: Figure) -> float:
        """The number that a figure comes to; NaN where a scenario does not fit its devices."""
        if figure.parts:
            first, second = map(self.value, figure.parts)
            return first / second if figure.ratio else first - second if figure.difference else first * second
        if figure.value is not None:
            return figure.value
        if figure.order is not None:
            return of_order(figure.order)
        if figure.exchange is not None:
            return of_exchange(figure.exchange, any_scenario(figure.of, figure.changes).cluster)
        if figure.sublayers is not None:
            return of_sublayers(figure.sublayers)
        if figure.metric is not None:
            return self.metrics(figure.of, figure.changes).get(figure.metric, float("nan"))
        if figure.forward is not None:
            return self.forward(figure.of, figure.changes)
        if figure.iteration is not None:
            return self.iteration(figure.of, figure.changes, figure.iteration)
        if figure.cache_bytes is not None:
            return self.cost(figure.of, figure.changes).kv_replica_bytes
        if figure.kept is not None:
            ledgers = [use.at_peak for use in simulate(any_scenario(figure.of, figure.changes)).memory]
            return max(sum(ledger.get(kind, 0.0) for kind in figure.kept) for ledger in ledgers)
        if figure.ledger is not None:
            return self.cost(figure.of, figure.changes).ledger[figure.ledger]
        if figure.goodput is not None:
            return self.goodput(figure.of, figure.changes, figure.latencies)
        if figure.gaps is not None:
            return variation(scenario(figure.of, figure.changes))
        if figure.longest is not None:
            return self.longest(figure.of, figure.changes, figure.longest)
        assert figure.curve is not None
        return self.point(figure.of, figure.changes, figure.curve)

    def named(self, name: str) -> str:
        """The model of a scenario."""
        return scenario(name).model.name

    def forward(self, name: str, changes: tuple[str, ...] = ()) -> float:
        """From the start of the first microbatch to the end of its forward pass."""
        spans = simulate(any_scenario(name, changes)).spans
        first = (spans.name == spans.names.index("forward")) & (spans.microbatch == 0)
        return units.to_seconds(int(spans.end[first].max()))

    def metrics(self, name: str, changes: tuple[str, ...] = ()) -> dict[str, float]:
        """Metrics of a run."""
        if (name, changes) not in self._metrics:
            self._metrics[name, changes] = simulate(any_scenario(name, changes)).metrics
        return self._metrics[name, changes]

    def cost(self, name: str, changes: tuple[str, ...] = ()) -> ReplicaCost:
        """What the iterations of its first replica cost."""
        if (name, changes) not in self._costs:
            self._costs[name, changes] = resolve(scenario(name, changes))[0].cost
        return self._costs[name, changes]

    def iteration(self, name: str, changes: tuple[str, ...], asked: Iteration) -> float:
        """Seconds of one iteration."""
        ticks, prompts, decodes = 0, asked.prompts, asked.decodes
        peers = self.cost(name, changes).peers
        tokens = decodes + sum(chunk for chunk, _ in prompts)
        sequences = decodes + len(prompts)
        for cost in self.cost(name, changes).stages:
            ticks += cost.rows(tokens, sequences) + cost.host(sequences) + cost.send(tokens)
            segments = cost.decode(decodes)
            reading = next(base + slope * asked.context for limit, base, slope in segments if asked.context <= limit)
            attention = reading + (cost.prompts(prompts) if prompts else 0)
            joint = tokens * peers if cost.common is not None else None
            ticks += attention - cost.saved(tokens, attention, joint, reading)
            ticks += cost.together(tokens * peers, sequences * peers) + cost.exchanged(tokens, tokens * peers)
        return units.to_seconds(ticks)

    def goodput(self, name: str, changes: tuple[str, ...] = (), engine: str | None = None) -> float:
        """Largest rate of arrivals per device at which enough requests keep their objectives; 0 where none does."""
        if (name, changes, engine) not in self._goodputs:
            asked = scenario(name, changes)
            run = serve if engine is None else self._fitted(asked.model.name, engine)
            found = plan_layout(Candidate(name, (), changes, asked), Options(tolerance=TOLERANCE), run)
            self._goodputs[name, changes, engine] = found.rate_per_device or 0.0
        return self._goodputs[name, changes, engine]

    def _fitted(self, model: str, engine: str) -> Callable[[ServingScenario], Result]:
        """A simulation whose iterations take the latencies that were fitted to an engine."""
        known = {
            fit.tp: (fit.prefill, fit.decode_small, fit.decode_large)
            for fits in self.fits
            for fit in fits.models
            if fit.engine == engine and scenario(fit.of).model.name == model
        }

        def latencies(system: System) -> Latencies:
            return known[system.cost.devices // len(system.cost.stages)]

        return partial(serve_fitted, latencies=latencies, threshold=self.fits[0].threshold)

    def point(self, name: str, changes: tuple[str, ...], curve: Curve) -> float:
        """A metric where another one has a value; NaN outside the sweep."""
        runs = [self.metrics(name, (*changes, f"{curve.over}={value}")) for value in curve.values]
        found = sorted((run[curve.where], run[curve.metric]) for run in runs)
        where, metric = map(np.array, zip(*found, strict=True))
        return float(np.interp(curve.equals, where, metric, left=np.nan, right=np.nan))

    def longest(self, name: str, changes: tuple[str, ...], reach: Reach) -> float:
        """The largest value that fits, 0 where none does; what is larger needs more memory."""

        def too_large(value: int) -> bool:
            return not fits_training(any_scenario(name, (*changes, *reach.changes(value))))

        found = bisect_left(reach.values, True, key=too_large)
        return float(reach.values[found - 1]) if found else 0.0

    def fitted(self, fits: Fits, fit: Fit) -> dict[str, list[float]]:
        """Relative differences of our iterations from a fit, by phase."""
        found: dict[str, list[float]] = {"prefill": [], "decode": []}
        for prompt in fits.prompts:
            a, b, c = fit.prefill
            ours = self.iteration(fit.of, fit.changes, Iteration(prompts=((prompt, 0),)))
            found["prefill"].append(1e3 * ours / (a + b * prompt + c * prompt**2) - 1)
        for decodes in fits.decodes:
            a, b, c = fit.decode_small if decodes < fits.threshold else fit.decode_large
            for context in (decodes * each for each in fits.contexts):
                ours = self.iteration(fit.of, fit.changes, Iteration(decodes=decodes, context=context))
                found["decode"].append(1e3 * ours / (a + b * context + c * decodes) - 1)
        return found


def fits_training(asked: AnyRun) -> bool:
    """Whether a training job fits into the memory of its devices."""
    assert isinstance(asked, Scenario)
    job, node = build_job(asked), asked.cluster.node
    if peak_memory(job) > node.accelerator.memory.capacity.value:
        return False
    found = (memory_of(job, node, tier) for tier in ("host", "nvme"))
    return all(use is None or use.peak <= use.capacity for use in found)


def variation(asked: ServingScenario) -> float:
    """Standard deviation over mean of the gaps between arrivals."""
    gaps = np.diff(generate(asked.requests, asked.seed, None).arrival.astype(np.float64))
    return float(gaps.std() / gaps.mean())


def changed(figure: Figure, changes: tuple[str, ...]) -> Figure:
    """The same figure of scenarios with more overrides."""
    update: dict[str, object] = {"changes": (*figure.changes, *changes)} if figure.of else {}
    for name in ("ratio", "difference", "product"):
        parts = getattr(figure, name)
        if parts is not None:
            update[name] = tuple(changed(part, changes) for part in parts)
    return figure.model_copy(update=update)


def scenarios_of(figure: Figure) -> list[tuple[str, tuple[str, ...]]]:
    """(scenario, overrides) of all that a figure needs."""
    own = [(figure.of, figure.changes)] if figure.of else []
    return own + [found for part in figure.parts for found in scenarios_of(part)]
