"""Perturbations: links that get slow or go down for a while, by hand, for jobs that train and jobs that serve."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from simulator import units
from simulator.errors import InputError
from simulator.program.codes import MEETING
from simulator.results import Result
from simulator.run.dispatch import simulate
from simulator.run.jobs.perturbations import Disturbance
from simulator.run.jobs.placing import place
from simulator.run.jobs.simulate import Together, simulate_jobs
from simulator.run.site import Site
from simulator.specs import load_spec
from simulator.specs.jobs import JobsScenario, Perturbation
from simulator.specs.serving import ServingStack
from tests import jobs, together

TRAINING = {
    "global_batch": 4,
    "micro_batch": 1,
    "sequence_length": 1024,
    "parallel": {"dp": 2},
    "overlap_gradients": False,
}
"""Two devices, each in a node of its own: both compute, then all their gradients go over the network."""


def trains(name: str = "trains", **changes: Any) -> dict[str, Any]:
    """A job that trains on two nodes."""
    keys = {"placement", "start"} & changes.keys()
    training = TRAINING | {key: changes[key] for key in changes.keys() - keys}
    own = {key: changes[key] for key in keys}
    return {"name": name, "model": jobs.model(), "stack": jobs.stack(), "training": training, **own}


def serves(count: int = 1, leap: bool = True, **changes: Any) -> dict[str, Any]:
    """A job that serves from one replica on two nodes, so that each layer's sums go over the network."""
    lengths = {"prompt": {"fixed": 200}, "output": {"fixed": 64}}
    requests = {"arrivals": {"poisson": "20 /s"}, "lengths": lengths, "count": count}
    stack = load_spec(ServingStack, "vllm")
    own = {"serving": {"parallel": {"tp": 2}}, "requests": requests, "leap": leap}
    return {"name": "serves", "model": jobs.model(), "stack": stack, **own, **changes}


def slow(factor: float, start: float = 0.0, lasts: float | None = None, *links: str) -> dict[str, Any]:
    """Slow links, of the first node unless named, with times in seconds."""
    own = {} if lasts is None else {"lasts": f"{lasts!r} s"}
    return {"kind": "slow-links", "links": links or ("NIC 0",), "factor": factor, "start": f"{start!r} s", **own}


def scenario(*several: dict[str, Any], slowed: tuple[dict[str, Any], ...] = (), nodes: int = 3) -> JobsScenario:
    """Nodes of one device."""
    known = {"version": 1, "name": "test", "cluster": jobs.cluster(nodes, devices=1)}
    return JobsScenario.model_validate({**known, "jobs": several, "perturbations": slowed})


def run(*several: dict[str, Any], slowed: tuple[dict[str, Any], ...] = (), nodes: int = 3) -> Result:
    """Simulated."""
    return simulate(scenario(*several, slowed=slowed, nodes=nodes))


def reduction() -> tuple[float, float, float]:
    """(when gradients begin to move, when they have arrived, length of the step) of the job that trains, in seconds."""
    together = Together(drawn := scenario(trains()), place(drawn))
    together.run(None)
    (trainer,) = together.trainers.values()
    moving = max(sender.moving for sender in trainer.traffic.senders.all)
    spans = trainer.result().spans
    last = int(spans.end[spans.name == spans.names.index("reduce gradients")].max())
    return (last - moving) / 1e12, last / 1e12, trainer.own.steps.total / 1e12


@pytest.fixture(scope="module")
def alone() -> tuple[float, float, float]:
    """Moments of the step alone."""
    return reduction()


def test_a_link_at_half_its_bandwidth_delays_by_half_of_that_time(alone: tuple[float, float, float]) -> None:
    begin, end, step = alone
    lasts = (end - begin) / 2
    found = run(trains(), slowed=(slow(0.5, begin + lasts / 4, lasts),))
    assert found.metrics["makespan_s"] - step == pytest.approx(lasts / 2, abs=1e-10)
    assert found.jobs[0].slowdown == pytest.approx(1 + lasts / 2 / step, rel=1e-9)


