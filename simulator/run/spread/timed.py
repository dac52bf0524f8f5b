"""How near published collectives, exchanges with experts and kernels are to each other, for how far each may be off.

They stand where runs do (`near`): the library is the software, the operation the model, the band of sizes (of exchanges
and kernels the dtype) the format, one node or several the network. All other devices are equally far: makers differ in
their libraries.
"""

from simulator.results.spread import Spread
from simulator.run.extent import Extent
from simulator.run.ground import Conditions
from simulator.run.spread.near import Like
from simulator.run.spread.residuals import spread_of_row

TIME = "time"
"""What the spread of such a row is about."""
SMALL, LARGE = 1 << 16, 1 << 24
"""Bytes up to which latency, and from which on bandwidth decides the time of a collective."""


def like_timed(
    kind: str, device: str, library: str, operation: str, form: str, devices: int, nodes: int | None
) -> Like:
    """What a row is; `form` is its band of sizes, or its dtype, and `nodes` None where one device works alone."""
    network = "" if nodes is None else "one node" if nodes == 1 else "several nodes"
    known = Conditions(kind, device, library.replace("-", " "), form, operation, network)
    return Like(known, Extent(devices, ()), "", 0)


def band(size_bytes: float | None) -> str:
    """What decides the time of a message of a size."""
    if size_bytes is None or size_bytes >= LARGE:
        return "large"
    return "small" if size_bytes <= SMALL else "middle"


def spread_of_time(own: Like, source: str) -> Spread | None:
    """The spread of the time of a published row, from rows of all sources but its own."""
    return spread_of_row(own, TIME, source)
