"""Links that get slow while jobs run, and what is said of those that cannot."""

from pathlib import Path

import pytest

from simulator.run.jobs.simulate import simulate_jobs
from simulator.specs.jobs import Perturbation
from tests import together
from tests.unit.run.jobs.test_placing import SPINE, refused

LINE = SPINE.count("\n") + 2

REFUSED = {
    "{kind: slow-link, links: [NIC 3], factor: 0.5}": (
        f":{LINE}:12: perturbations.0.kind: `slow-link` is not accepted; did you mean `slow-links`?"
    ),
    "{kind: slow-links, links: [NIC 99], factor: 0.5}": (
        f":{LINE}: perturbations.0.links.0: the cluster has no link `NIC 99`; the last of each kind: "
        "`node 7: switch > 7`, `NIC up 63`, `NIC down 63`, `leaf up 15`, `leaf down 15`, `spine up 0`, `spine down 0`"
    ),
    "{kind: slow-links, links: [NIC 3], factor: 0}": (
        f":{LINE}:5: perturbations.0: links that are down for ever end no run: write how long it `lasts`"
    ),
    "{kind: slow-links, links: [NIC 3], factor: 1.5}": (
        f":{LINE}:48: perturbations.0.factor: `1.5` is out of range; write 1 or less"
    ),
    "{kind: flapping-links, up: 1 s, down: 1 s}": (
        f":{LINE}:5: perturbations.0: a perturbation of kind 'flapping-links' needs `links`"
    ),
    "{kind: flapping-links, links: [NIC 3], down: 1 s}": (
        f":{LINE}:5: perturbations.0.up: `up` is missing; write `up: ...`"
    ),
    "{kind: flapping-links, links: [NIC 3], up: 1 s, down: 1 us}": (
        f":{LINE}:59: perturbations.0.down: links that flap are up and down for 100 us or longer at a time"
    ),
    "{kind: slow-links, links: [NIC 3], factor: 0.5, up: 1 s}": (
        f":{LINE}:5: perturbations.0: `up` is no key of kind `slow-links`"
    ),
    "{kind: slow-links, links: [NIC 3]}": (
        f":{LINE}:5: perturbations.0: a perturbation of kind 'slow-links' needs `links` and `factor`"
    ),
}


@pytest.mark.parametrize("perturbation", REFUSED)
def test_what_cannot_be_disturbed(perturbation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{SPINE}perturbations:\n  - {perturbation}\n"
    assert refused(text, tmp_path, capsys) == [REFUSED[perturbation]]


def longer(**changes: object) -> float:
    """Milliseconds by which a step of a training is longer of which the uplink of a leaf is slow."""
    slow = Perturbation.model_validate({"kind": "slow-links", "links": ["leaf up 0"], "factor": 0.5} | changes)
    one = together.trains("one", placement={"nodes": [0, 2]}, tp=8, zero=0)
    (record,) = simulate_jobs(together.scenario(one, on=together.cluster(), perturbations=[slow])).jobs
    return (record.result.metrics["step_time_s"] - record.alone["step_time_s"]) * 1e3


def test_a_slow_link_slows_who_sends_over_it() -> None:
    """Gradients take 7.84 ms of it from 28.6 ms on."""
    assert longer(factor=1.0) == longer(lasts="10 ms") == 0
    assert longer() == pytest.approx(longer(links=["leaf down 0"])) == pytest.approx(7.844, abs=1e-3)
    assert longer(start="30 ms", lasts="2 ms") == pytest.approx(1.0)
    assert longer(start="30 ms", lasts="2 ms", factor=0.1) == pytest.approx(1.8)
    assert longer(start="30 ms", lasts="2 ms", factor=0) == pytest.approx(2.0)
    assert longer(start="30 ms", lasts="2 ms", links=["leaf up 0", "leaf down 1"], factor=0) == pytest.approx(2.0)
