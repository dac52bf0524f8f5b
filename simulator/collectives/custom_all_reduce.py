"""All-reduces by kernels of a serving engine: every device reads what it needs from the memory of its neighbours.

One shot reads the whole message of all n - 1 others; two shots sum a piece of 1 / n each and gather the pieces, with
one more synchronisation. For S bytes and links of B bytes/s at efficiency e,

    one shot:  launch + (n - 2) member + (n - 1) S / (e B)
    two shots: launch + (n - 2) member + hop + 2 (n - 1) / n S / (e B)

and the faster one runs. Inside one node only. Fit and errors: docs/models/serving-cost.md.
"""

from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.specs.libraries.collectives import CollectiveProfile, CustomAllReduce

JOINED = ("switch", "mesh")
"""Scale-up fabrics on which every device reaches every other one directly."""
ENGINES = ("vllm", "sglang", "trtllm")
"""Words of engines that have such kernels (`engines` of profiles)."""


def serves(group: tuple[int, ...], fabric: Fabric) -> bool:
    """Whether a group of ranks lies in one node whose devices reach each other directly."""
    nodes = {fabric.numbering.node_of(rank) for rank in group}
    return len(nodes) == 1 and _scale_up(group, fabric) in JOINED


def kernels_of(
    profile: CollectiveProfile, engine: str, size_bytes: float, group: tuple[int, ...], fabric: Fabric
) -> CustomAllReduce | None:
    """The kernels that an engine runs for an all-reduce; None where it hands it to the library: messages from `largest`
    on, several nodes, devices that do not reach each other directly, machines that none is known of."""
    own = profile.engines.get(engine)
    return own if own is not None and size_bytes < own.largest.value and serves(group, fabric) else None


def _scale_up(group: tuple[int, ...], fabric: Fabric) -> str:
    """Kind of the scale-up fabric that the first of a group is on."""
    return fabric.nodes[fabric.numbering.kind_of(group[0])].scale_up


def custom_seconds(size_bytes: float, group: tuple[int, ...], fabric: Fabric, spec: CustomAllReduce) -> float:
    """Seconds of an all-reduce of `size_bytes` over a group that `serves` accepts."""
    return sum(_shot(size_bytes, group, fabric, spec)[:2])


def shot_bytes(size_bytes: float, group: tuple[int, ...], fabric: Fabric, spec: CustomAllReduce) -> float:
    """Send buffer of the all-to-all that moves the bytes which the kernels of such an all-reduce read."""
    return _shot(size_bytes, group, fabric, spec)[2]


def shots(size_bytes: float, group: tuple[int, ...], fabric: Fabric, spec: CustomAllReduce) -> str:
    """`one shot` or `two shots`: which of the two kernels runs."""
    one = len(group) == 2 or _shot(size_bytes, group, fabric, spec)[2] > 2 * size_bytes
    return "one shot" if one else "two shots"


def check_engine(engine: str, profile: CollectiveProfile, algorithm: str) -> None:
    """InputError where no kernels of an engine are known for these machines, or an algorithm is asked for."""
    if engine not in profile.engines:
        known = ", ".join(profile.engines) or "none of the engines"
        raise InputError(Problem(f"kernels of `{engine}` are not known beside {profile.name}", hint=f"known: {known}"))
    if algorithm != "auto":
        raise InputError(Problem(f"`{engine}` chooses between its own kernels", hint="leave `--algorithm` out"))


def moving_share(size_bytes: float, group: tuple[int, ...], fabric: Fabric, spec: CustomAllReduce) -> float:
    """Share of `custom_seconds` in which bytes move."""
    start, moving, _ = _shot(size_bytes, group, fabric, spec)
    return moving / (start + moving)


def _shot(
    size_bytes: float, group: tuple[int, ...], fabric: Fabric, spec: CustomAllReduce
) -> tuple[float, float, float]:
    """(seconds before bytes move, seconds in which they do, bytes as of `shot_bytes`) of the faster kernel."""
    n = len(group)
    link = min(float(fabric.capacity[link]) for link in fabric.route(group[0], group[1]))
    rate = link * (1 if _scale_up(group, fabric) == "switch" else n - 1) * spec.efficiency.value
    start = spec.launch.value + (n - 2) * spec.member.value
    one = start, (n - 1) * size_bytes / rate, n * size_bytes
    two = start + spec.hop.value, 2 * (n - 1) / n * size_bytes / rate, 2 * size_bytes
    return one if n == 2 or one[0] + one[1] <= two[0] + two[1] else two
