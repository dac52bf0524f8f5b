"""The search of layouts against running every one of them, and what it counts."""

import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from simulator.errors import InputError
from simulator.run.kinds import TRAINING
from simulator.specs import load_scenario
from simulator.study.layouts.answer import Answer, answer
from simulator.study.layouts.goal import DAY_S, Goal
from simulator.study.layouts.machines import Machine, machines, numbers
from simulator.study.layouts.sampled import sample
from simulator.study.layouts.search import Found, Planner, planned
from simulator.study.layouts.space import Space, layouts, picked, space
from simulator.study.layouts.written import scenario_text

QUICK = "scenarios/quickstart.yaml"
MODEL = "model={layers: %d, hidden: %d, heads: 16, ffn: %d, kv_heads: 8, vocabulary: 32000, head_dim: null}"
STACKS = ("megatron-core", "megatron-lm-2022", "fsdp", "deepspeed")


def spaces(*overrides: str, only: tuple[str, ...] = (), nodes: tuple[int, ...] = ()) -> list[tuple[Machine, Space]]:
    found = machines(QUICK, overrides, nodes=nodes)
    return [(machine, space(machine.scenario, only, ["all"])) for machine in found]


def search(some: list[tuple[Machine, Space]], goal: Goal, top: int = 3, **how: object) -> Found:
    return planned(some, lambda planner: planner.search(goal, top), **how)  # type: ignore[arg-type]


def brute_force(some: list[tuple[Machine, Space]], goal: Goal) -> list[float]:
    """The value of every layout that runs, fits and keeps the limits, rising."""
    found = []
    for machine, own in some:
        for layout in layouts(own):
            try:
                result = TRAINING.evaluate(layout.of(machine.scenario))
            except InputError:
                continue
            step_s = result.metrics["step_time_s"]
            if result.feasible and not goal.missed(machine.scenario, step_s):
                found.append(goal.value(machine.scenario, step_s))
    return sorted(found)


def draw(seed: int) -> tuple[list[tuple[Machine, Space]], Goal]:
    """A small random space and a question about it."""
    random = Random(seed)
    hidden, layers = random.choice([1024, 2048, 4096]), random.choice([4, 6, 8])
    overrides = (
        f"model.layers={layers}",
        f"model.hidden={hidden}",
        f"stack={random.choice(STACKS)}",
        f"training.global_batch={random.choice([8, 12, 16])}",
        f"training.sequence_length={random.choice([2048, 4096])}",
        f"cluster.node.accelerator.memory.capacity.value={random.choice([6, 12, 80])} GB",
    )
    only = (
        f"tp={random.choice(['1,2', '2,4,8', '1,8'])}",
        f"pp={random.choice(['1,2', '1,2,4'])}",
        f"micro_batch={random.choice(['1', '1,2'])}",
        f"recompute={random.choice(['none', 'none,full'])}",
        f"schedule={random.choice(['1f1b', '1f1b,interleaved-1f1b', '1f1b,zb-h1', 'interleaved-1f1b,zb-v'])}",
        "vpp=1,2",
    )
    goal = random.choice([Goal(), Goal("cost", 1e9), Goal("cost", 1e9, days=0.05), Goal("time", 1e9, budget=40.0)])
    return spaces(*overrides, only=only, nodes=random.choice([(1,), (1, 2)])), goal


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 20))])
def test_as_good_as_running_every_layout(seed: int) -> None:
    some, goal = draw(seed)
    found, every = search(some, goal), brute_force(some, goal)
    assert [one.value for one in found.best] == pytest.approx(every[:3], rel=1e-12)
    assert found.counts.all == sum(1 for _, own in some for _ in layouts(own))
    assert found.counts.failed == 0


def test_counts_do_not_depend_on_processes_and_a_cache_resumes(tmp_path: Path) -> None:
    some = spaces("model.layers=8", only=("schedule=1f1b", "recompute=none"))
    one = search(some, Goal())
    two = search(some, Goal(), jobs=2, cache=tmp_path / "kept.sqlite")
    assert one.counts == two.counts
    again = search(some, Goal(), cache=tmp_path / "kept.sqlite")
    assert again.counts.looked_up == again.counts.priced == two.counts.priced > 0
    assert replace(again.counts, looked_up=0) == two.counts
    assert [(b.value, b.candidate.layout) for b in again.best] == [(b.value, b.candidate.layout) for b in one.best]


def test_what_was_taken_up_is_behind_or_among_the_best_or_too_large_by_the_ledger() -> None:
    changes = ("model.layers=8", "cluster.node.accelerator.memory.capacity.value=26 GB")
    only = ("schedule=gpipe,zb-v", "tp=1,2", "micro_batch=1,2", "recompute=none", "zero=1")
    counts = search(spaces(*changes, only=only), Goal(), top=2).counts
    assert counts.ledger > 0
    assert counts.beaten > 0
    assert counts.priced == counts.ledger + counts.beaten + counts.leaders


def ask(some: list[tuple[Machine, Space]], goal: Goal) -> Answer:
    def work(planner: Planner) -> Answer:
        return answer(planner, goal, 2)

    return planned(some, work)


def test_what_a_budget_that_buys_nothing_would_have_to_be() -> None:
    some = spaces("model.layers=4", only=("tp=1,2", "pp=1", "micro_batch=1", "recompute=none"), nodes=(1, 2))
    free = ask(some, Goal("cost", 1e9))
    cheapest = free.leaders[0].priced.value
    none = ask(some, Goal("time", 1e9, budget=cheapest / 2))
    assert not none.leaders
    assert none.found.counts.budget > 0
    (least,) = none.least
    assert (least.what, least.value) == ("cost_usd", pytest.approx(cheapest))
    assert ask(some, Goal("time", 1e9, budget=cheapest * 1.0001)).leaders