@pytest.mark.parametrize(("factor", "longer"), [(0.5, 2), (0.25, 4), (0.1, 10)])
def test_a_link_that_is_slow_all_along_delays_what_moves_over_it(
    alone: tuple[float, float, float], factor: float, longer: float
) -> None:
    begin, end, step = alone
    found = run(trains(), slowed=(slow(factor),))
    assert found.metrics["makespan_s"] - step == pytest.approx((longer - 1) * (end - begin), rel=1e-6)


def test_a_link_that_is_down_delays_by_all_of_that_time(alone: tuple[float, float, float]) -> None:
    """And by what is left of it where gradients come later."""
    begin, end, step = alone
    middle = (begin + end) / 2
    down = run(trains(), slowed=(slow(0, middle, 2.0),))
    assert down.metrics["makespan_s"] - step == pytest.approx(2.0, abs=1e-10)
    before = run(trains(), slowed=(slow(0, begin / 2, begin),))
    assert before.metrics["makespan_s"] - step == pytest.approx(begin / 2, abs=1e-10)


def flapping(up: float, down: float, start: float = 0.0, **more: Any) -> dict[str, Any]:
    """Cards of the first node that are down, then up, with times in seconds."""
    times = {"up": f"{up!r} s", "down": f"{down!r} s", "start": f"{start!r} s"}
    return {"kind": "flapping-links", "links": ("NIC 0",), **times, **more}


def test_links_that_flap_delay_by_each_time_in_which_they_are_down(alone: tuple[float, float, float]) -> None:
    """What moves needs so many times in which they are up, and waits for the one before each."""
    begin, end, step = alone
    moves = end - begin
    up, down = moves / 2.5, moves / 3
    found = run(trains(), slowed=(flapping(up, down, begin),))
    assert found.metrics["makespan_s"] - step == pytest.approx(3 * down, abs=1e-9)
    # At a quarter while down, a period moves what takes up + down / 4 alone: all of two, and then part of a third.
    left = moves - 2 * (up + down / 4)
    last = down + left - down / 4 if left > down / 4 else 4 * left
    found = run(trains(), slowed=(flapping(up, down, begin, factor=0.25),))
    assert found.metrics["makespan_s"] - step == pytest.approx(2 * (up + down) + last - moves, rel=1e-6)
    over = run(trains(), slowed=(flapping(up, down, begin, lasts=f"{down + up / 2!r} s"),))
    assert over.metrics["makespan_s"] - step == pytest.approx(down, abs=1e-9)  # up since, and whole from then on


def test_links_that_flap_by_the_seed_do_so_again_with_it(alone: tuple[float, float, float]) -> None:
    begin, end, step = alone
    moves = end - begin
    asked = scenario(trains(), slowed=(flapping(moves / 8, moves / 8, begin, times="random"),))
    first, second, other = (
        simulate(asked.model_copy(update={"seed": seed})).metrics["makespan_s"] for seed in (0, 0, 1)
    )
    assert first == second != other
    assert min(first, other) > step
    both = flapping(moves / 8, moves / 8, begin, times="random", links=("NIC up 0", "NIC down 0"))
    assert run(trains(), slowed=(both,)).metrics["makespan_s"] != first  # each name has times of its own


def test_what_several_perturbations_leave_of_a_link_multiplies(alone: tuple[float, float, float]) -> None:
    """And the end of one leaves what the other takes."""
    begin, end, step = alone
    both = run(trains(), slowed=(slow(0.5), slow(0.5, 0.0, end - begin + begin)))
    # Until `end` a quarter of what has to move did; the rest moves at half.
    assert both.metrics["makespan_s"] - step == pytest.approx(0.75 * (end - begin) * 2, rel=1e-6)
    alike = run(trains(), slowed=(slow(0.5), slow(0.5)))
    assert alike.metrics["makespan_s"] == run(trains(), slowed=(slow(0.25),)).metrics["makespan_s"]


def test_a_share_of_a_link_comes_back_as_it_was() -> None:
    site = Site(jobs.cluster(2, devices=1), 0)
    (link,) = site.fabric.find("NIC up 0")
    whole = site.clock.fluid.capacity[link]
    assert whole == site.fabric.capacity[link] / 1e12
    for by, share in (("a", 0.3), ("b", 0.7), ("a", 1.0), ("b", 1.0)):
        site.leave(by, link, share)
    assert site.clock.fluid.capacity[link] == whole


