"""What a node has beside its accelerators: cores, main memory, drives."""

from simulator.specs.base import Bandwidth, Bytes, Count, Figure, Spec

CORE = 2.8e9
"""Bytes/s that one core reads and writes in an update of Adam: 95 M elements/s of 30 bytes each, the best of
arXiv:2101.06840, Table 4 (48 cores of Xeon 8168)."""
OF_PEAK = 0.46
"""Of the memory's peak, what all cores reach in such an update: 3.9 G elements/s of 30 bytes on 2 x 6 channels of
DDR4-2666 (256 GB/s), the same table at 10 billion elements."""


class HostCpu(Spec):
    """The processors of a node, together."""

    name: str
    """Product name."""
    cores: Figure[Count]
    """Cores of all sockets."""
    memory_bandwidth: Figure[Bandwidth] | None = None
    """Peak of all channels of the main memory."""
    update: Figure[Bandwidth] | None = None
    """Bytes that all cores together read and write a second in an update of the optimizer; where left out the lesser
    of 2.8 GB/s a core and 46 % of `memory_bandwidth`, which is what 2 x Xeon 8168 reach (arXiv:2101.06840, Table 4)."""

    @property
    def updates(self) -> float | None:
        """Bytes/s of an update by all cores; None where neither it nor the memory's bandwidth is known."""
        if self.update is not None:
            return self.update.value
        if self.memory_bandwidth is None:
            return None
        return min(self.cores.value * CORE, self.memory_bandwidth.value * OF_PEAK)


class Nvme(Spec):
    """The NVMe drives of a node, together."""

    capacity: Figure[Bytes]
    """Bytes of all drives."""
    read: Figure[Bandwidth]
    """All drives together."""
    write: Figure[Bandwidth]
    """All drives together."""
