"""Passes through model chunks in integer ticks: what computes, what waits for tensor parallelism, what waits for the
host.

Every kernel and collective is rounded to ticks on its own, so that a lumped pass lasts exactly as long as its layers
run one by one. A tensor-parallel collective that the stack overlaps hides behind the kernels it may run beside, as
far as these last; of the hidden part only the stack's `overlap_quality` is really free. A layer lasts at least as
long as its host needs to launch it, and as offloaded activations need to cross the host's link; where launches block,
that time comes on top.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from simulator import units
from simulator.cost import Device, Stream, price
from simulator.program.content import Call, Comm, Content, merged
from simulator.training import operators
from simulator.training.job import Job
from simulator.training.memory import Chunk, kept_of_layer
from simulator.training.operators import Collective, Step, Work

Ticks = Callable[[Comm], int]
"""Ticks of a collective of the group that this device belongs to."""


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """Passes of one layer, of the embedding and of the head."""

    forward: Content
    backward: Content
    again: Content
    """What the backward pass of a layer computes again."""
    embedding: tuple[Content, Content]
    """Forward, backward."""
    head: tuple[Content, Content]
    """Forward, backward."""


class Pricer:
    """Prices steps of one job on one device with one group's collectives."""

    def __init__(self, job: Job, device: Device, ticks: Ticks) -> None:
        self.job, self.device, self.ticks = job, device, ticks
        self.invalid: set[str] = set()
        """Names of kernels priced outside the range of their measurements."""
        self.kernel = lru_cache(maxsize=None)(self._kernel)

    def _kernel(self, work: Work) -> int:
        rate = 1.0 if isinstance(work, Stream) else self.job.stack.compute_efficiency.value
        return units.to_ticks(price(work, self.device).seconds / rate)

    def cost(self, steps: Iterable[Step]) -> Content:
        """Ticks of steps that run one after the other."""
        bound = {"compute": 0, "memory": 0, "latency": 0}
        calls: list[Call] = []
        for step in steps:
            if isinstance(step, Collective):
                comm = called(step)
                calls.append(Call(comm, 1, self._exposed(step, self.ticks(comm))))
            else:
                priced = price(step.work, self.device)
                bound[priced.bound] += self.kernel(step.work)
                if not priced.valid:
                    self.invalid.add(step.name)
        return Content(sum(bound.values()), memory=bound["memory"], latency=bound["latency"], calls=merged(calls))

    def _exposed(self, step: Collective, ticks: int) -> int:
        if not step.beside or self.job.blocking:
            return ticks
        hidden = min(ticks, sum(self.kernel(work) for work in step.beside))
        return ticks - round(hidden * self.job.stack.overlap_quality.value)

    def layer_pass(self, steps: Iterable[Step]) -> Content:
        """A pass through one layer, at least as long as the host needs to launch it and to move what is offloaded."""
        cost = self.cost(steps)
        host = units.to_ticks(max(self.job.stack.layer_overhead.value, self._moved()))
        return cost + Content(host=host if self.job.blocking else max(host - cost.total, 0))

    def _moved(self) -> float:
        """Seconds in which a layer's share of the offloaded activations crosses the host's link.

        Copies run on lanes of their own and are spread evenly over the passes of a chunk.
        """
        if not self.job.offload_layers:
            return 0.0
        return self.job.offloaded * kept_of_layer(self.job) / self.job.host_link

    def _lists(self, calls: int) -> Content:
        """Waiting for the host while it fills the lists of that many collectives over shards, one tensor a rank."""
        job, each = self.job, self.job.stack.list_overhead
        listed = calls * job.shard if job.per_pass and job.shard > 1 else 0
        return Content(host=units.to_ticks(each.value * listed) if each is not None else 0)

    def layers(self) -> LayerCosts:
        """All passes of the job's layers."""
        job = self.job
        gathers, reductions = len(operators.gathered_units(job)), len(operators.layer_units(job))
        again = Content()
        for _, steps in operators.recomputed(job, 1):
            again = self.layer_pass(steps).again() if job.recompute == "full" else self.cost(steps).again()
        if job.synchronous and job.recompute == "full":
            again += self._lists(gathers)
        return LayerCosts(
            forward=self.layer_pass(operators.layer_forward(job)) + self._lists(gathers),
            backward=self.layer_pass(operators.layer_backward(job)) + self._lists(gathers + reductions),
            again=again,
            embedding=(self.cost(operators.embedding_forward(job)), self.cost(operators.embedding_backward(job))),
            head=(self.cost(operators.head_forward(job)), self.cost(operators.head_backward(job))),
        )

    def optimizer(self, parameters: float) -> Content:
        """The optimizer on that many parameters."""
        return self.cost(operators.optimizer_step(self.job, parameters))


def called(step: Collective) -> Comm:
    """The collective of a step, run by the groups of its axis."""
    return Comm(step.operation, step.axis, step.size, step.axis)


def recomputed_layers(job: Job, chunk: Chunk) -> int:
    """Layers of a chunk whose backward pass computes something again."""
    if job.recompute == "none":
        return 0
    return job.recomputed(chunk.layers) if job.recompute == "full" else chunk.layers


def layer_backwards(job: Job, chunk: Chunk, costs: LayerCosts) -> list[Content]:
    """Backward pass of each layer of a chunk, last layer first; the last ones are recomputed where not all are."""
    again = recomputed_layers(job, chunk)
    return [costs.backward + (costs.again if i < again else Content()) for i in range(chunk.layers)]


def chunk_passes(job: Job, chunk: Chunk, costs: LayerCosts) -> tuple[list[Content], list[Content]]:
    """Forward and backward pass of a chunk in pieces: embedding with the first layer, head with the last.

    A chunk without layers is one piece.
    """
    forward = [costs.forward] * chunk.layers or [Content()]
    backward = layer_backwards(job, chunk, costs) or [Content()]
    if chunk.first:
        forward[0] += costs.embedding[0]
        backward[-1] += costs.embedding[1]
    if chunk.last:
        forward[-1] += costs.head[0]
        backward[0] += costs.head[1]
    return forward, backward