@pytest.mark.parametrize("links", [("NIC 2",), ("NIC up 2", "NIC down 2")])
def test_links_that_nobody_uses_change_nothing(links: tuple[str, ...]) -> None:
    for job in (trains(), serves(3)):
        usual, slowed = run(job), run(job, slowed=(slow(0.1, 0.0, None, *links),))
        assert slowed.jobs[0].slowdown == 1
        assert slowed.metrics == usual.metrics


def test_ranks_that_every_layer_is_cut_over_begin_together_though_only_one_of_them_is_held_up() -> None:
    asked = together.scenario(
        together.trains(batch=32, sequence=512, steps=2, placement={"nodes": [0, 2]}, tp=2, zero=2),
        perturbations=(Perturbation(kind="slow-links", links=("NIC up 0",), factor=0.0, start="8 ms", lasts="1 ms"),),
    )
    ran = together.run(asked)
    trainer = ran.trainers["one"]
    program, columns = trainer.lowered.program, trainer.lowered.program.columns
    assert len(trainer.lowered.classes.members) == 2
    begins = np.flatnonzero(columns.kind == MEETING)
    for timeline in trainer.steps:
        each = timeline.start[begins].reshape(2, -1)
        assert len(each.T) == 2 * trainer.prepared.job.microbatches
        np.testing.assert_array_equal(*each)
    reductions = np.flatnonzero(program.on(np.arange(len(program.tape)), "data"))
    held_up = [np.ptp(timeline.end[reductions].reshape(2, -1), axis=0).max() for timeline in trainer.steps]
    assert max(held_up) >= units.to_ticks(0.0009)


@pytest.mark.parametrize("start", [100.0, 1e7])
@pytest.mark.parametrize("lasts", [1.0, 1e8, None])
def test_what_comes_after_the_end_changes_nothing(start: float, lasts: float | None) -> None:
    """To the tick, though jobs that could meet it run on links; later than the clock counts, too."""
    for job in (trains(steps=3), serves(3)):
        usual, late = run(job), run(job, slowed=(slow(0.1, start, lasts),))
        assert late.metrics == usual.metrics


def test_links_that_are_slow_for_ever_are_whole_again_when_all_is_done() -> None:
    together = Together(drawn := scenario(trains(), slowed=(slow(0.5),)), place(drawn))
    together.run(None)
    assert not together.disturbances[0].on
    for link in together.site.fabric.find("NIC 0"):
        assert together.site.clock.fluid.capacity[link] == together.site.fabric.capacity[link] / 1e12


def test_only_those_on_the_link_are_slowed() -> None:
    """Two jobs with links of their own: one is slowed, the other as alone to the tick."""
    several = trains("a", placement={"nodes": [0, 1]}), trains("b", placement={"nodes": [2, 3]})
    slowed, usual = run(*several, slowed=(slow(0.5),), nodes=4).jobs
    assert slowed.slowdown > 1.01 and usual.slowdown == 1
    assert slowed.alone["step_time_s"] == usual.alone["step_time_s"]


def test_later_steps_are_as_alone_again(alone: tuple[float, float, float]) -> None:
    begin, end, step = alone
    found = simulate_jobs(scenario(trains(steps=4), slowed=(slow(0.5, step, step),)))
    times = found.jobs[0].result.step_times / 1e12
    assert times[1] > times[0] == pytest.approx(step, abs=1e-10)
    assert times[1] - step == pytest.approx(end - begin, rel=0.5)
    assert times[3] == pytest.approx(step, abs=1e-10)


class Modest(Disturbance):
    """Says that it takes a tenth of its links."""

    @property
    def takes(self) -> Mapping[int, float]:
        return {link: 0.1 * self.whole(link) for link in self.links}

    def begin(self) -> None:
        for link in self.links:
            self.leave(link, 0.95)


@pytest.fixture
def modest() -> Modest:
    """On, since the beginning."""
    site = Site(jobs.cluster(2, devices=1), 0)
    made = Modest(site, Perturbation.model_validate(slow(0.5, 0.0, 3.0, "NIC up 0")), "perturbations.0")
    made.schedule()
    return made


