"""A training beside others: what of it runs on links."""

import pytest

from simulator import units
from simulator.run.jobs.gather import gather
from simulator.specs.jobs import Perturbation
from tests import jobs, together


@pytest.mark.parametrize("pp", [1, 2])
def test_passes_are_cut_where_what_runs_in_them_can_meet_others(pp: int) -> None:
    """Also where collectives that run between passes ask at least as much of the link: on a host bus that two jobs
    share, the sums of tensor parallelism inside passes share it with the gradients of the other."""
    first = together.trains("a", placement={"devices": [0, 1, 2, 3]}, batch=4, sequence=512, tp=2, zero=2)
    second = together.trains("b", placement={"devices": [4, 5, 6, 7]}, batch=4, sequence=512, tp=2, pp=pp)
    ran = together.run(together.scenario(first, second, on=together.host_bus()))
    assert all(sender.whole for trainer in ran.trainers.values() for sender in trainer.traffic.senders.all)
    assert together.most_together(ran) <= 1 + together.FULL


def test_chains_that_meet_their_own_job_on_different_links_stay_apart() -> None:
    """What others send is alike on the links of all chains, but on some two chains of the job meet as well."""
    five = together.trains(
        "five",
        placement={"nodes": [0, 3, 4, 6, 7]},
        batch=20,
        sequence=512,
        pp=2,
        zero=0,
        software=jobs.stack("megatron-lm-2022"),
    )
    on, later = {"nodes": [1, 2, 5]}, {"start": "3 ms"}
    three = together.trains(
        "three", placement=on, of_job=later, batch=12, sequence=512, tp=2, zero=0, software=jobs.stack("fsdp")
    )
    asked = together.scenario(five, three, on=together.cluster(8, 2, together.tree(2.0, 2, rails=True)))
    folded, unfolded = (together.run(asked, fold) for fold in ("exact", "none"))
    for name in ("five", "three"):
        one, other = (together.steps(ran.trainers[name])[0][1].makespan for ran in (folded, unfolded))
        assert one == pytest.approx(other, rel=1e-7)
    assert len(folded.trainers["five"].lowered.classes.members) < 5


def test_steps_that_noise_slows_alike_differ_by_what_others_send() -> None:
    """A straggler slows each step as much, and the other job, which begins during the first, not each: the step that is
    shown is the second."""
    straggler = {"noise": {"stragglers": {"devices": [0], "slowdown": 1.5}}}
    slowed = together.trains("slowed", placement={"nodes": [0, 2]}, tp=8, zero=0, steps=3, training=straggler)
    later = {"start": "10 ms"}
    other = together.trains("other", placement={"nodes": [1, 3]}, of_job=later, tp=8, zero=0, steps=2)
    ran = together.run(together.scenario(slowed, other))
    job, record = ran.trainers["slowed"], gather(ran).jobs[0]
    lasted = [timeline.makespan for timeline in job.steps]
    assert job.meets and lasted == sorted(set(lasted))
    assert record.result.metrics["step_time_s"] == pytest.approx(sum(lasted) / 3 / units.TICKS_PER_SECOND)
    assert max(record.result.spans.end.tolist()) == lasted[1]


@pytest.mark.parametrize("over", [1.0, 8.0], ids=["free of itself", "in its own way"])
@pytest.mark.parametrize("layout", [{"tp": 8, "zero": 0}, {"tp": 4, "pp": 2, "zero": 1}, {"zero": 3}], ids=str)
def test_on_the_site_a_step_that_nobody_disturbs_is_as_on_a_clock_of_its_own(
    over: float, layout: dict[str, int]
) -> None:
    """Links that would get slow long after its end make all that goes over them activities of the site."""
    links = ["NIC up 0", "leaf up 0"]
    late = Perturbation.model_validate({"kind": "slow-links", "links": links, "factor": 0.1, "start": "1 h"})
    job = together.trains("one", placement={"nodes": [0, 2]}, batch=32, steps=2, **layout)
    on = together.cluster(4, 8, together.tree(over))
    trainer = together.run(together.scenario(job, on=on, perturbations=(late,))).trainers["one"]
    assert trainer.meets
    assert [timeline.makespan for timeline in trainer.steps] == [trainer.own.timeline.makespan] * 2
