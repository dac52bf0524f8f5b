"""Switches, optics and cards that a network is bought of."""

from typing import ClassVar

from simulator.specs.base import Bandwidth, Count, Figure, Money, Spec, Watts


class SwitchPart(Spec):
    """A switch as it is sold."""

    name: str
    """Product name."""
    ports: Count
    """How many it has."""
    port: Figure[Bandwidth]
    """Of a port, per direction."""
    power: Figure[Watts]
    """Typical, without optics."""
    price: Figure[Money]
    """Of one."""


class OpticsPart(Spec):
    """A transceiver, one at each end of a link, and its share of the fibre."""

    bandwidth: Figure[Bandwidth]
    """Of one, per direction."""
    power: Figure[Watts]
    """Of one."""
    price: Figure[Money]
    """Of one with half of the fibre."""


class CardPart(Spec):
    """A network card."""

    power: Figure[Watts]
    """Of one."""
    price: Figure[Money]
    """Of one."""


class NetworkParts(Spec):
    """What counts of a network are priced by; a parameter more than a fact."""

    folder: ClassVar[str] = "hardware_profiles/networks"

    name: str
    """Generation of products."""
    switch: SwitchPart
    """What its switches are made of."""
    optics: OpticsPart
    """What its cables end in."""
    card: CardPart
    """What nodes are plugged in by."""
    notes: str = ""
    """What a reader should know."""
