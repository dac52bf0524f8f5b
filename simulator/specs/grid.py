"""A power grid: what a kilowatt hour of it emits."""

from typing import ClassVar

from simulator.specs.base import CarbonRate, Figure, Spec


class Grid(Spec):
    """A power grid."""

    folder: ClassVar[str] = "hardware_profiles/grids"

    name: str
    """Country or region, and the year where that matters."""
    carbon: Figure[CarbonRate]
    """Carbon dioxide equivalent of the energy."""
    notes: str = ""
    """What a reader should know."""
