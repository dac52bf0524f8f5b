"""Products with their gather or scatter in steps: parts of the one travel while other parts of the other are worked on.

With `overlap_tensor: steps` (torchtitan's asynchronous tensor parallelism, Transformer Engine's ring exchange, Flux,
arXiv:2406.06858) a product that rows are gathered for is worked on part by part, its own rows first, as those of the
other ranks arrive; a product whose results are scattered sends the parts of other ranks as they are done, its own last.
Each of the t parts is a kernel of its own, of 1/t of the rows, and t - 1 parts travel one after the other.

With `tracked` (T3, arXiv:2401.16677) the product stays one kernel: its tiles trigger the scatter, which is reduced near
the memory and takes no multiprocessors; gathers stay before their products. What the bytes of the scatter take of the
memory's bandwidth is left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil

from simulator.cost.work import Gemm
from simulator.model.backward import GATHER, SCATTER
from simulator.specs.training import UserBuffers
from simulator.training.step import Chunks, Collective, Kernel, Single, Step

STEPS, TRACKED = "steps", "tracked"
"""Kinds of `overlap_tensor` of products in steps."""


def stepped(how: str, ranks: int, steps: Iterable[Single]) -> Iterator[Step]:
    """Steps with products and the collectives beside them in parts; gradients of weights keep theirs beside them."""
    for step in steps:
        if isinstance(step, Kernel) and step.beside and not step.weight_gradient and isinstance(step.work, Gemm):
            yield _in_parts(how, ranks, step, step.work, *step.beside)
        else:
            yield step


def _in_parts(how: str, ranks: int, kernel: Kernel, work: Gemm, collective: Collective) -> Chunks:
    part, whole = _part(how, ranks, kernel, work), collective.operation
    passed = collective._replace(
        operation="shift", size=collective.size / ranks, near_memory=how == TRACKED, name=f"{collective.name} in steps"
    )
    own = (part._replace(launches=kernel.launches),)
    if whole == GATHER:
        return Chunks(ranks - 1, (passed, part), meanwhile=own)
    if whole == SCATTER:
        return Chunks(ranks - 1, (part, passed), afterwards=own)
    raise ValueError(f"{collective.name}: {whole} has no steps")


def pipelined(buffers: UserBuffers | None, steps: Iterable[Single]) -> Iterator[Step]:
    """Steps with products whose results are scattered over buffers of the stack in parts: each is sent beside the next
    ones, the last one after the product."""
    for step in steps:
        parts = buffers.parts.value if buffers and buffers.parts else 1
        if (
            parts > 1
            and isinstance(step, Kernel)
            and [one.operation for one in step.beside] == [SCATTER]
            and not step.beside[0].bulk
        ):
            (scatter,) = step.beside
            part = step._replace(beside=(), share=step.share / parts, launches=0)
            sent = scatter._replace(size=scatter.size / parts, name=f"{scatter.name} in parts")
            yield Chunks(parts - 1, (part, sent), afterwards=(part._replace(launches=step.launches),))
            yield sent
        else:
            yield step


def _part(how: str, ranks: int, kernel: Kernel, work: Gemm) -> Kernel:
    """One of the parts of a product: a kernel of its own, or a share of the whole, which is launched once."""
    if how == TRACKED:
        return kernel._replace(beside=(), share=1.0 / ranks, launches=0)
    return kernel._replace(beside=(), work=replace(work, m=ceil(work.m / ranks)))
