"""Who multiplies matrices in frameworks whose own kernels do a part of it."""

from pydantic import Field

from simulator.specs.base import Count, Spec


class LibraryProducts(Spec):
    """Products of many rows by the library of a device's vendor, in a framework whose own kernels do the others."""

    vendors: tuple[str, ...] = Field(min_length=1)
    """Vendors with such a library; elsewhere all products are the framework's."""
    from_rows: Count
    """Rows of a product from which on it is the library's."""
    widens: bool = False
    """Whether narrower weights are written to memory in 16 bits before each of these products; if not, kernels of the
    framework's own read them as they are."""
    queue: Count | None = None
    """Launches that a device's queue holds, after which the one thread that launches on all devices waits; None where
    it never does."""
    ahead: Count = 4
    """Pieces of a prompt that are on their way over the devices at most."""
