"""Stages of known service times: rounds of servers, order statistics of stragglers, items that drop out."""

from math import exp, log
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from pydantic import ValidationError

from simulator import units
from simulator.cli import main
from simulator.run.workflow.simulate import simulate_workflow
from simulator.run.workflow.timed import timed
from simulator.specs.resolve import load_run
from simulator.specs.workflow import TimedStage


def seconds(iteration: int = 0, seed: int = 0, takes: float = 1, **stage: object) -> float:
    made = TimedStage(name="clients", takes=f"{takes} s", **stage)  # type: ignore[arg-type]
    return units.to_seconds(timed(made, seed)(iteration))


def test_items_alike_take_rounds_of_their_servers() -> None:
    assert seconds(takes=2, items=10, servers=4) == 6
    assert seconds(takes=2, items=10, servers=4, enough=0.8) == 4
    assert seconds(takes=2, items=10, servers=4, enough=0.01) == 2


def test_the_last_of_enough_stragglers_is_the_quantile_of_their_distribution() -> None:
    """Of many log-normal times with a server each, the share `enough` is done at that quantile."""
    spread = log(1 + 0.5**2)
    for share in (0.5, 0.9):
        expected = 60 * exp(-spread / 2 + NormalDist().inv_cdf(share) * spread**0.5)
        found = seconds(takes=60, items=200_000, servers=200_000, varies=0.5, enough=share)
        assert found == pytest.approx(expected, rel=0.01)


def test_one_server_takes_the_sum_and_many_the_longest() -> None:
    one, two, all_ = (seconds(takes=1, items=1000, servers=n, varies=0.8) for n in (1, 2, 1000))
    assert one == pytest.approx(1000, rel=0.1)
    assert one / 2 <= two <= one / 2 + all_
    assert all_ < 30


def test_what_drops_out_is_never_among_the_done() -> None:
    whole = seconds(takes=1, items=400, servers=400, varies=0.5, enough=0.75)
    less = seconds(takes=1, items=400, servers=400, varies=0.5, enough=0.75, drops=0.25)
    assert less > whole  # all that are left have to come, the slowest too
    assert seconds(takes=3, items=10, servers=10, drops=0.2, enough=0.8) == 3


def test_iterations_differ_and_a_seed_repeats_them() -> None:
    def rounds(seed: int) -> list[float]:
        return [seconds(i, seed, takes=1, items=20, servers=20, varies=1.0) for i in range(5)]

    assert rounds(1) == rounds(1) != rounds(2)
    assert len(set(rounds(1))) == 5
    assert np.mean(rounds(1)) > 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drops": 0.2}, "10 of 10 items are `enough`, and 2 drop out: it never ends; write `enough: 80 %` or less"),
        ({"drops": 1.0}, "less than 1"),
        ({"varies": -1}, "greater than or equal to 0"),
        ({"varies": 0.5, "items": 2_000_000}, "2,000,000 items that differ are more than 1,000,000"),
    ],
)
def test_stages_that_never_end_and_too_many_items_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TimedStage(**{"name": "a", "takes": "1 s", "items": 10, "servers": 10} | changes)  # type: ignore[arg-type]


def test_a_round_is_its_stages_one_after_the_other() -> None:
    found = simulate_workflow(load_run("federated-rounds", ["iterations=3"]).scenario)  # type: ignore[arg-type]
    assert found.metrics["makespan_s"] > 3 * (2 + 80 * 0.4 + 1)
    sure = load_run("federated-rounds", ["iterations=2", "stages.1.varies=0", "stages.1.drops=0"]).scenario
    assert simulate_workflow(sure).metrics["iteration_s"] == pytest.approx(2 + 60 + 80 * 0.4 + 1)  # type: ignore[arg-type]


def test_a_bad_share_is_one_message(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["workflow", "federated-rounds", "stages.1.enough=95 %"]) == 2
    assert "10 drop out: it never ends; write `enough: 90 %` or less" in capsys.readouterr().err
