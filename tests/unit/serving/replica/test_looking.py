"""What iterations to come give, member by member, is what numpy finds for all of them at once."""

from types import SimpleNamespace

import numpy as np
import pytest

import simulator.run  # noqa: F401
from simulator import machine_code
from simulator.run.serve import run_serving
from simulator.serving.replica import looking
from simulator.serving.replica.speculation import AHEAD, TURNS, Ahead, CompiledAhead, SpeculatingDecodes, _sums
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario

READ = looking.look, looking.settle
"""The functions as Python reads them."""


@pytest.mark.parametrize("seed", range(12))
def test_what_is_compiled_gives_the_same_numbers(seed: int) -> None:
    """Of members near their end and far from it, with blocks and without."""
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 6))
    table = _sums(random.integers(1, rows + 1, TURNS))
    n, size, most = int(random.integers(1, 12)), int(random.choice([0, 1, 12, 16])), int(random.integers(1, AHEAD + 1))
    taken = np.zeros((4, 16), np.int64)
    taken[looking.CACHED, :n] = random.integers(1, 500, n)
    taken[looking.LEFT, :n] = random.integers(1, int(random.choice([3, 40, 400])), n)
    taken[looking.HELD, :n] = -(-taken[looking.CACHED, :n] // size) if size else 0
    taken[looking.PLACE, :n] = random.integers(TURNS - 200, TURNS, n)
    other = taken.copy()
    given = table, rows, size, float(table[TURNS]) / TURNS, rows, most
    usual, compiled = Ahead(taken[:, :n], *given), CompiledAhead(READ).look(other, n, *given)
    count = usual.count
    assert (compiled.count, compiled.done) == (count, usual.done)
    assert compiled.out[: count + 1].tolist() == usual.out.tolist()
    assert compiled.held[: count + 1].tolist() == usual.held.tolist()
    passed = count if seed % 3 else 1
    usual.settle(taken, passed)
    compiled.settle(other, passed)
    assert other.tolist() == taken.tolist()


class Behind:
    """Members of whom `ahead` says what comes."""

    def __init__(self, ahead: CompiledAhead) -> None:
        self._passed = 0
        self._looked = lambda: ahead

    def grown(self, count: int) -> int:
        return int(self._looked().held[count] - self._looked().held[0])


def test_no_more_iterations_are_affordable_than_were_looked_at() -> None:
    """What an earlier, longer look wrote lies behind the end of a short one."""
    table = _sums(np.ones(TURNS, np.int64))
    given = table, 1, 16, 1.0, 1, AHEAD
    ahead = CompiledAhead(READ)
    for left in (60, 3):
        taken = np.array([[100], [left], [7], [0]])
        ahead.look(taken, 1, *given)
    assert ahead.count == 3
    behind = Behind(ahead)
    assert SpeculatingDecodes.affordable(behind, 1000) == (3, behind.grown(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("more", ["requests.arrivals={closed_loop: {clients: 12}}", "+serving.kv_cache={blocks: 60}"])
def test_runs_that_are_looked_ahead_of_by_compiled_code_are_the_same(
    more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts = "+serving.speculation={kind: n-gram, draft_length: 2, acceptance: 0.6}"
    lengths = "requests.lengths={prompt: {uniform: [10, 300]}, output: {uniform: [1, 40]}}"
    scenario = load_scenario("serving/quickstart", [drafts, lengths, more, "requests.count=30"]).scenario
    assert isinstance(scenario, ServingScenario)
    usual = run_serving(scenario)
    looks = []

    def look(*given: object) -> tuple[int, bool]:
        looks.append(given)
        return looking.look(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(looking, "LEAST", 1)
    monkeypatch.setattr(looking, "compiled", lambda: (look, looking.settle))
    found = run_serving(scenario)
    assert len(looks) > 20
    assert found.ledger == usual.ledger
    assert [replica.record.log for replica in found.replicas] == [replica.record.log for replica in usual.replicas]


def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "find_spec", lambda _: None)
    assert looking.compiled.__wrapped__() is None


def test_a_batch_of_128_is_looked_at_64_iterations_ahead() -> None:
    """Though members came and went in the last eight: a longer look takes less than another stay."""
    n, table = 128, _sums(np.ones(TURNS, np.int64))
    taken = np.tile(np.array([[100], [1000], [7], [0]]), n)
    yields = SimpleNamespace(drafts=lambda n: (1, 2), tables={1: table}, means={1: 1.0}, largest={1: 2})
    decodes = SimpleNamespace(
        _ahead=None,
        yields=yields,
        n=n,
        grows=False,
        _look=8,
        short_looks=True,
        _compiled=CompiledAhead(READ),
        _taken=taken,
    )
    ahead = SpeculatingDecodes._looked(decodes)  # type: ignore[arg-type]
    assert (ahead.count, ahead.done) == (64, False)
