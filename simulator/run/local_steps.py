"""A round of local steps of a job on its machine: what workers exchange, priced on the network between them."""

from dataclasses import dataclass

import numpy as np

from simulator import units
from simulator.axes import DP
from simulator.program.content import Comm
from simulator.run.steps import Steps
from simulator.specs.scenario import Scenario
from simulator.specs.tiers.local_steps import LocalSteps
from simulator.training import local_steps
from simulator.training.communication import Network
from simulator.training.job import Job
from simulator.training.placement import devices_of_ranks


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What local steps of a round come to."""

    steps: Steps
    """Of the round."""
    waited_s: float
    """Seconds a step in which exchanges are waited for."""
    exchange_s: float
    """Seconds of the exchange of one fragment."""
    sent: float
    """Bytes that a worker sends to others in a round."""
    own_s: float
    """Seconds of a worker's own step."""

    def metrics(self) -> dict[str, float]:
        """The figures of a run with local steps."""
        mean = self.steps.mean_s
        return {
            "exposed_outer_s": self.waited_s,
            "outer_exchange_s": self.exchange_s,
            "outer_bytes": self.sent,
            "compute_share": (mean - self.waited_s) / mean,
        }


def exchanged(job: Job, local: LocalSteps, network: Network, ticks: int) -> Exchanged:
    """A round of steps that last `ticks` by themselves."""
    assert job.workers is not None
    across, within = local_steps.groups(job, job.workers)
    size = local_steps.elements(job) * local_steps.BYTES[local.outer_format] / local.fragments
    lasts = _longest(network, Comm("all_reduce", DP.name, size, "workers"), across)
    if within.shape[1] > 1 and job.dense.shard == 1:
        whole = local_steps.whole(job) * job.element / local.fragments
        lasts += _longest(network, Comm("all_gather", DP.name, whole, "ranks of a worker"), within)
    step = ticks if local.step_time is None else units.to_ticks(local.step_time)
    found = local_steps.rounds(local, step, lasts)
    ranks = job.mesh.world // job.workers
    sent = 2 * (job.workers - 1) / job.workers * size * local.fragments * ranks
    waited = units.to_seconds(found.waited) / local.inner
    return Exchanged(Steps(found.steps), waited, units.to_seconds(lasts), sent, units.to_seconds(step))


def _longest(network: Network, comm: Comm, groups: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
    """Ticks of a collective of all groups at once."""
    return int(network.collective(comm, groups).cost.ticks.max(initial=0))


def over_sites(scenario: Scenario, job: Job) -> tuple[str, ...]:
    """A warning where workers do not lie in one site each."""
    more = scenario.cluster.network.more
    sites = getattr(more, "sites", ())
    if job.workers is None or not sites:
        return ()
    nodes = np.repeat(np.arange(len(sites)), [site.nodes for site in sites])
    place = np.repeat(nodes, scenario.cluster.node.devices)[: job.mesh.world]
    lie = devices_of_ranks(scenario)
    place = place if lie is None else place[lie]
    if all(len(np.unique(place[ranks])) == 1 for ranks in local_steps.ranks_of(job, job.workers)):
        return ()
    return (
        "workers of local steps lie over several sites, so that every step crosses the wide area: write"
        " `parallel.order: tp-cp-ep-pp-dp`, or as many `local_steps.workers` as there are sites",
    )
