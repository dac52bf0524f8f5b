"""What cannot run beside what, or does not."""

from simulator.axes import TP
from simulator.errors import InputError, Problem
from simulator.specs.training import Training
from simulator.training.job import Job
from simulator.training.overlap.stepped import STEPS, TRACKED


def check_overlap(training: Training, job: Job) -> None:
    """Refuse layouts of tensor-parallel collectives that are not simulated."""
    how, path = training.overlap_tensor, "training.overlap_tensor"
    if job.ladder and how not in (None, "none"):
        message = f"`overlap_tensor: {how}` and `model.ladder_residual` hide the same collectives"
        raise InputError(Problem(message, path=path, hint="leave one of them out"))
    if job.ladder and job.overlap_experts:
        message = "`overlap_experts` beside `model.ladder_residual` is not simulated"
        raise InputError(Problem(message, path="training.overlap_experts", hint="leave one of them out"))
    if how not in (STEPS, TRACKED) or job.tp == 1:
        return
    if not job.sequence_parallel:
        message = f"{how}: without sequence parallelism there are no gathers and scatters to run in steps"
        hint = "write `parallel: {sequence_parallel: true}`"
        raise InputError(Problem(message, path=path, hint=hint))
    if job.expert_chunks > 1 or job.shared_beside:
        message = f"{how}: products in steps inside of exchanges in parts, or beside them, are not simulated"
        hint = "leave `expert_chunks` and `overlap_shared_experts` out"
        raise InputError(Problem(message, path=path, hint=hint))


def without_effect(training: Training, tp: int) -> list[str]:
    """What is said of tensor parallelism's overlap without effect."""
    given = training.overlap_tensor not in (None, "none")
    found = (
        (given and tp == 1, f"no effect: overlap_tensor: {TP.name} is 1"),
        (given and training.blocking_launches, "no effect: overlap_tensor: the host waits for every kernel"),
    )
    return [text for applies, text in found if applies]
