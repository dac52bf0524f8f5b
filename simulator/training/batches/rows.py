"""Which microbatches each chain runs where they differ, and with which other chains it shares them."""

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from simulator.axes import DP
from simulator.training.job import Job

Ints = NDArray[np.int64]


def shapes_of(job: Job) -> list[Job]:
    """The job as its microbatches of each size see it, or each slice of a microbatch."""
    if job.slices > 1:
        return list(job.parts)
    return [job] if job.batch is None else [job.shaped(shape) for shape in job.batch.shapes]


def _different(job: Job) -> list[tuple[int, ...]]:
    """Rows of microbatches that differ."""
    return [] if job.batch is None else list(dict.fromkeys(job.batch.rows))


def own_rows(job: Job, chains: Ints) -> Ints | None:
    """Number of the row of microbatches that each of some chains (chains, pp) runs, the same for the same sizes in the
    same order, shape (chains,); None where all microbatches are alike."""
    if job.batch is None:
        return None
    number = {row: place for place, row in enumerate(_different(job))}
    replica = np.empty(job.mesh.world, np.int64)
    for row, ranks in zip(job.batch.rows, job.mesh.grid(DP.name).reshape(-1, job.dp).T, strict=True):
        replica[ranks] = number[row]
    found: Ints = replica[chains[:, 0]]
    return found


def sizes_of(job: Job, row: int | None) -> Ints:
    """Number of the size of each microbatch of one of the different rows; shape (microbatches,)."""
    if row is None and job.slices > 1:
        return np.arange(job.schedule.microbatches) % job.slices
    if row is None:
        return np.zeros(job.schedule.microbatches, np.int64)
    return np.array(_different(job)[row], np.int64)


def _sharing(job: Job, chains: Ints) -> Ints:
    """Chains in the order of their data-parallel ranks, those of the same other coordinates together; (others, dp)."""
    number = np.full(job.mesh.world, -1, np.int64)
    number[chains[:, 0]] = np.arange(len(chains))
    grid = number[job.mesh.grid(DP.name).reshape(-1, job.dp)]
    return grid[(grid >= 0).all(axis=1)]


def met(job: Job, chains: Ints, label: Ints) -> list[tuple[tuple[int, ...], ...]]:
    """For each chain and microbatch the classes of the chains that it begins the microbatch with: those that share it
    and those that every layer is cut over, itself included; empty where they are all of one. `label` (chains,) are the
    classes.
    """
    cut, batch = _cut_with(job, chains, label), job.batch
    if batch is None or max(batch.together) == 1:
        return [(classes,) * job.schedule.microbatches if classes else () for classes in cut]
    found: list[tuple[tuple[int, ...], ...]] = [()] * len(chains)
    sizes = np.array(batch.together)[np.array(batch.rows)]
    for group in _sharing(job, chains):
        classes = [cut[one] or (int(label[one]),) for one in group.tolist()]
        for rank, one in enumerate(group.tolist()):
            found[one] = tuple(_around(classes, rank, int(size)) for size in sizes[rank])
    return found


def _around(classes: list[tuple[int, ...]], rank: int, size: int) -> tuple[int, ...]:
    """The different classes in the group of a rank."""
    start = rank - rank % size
    several = tuple(sorted(set(chain.from_iterable(classes[start : start + size]))))
    return several if len(several) > 1 else ()


def _cut_with(job: Job, chains: Ints, label: Ints) -> list[tuple[int, ...]]:
    """For each chain the different classes of those that it meets in every layer; empty where there is one."""
    if not label.any():
        return [()] * len(chains)
    number = np.empty(job.mesh.world, np.int64)
    number[chains] = np.arange(len(chains))[:, None]
    joined = _joined([number[groups] for groups in job.meeting().values()], len(chains))
    pairs = np.unique(np.stack([joined, label]), axis=1)
    groups, first, count = np.unique(pairs[0], return_index=True, return_counts=True)
    several = zip(groups.tolist(), first.tolist(), count.tolist(), strict=True)
    found = {group: tuple(pairs[1, start : start + n].tolist()) for group, start, n in several if n > 1}
    return [found.get(group, ()) for group in joined.tolist()]


def _joined(partitions: list[Ints], count: int) -> Ints:
    """The least of those that each of `count` chains is joined with by groups of any partition, (groups, members)."""
    least = np.arange(count)
    while True:
        before = least.copy()
        for groups in partitions:
            smallest = least[groups].min(axis=1)
            np.minimum.at(least, groups, smallest[:, None])
        if np.array_equal(before, least):
            return least


def apart(job: Job, chains: Ints, label: Ints) -> Ints | None:
    """Numbers that chains of a class must share to meet the same classes in every microbatch, shape (chains,); None
    where all of every class do."""
    names: dict[tuple[int, object], int] = {}
    around = met(job, chains, label)
    found = [names.setdefault((own, near), len(names)) for own, near in zip(label.tolist(), around, strict=True)]
    return np.array(found, np.int64) if len(names) > label.max(initial=0) + 1 else None
