"""Claims of published systems: all can be found, all scenarios are used, and the cheap ones come out as they did."""

from typing import Any

import pytest
from pydantic import ValidationError

from simulator import units
from simulator.errors import InputError
from simulator.metrics import METRICS
from simulator.run.serve import serve
from simulator.run.workflow import order
from simulator.run.workflow.pools import devices_of
from simulator.serving.fleet.system import resolve
from simulator.specs import names
from simulator.specs.scenario import Scenario, ServingScenario
from simulator.specs.workflow import Workflow
from simulator.study.papers.claims import (
    Bench,
    Claim,
    Figure,
    Iteration,
    Reach,
    any_scenario,
    changed,
    fits_training,
    known_claims,
    scenario,
    scenarios_of,
    variation,
)
from simulator.training.build import build_job
from simulator.training.memory import peak_memory

PAPERS = known_claims()
FIGURES = [claim.figure for claim in PAPERS.claims]
CHECKED = [changed(claim.figure, check.changes) for claim in PAPERS.claims for check in claim.checks]
USED = sorted({asked for figure in FIGURES + CHECKED for asked in scenarios_of(figure)})
"""Scenarios of the claims, with their overrides."""
RUN = sorted({asked for figure in FIGURES + CHECKED for asked in scenarios_of(figure) if not figure.searches})
"""Those that are run as they are."""
TOO_LARGE = (
    "pipette/8.1b",
    ("training.parallel={tp: 1, pp: 1}", "training.micro_batch=1", "training.recompute=full"),
)
"""What is claimed not to fit."""
BENCH = Bench(PAPERS.fits)


def training(name: str, changes: tuple[str, ...]) -> Scenario:
    """A training scenario of a paper."""
    asked = any_scenario(name, changes)
    assert isinstance(asked, Scenario)
    return asked


@pytest.mark.parametrize(
    ("name", "changes"),
    [pytest.param(name, changes, marks=[pytest.mark.slow] * bool(changes)) for name, changes in RUN],
)
def test_every_claim_names_scenarios_that_fit_their_machines(name: str, changes: tuple[str, ...]) -> None:
    asked = any_scenario(name, changes)
    if isinstance(asked, ServingScenario):
        assert all(system.cost.fits for system in resolve(asked))
    elif isinstance(asked, Workflow):
        order.check(asked)
        assert devices_of(asked) or not any(stage.pools for stage in asked.stages)
    else:
        assert isinstance(asked, Scenario)
        fits = peak_memory(build_job(asked)) < asked.cluster.node.accelerator.memory.capacity.value
        assert fits is ((name, changes) != TOO_LARGE)


def test_every_scenario_of_a_paper_is_part_of_a_claim() -> None:
    shipped = [*names(ServingScenario), *names(Workflow)]
    assert {f"papers/{name}" for name, _ in USED} == {name for name in shipped if name.startswith("papers/")} - {
        "papers/burstgpt/poisson"  # what the bursts are to be compared with
    }


def test_scenarios_and_claims_publish_the_same_figures() -> None:
    told = {(c.figure.of, c.figure.metric): c for c in PAPERS.claims if c.figure.metric and not c.figure.changes}
    compared = 0
    for name in {claim.figure.of for claim in told.values()}:
        asked = any_scenario(name)
        for published in () if isinstance(asked, Workflow) else asked.published:
            claim = told.get((name, published.metric))
            if claim is not None:
                metric = METRICS[published.metric]
                unit = metric.scale if claim.unit == "ms" else 1.0
                assert units.parse(published.value, metric.dimension) == pytest.approx(claim.published * unit)
                compared += 1
    assert compared >= 10


