"""What a checkpoint holds, and how long it takes to write and to read.

It holds the parameters and the optimizer's states, each once, as the memory ledger knows them. A device copies its part
over the link to its host; then all nodes write to one storage system, whose bandwidth they share. A write is made of
the making of files and of a transfer that is bounded by the storage, the node (its network cards) and the file. Left
out: what serialising takes, the planning before the first one, and that writing beside steps slows these.
"""

from dataclasses import dataclass
from typing import NamedTuple

from simulator import units
from simulator.axes import DP
from simulator.errors import InputError, Problem
from simulator.specs.base import Figure
from simulator.specs.hardware import Cluster
from simulator.specs.long_runs.run import Checkpoints
from simulator.specs.long_runs.storage import Storage
from simulator.training.job import Job
from simulator.training.memory import chunks_of_stage, parameters, shares
from simulator.training.optimizers.base import OPTIMIZERS

PATH = "training.run.checkpoints"
PER_NODE, READ_PER_NODE = 1e9, 2.6e9
"""Bytes per second and node that a storage system writes and reads where none is described: 2 TB/s for 2,048 nodes
(Tectonic, arXiv:2407.21783, section 3.3.1); 273 GB/s and 1 TB/s for 384 nodes (arXiv:2104.04473, section 5.10)."""
COPIES_IN_MEMORY = 4
"""Parts of nodes that a host keeps of checkpoints in memory: its own and that of its peer, the last whole one of each
and the one that is being made."""


class Sizes(NamedTuple):
    """Bytes of a checkpoint."""

    whole: float
    """Each state once."""
    device: float
    """What the device with most copies to its host and writes."""
    writers: int
    """Devices that write."""
    restored: float
    """What the device with most has in memory after a restart."""
    each: float
    """The same of all devices together."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that a checkpoint takes."""

    size: float
    """Bytes."""
    stall: float
    """For which steps wait."""
    write: float
    """From there until it can be restored."""
    store: float
    """From there until it is on storage."""
    load: float
    """To read it from storage into devices."""
    load_memory: float
    """To restore it from the memory of hosts."""
    reshard: float
    """What reading it in another layout adds."""
    assumptions: tuple[str, ...]


