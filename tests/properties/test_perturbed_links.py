"""Links that are slow, or down, while several jobs run: none ever carries more than is left of it."""

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from simulator import units
from simulator.run.jobs.perturbations import links_of
from simulator.specs.jobs import JobsScenario, Perturbation
from tests import together
from tests.effort import simulations
from tests.properties.test_jobs import FABRICS, PLACES, trainings
from tests.together import FULL

SOONER = 0.005
"""Share of a step by which it may be shorter where a pause of some flows lets others pass that wait for more."""
LASTS = {"1 ms": 0.001, "20 ms": 0.02, "300 ms": 0.3}


@st.composite
def perturbations(draw: st.DrawFn) -> Perturbation:
    """Some of the cards of a node at a part of their bandwidth for some time."""
    card = draw(st.sampled_from([0, 8, 17, 31]))
    says = {
        "kind": "slow-links",
        "links": draw(st.sampled_from([[f"NIC up {card}"], [f"NIC {card}"], [f"NIC down {card}", "NIC up 0"]])),
        "factor": draw(st.sampled_from([0, 0.1, 0.5, 0.9])),
        "start": draw(st.sampled_from(["0 s", "2 ms", "30 ms"])),
        "lasts": draw(st.sampled_from(sorted(LASTS))),
    }
    return Perturbation.model_validate(says)


@st.composite
def disturbed(draw: st.DrawFn) -> JobsScenario:
    """Two or three jobs that train, on links of which up to three perturbations take."""
    on = draw(FABRICS.filter(lambda cluster: cluster.network is not None and cluster.network.kind == "tree"))
    listed = [draw(trainings(f"job {i}", place)) for i, place in enumerate(draw(PLACES))]
    changes = draw(st.lists(perturbations(), min_size=1, max_size=3))
    return together.scenario(*listed, on=on, perturbations=tuple(changes))


@simulations(8)
@given(asked=disturbed())
def test_no_link_carries_more_than_is_left_of_it(asked: JobsScenario) -> None:
    """What is left follows from the scenario alone: shares of all perturbations that last, multiplied."""
    ran = together.run(asked)
    over, whole = max(ran.ended.values()), ran.site.fabric.capacity / units.TICKS_PER_SECOND
    lasting: dict[int, list[tuple[int, int, float]]] = {}
    for one in asked.perturbations:
        begin = units.to_ticks(one.start)
        end = min(begin + units.to_ticks(one.lasts or 0.0), over)
        for link in links_of(ran.site, one.links, "") if end > begin else ():
            lasting.setdefault(link, []).append((begin, end, one.factor or 0.0))
    for link, all_of_it in enumerate(whole.tolist()):
        for span in ran.load.of(link):
            shares = [share for begin, end, share in lasting.get(link, ()) if begin <= span.start < end]
            assert span.load <= all_of_it * prod(shares) * (1 + FULL)
    for job in ran.trainers.values():
        once = min(timeline.makespan for _, timeline in together.steps(job))
        assert once >= min(job.own.steps.ticks.tolist()) * (1 - SOONER)
