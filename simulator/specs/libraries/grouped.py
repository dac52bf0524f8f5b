"""For which models decoding reads keys and values once for all query heads of a group."""

from simulator.specs.base import Count, Spec


class GroupedDecode(Spec):
    """For which models an engine has decode kernels that read keys and values once for all query heads of a group."""

    groups: Count | tuple[Count, ...]
    """Query heads of a key head on a device: those that there are kernels for, or the most."""
    head_sizes: Count | tuple[Count, ...]
    """Size of a head: those that there are kernels for, or the largest."""
    source: str
    """Where the table was read."""

    def serves(self, group: float, head_size: int) -> bool:
        """Whether there is a kernel for so many query heads of a key head, of that size."""
        return _known(self.groups, group) and _known(self.head_sizes, head_size)


def _known(listed: int | tuple[int, ...], value: float) -> bool:
    return value <= listed if isinstance(listed, int) else value in listed
