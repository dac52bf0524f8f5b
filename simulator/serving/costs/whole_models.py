"""Models of one shape that take turns on the devices of a replica, each with weights of its own.

Experts that a router chooses among (Samba-CoE, arXiv:2405.07518), and fine-tuned models without adapters in one process
each (what S-LoRA, arXiv:2311.03285, is compared with). Rows of an iteration that ask for a different models pass their
linear layers one model after the other, so that for T rows it takes longer by

    a R(T / a) - R(T)        R(n): everything of a stage that depends on n rows

while attention, caches and the host are shared. Left out: models whose numbers of rows differ within an iteration.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WholeModels:
    """Weights of the layers of a stage on one device, of as many models as there are."""

    size: float
    """Bytes of one."""
    rows: Callable[[int, int], int]
    """Ticks of everything that depends on the rows of a pass, see `StageCost.rows`."""

    def bytes(self, rank: int) -> float:
        """Bytes of one on the device, whatever its rank."""
        del rank
        return self.size

    def ticks(self, rows: int, adapters: int, ranks: int) -> int:
        """Ticks by which rows of so many different models take longer than rows of one."""
        del ranks
        if adapters < 2:
            return 0
        return max(adapters * self.rows(-(-rows // adapters), 1) - self.rows(rows, 1), 0)
