"""What of an offload cannot be: more than there is, tiers and rates that a node has not, what is not simulated."""

from collections.abc import Iterator, Sequence
from math import ceil

from simulator.errors import InputError, Problem, nearest
from simulator.model.tensors import kept
from simulator.program.actions import Kind
from simulator.specs.hardware import Node
from simulator.specs.tiers.offload import Offload, OptimizerOffload
from simulator.specs.tiers.sharding import ShardLevels
from simulator.specs.training import Training
from simulator.training import memory, operators
from simulator.training.job import Job
from simulator.training.optimizers.base import OPTIMIZERS
from simulator.training.optimizers.elementwise import Elementwise

PATH = "training.offload"
MOST_SUBGROUPS = 10_000
"""Updates of subgroups of a device that are simulated."""


def check_offload(training: Training, node: Node, chunks: Sequence[int]) -> None:
    """Refuse what a scenario offloads beyond what there is, or to where nothing is; InputError."""
    offload = training.offload
    if offload is None:
        return
    problems = [*_more_than_all(offload, chunks), *_absent(offload, node), *_other_keys(training, offload)]
    if problems:
        raise InputError(*problems)


def _more_than_all(offload: Offload, chunks: Sequence[int]) -> Iterator[Problem]:
    layers, most = offload.activations.layers if offload.activations else None, max(chunks)
    if layers is not None and layers > most:
        message = f"{layers:,} layers of each stage or chunk, but the largest has {most}"
        yield Problem(message, path=f"{PATH}.activations.layers", hint=f"write {most} for all, or less")


def _absent(offload: Offload, node: Node) -> Iterator[Problem]:
    """Links, memory, drives and cores that the node's profile does not have."""
    if node.accelerator.host_link is None:
        message = f"{node.accelerator.name} has no `host_link` in its profile, which everything offloaded travels over"
        yield Problem(message, path=PATH, hint="set cluster.node.accelerator.host_link")
    for name, tier in offload.tiers.items():
        if tier == "nvme" and node.nvme is None:
            message = f"{node.name} has no `nvme` in its profile"
            hint = "write `to: host`, or set cluster.node.nvme (capacity, read, write)"
            yield Problem(message, path=f"{PATH}.{name}.to", hint=hint)
        if tier == "host" and node.host_memory is None:
            message = f"{node.name} has no `host_memory` in its profile: what fits there is not known"
            yield Problem(message, path=f"{PATH}.{name}.to", hint="set cluster.node.host_memory")
    part = offload.optimizer
    if part is not None and (node.cpu is None or node.cpu.updates is None):
        what = "no `cpu`" if node.cpu is None else "neither `cpu.update` nor `cpu.memory_bandwidth`"
        told = f"{node.name} has {what} in its profile: the rate of"
        if part.update != "device":
            hint = "write `update: device`, or set cluster.node.cpu (cores, memory_bandwidth or update)"
            yield Problem(f"{told} an update on the host is not known", path=f"{PATH}.optimizer.update", hint=hint)
        elif part.flush == "blocking":
            hint = "write `flush: async`, or set cluster.node.cpu (cores, memory_bandwidth or update)"
            yield Problem(f"{told} widening gradients there is not known", path=f"{PATH}.optimizer.flush", hint=hint)


def _other_keys(training: Training, offload: Offload) -> Iterator[Problem]:
    """Two answers to one question, and what is not simulated together."""
    if training.offload_layers is not None:
        message = "activations are offloaded by `offload_layers` or by `offload`"
        yield Problem(message, path="training.offload_layers", hint="leave it out")
    for name in ("batching", "slices", "lora", "encoder_sequence_length"):
        if getattr(training, name) is not None:
            message = f"not simulated together with `{name}` yet"
            yield Problem(message, path=PATH, hint=f"leave `{name}` out")
    part = offload.optimizer
    if part is not None and part.during == "backward" and part.update != "cpu":
        message = f"`update: {part.update}` begins with all gradients, and `during: backward` with those of each layer"
        yield Problem(message, path=f"{PATH}.optimizer.during", hint="write `update: cpu`, or leave `during` out")
    if training.blocking_launches:
        message = "with `blocking_launches` nothing travels beside computation"
        yield Problem(message, path=PATH, hint="leave `blocking_launches` out")
    found = offload.activations
    if found is not None and found.tokens is not None and training.recompute is not None:
        message = "`tokens` says itself what is computed again"
        yield Problem(message, path="training.recompute", hint="leave it out")
    if found is not None and found.layers is not None and training.recompute == "full":
        message = "layers are offloaded or computed again here, and recomputation is of all or of the last ones"
        yield Problem(message, path=f"{PATH}.activations.layers", hint="leave it out")


