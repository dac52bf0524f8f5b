"""Which optimizer a scenario asks for, with what it leaves open filled in."""

from simulator.axes import TP
from simulator.errors import InputError, Problem
from simulator.parallel import Mesh
from simulator.program.actions import Kind
from simulator.specs.training import Optimizer, Stack, Training
from simulator.training.checks import sharded_per_pass
from simulator.training.job import Job
from simulator.training.optimizers.base import OPTIMIZERS

PATH = "training.optimizer"


def chosen(training: Training, stack: Stack, zero: int, assumptions: list[str]) -> Optimizer:
    """The optimizer with all of its options; InputError for one that is unknown or does not fit the ZeRO stage."""
    per_pass, units = sharded_per_pass(zero, stack), stack.unit == "layer"
    given = training.optimizer or Optimizer()
    rule = OPTIMIZERS.get(given.name, f"{PATH}.name" if training.optimizer else PATH)
    rule.check(given, zero, per_pass)
    if given.in_backward and given.layerwise:
        message = "layers are updated inside the backward pass or after it"
        raise InputError(Problem(message, path=f"{PATH}.layerwise", hint="leave one of them out"))
    by_layer = given.layerwise and zero > 0 and not (per_pass or training.blocking_launches)
    apart = "none" if units else "mlp" if "fused" in rule.options else "all"
    given = given.model_copy(update={"layerwise": by_layer, "fused": given.fused or apart})
    if "whole" not in rule.options or not zero:
        return given.model_copy(update={"whole": None})
    if given.whole is None:
        usual = "exchanged" if per_pass else "owners"
        assumptions.append(f"optimizer.whole is not given: {usual}")
        given = given.model_copy(update={"whole": usual})
    return given


def check_by_layer(job: Job) -> None:
    """Refuse updates of single layers of matrices that are sharded, and those inside backward passes whose gradients
    are summed over passes, or reduced later."""
    name, halves = job.optimizer.name, len(job.schedule.only([Kind.I, Kind.W])) > 0
    sharded = job.copied and OPTIMIZERS.get(name).by_matrix
    several = f"{job.microbatches:,} microbatches, whose gradients are summed"
    fits = f"write `micro_batch: {job.global_batch // job.dp}`"
    found = [
        (job.microbatches > 1, several, fits),
        (job.schedule.stages > 1, "a pipeline", "write `pp: 1`"),
        (halves, "backward passes in two halves", "write `schedule: 1f1b`"),
        (job.copied and not job.per_pass, "gradients that are reduced in buckets", "write `zero: 3`"),
        (sharded, f"{name} on matrices that are sharded", "leave it out, or write `adam`"),
    ]
    both = (job.copies > 1, "two copies of the model on the pipeline", "write `dualpipev`, or leave it out")
    found = found if job.optimizer.in_backward else [found[-1], both] if job.optimizer.layerwise else []
    key, where = ("in_backward", "inside the backward pass") if job.optimizer.in_backward else ("layerwise", "by layer")
    for applies, what, hint in found:
        if applies:
            message = f"an update {where} is not simulated with {what}"
            raise InputError(Problem(message, path=f"{PATH}.{key}", hint=hint))


def unused(training: Training, stack: Stack, mesh: Mesh, zero: int) -> list[str]:
    """Options that change nothing."""
    given, per_pass = training.optimizer, sharded_per_pass(zero, stack)
    if given is None:
        return []
    read = OPTIMIZERS.get(given.name).options
    found = [
        (f"{key}: {given.name} has none" if key not in read else "")
        for key in sorted(filter(given.states, type(given).model_fields))
    ]
    found = [text for text in found if text and not text.startswith("name:")]
    if given.whole and "whole" in read and not zero:
        found.append("whole: parallel.zero is 0, so that every rank has whole matrices")
    if given.layerwise and (per_pass or not zero or training.blocking_launches):
        every = f"ZeRO-{zero} gathers around every pass" if per_pass else "parameters are not sharded"
        found.append(f"layerwise: {every if per_pass or not zero else 'the host waits for every kernel'}")
    if given.tensor != "blockwise" and "tensor" in read and mesh.sizes[TP.name] == 1:
        found.append(f"tensor {given.tensor}: there is no tensor parallelism")
    return [f"no effect: optimizer.{text}" for text in found]
