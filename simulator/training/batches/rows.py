"""Which microbatches each chain runs where they differ, and with which other chains it shares them."""

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
    """For each chain and microbatch the classes of the chains that share it, itself included; empty where they are all
    of one. `label` (chains,) are the classes."""
    batch, found = job.batch, list[tuple[tuple[int, ...], ...]]([()] * len(chains))
    if batch is None or max(batch.together) == 1:
        return found
    sizes = np.array(batch.together)[np.array(batch.rows)]
    for group in _sharing(job, chains):
        classes = label[group]
        for rank, chain in enumerate(group.tolist()):
            found[chain] = tuple(_around(classes, rank, int(size)) for size in sizes[rank])
    return found


def _around(classes: Ints, rank: int, size: int) -> tuple[int, ...]:
    """The different classes in the group of a rank."""
    start = rank - rank % size
    several = tuple(sorted(set(classes[start : start + size].tolist())))
    return several if len(several) > 1 else ()


def apart(job: Job, chains: Ints, label: Ints) -> Ints | None:
    """Numbers that chains of a class must share to meet the same classes in every microbatch, shape (chains,); None
    where all of every class do."""
    names: dict[tuple[int, object], int] = {}
    around = met(job, chains, label)
    found = [names.setdefault((own, near), len(names)) for own, near in zip(label.tolist(), around, strict=True)]
    return np.array(found, np.int64) if len(names) > label.max(initial=0) + 1 else None