def check_job(job: Job) -> None:
    """Refuse what a resolved job cannot do with its offload; InputError."""
    offload = job.offload
    if offload is None:
        return
    halves = len(job.schedule.only([Kind.I, Kind.W])) > 0
    if halves or job.copies > 1 or job.vocabulary_sums:
        what = "backward passes in two halves" if halves else "this schedule"
        raise InputError(Problem(f"not simulated with {what} yet", path=PATH, hint="write `schedule: 1f1b`"))
    _check_tensors(job, offload)
    if offload.parameters is not None and 0 < job.zero < 3:
        message = f"parameters live elsewhere whole or in shards, and ZeRO-{job.zero} shards states alone"
        raise InputError(
            Problem(message, path=f"{PATH}.parameters", hint="write `parallel.zero: 3`, or `parallel.zero: 0`")
        )
    rule = OPTIMIZERS.get(job.optimizer.name)
    if offload.optimizer is not None and not isinstance(rule, Elementwise):
        message = f"{job.optimizer.name} looks at whole matrices, which subgroups of parameters cut"
        raise InputError(Problem(message, path=f"{PATH}.optimizer", hint="write `optimizer: adam`"))
    if offload.optimizer is not None:
        _check_subgroups(job, offload.optimizer)
    if offload.optimizer is not None and (job.optimizer.in_backward or job.optimizer.layerwise):
        key = "in_backward" if job.optimizer.in_backward else "layerwise"
        message = "the host updates subgroups of parameters, not layers"
        raise InputError(Problem(message, path=f"training.optimizer.{key}", hint="leave it out"))


def _check_subgroups(job: Job, part: OptimizerOffload) -> None:
    """Refuse subgroups so small that their updates, each an operation or more, are millions."""
    elements = part.share * max(memory.updated(job, stage) for stage in range(job.pp))
    count = ceil(elements / part.subgroup)
    if part.during != "backward" and count > MOST_SUBGROUPS:
        message = f"{count:,} subgroups are updated one by one on a device; up to {MOST_SUBGROUPS:,} are simulated"
        hint = f"write {ceil(elements / MOST_SUBGROUPS):,} or more"
        raise InputError(Problem(message, path=f"{PATH}.optimizer.subgroup", hint=hint))


def _check_tensors(job: Job, offload: Offload) -> None:
    """Refuse names of tensors that no layer keeps."""
    asked = offload.activations.tensors if offload.activations else ()
    known = list(dict.fromkeys(one.name for kind in job.kinds for one in kept(operators.layer_ops(job, kind))))
    for name in asked:
        if name not in known:
            message = f"layers of {job.model.name} keep nothing of `{name}`"
            hint = nearest(name, known) or f"write some of {', '.join(f'`{one}`' for one in known)}"
            raise InputError(Problem(message, path=f"{PATH}.activations.tensors", hint=hint))


def check_sharding(job: Job) -> None:
    """Refuse formats and second shards of what is not gathered around every pass; InputError."""
    sharding, path = job.sharding, "training.sharding"
    if sharding is None:
        return
    if job.zero < 3 or not job.per_pass or job.dense.shard == 1:
        message = "nothing is sharded that is gathered around every pass"
        raise InputError(Problem(message, path=path, hint="write `parallel.zero: 3` with several replicas"))
    if sharding.secondary is not None and job.dense.shard % sharding.secondary:
        message = f"{sharding.secondary} ranks do not divide a shard set of {job.dense.shard}"
        raise InputError(Problem(message, path=f"{path}.secondary", hint=f"write a divisor of {job.dense.shard}"))
    if sharding.levels is not None:
        _check_levels(job, sharding.levels, f"{path}.levels")


def _check_levels(job: Job, levels: ShardLevels, path: str) -> None:
    """Refuse levels that are not nested in the shard set, and what is not simulated with them; InputError."""
    every = job.dense.shard
    gradients = levels.gradients or every
    if every % gradients:
        message = f"{gradients} ranks do not divide a shard set of {every}"
        raise InputError(Problem(message, path=f"{path}.gradients", hint=f"write a divisor of {every}"))
    if gradients % levels.parameters:
        message = f"{levels.parameters} ranks do not divide the {gradients} that share gradients"
        raise InputError(Problem(message, path=f"{path}.parameters", hint=f"write a divisor of {gradients}"))
    found = [
        (every < job.dense.count, "shard sets smaller than `dp`", "leave `parallel.shard_size` out"),
        (job.offload is not None, "`offload`", "leave `offload` out"),
        (job.lora is not None, "`lora`", "leave `lora` out"),
        (job.optimizer.in_backward, "updates in the backward pass", "leave `optimizer.in_backward` out"),
        (job.workers is not None, "`local_steps`", "leave `local_steps` out"),
    ]
    for applies, what, hint in found:
        if applies:
            raise InputError(Problem(f"not simulated together with {what}", path=path, hint=hint))
