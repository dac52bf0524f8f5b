"""What all blocks share: the registries of their kinds, and how rows enter and leave what an axis cuts."""

from collections.abc import Callable, Iterator

from simulator.axes import TP
from simulator.model.cut import Cut
from simulator.model.ops import COPY, Comm, Op
from simulator.registry import Registry
from simulator.specs.model import Model

WHOLE, QUERIES, KEYS = "whole", "queries", "keys"
"""Parts of an attention block: all; without keys and values, which are there already; only these, into the cache."""

Attention = Callable[[Model, Cut, int | None, str], Iterator[Op]]
Mlp = Callable[[Model, Cut], Iterator[Op]]

ATTENTIONS: Registry[Attention] = Registry("attention kind")
MLPS: Registry[Mlp] = Registry("MLP kind")


def enter(cut: Cut, name: str, width: int, matrices: int = 1) -> Iterator[Op]:
    """Before so many column-cut matrices: every device needs all rows, of each matrix where each gathers its own."""
    if cut.rows and cut.gathers_each:
        gather = Comm("all_gather", TP, width, kept=True)
        yield from (Op(f"gather {name}" + (f" {n}" if n > 1 else ""), gather) for n in range(1, matrices + 1))
    elif cut.over(TP) > 1:
        yield Op(f"gather {name}", Comm("all_gather" if cut.scattered else COPY, TP, width))


def leave(cut: Cut, name: str, width: int) -> Iterator[Op]:
    """After row-cut matrices: partial sums are reduced."""
    if cut.over(TP) > 1:
        yield Op(f"reduce {name}", Comm("reduce_scatter" if cut.scattered else "all_reduce", TP, width))
