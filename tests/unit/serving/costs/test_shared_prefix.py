"""Prefixes that a batch reads once: who shares what, what it costs, and that fast-forward changes nothing."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.run.serve import ServingRun, run_serving, serve
from simulator.serving.costs.shared_prefix import SharedPrefixAttention
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario

SHARED = (
    "requests.count=40",
    "requests.arrivals={poisson: 20 /s}",
    "requests.lengths={prompt: {uniform: [100, 700]}, output: {uniform: [1, 60]}}",
    "+requests.shared_prefix={tokens: {uniform: [100, 400]}, groups: 3}",
)
READS, HOW = "+serving.kv_cache={prefix_caching: block, prefix_reads: ", ("each}", "once}")
CHAINS = st.lists(st.lists(st.integers(0, 8), unique=True, max_size=6), max_size=8)


class Price:
    """Two ticks a token and member, one a kernel."""

    def shared(self, sequences: int) -> tuple[int, int]:
        return 1, 2 * sequences


def scenario(*changes: str, name: str = "serving/quickstart") -> ServingScenario:
    """A small run over shared prefixes."""
    spec = load_scenario(name, (*SHARED, *changes)).spec
    assert isinstance(spec, ServingScenario)
    return spec


@given(CHAINS, st.integers(0, 8))
def test_what_is_together_is_what_several_read(chains: list[list[int]], leaving: int) -> None:
    readers = SharedPrefixAttention(16)
    for chain in chains:
        readers.join(chain)
    for chain in chains[:leaving]:
        readers.leave(chain)
    counts = [n for n in Counter(each for chain in chains[leaving:] for each in chain).values() if n > 1]
    assert readers.together == 16 * sum(counts)
    assert readers.ticks(Price()) == len(set(counts)) + sum(2 * n * 16 for n in counts)  # type: ignore[arg-type]
    readers.clear()
    assert (readers.together, readers.ticks(Price())) == (0, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["static", "orca", "vllm-v1"])
@pytest.mark.parametrize("blocks", [100, 1000])
@pytest.mark.parametrize("instances", [1, 2])
def test_fast_forward_changes_nothing(policy: str, blocks: int, instances: int) -> None:
    asked = scenario(
        f"serving.batching={{policy: {policy}, token_budget: 1024, max_sequences: 8, instances: {instances}}}",
        f"+serving.kv_cache={{blocks: {blocks}, prefix_caching: block, prefix_reads: once}}",
    )
    forwarded, stepping = run_serving(asked, leap=True), run_serving(asked, leap=False)
    assert _times(forwarded) == _times(stepping)
    batches = [batch.decodes for run in (forwarded, stepping) for replica in run.replicas for batch in replica.batches]
    assert all(batch.shared_prefixes is not None and batch.shared_prefixes.together == 0 for batch in batches)


def _times(run: ServingRun) -> tuple[list[int], ...]:
    ledger = run.ledger
    return ledger.scheduled, ledger.first_token, ledger.finish, ledger.preemptions


def test_reading_once_is_faster_and_sharing_nothing_is_as_before() -> None:
    each, once = (scenario(READS + how) for how in HOW)
    assert serve(once).metrics["mean_tpot_ms"] < serve(each).metrics["mean_tpot_ms"]
    alone = "requests.shared_prefix={tokens: {fixed: 64}, groups: 100000}"
    first, second = (serve(scenario(alone, READS + how)).metrics["duration"] for how in HOW)
    assert first == second


def test_many_readers_of_a_long_prefix_cost_arithmetic_and_few_cost_bytes() -> None:
    price = resolve(scenario())[0].cost.stages[0]
    (_, two), (_, four), (_, many), (_, more) = map(price.shared, (2, 4, 1024, 2048))
    assert two == four
    assert more == pytest.approx(2 * many, rel=0.05)
    assert many < 1024 * price.decode(1024)[-1][2] / 4


def test_nothing_can_be_read_once_that_is_not_shared() -> None:
    with pytest.raises(InputError, match="prefixes cannot be read once"):
        serve(scenario("+serving.kv_cache={prefix_caching: none, prefix_reads: once}"))


def test_instances_take_turns() -> None:
    shape = ("requests={count: 4, arrivals: {at_once: true}, lengths: {prompt: {fixed: 8}, output: {fixed: 50}}}",)
    durations = [
        serve(
            load_scenario("serving/quickstart", (*shape, f"serving.batching={{policy: static, {batching}}}")).spec
        ).metrics["duration"]  # type: ignore[arg-type]
        for batching in ("max_sequences: 1", "max_sequences: 1, instances: 4", "max_sequences: 4")
    ]
    after, beside, fused = durations
    assert beside == pytest.approx(after, rel=1e-6)
    assert fused < after / 3
