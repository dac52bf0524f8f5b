"""The vocabulary over all pipeline ranks: what each does with its part, and what ranks do together.

Every rank holds the rows of the embedding and of the head for its part of the vocabulary. Beside S of a microbatch it
looks up the tokens of its part for one that is still to come, and beside T it scatters the gradients of one that is
through; which of them waits for which is left out, for these ranks need nothing of each other. Ranks broadcast the
output of the last stage and the gradient of the first one's input (C0); they sum maxima and sums of the logits and what
they looked up (C1), and the gradient of the last stage's output, with C1 or after T (C2, `Schedule.vocabulary_sums`).

Source: arXiv:2411.05288, sections 4 and 5 and appendix C.
"""

from dataclasses import replace

from simulator.axes import PP, TP
from simulator.cost.work import Stream
from simulator.errors import InputError, Problem
from simulator.model.backward import backward
from simulator.model.blocks import ends
from simulator.model.ops import Linear, Loss, Op
from simulator.model.tensors import tensors
from simulator.program.content import Comm
from simulator.specs.model import Model
from simulator.training.job import Job
from simulator.training.step import Kernel

AMONG = "ranks with parts of the vocabulary"
"""The ranks of a pipeline, as groups of collectives."""
STATISTICS = 8.0
"""Bytes of a token's maximum and sum of exponentials, in fp32."""


def part(job: Job) -> Model:
    """The model with the part of the vocabulary that a pipeline rank holds."""
    return job.model.model_copy(update={"vocabulary": -(-job.model.vocabulary // job.pp)})


def look_up(job: Job) -> list[Op]:
    """Tokens of a microbatch that are in the rank's part."""
    own = part(job).model_copy(update={"position": "none"})
    return list(ends.embedding(own, replace(job.cut, dropout=False)))


def score(job: Job) -> list[Op]:
    """Logits of the rank's part, behind the last norm, and their share of the loss."""
    return list(ends.with_loss(part(job), job.cut))[1:]


def scores(job: Job) -> list[Op]:
    """What S runs; with gradients of its input where they do not wait for the sums."""
    return [*look_up(job), *score(job), *(_of_input(job) if job.vocabulary_sums == 1 else [])]


def scores_gradient(job: Job) -> list[Op]:
    """What T runs."""
    early = {op.name for op in _of_input(job)} if job.vocabulary_sums == 1 else set()
    rest = [op for op in backward(score(job)) if op.name not in early or not _is_of_input(op)]
    return [*rest, *backward(look_up(job))]


def _of_input(job: Job) -> list[Op]:
    return [op for op in backward(score(job)) if _is_of_input(op)]


def _is_of_input(op: Op) -> bool:
    """Whether a gradient is that of the rows that the head takes, or brings it where it belongs."""
    return isinstance(op.does, Linear) or op.name.startswith("gradient of ")


def parameters(job: Job) -> float:
    """Parameters of a rank's part of embedding and head."""
    found = [*look_up(job), *([] if job.model.tied_embeddings else score(job))]
    return sum(tensor.elements for tensor in tensors(found))


def together(job: Job) -> list[list[Comm]]:
    """What ranks do together, C0, C1 and C2 where there is one, collective after collective."""
    rows = job.tokens / (job.cut.over(TP) if job.cut.rows is not None else 1)
    size = rows * job.model.hidden * job.element
    broadcast, summed = (Comm(operation, PP.name, size, AMONG) for operation in ("broadcast", "all_reduce"))
    statistics = Comm("all_reduce", PP.name, job.tokens * STATISTICS, AMONG)
    if job.vocabulary_sums == 2:
        return [[broadcast, broadcast], [statistics, summed], [summed]]
    return [[broadcast, broadcast], [statistics, summed, summed]] if job.vocabulary_sums else []


def check(job: Job) -> None:
    """InputError for what no program exists for beside parts of the vocabulary on all ranks."""
    if not job.vocabulary_sums:
        return
    wrong = (
        (job.vpp > 1, "several chunks a rank", "write `vpp: 1`"),
        (job.per_pass, "parameters that are gathered around passes (ZeRO-3, or 2 of FSDP)", "write `zero: 1`"),
        (job.lora is not None, "adapters", "leave `lora` out"),
        (job.model.mtp_layers > 0, "modules that predict further tokens", "write `model.mtp_layers: 0`"),
        (bool(job.model.encoding), "an encoder", "write `schedule: 1f1b`"),
        (job.overlap_experts, "exchanges beside another microbatch", "leave `overlap_experts` out"),
    )
    for applies, words, hint in wrong:
        if applies:
            message = f"the schedule cuts the vocabulary over all ranks (S, T), not simulated with {words}"
            raise InputError(Problem(message, path="training.schedule", hint=hint))


def cross_entropy(job: Job, loss: Loss) -> Kernel:
    """Cross entropy over logits, in fp32 or as they are; unfused frameworks walk over them about twice as often.

    A fused kernel has whole rows. Where other ranks hold the rest of a row, S scales exponentials by the sums of its
    own part and writes them, and T reads and scales them again by those of all (algorithms 1 and 2 of the paper): both
    read and write all of it once more.
    """
    read, written = (1.0, 1.0) if loss.backward else (2.5, 1.5)
    size = float((4 if job.stack.fp32_logits else job.element) * job.tokens * loss.width)
    factor, more = (1.0, float(job.vocabulary_sums > 0)) if job.stack.fused_loss else (2.0, 0.0)
    return Kernel("loss", Stream((read * factor + more) * size, (written * factor + more) * size, kernels=3))
