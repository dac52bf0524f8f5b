"""The search of frontiers against simulating everything, and the bounds that prune it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.study.frontier.document import document
from simulator.study.frontier.hull import Hull, counts
from simulator.study.frontier.options import Base, measure, serving
from simulator.study.frontier.run import Task, run
from simulator.study.frontier.search import Found, Point, search
from simulator.study.frontier.space import Structure, Worker, aggregated, meshes, ratios
from simulator.study.frontier.start import start
from simulator.study.frontier.tally import Settings
from simulator.study.frontier.work import Promise, work_of

DENSE = "scenarios/serving/quickstart.yaml"
EXPERTS = "scenarios/serving/deepseek-v3.yaml"
LENGTHS = "{prompt: {uniform: [300, 900]}, output: {uniform: [20, 60]}}"
COMMON = (
    f"requests={{arrivals: {{poisson: 4 /s}}, lengths: {LENGTHS}, count: 100}}",
    "cluster.node.devices=4",
    "+slo={ttft: 400 ms, tpot: 30 ms}",
)
SPARSE = (
    f"requests={{arrivals: {{poisson: 4 /s}}, lengths: {LENGTHS}, count: 100}}",
    "model=models/olmoe-1b-7b",
    "serving.precision={}",
    "cluster.node.devices=4",
    "slo={ttft: 400 ms, tpot: 30 ms}",
)
ALL = Settings(simulations=10**6, likely=0.0, levels=3, confirm=False)


TOGETHER = replace(ALL, apart=False)
SPACES = [(DENSE, COMMON, ALL), (EXPERTS, SPARSE, TOGETHER)]


@cache
def small(file: str, overrides: tuple[str, ...], settings: Settings = ALL) -> tuple[Base, Found]:
    """A space of one limit and four devices, searched."""
    scenario, base, _ = start(file, overrides, (64,), (512,))
    base = replace(base, sizes=(200,))
    return base, search(scenario, base, settings)


def everything(base: Base) -> list[Structure]:
    """Each structure of the space, whatever any bound says of it."""
    scenario = serving(base, ())
    workers = [Worker(*mesh, 64, 512) for mesh in meshes(scenario.model, 4, 4)]
    pairs = [(first, last) for first in workers for last in workers]
    apart = [
        Structure(last, decodes, copies, first, prefills)
        for first, last in pairs
        for prefills, decodes, copies in ratios(first, last, 4)
    ]
    return [*(aggregated(worker, 4) for worker in workers), *apart]


def brute_force(base: Base, rate: float, structures: Sequence[Structure]) -> list[Point]:
    """All structures simulated at a rate of the whole cluster."""
    scenario = serving(base, ())
    tasks = [Task(base, one.overrides(scenario), rate / one.copies, base.sizes[0]) for one in structures]
    return [Point(one, rate, 4, run(task)) for one, task in zip(structures, tasks, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "overrides", "settings"), SPACES, ids=["dense", "experts"])
def test_pruning_loses_nothing_that_simulating_everything_finds(
    file: str, overrides: tuple[str, ...], settings: Settings
) -> None:
    base, found = small(file, overrides, settings)
    structures = [one for one in everything(base) if settings.apart or one.prefill is None]
    assert found.counts.all == len(structures)
    for rate in found.rates:
        missed = {one.structure for one in found.points if one.rate < rate and not one.outcome.meets}
        open_ = [one for one in structures if one not in missed]
        able = [one for one in brute_force(base, rate, open_) if one.outcome.meets]
        mine = [one for one in found.points if one.rate == rate and one.outcome.meets]
        best = max((one.per_user for one in able), default=0.0)
        assert max((one.per_user for one in mine), default=0.0) >= best / 1.01


@pytest.mark.parametrize(("file", "overrides", "settings"), SPACES, ids=["dense", "experts"])
def test_no_simulation_is_above_the_bound_of_its_structure(
    file: str, overrides: tuple[str, ...], settings: Settings
) -> None:
    base, found = small(file, overrides, settings)
    options = {
        option.worker.mesh: option
        for mesh in meshes(serving(base, ()).model, 4, 4)
        for option in measure(mesh, base).options
    }
    looked_at = 0
    for point in found.points:
        option = options[point.structure.decode.mesh]
        alone = point.structure.prefill is None
        each = dict(point.outcome.metrics)["request_throughput"] / point.structure.decodes
        assert point.outcome.gap_s >= option.ceiling.latency(each, alone)
        assert point.outcome.gap_s >= option.ceiling.shortest_step
        looked_at += 1
    assert looked_at > 5


@pytest.mark.slow
def test_what_is_left_as_unlikely_loses_no_point_of_the_front() -> None:
    """With guesses, and with what simulations say of each other, at each rate within 2 % of simulating everything."""
    base, found = small(DENSE, COMMON, Settings(simulations=60, levels=3, confirm=False))
    structures = everything(base)
    assert found.counts.all == len(structures)
    assert found.counts.simulated < len(structures) / 2
    for rate in found.rates:
        able = [one.per_user for one in brute_force(base, rate, structures) if one.outcome.meets]
        mine = [one.per_user for one in found.points if one.rate == rate and one.outcome.meets]
        assert max(mine, default=0.0) >= max(able, default=0.0) / 1.02


@pytest.mark.slow
def test_the_guess_finds_the_winner_of_everything_with_fewer_simulations() -> None:
    _, whole = small(DENSE, COMMON)
    _, quick = small(DENSE, COMMON, Settings(simulations=60, levels=6))
    assert whole.winner is not None
    assert quick.winner is not None
    assert quick.winner.per_device >= 0.8 * whole.winner.per_device
    assert quick.counts.all == whole.counts.all


def test_the_document_says_who_wins_why_and_where_candidates_went() -> None:
    base, found = small(DENSE, COMMON)
    told = document(serving(base, ()), found)
    counts = told.counts
    assert told.feasible
    assert told.winner is not None
    assert counts.candidates == sum(
        (counts.shape, counts.memory, counts.objectives, counts.rate, counts.bound, counts.unlikely, counts.simulated)
    )
    best = told.points[told.winner]
    assert best.on_front
    assert best.tokens_per_s_per_device == max(one.tokens_per_s_per_device for one in told.points if one.on_front)
    assert best.decodes_per_device * best.tokens_per_s_per_user == pytest.approx(best.tokens_per_s_per_device)
    assert told.why[0].startswith(best.name)


def test_objectives_out_of_reach_name_what_comes_nearest() -> None:
    late = tuple("+slo={ttft: 400 ms, tpot: 2 ms}" if "slo" in one else one for one in COMMON)
    base, found = small(DENSE, late)
    told = document(serving(base, ()), found)
    assert not told.feasible
    assert told.winner is None
    assert told.nearest is not None
    reached = told.points[told.nearest].objectives["tpot"].reached_s
    assert reached is not None
    assert 0.002 < reached < 0.05
    assert told.counts.objectives == told.counts.candidates


def test_a_hull_is_below_the_cost_at_every_mean_of_counts() -> None:
    at = counts(1000)
    cost = 1.0 + np.sqrt(at) + 0.5 * (at // 64)
    floor, draw = Hull(at, cost), np.random.default_rng(1)
    for _ in range(200):
        some = draw.choice(len(at), 5)
        assert floor(np.array([at[some].mean()]))[0] <= cost[some].mean() + 1e-9


def test_work_is_that_of_the_easiest_run() -> None:
    work = work_of(serving(Base(DENSE, COMMON, (200,), (64,), (512,)), ()), (200, 400))
    assert 550 < work.mean_prompt < 650
    assert 14 < work.prompt_share < 16.5
    assert work.least_context >= 300
    assert work.longest <= 960
    assert work.kept_share(0.9) < 0.9
    assert work.above(1e-3, 1e-3, Promise(0.65, None, None, 0.9)) == pytest.approx(0.42, abs=0.1)


def test_what_has_no_chunks_or_no_rate_is_refused() -> None:
    with pytest.raises(InputError, match="cuts no prompts"):
        start(DENSE, (*COMMON, "serving.batching={policy: orca}"))
    with pytest.raises(InputError, match="no rate of arrivals"):
        start(DENSE, (*COMMON, "requests.arrivals={closed_loop: {clients: 4}}"))
    with pytest.raises(InputError, match="nothing is promised"):
        start(DENSE, COMMON[:2])