def test_claims_and_what_is_absent_belong_to_papers_with_titles() -> None:
    absent = {one.paper for one in PAPERS.absent}
    assert {claim.paper for claim in PAPERS.claims} <= set(PAPERS.titles)
    assert {claim.paper for claim in PAPERS.claims} | absent == set(PAPERS.titles)  # of some nothing is expressible
    assert all(claim.figure.of.startswith(claim.paper) for claim in PAPERS.claims if claim.figure.of)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("throughput over separate batches, LLaMA-13B on A6000, 1K, 6 sequences, P:D 50", 1.1, 1.6),
        ("throughput with a prefix of 16K over that with 1K, read once", 0.8, 1),
        ("throughput over vLLM while decoding, 1,024 sequences, prefix of 1K", 3, 8),
        ("keys and values of a token over the unmodified ones, pairs of layers and fp8", 0.375, 0.375),
        ("time of a prompt of 8K over the unmodified one, Llama-3.1-70B (the authors count arithmetic)", 0.5, 0.6),
        ("an instance each over fused LLaMA-13B", 10, 16),
        ("coefficient of variation of the gaps, shape 0.5", 1.3, 1.5),
        ("first token after 128 tokens", 700, 1200),
        ("folded over not folded, Mixtral 8x22B-G8T8", 1.4, 1.8),
        ('ring over blocks on each device, 7B on 8 A100 ("8x")', 8, 8),
        ("time to the first token of SpikingBrain-7B, 256K tokens on 8 H100", 0.9, 1.15),
        ("training throughput over FlashAttention-2 (Transformer++) at 2,048 tokens, comparable", 0.85, 1.15),
        ("samples a second and GPU, 28.3B on 32 A100, 96 microbatches, 1F1B", 0.8, 0.85),
        ("ZB-V over 1F1B, 6.2B, 48 microbatches", 1.15, 1.25),
        ("memory of 1F1B, 6.2B", 60, 63),
        ("bubble of ZB-H2 at the times measured for 14.6B, 16 stages, 48 microbatches", 6.71, 6.73),
        ("interleaved with four chunks over plain 1F1B, 175B on 96 A100, batch of 12", 1.1, 1.7),
        ("the same of plain data parallelism (layers of 0.031 billion parameters)", 43, 65),
        ("fused over unfused kernels, 175B (devices not stated, those of Figure 12 taken)", 1.08, 1.2),
    ],
)
def test_a_sample_of_claims_comes_out(text: str, least: float, most: float) -> None:
    (claim,) = (claim for claim in PAPERS.claims if claim.claim == text)
    assert least <= round(BENCH.value(claim.figure), 9) <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "first", "least", "most"),
    [
        ("hybridflow", "time of the actor's transition", 3, 10),
        ("realhf", "iteration in one layout for all calls", 1.15, 1.45),
        ("remax", "iteration of PPO", 1.0, 1.3),
        ("zero", "largest model without model parallelism", 38, 46),
    ],
)
def test_claims_that_take_longer_come_out(paper: str, first: str, least: float, most: float) -> None:
    (claim,) = (one for one in PAPERS.claims if one.paper == paper and one.claim.startswith(first))
    assert least <= BENCH.value(claim.figure) <= most


def test_our_iterations_are_near_the_latencies_that_distserve_fitted() -> None:
    (fits,) = PAPERS.fits
    fit = next(fit for fit in fits.models if fit.engine == "DistServe" and fit.tp == 4)
    for errors in BENCH.fitted(fits, fit).values():
        assert all(abs(error) < 0.3 for error in errors)


@pytest.mark.slow
def test_goodput_with_fitted_latencies_is_a_rate_that_keeps_the_promise() -> None:
    changes = ("requests.count=100",)
    rate = BENCH.goodput("distserve/apart-66b", changes, "DistServe")
    assert rate == BENCH.goodput("distserve/apart-66b", changes, "DistServe") > 0
    own = BENCH.goodput("distserve/apart-66b", changes)
    kept = serve(scenario("distserve/apart-66b", (*changes, f"requests.arrivals.poisson={own * 8} /s"))).metrics
    assert kept["slo_attainment"] >= 0.9