def test_what_takes_more_than_it_said_is_an_error(modest: Modest) -> None:
    (link,) = modest.links
    modest.site.run(None)
    modest.on = True
    modest.leave(link, 0.9)
    modest.leave(link, 0.95)
    modest.send(link, 1e9, 0.04 * modest.whole(link), lambda: None)
    with pytest.raises(ValueError, match=r"takes 22.0 GB/s of NIC up 0, and said 20.0 GB/s at most"):
        modest.send(link, 1e9, 0.02 * modest.whole(link), lambda: None)


def test_what_it_would_do_later_it_does_only_while_it_is_on(modest: Modest) -> None:
    (link,) = modest.links
    heard: list[str] = []
    modest.site.clock.at(1, lambda _: modest.after(2.9, lambda: heard.append("within")))
    modest.site.clock.at(1, lambda _: modest.after(3.1, lambda: heard.append("after")))
    modest.site.clock.at(1, lambda _: modest.send(link, 1e9, 1e9, lambda: modest.leave(link, 0.92)))
    modest.site.clock.at(1, lambda _: modest.send(link, 4e9, 1e9, lambda: modest.leave(link, 0.95)))
    modest.site.run(None)
    assert heard == ["within"] and not modest.on
    assert modest.site.clock.fluid.capacity[link] == modest.whole(link) / 1e12
    modest.send(link, 1e9, 1e9, lambda: heard.append("sent"))
    modest.site.run(None)
    assert heard == ["within"]


# ---- jobs that serve ---------------------------------------------------------------------------------------------


def last(result: Result) -> float:
    """When the last request was done, in seconds."""
    return result.jobs[0].end_s


@pytest.mark.parametrize("leap", [True, False])
def test_a_service_waits_for_a_link_that_is_down(leap: bool) -> None:
    """All that is longer down is longer waited."""
    whole = last(run(serves(leap=leap)))
    for lasts in (0.5, 3.0):
        found = run(serves(leap=leap), slowed=(slow(0, whole / 2, lasts),))
        assert last(found) - whole == pytest.approx(lasts, abs=whole / 64)
    more = [last(run(serves(leap=leap), slowed=(slow(0, whole / 2, lasts),))) for lasts in (0.5, 3.0)]
    assert more[1] - more[0] == pytest.approx(2.5, abs=1e-10)


@pytest.mark.parametrize(
    "slowed", [slow(0.01), slow(0.01, 0.02, 0.05), slow(0, 0.1, 0.2), slow(0.5, 1e3, 1.0)], ids=str
)
def test_fast_forward_equals_no_fast_forward_beside_perturbations(slowed: dict[str, Any]) -> None:
    fast, every = (run(serves(8, leap), slowed=(slowed,)) for leap in (True, False))
    assert fast.metrics == pytest.approx(every.metrics, rel=1e-8)
    moments = [result.jobs[0].result.service.requests for result in (fast, every)]
    for name in ("first_token", "finish"):
        assert np.array_equal(*(getattr(requests, name) for requests in moments))


def test_fast_forward_goes_on_where_links_are_whole() -> None:
    """A perturbation in the middle costs the events of that time, not of all."""
    events = {
        name: run(serves(count=1), slowed=slowed).provenance["events"]
        for name, slowed in (("none", ()), ("late", (slow(0.5, 1e3, 1.0),)), ("all", (slow(0.5),)))
    }
    assert events["none"] <= events["late"] < events["none"] + 20
    assert events["late"] < events["all"] / 2


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slowed", "message"),
    [
        (slow(0.5, 0.0, None, "NIC 3"), r"perturbations.0.links.0: the cluster has no link `NIC 3`.*`NIC down 2`"),
        (slow(0.5, 0.0, None, "NIC 1", "spine 0"), r"perturbations.0.links.1: the cluster has no link `spine 0`"),
    ],
)
def test_links_that_are_not_there_are_named(slowed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"(?s){message}"):
        run(trains(), slowed=(slowed,))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"factor": 0}, "links that are down for ever end no run"),
        ({"links": ()}, "needs `links` and `factor`"),
        ({"factor": None}, "needs `links` and `factor`"),
    ],
)
def test_perturbations_without_an_end_or_a_place_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scenario(trains(), slowed=({**slow(0.5), **keys},))
