"""What the passes and sends of a job last on its machine, for makers of schedules.

The kernels, collectives and sends of the step are priced as the step runs them: passes that memory, launches or
exchanges bound last as long as they do there. Every collective lasts as long as for the chain that waits longest for
it, and of microbatches of different sizes the mean counts. Sends that block a device are part of the pass that they
follow; between stages of which the schedule so far keeps both on one device there are none.

Left out: what runs beside passes (parameters that are gathered and gradients that are reduced around every pass, as
under ZeRO 3, whose exposed part no pass has by itself), links that operations share, jitter.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator.cost import Device
from simulator.program.lump import lump
from simulator.program.timing import Costs
from simulator.training.batches.rows import shapes_of, sizes_of
from simulator.training.chains import StepCosts
from simulator.training.communication import Network
from simulator.training.job import Job

Floats = NDArray[np.float64]


def durations(job: Job, device: Device, network: Network) -> Costs:
    """Ticks of the passes of each chunk and of sends; what they keep is 0 here."""
    steps, shares = StepCosts(job, device, network), _shares(job)
    priced = [_of_size(steps, size) for size in range(len(steps.shapes))]
    mean = sum(share * ticks for share, (ticks, _) in zip(shares, priced, strict=True))
    count = len(job.chunks)  # those of another copy of the model are the same
    forward, backward, inputs, weights, scores, gradients = np.asarray(mean, np.float64)[:, :count]
    send = float(sum(share * sent for share, (_, sent) in zip(shares, priced, strict=True)))
    if not job.overlap_pipeline:
        blocked = send * (np.diff(job.home[:count]) != 0)
        forward[:-1] += blocked
        inputs[1:] += blocked
        backward[1:] += blocked
        send = 0.0
    none = np.zeros(count)
    costs = Costs(_whole(forward), _whole(inputs), _whole(weights), none, none, round(send), backward=_whole(backward))
    if not job.vocabulary_sums:
        return costs
    barrier = max(sum(map(network.longest, calls)) for calls in steps.together())
    return replace(costs, scores=_whole(scores), scores_gradient=_whole(gradients), barrier=barrier)


def _whole(ticks: Floats) -> NDArray[np.int64]:
    return np.rint(ticks).astype(np.int64)


def _of_size(steps: StepCosts, size: int) -> tuple[Floats, int]:
    """For microbatches of a size ticks of the passes of each chunk, shape (kinds of `ChunkPasses`, chunks), and of a
    send."""
    shape = steps.shapes[size]
    inside, sends = tuple(steps.inside(shape)), steps.sends(shape)
    asked = {*inside, *(comm for calls in sends.values() for comm, _ in calls)}
    paid = {comm: steps.network.priced[comm].ticks.max(axis=0) for comm in asked}
    _, alone = steps.of_shape(paid, inside, size)
    table = np.array([[lump(pieces).ticks for pieces in passes] for passes in alone], np.float64)
    return table.T, max((sum(int(paid[comm][place]) for comm, place in calls) for calls in sends.values()), default=0)


def _shares(job: Job) -> Floats:
    """Share of the microbatches, over all replicas, of each size."""
    rows = sizes_of(job, None) if job.batch is None else np.array(job.batch.rows, np.int64)
    counts = np.bincount(rows.reshape(-1), minlength=len(shapes_of(job)))
    found: Floats = counts / counts.sum()
    return found