def test_figures_are_put_together() -> None:
    parts: list[Any] = [{"value": 6}, {"value": 4}]
    found = [BENCH.value(Figure.model_validate({how: parts})) for how in ("ratio", "difference", "product")]
    assert found == [1.5, 2, 24]


@pytest.mark.parametrize(
    ("asked", "figure"),
    [
        ({"quantity": "makespan"}, 9),
        ({"quantity": "idle"}, 3),
        ({"quantity": "bubble"}, 100 / 3),
        ({"quantity": "own bubble"}, 100 / 3),
        ({"quantity": "activations"}, 2),
        ({"quantity": "makespan", "costs": [1, 0.5, 0.5, 0.25]}, 6.5),
    ],
)
def test_an_order_alone_is_a_figure(asked: dict[str, Any], figure: float) -> None:
    """1F1B on two devices: two microbatches of F = I = W = 1 take six units, filling and draining three."""
    order = {"schedule": "1f1b", "devices": 2, "microbatches": 2, **asked}
    assert BENCH.value(Figure.model_validate({"order": order})) == pytest.approx(figure)


def test_an_order_with_paths_leaves_stages_out() -> None:
    """Two stages of three a microbatch: a forward and a backward pass less, and two sends."""
    order = {"schedule": "skippipe", "devices": 3, "microbatches": 1, "costs": [1, 1, 1, 1]}
    whole, skipped = (
        BENCH.value(Figure.model_validate({"order": {**order, "quantity": "makespan", "paths": paths}}))
        for paths in ([[0, 1, 2]], [[0, 2, 1]])
    )
    assert whole == skipped == 3 * 3 + 4
    both = {**order, "microbatches": 2, "quantity": "makespan", "paths": [[0, 1], [0, 2]]}
    assert BENCH.value(Figure.model_validate({"order": both})) < whole + 3
    with pytest.raises(InputError, match="none through 3 stages"):
        BENCH.value(Figure.model_validate({"order": {**both, "paths": [[0, 3]]}}))


def test_an_all_to_all_alone_is_a_figure() -> None:
    """A card of 25 GB/s sends 255 of 256 parts of 1 GB, and no planned cable carries more; hashed flows collide."""

    def hottest(*changes: str) -> float:
        exchange = {"operation": "all_to_all", "size": "1 GB", "quantity": "hottest"}
        asked = {"of": "packet-spraying/leaf-spine", "changes": changes, "exchange": exchange}
        return BENCH.value(Figure.model_validate(asked))

    assert hottest() == pytest.approx(255 / 256 / 25)
    assert hottest("cluster.network.routing={policy: ecmp}") > 1.1 * hottest()