def sizes(job: Job, writers: str, size: float | None = None) -> Sizes:
    """What a checkpoint of a job holds; `size` stands in for the ledger's bytes."""
    world, rule = job.mesh.world, OPTIMIZERS.get(job.optimizer.name)
    whole = each = most = restored = 0.0
    first = world
    for stage in range(job.pp):
        ranks, chunks = world // job.pp, chunks_of_stage(job, stage)
        own = part = kept = 0.0
        for share in shares(job, stage):
            count = share.copies.count
            weights = sum(parameters(job, chunk, share.copies, trained=bool(job.lora)) for chunk in chunks) * job.stored
            states, sharded = rule.states(job, share._replace(shards=1)), rule.states(job, share)
            own += weights + sharded
            kept += weights / (share.copies.shard if job.per_pass else 1) + sharded
            part += (weights + states) / count
            whole += (weights + states) * ranks / count
            first = min(first, world if share.shards > 1 else world // count)
        most, restored, each = max(most, part if writers == "all" else own), max(restored, kept), each + kept * ranks
    scale = 1.0 if size is None or not whole else size / whole
    devices = world if writers == "all" else first
    return Sizes(scale * whole, scale * most, devices, scale * restored, scale * each)


def cost(cluster: Cluster, job: Job, spec: Checkpoints) -> Cost:
    """Seconds of a checkpoint; InputError where storage or hosts do not hold it."""
    held, said = sizes(job, spec.writers, spec.size), list[str]()
    storage = cluster.storage or _usual(cluster, said)
    _check_capacity(storage, held, spec)
    link = cluster.node.accelerator.host_link
    if link is None:
        said.append("the link of devices to their hosts is not known: copies of checkpoints to hosts take no time")
    copy = held.device / link.value if link else 0.0
    cards = cluster.node.nics
    rate = cards.count * cards.bandwidth.value if cards else float("inf")
    written = _moved(storage, rate, held.whole, held.device, cluster.node.devices, held.writers, spec.files)
    total, device = (held.each, held.restored) if spec.load == "each" else (held.whole, held.whole / job.mesh.world)
    read = _moved(_reading(storage), rate, total, device, cluster.node.devices, job.mesh.world, spec.files)
    back = held.restored / link.value if link else 0.0
    offline = written + read if spec.reshard == "offline" else 0.0
    if spec.kind == "synchronous":
        return Cost(held.whole, copy + written, 0.0, 0.0, read + back, 0.0, offline, tuple(said))
    if spec.kind == "asynchronous":
        return Cost(held.whole, copy, written, written, read + back, 0.0, offline, tuple(said))
    node = held.device * cluster.node.devices
    _check_hosts(cluster, node, said)
    sent = node / rate
    return Cost(held.whole, copy, sent, written, read + back, sent + back, offline, tuple(said))


def _moved(
    storage: Storage, node_rate: float, size: float, device: float, per_node: int, writers: int, files: int
) -> float:
    """Seconds of files of `writers` devices, `device` bytes of the fullest, `size` bytes of all."""
    made = files * storage.file_time.value if storage.file_time else 0.0
    if storage.files_per_second:
        made = max(made, files * writers / storage.files_per_second.value)
    node = min(node_rate, storage.node_bandwidth.value if storage.node_bandwidth else node_rate)
    times = [size / storage.bandwidth.value, device * per_node / node]
    if storage.file_bandwidth:
        times.append(device / files / storage.file_bandwidth.value)
    return made + max(times)


def _reading(storage: Storage) -> Storage:
    """The storage as it reads."""
    return storage.model_copy(update={"bandwidth": storage.read_bandwidth or storage.bandwidth})


def stored(cluster: Cluster) -> Storage:
    """The storage of a cluster as it reads, that of published systems where none is described."""
    return _reading(cluster.storage or _usual(cluster, []))


def _usual(cluster: Cluster, said: list[str]) -> Storage:
    """Storage as published systems have it for so many nodes."""
    source = "arXiv:2407.21783 section 3.3.1, arXiv:2104.04473 section 5.10"
    written, read = (
        Figure[float](value=rate * cluster.nodes, status="estimate", source=source)
        for rate in (PER_NODE, READ_PER_NODE)
    )
    rates = " and reads ".join(units.format(figure.value, "bandwidth") for figure in (written, read))
    said.append(f"`cluster.storage` is not described: it writes {rates}, 1 and 2.6 GB/s a node as published systems do")
    return Storage.model_construct(bandwidth=written, read_bandwidth=read)


def _check_capacity(storage: Storage, held: Sizes, spec: Checkpoints) -> None:
    if storage.capacity is None or spec.keep * held.whole <= storage.capacity.value:
        return
    one, has = units.format(held.whole, "bytes"), units.format(storage.capacity.value, "bytes")
    what = f"a checkpoint of {one} is" if spec.keep == 1 else f"{spec.keep} checkpoints of {one} are"
    fits = int(storage.capacity.value // held.whole)
    hint = f"keep {fits}: `keep: {fits}`" if fits else "write larger storage, or fewer bytes in `size`"
    raise InputError(Problem(f"{what} larger than the storage of {has}", path=f"{PATH}.keep", hint=hint))


def _check_hosts(cluster: Cluster, node: float, said: list[str]) -> None:
    """Checkpoints in memory need two hosts, and room in them."""
    if cluster.nodes < 2:
        message = "a checkpoint in memory needs the host of another node, and the cluster has one node"
        raise InputError(Problem(message, path=f"{PATH}.kind", hint="write `asynchronous`"))
    memory, needs = cluster.node.host_memory, COPIES_IN_MEMORY * node
    if memory is None:
        size = units.format(needs, "bytes")
        said.append(f"checkpoints take {size} of each host's memory, whose size is not known: {cluster.node.name}")
    elif needs > memory.value:
        sizes = [units.format(size, "bytes") for size in (needs, memory.value)]
        message = f"checkpoints in memory take {sizes[0]} of a host of {sizes[1]}: the last two, its own and its peer's"
        raise InputError(Problem(message, path=f"{PATH}.kind", hint="write `asynchronous`, or more nodes"))


def replicas(job: Job) -> int:
    """Data-parallel replicas."""
    return job.mesh.sizes[DP.name]
