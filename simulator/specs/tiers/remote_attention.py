"""Attention where the cache is: devices beside those of the model that hold keys and values and attend to them."""

from typing import Annotated

from pydantic import Field

from simulator.specs.base import Bandwidth, Bytes, Count, PositiveFraction, Seconds, Spec
from simulator.specs.hardware import Node


class RemoteAttention(Spec):
    """Cached tokens on other devices, where decodes attend to them: queries go there, results come back."""

    node: Node
    """Nodes of these devices, such as `nodes/hgx-h20`."""
    devices: Count
    """Devices of such nodes for each replica; they divide its key heads between them."""
    share: PositiveFraction = 1.0
    """Share of the cached tokens that lies there: all (Lamina), or what a replica borrows (Infinite-LLM). The rest is
    attended to beside it."""
    memory: Annotated[Bytes, Field(gt=0)] | None = None
    """Bytes of each of these devices for the cache; as much as of a device without weights where left out."""
    bandwidth: Bandwidth | None = None
    """Bytes per second of the network card of a device on either side; as the nodes say where left out."""
    latency: Seconds | None = None
    """One way, of a message between the two; that of the cards on both sides where left out."""
