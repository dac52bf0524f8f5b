"""What the host of a device gives it: links, cores, drives."""

from dataclasses import dataclass

from simulator.specs.hardware import Node


@dataclass(frozen=True, slots=True)
class HostRates:
    """Rates of a node beside its devices; 0 for what it has not."""

    devices: int
    """Devices of the node."""
    link: float
    """Bytes/s between a device and the host, per direction."""
    links: float
    """Bytes/s between all devices and the host, per direction."""
    update: float
    """Bytes/s that all cores read and write in an update of the optimizer, dealt evenly to the devices."""
    read: float
    """Bytes/s that all drives read."""
    write: float
    """Bytes/s that all drives write."""


def rates_of(node: Node) -> HostRates:
    """The rates of a node's profile."""
    link = 0.0 if node.accelerator.host_link is None else node.accelerator.host_link.value
    links = link * node.devices if node.host_links is None else min(node.host_links.value, link * node.devices)
    update = node.cpu.updates if node.cpu is not None else None
    read, write = (node.nvme.read.value, node.nvme.write.value) if node.nvme is not None else (0.0, 0.0)
    return HostRates(node.devices, link, links, update or 0.0, read, write)
