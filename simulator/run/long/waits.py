"""What a run waits for between its steps: samples that are not there yet, and evaluations.

Samples of later steps are read and prepared beside the present one, and a step begins when its own are there. Whatever
number of steps is read ahead, steps then follow each other at the longer of what a step and what its samples take.
Evaluations stop the run after every so many steps; a step bears its share of one. Left out: the first step's samples,
which nothing hides, what reading costs the processors that launch kernels, and storage that writes a checkpoint at the
same time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simulator import units
from simulator.run.long.checkpoint import stored
from simulator.specs.hardware import Cluster
from simulator.specs.long_runs.run import Evaluation, Samples

DATA, EVALUATION = "data", "evaluation"
"""Parts of the time of a run."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds by which steps are further apart than they last."""

    samples: Callable[[int], float]
    """Of reading those of a step on so many nodes."""
    evaluation: float
    """Share of one that a step bears."""

    def period(self, step_s: float, nodes: int) -> float:
        """From the beginning of a step to that of the next one."""
        return max(step_s, self.samples(nodes)) + self.evaluation

    def parts(self, step_s: float, nodes: int) -> Mapping[str, float]:
        """Shares of that time which are no training."""
        period = self.period(step_s, nodes)
        found = {DATA: max(self.samples(nodes) - step_s, 0.0), EVALUATION: self.evaluation}
        return {name: seconds / period for name, seconds in found.items() if seconds > 0}


def waits_of(cluster: Cluster, sequences: int, data: Samples | None, evaluation: Evaluation | None) -> Waits:
    """What steps of so many sequences wait for on a cluster."""
    share = evaluation.takes / evaluation.every if evaluation is not None else 0.0
    if data is None:
        return Waits(lambda nodes: 0.0, share)
    storage, size, prepared = stored(cluster), data.bytes * sequences, data.rate

    def samples(nodes: int) -> float:
        each = [rate for rate in (prepared, storage.node_bandwidth and storage.node_bandwidth.value) if rate]
        return size / min([storage.bandwidth.value, *(rate * nodes for rate in each)])

    return Waits(samples, share)


def sentence(found: Waits, nodes: int) -> str:
    """That steps wait for samples, in words."""
    reading = units.format(found.samples(nodes), "time")
    return f"steps wait for samples: those of one take {reading} (`cluster.storage`, `training.run.data.rate`)"
