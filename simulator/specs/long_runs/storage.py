"""What checkpoints are written to: one system that all nodes of a cluster share."""

from simulator.specs.base import Bandwidth, Bytes, Figure, Rate, Seconds, Spec


class Storage(Spec):
    """A storage system beside the cluster. Whatever is left out bounds nothing."""

    bandwidth: Figure[Bandwidth]
    """What all nodes write to it together."""
    read_bandwidth: Figure[Bandwidth] | None = None
    """What all nodes read from it together; as they write where left out."""
    node_bandwidth: Figure[Bandwidth] | None = None
    """Most that one node writes or reads."""
    file_bandwidth: Figure[Bandwidth] | None = None
    """Most that one file takes or gives."""
    file_time: Figure[Seconds] | None = None
    """To make or open a file, for the device that does it; its files come one after another."""
    files_per_second: Figure[Rate] | None = None
    """Files that it makes or opens at most, all nodes together (the rate of its metadata service)."""
    capacity: Figure[Bytes] | None = None
    """What it holds."""