@pytest.mark.parametrize(("quantity", "figure"), [("mean", (1.2 * 1.25 * 1.2 * 1.2) ** 0.25), ("most", 1.25)])
def test_sublayers_alone_are_a_figure(quantity: str, figure: float) -> None:
    """On two devices, with products of f = 1, 3, 4, 4 scatters: (f + 2) / (max(f, f / 2 + 1) + 1)."""
    asked = {"hidden": [1000], "devices": [2], "flops": 1e12, "ring": "1 GB/s", "quantity": quantity}
    assert BENCH.value(Figure.model_validate({"sublayers": asked})) == pytest.approx(figure)


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ({"sublayers": {"hidden": [], "devices": [2], "flops": 1, "ring": "1 GB/s"}}, "at least 1 item"),
        ({"sublayers": {"hidden": [8], "devices": [2], "flops": 0, "ring": "1 GB/s"}}, "greater than 0"),
        ({"exchange": {"operation": "all_reduce", "size": "1 GB"}}, "names the scenario"),
    ],
)
def test_figures_alone_are_checked(figure: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Figure.model_validate(figure)


def test_a_check_changes_every_scenario_of_a_figure() -> None:
    figure = Figure.model_validate({"ratio": [{"of": "a", "changes": ["x=1"], "metric": "m"}, {"value": 2}]})
    assert scenarios_of(changed(figure, ("y=2",))) == [("a", ("x=1", "y=2"))]


def test_a_point_of_a_curve_lies_between_its_runs() -> None:
    sweep = {"metric": "request_throughput", "where": "mean_e2el_ms", "over": "requests.arrivals.closed_loop.clients"}
    of, values = "fastgen/vllm-2600-60", (1, 4)
    runs = [BENCH.metrics(of, ("requests.count=32", f"{sweep['over']}={value}")) for value in values]
    middle = sum(run["mean_e2el_ms"] for run in runs) / 2
    figure = {"of": of, "changes": ["requests.count=32"], "curve": {**sweep, "equals": middle, "values": values}}
    assert BENCH.value(Figure.model_validate(figure)) == pytest.approx(sum(r["request_throughput"] for r in runs) / 2)
    figure["curve"] = {**sweep, "equals": 1e9, "values": values}
    assert str(BENCH.value(Figure.model_validate(figure))) == "nan"


def test_an_iteration_of_prompts_and_decodes_takes_longer_than_either() -> None:
    of = ("sarathi/chunked-13b", ())
    prompt, decode, both = (
        BENCH.iteration(*of, asked)
        for asked in (
            Iteration(prompts=((251, 0),)),
            Iteration(decodes=5, context=5000),
            Iteration(prompts=((251, 0),), decodes=5, context=5000),
        )
    )
    assert max(prompt, decode) < both < prompt + decode


def test_the_longest_sequence_is_the_last_that_fits() -> None:
    of, capacity = "ring-attention/ring-7b", 85.2e9
    reach = Reach(over="training.sequence_length", step=2**16, most=2**22, doubling=True)
    found = round(BENCH.longest(of, (), reach))
    fits, too_long = (peak_memory(build_job(training(of, reach.changes(x)))) for x in (found, 2 * found))
    assert fits < capacity < too_long
    assert BENCH.longest(of, (), reach.model_copy(update={"step": 2**22})) == 0


def test_what_fits_is_looked_for_in_steps() -> None:
    of = "ring-self-attention/sequence-base"
    reach = Reach(over="training.micro_batch", also="training.global_batch", step=64, most=4096)
    found = round(BENCH.longest(of, (), reach))
    assert found % 64 == 0
    assert fits_training(training(of, reach.changes(found)))
    assert not fits_training(training(of, reach.changes(found + 64)))


def test_memory_of_a_kind_is_that_of_the_fullest_device() -> None:
    of = "qwen2.5-1m/full-14b"
    whole, half = (
        BENCH.value(Figure(of=of, changes=(f"serving.parallel.tp={tp}",), ledger="weights")) for tp in (4, 8)
    )
    assert whole == pytest.approx(2 * half, rel=0.01)


def test_bursts_vary_more_than_poisson_arrivals() -> None:
    assert variation(scenario("burstgpt/bursts")) > 1.2 > 1.1 > variation(scenario("burstgpt/poisson")) > 0.9


@pytest.mark.parametrize(
    "figure",
    [{}, {"value": 1, "metric": "duration", "of": "x"}, {"metric": "duration"}, {"value": 1, "latencies": "vLLM"}],
)
def test_a_figure_is_one_thing(figure: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Figure.model_validate(figure)


VOCABULARY = [claim for claim in PAPERS.claims if claim.paper == "vocabulary-parallelism"]


def _marks(claim: Claim) -> list[pytest.MarkDecorator]:
    return [] if "64K" in claim.claim else [pytest.mark.slow]


@pytest.mark.parametrize("claim", [pytest.param(one, marks=_marks(one), id=one.claim) for one in VOCABULARY])
def test_vocabulary_parallelism_from_hardware_alone(claim: Claim) -> None:
    """arXiv:2411.05288, artifact: steps and peaks of memory on 8 A100, nothing but the scenario given."""
    assert BENCH.value(claim.figure) == pytest.approx(claim.published, rel=0.1)
