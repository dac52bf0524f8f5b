"""Products with masks that bring rows to the slots of experts and back, in place of copies.

A group of g rows has c slots in all its experts together. Its rows times the mask give what lies in the slots: 2 g c
FLOPs for each element of a row, whether a slot is a row's own or not. Sources: GShard (arXiv:2006.16668, algorithm 1);
MaxText's `dense_matmul` (AI-Hypercomputer/maxtext MaxText/layers/moe.py: BSM,BSEC -> EBCM and EBCM,BSEC -> BSM);
DeepSpeed's `MOELayer` (deepspeed/moe/sharded_moe.py, sec,sm->ecm and sec,ecm->sm). Left out: what compilers fuse of
writing masks into the products that read them, and 8-bit formats of these products (MaxText's with AQT).
"""

from collections.abc import Iterator

from simulator.cost.work import Gemm
from simulator.model.ops import Masked
from simulator.training.step import Kernel


def masked(name: str, does: Masked, rows: float, dtype: str) -> Iterator[Kernel]:
    """The products of `rows` rows with their masks in a format: one forward, and backward the opposite; for rows that
    return also the gradient of the mask, whose weights are trained."""
    group, columns, width = does.group, does.columns, does.width
    batch = max(round(rows / group), 1)
    to_slots = Gemm(m=columns, n=width, k=group, batch=batch, dtype=dtype)
    to_rows = Gemm(m=group, n=width, k=columns, batch=batch, dtype=dtype)
    yield Kernel(name, to_slots if does.returns == does.backward else to_rows)
    if does.returns and does.backward:
        yield Kernel(name, Gemm(m=group, n=columns, k=width, batch=batch, dtype=dtype))