def test_days_that_are_too_few() -> None:
    some = spaces("model.layers=4", only=("tp=1,2", "pp=1", "micro_batch=1", "recompute=none"))
    fastest = ask(some, Goal("time", 1e9)).leaders[0].priced.value / DAY_S
    none = ask(some, Goal("cost", 1e9, days=fastest / 2))
    assert [(one.what, one.value) for one in none.least] == [("days", pytest.approx(fastest))]
    assert none.found.counts.nearest["days"].need == pytest.approx(fastest, rel=0.1)


def test_what_is_stated_stays_unless_it_is_freed() -> None:
    scenario = machines("scenarios/papers/ptd-p/162.2b.yaml", ())[0].scenario
    stated = space(scenario)
    assert {"tp", "pp", "micro_batch", "recompute"} == set(stated.stated)
    assert {(one.tp, one.pp, one.micro_batch) for one in layouts(stated)} == {(8, 8, 1)}
    freed = space(scenario, ["micro_batch=2,4"], ["pp"])
    assert {one.pp for one in layouts(freed)} == {1, 2, 4, 8}
    assert {one.micro_batch for one in layouts(freed)} == {2, 4}


def test_every_layout_multiplies_to_the_devices() -> None:
    for own in (spaces()[0][1], spaces("model=models/olmoe-1b-7b", "training.sequence_length=32768")[0][1]):
        some = list(layouts(own))
        assert len(some) == len(set(some)) > 100
        for one in some:
            assert one.tp * one.cp * one.pp * one.dp == own.scenario.cluster.devices
            assert one.tp * one.cp * one.dp % (one.ep * one.etp) == 0
            assert own.scenario.training.global_batch % (one.dp * one.micro_batch) == 0


@pytest.mark.parametrize(
    ("only", "free", "said"),
    [
        (("tpp=1",), (), "no choice of a layout"),
        (("tp",), (), "lists no values"),
        (("tp=two",), (), "is no size"),
        (("zero=4",), (), "from 0 to 3"),
        (("recompute=some",), (), "is not known"),
        (("schedule=1f2b",), (), "1f2b"),
        ((), ("micro",), "no choice of a layout"),
    ],
)
def test_bad_choices(only: tuple[str, ...], free: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        space(machines(QUICK, ())[0].scenario, only, free)


def test_numbers_of_nodes() -> None:
    assert numbers("8:64") == (8, 16, 32, 64)
    assert numbers("8:24:8,30") == (8, 16, 24, 30)
    for wrong in ("", "0", "8:4", "1:2:3:4", "a"):
        with pytest.raises(ValueError, match=r"nodes|smaller"):
            numbers(wrong)


def test_a_scenario_that_serves_is_refused() -> None:
    with pytest.raises(InputError, match="layouts are of trainings"):
        machines("scenarios/serving/quickstart.yaml", ())


def test_a_written_layout_is_the_one_that_was_chosen(tmp_path: Path) -> None:
    some = spaces("model=models/olmoe-1b-7b", "training.sequence_length=32768")
    (machine, own) = some[0]
    target = tmp_path / "best.yaml"
    for layout in list(layouts(own))[::311]:
        changes = ("model=models/olmoe-1b-7b", "training.sequence_length=32768")
        text = scenario_text(QUICK, str(target), (*changes, *layout.overrides(machine.scenario)))
        target.write_text(text)
        wanted, read = layout.of(machine.scenario).training, load_scenario(target).scenario
        assert read.training == wanted  # type: ignore[union-attr]


def test_what_is_picked_value_by_value_is_of_the_space() -> None:
    (_, own), *_ = spaces("training.global_batch=16", nodes=(2,))
    every, random = set(layouts(own)), Random(1)
    drawn = [picked(own, lambda name, values: random.choice(values)) for _ in range(200)]
    assert set(drawn) <= every
    assert len(set(drawn)) > 50


def test_draws_find_what_the_whole_search_finds_and_say_that_they_are_draws() -> None:
    pytest.importorskip("optuna", reason="the extra `optuna` is not installed")
    only = ("tp=1,2,4", "pp=1,2", "vpp=1", "schedule=1f1b", "recompute=none", "zero=0,1")
    some = spaces("training.global_batch=16", "model.layers=4", only=only)

    def asked(planner: Planner) -> tuple[Found, Found, Found]:
        return planner.search(Goal(), 1), *(sample(planner, Goal(), 48, 1, 1) for _ in range(2))

    whole, found, again = planned(some, asked)
    assert [one.value for one in found.best] == [one.value for one in again.best]
    assert found.counts.all == again.counts.all <= whole.counts.all
    assert 1 <= found.best[0].value / whole.best[0].value < 1.05
    assert found.counts.priced < found.counts.all
    assert "need not be the best of all" in found.notes[-1]


def test_without_optuna_one_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"Optuna, which is not installed; `pip install 'clustersim\[optuna\]'`"):
        planned(spaces(), lambda planner: sample(planner, Goal(), 4, 0, 1))


@pytest.mark.parametrize("goal", [Goal("time", 1e9, budget=1.0), Goal("cost", 1e9)])
def test_devices_without_a_price_are_refused_where_money_is_asked_for(goal: Goal) -> None:
    some = spaces("cluster.node.accelerator.price=null", only=("tp=1,2", "pp=1", "micro_batch=1", "recompute=none"))
    none = ask(some, goal)
    assert none.found.counts.refused == none.found.counts.all == 4
    assert not none.found.counts.nearest
    assert list(none.found.counts.reasons) == [
        "cost: no price of NVIDIA H100 SXM5 80GB is known; write `cluster.node.accelerator.price=2.50 USD/h`"
    ]
