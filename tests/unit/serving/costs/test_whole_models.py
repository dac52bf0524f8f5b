"""Models that take turns on a replica: memory of slots, rows one model after the other; prompts that are filled up."""

from dataclasses import replace
from typing import Any

import pytest

from simulator.cli import main
from simulator.errors import InputError
from simulator.serving.costs.whole_models import WholeModels
from simulator.serving.fleet.system import System, resolve
from simulator.specs import load_scenario
from tests.replicas import TOKENS, Setting, asked
from tests.replicas import system as made

FEW = ("requests.count=40",)


def system(*overrides: str) -> System:
    return resolve(load_scenario("papers/s-lora/packed-7b", overrides).spec)[0]  # type: ignore[arg-type]


def test_rows_of_several_models_pass_one_model_after_the_other() -> None:
    """With 100 ticks a pass and 3 a row, two models of five rows each take 100 more than ten rows of one."""
    models = WholeModels(8.0, lambda rows, sampled: 100 + 3 * rows)
    assert models.ticks(10, 1, 0) == 0
    assert models.ticks(10, 2, 0) == 100
    assert models.ticks(10, 4, 0) == 3 * 100 + 3 * (4 * 3 - 10)
    assert models.bytes(64) == 8.0


def test_slots_take_the_weights_of_all_models_but_the_first() -> None:
    """Of Llama-7B, 6.74 billion parameters of 2 bytes."""
    one, five = (system(f"serving.adapters.slots={slots}") for slots in (1, 5))
    assert five.cost.ledger["adapters"] == pytest.approx(4 * one.cost.ledger["weights"])
    assert one.cost.ledger["weights"] == pytest.approx(2 * 6.74e9, rel=0.01)
    assert five.cost.blocks < one.cost.blocks
    with pytest.raises(InputError, match="6 more"):
        system("serving.adapters.slots=7", "cluster={extends: clusters/dgx-a100-40gb, nodes: 1}")


def test_models_of_one_request_each_read_their_weights_apart() -> None:
    packed = system().cost
    (own,), (stage,) = packed.adapters, packed.stages
    assert own.ticks(8, 8, 8) == pytest.approx(7 * stage.rows(1, 1), rel=0.05)


def test_a_run_of_models_that_take_turns(capsys: Any) -> None:
    assert main(["run", "papers/s-lora/packed-7b", *FEW]) == 0
    assert "adapters" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("{kind: whole, count: 5}", "needs `slots`"),
        ("{kind: whole, count: 5, slots: 2, rank: 8}", "`rank` is of adapters of low rank"),
        ("{kind: whole, count: 5, slots: 2, base_share: 0.5}", "`base_share` is of adapters"),
        ("{kind: half, count: 5, slots: 2}", "low-rank"),
    ],
)
def test_models_that_cannot_take_turns(more: str, said: str, capsys: Any) -> None:
    assert main(["run", "serving/quickstart", f"+serving.adapters={more}"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("stages", [1, 2])
def test_prompts_are_filled_up_to_the_longest_of_an_iteration(stages: int) -> None:
    """Rows of 5, 20 and 10 tokens take ten ticks each, filled up they are 60; a prompt alone is as it is."""
    setting = Setting(policy="static", price=TOKENS, budget=64, most=3, stages=stages)
    work = asked([(0, 5, 1), (0, 20, 1), (0, 10, 1), (10_000, 7, 1)])
    ends = []
    for padded in (False, True):
        ran = made(work, setting)
        for one in ran.replicas:
            one.policy.rules = replace(one.policy.rules, padded=padded)
        ran.agenda.run()
        ends.append((ran.ledger.first_token[1], ran.ledger.first_token[3] - 10_000))
    assert ends == [(stages * 350, stages * 70), (stages * 600, stages * 70)]


def test_filled_prompts_of_replicas_that_share_experts_are_refused(capsys: Any) -> None:
    more = [
        "model=models/qwen3-30b-a3b",
        "serving.parallel={dp: 8, ep: 8}",
        "cluster={extends: clusters/dgx-h100, nodes: 1}",
    ]
    assert main(["run", "serving/quickstart", *more, "+serving.batching.padded=true"]) == 2
    assert "filled up" in capsys.readouterr().err
