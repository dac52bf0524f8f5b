"""Weights that share the host link with caches, adapters and swapped sequences: alone as in closed form, to the
tick, and what others take of the link is what iterations are longer by."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from simulator.cli import main
from simulator.engine.clock import Clock
from simulator.engine.tape import Activity, Use
from simulator.fabric.sharing import max_min
from simulator.results.result import Result
from simulator.run.serve import serve
from simulator.serving.replica.weight_loads import WeightLoads
from simulator.serving.tiers.path import Lane, path
from simulator.specs import load_scenario

FILE = "scenarios/serving/quickstart.yaml"
HOST = "+serving.weights={path: host, share: 0.5}"
PREFIXES = "+requests.shared_prefix={tokens: {fixed: 256}, groups: 4}"


def run(*changes: str) -> Result:
    return serve(load_scenario(FILE, ["requests.count=20", *changes]).spec)  # type: ignore[arg-type]


def _ends(result: Result) -> list[list[int]]:
    assert result.service is not None
    requests = result.service.requests
    return [requests.first_token.tolist(), requests.finish.tolist()]


@pytest.mark.parametrize("weights", [HOST, "+serving.weights={path: disk, bandwidth: 60 GB/s, latency: 1 us}"])
def test_alone_on_the_link_loads_take_what_the_closed_form_says(weights: str) -> None:
    """A tier that is written when blocks are dropped, and none is, puts nothing on the link."""
    alone = run(weights, PREFIXES, "+serving.kv_cache.prefix_caching=block")
    cache = "+serving.kv_cache={prefix_caching: block, tiers: [{name: host, capacity: 9 GB, write: back}]}"
    beside = run(weights, PREFIXES, cache)
    assert beside.service is not None and alone.service is not None
    assert _ends(beside) == _ends(alone)
    assert beside.service.tiers[0].written == 0 and "stall" not in beside.breakdown[0]
    assert beside.provenance["events"] > alone.provenance["events"]  # each iteration for itself


def test_an_adapter_on_the_link_makes_iterations_longer_by_what_it_takes() -> None:
    """Every iteration waits for the link: what an adapter takes of it is what they wait more."""
    changes = (
        "requests.count=2",
        "requests.arrivals={constant: 1 /s}",
        "requests.lengths={prompt: {fixed: 64}, output: {fixed: 100}}",
    )
    own = "+serving.adapters={count: 2, slots: 2}"
    result = run(*changes, own, "+serving.weights={path: host}")
    assert result.service is not None and result.service.adapters is not None
    adapters = result.service.adapters
    assert adapters.loads == 2
    assert result.scenario is not None
    link = result.scenario["cluster"]["node"]["accelerator"]["host_link"]
    rate = float(str(link["value"]).split()[0]) * 1e9 if isinstance(link["value"], str) else float(link["value"])
    # The first adapter comes before anything runs, the second beside iterations.
    assert result.breakdown[0]["stall"] == pytest.approx(adapters.read / 2 / rate, rel=1e-6)
    assert adapters.longest_wait == pytest.approx(2 * adapters.read / 2 / rate, rel=1e-3)  # half of the link


def test_caches_that_are_loaded_stretch_iterations() -> None:
    few = ("serving.kv_cache.blocks=1500", PREFIXES)
    tier = "+serving.kv_cache={prefix_caching: block, tiers: [{name: host, capacity: 90 GB}]}"
    both = run(HOST, tier, *few, "requests.count=60")
    assert both.service is not None and both.service.tiers[0].read > 0
    assert both.breakdown[0]["stall"] > 0
    resident = run(tier, *few, "requests.count=60")
    assert "stall" not in resident.breakdown[0]


def test_drives_of_a_tier_are_shared_with_it() -> None:
    tier = "+serving.kv_cache={prefix_caching: block, tiers: [{name: ssd, capacity: 90 GB, bandwidth: 20 GB/s}]}"
    given = (tier, PREFIXES, "serving.kv_cache.blocks=1500", "requests.count=60")
    own = run("+serving.weights={path: disk, bandwidth: 20 GB/s, share: 0.2}", *given)
    same = run("+serving.weights={path: disk, drives: ssd, share: 0.2}", *given)
    assert own.service is not None and same.service is not None
    # A device has an eighth of the drives for its weights, which leaves a load of blocks seven eighths while they move.
    alone, beside = own.service.load_waits.max(), same.service.load_waits.max()
    assert alone < beside <= alone * 8 / 7 + 2


def test_sequences_are_swapped_beside_weights() -> None:
    given = ("serving.kv_cache={preemption: swap, blocks: 400}", "serving.context=4096", "requests.count=30")
    both, plain = run(HOST, *given), run(*given)
    assert both.metrics["preemptions"] > 0 and plain.metrics["preemptions"] > 0
    assert both.metrics["completed"] == plain.metrics["completed"]
    assert both.breakdown[0]["stall"] > 0 and "stall" not in plain.breakdown[0]


@dataclass
class _Batch:
    """What loads ask of a batch."""

    agenda: Clock
    ends: list[int] = field(default_factory=list)
    replica: "_Batch | None" = None
    name: str = "replica"

    def __post_init__(self) -> None:
        self.replica = self

    def end_now(self) -> None:
        self.ends.append(self.agenda.now)


@pytest.mark.parametrize(
    ("load", "inbound", "computing", "end"),
    [
        (100, 30, 50, 130),  # the link is what is short: both loads, one after the other's share
        (40, 30, 100, 130),  # the sequence takes 60 for 30, and computing begins after it
        (100, 0, 50, 100),
        (10, 0, 50, 50),
    ],
)
def test_a_sequence_that_comes_back_shares_the_link(load: int, inbound: int, computing: int, end: int) -> None:
    clock = Clock(solver=max_min)
    host = Lane(clock.add(1.0, "host"), 1.0)
    batch = _Batch(clock)
    loads = WeightLoads(batch, Activity(0, load, (Use(host.resource, 1.0, 1.0),)), path(0.0, [host]))  # type: ignore[arg-type]
    loads.inbound = inbound
    loads.begin(computing)
    alone = max(load, computing)
    clock.at(alone, lambda _: None if loads.holds() else batch.ends.append(clock.now))
    clock.run()
    assert batch.ends == [end]


def test_an_iteration_that_is_lost_takes_its_loads_with_it() -> None:
    given = ("requests.count=40", "serving.replicas=1", "+serving.fleet={failures: {mtbf: 20 s, repair: {fixed: 3}}}")
    own = "+serving.adapters={count: 8, slots: 2}"
    result = run(HOST, own, *given)
    assert result.service is not None
    done = np.asarray(result.service.requests.status)
    assert len(done) == 40


@pytest.mark.parametrize(
    ("given", "words", "more"),
    [
        ("{path: disk, drives: attic}", ("no tier of the path `disk` is called `attic`", "weights.drives"), ()),
        ("{path: disk, drives: ssd, bandwidth: 3 GB/s}", ("leave this one out",), ()),
        ("{path: host}", ("take turns", "adapters"), ("+serving.adapters={count: 2}", "+serving.parallel={pp: 2}")),
    ],
)
def test_what_cannot_share_is_refused_in_words(
    given: str, words: tuple[str, ...], more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FILE, "--quiet", "requests.count=10", f"+serving.weights={given}", *more]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    for word in words:
        assert word in said, said
