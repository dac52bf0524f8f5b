"""Little's law for each service among several jobs: what iterations say and what requests say is one number."""

import numpy as np
import pytest

from simulator.run.jobs.serving import Server
from simulator.run.jobs.simulate import Together
from simulator.serving.replica.record import COLUMNS
from tests import together

NODES = 4
COUNT = 60


@pytest.fixture(scope="module", params=[True, False], ids=["fast-forward", "every iteration"])
def ran(request: pytest.FixtureRequest) -> Together:
    """Two services, each a replica on both sides of a spine, beside a training that is there too."""
    across = [{"nodes": [n, n + 2]} for n in (0, 1)]
    asked = {"count": COUNT, "output": 30, "leap": request.param, "parallel": {"tp": 16}}
    later = {"start": "20 ms"}
    listed = (
        together.serves("one", placement=across[0], rate="60 /s", **asked),
        together.serves("two", placement=across[1], rate="30 /s", of_job=later, **asked),
        together.trains("training", placement={"nodes": [4, 5]}, tp=8),
    )
    network = together.tree(8.0, leaf=2, nodes=6)
    return together.run(together.scenario(*listed, on=together.cluster(6, 8, network)))


def test_the_services_meet(ran: Together) -> None:
    one, two, training = ran.jobs
    assert one.meets and two.meets and not training.meets


@pytest.mark.parametrize("number", [0, 1])
def test_littles_law(ran: Together, number: int) -> None:
    """L = rate x W in the system and in the batch, from the first arrival to the last answer."""
    job = ran.jobs[number]
    assert isinstance(job, Server)
    ledger = job.run.ledger
    arrival, scheduled, finish = (np.array(getattr(ledger, name)) for name in ("arrival", "scheduled", "finish"))
    assert len(finish) == COUNT and (arrival <= scheduled).all() and (scheduled < finish).all()
    span = int(finish.max() - arrival.min())
    moments, change = np.concatenate([arrival, finish]), np.repeat([1, -1], COUNT)
    order = np.argsort(moments, kind="stable")
    in_system = int((np.cumsum(change[order])[:-1] * np.diff(moments[order])).sum())
    assert in_system / span == pytest.approx(COUNT / span * (finish - arrival).mean(), rel=1e-12)
    (replica,) = job.run.replicas
    start, iterations, first, growth, decodes, _, prompts, *_ = (
        np.frombuffer(replica.record.log, np.int64).reshape(-1, COLUMNS).T
    )
    lasts = iterations * first + growth * (iterations * (iterations - 1) // 2)
    assert ((decodes + prompts) * lasts).sum() == (finish - scheduled).sum()
    assert (start[1:] >= (start + lasts)[:-1]).all()
