"""What the host of a device launches in passes through a layer, and when.

A call of the framework takes its share of `layer_overhead`, of `experts_overhead` in a layer with experts: that of a
layer with a dense MLP and the same attention, nothing captured and without adapters, with which both passes count as
forward ones. What a call launches after its first product takes `product_overhead`.

Where rows are sent to experts the host waits for the device, which counts them: buffers are as large as what arrives,
and products take numbers of rows from the host. What comes after is launched from then on, kernel by kernel; what comes
before, attention above all, while the experts of the layer before still work, as far as they work longer than they are
launched. Nothing is waited for where a graph holds the whole step or rows fill slots of a known number, nor backward,
where the counts are known.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from simulator.cost import Stream
from simulator.model.backward import EXPERT_EXCHANGES, backward
from simulator.model.blocks.around import ACTIVATION, HEADS, NORM
from simulator.model.dropped import computed_again
from simulator.model.ops import Elementwise, Linear, Op
from simulator.specs.model import LayerKind
from simulator.training import operators
from simulator.training.job import Job
from simulator.training.overlap.exchanged import exchanges_rows
from simulator.training.step import Chunks, Collective, Kernel, Step


class Launched(NamedTuple):
    """What the host launches in a pass."""

    calls: int
    """Calls of the framework, and graphs."""
    further: int
    """Kernels that calls launch after as many as they are."""

    @property
    def kernels(self) -> int:
        """All of it."""
        return self.calls + self.further


class Rates(NamedTuple):
    """Seconds of the host."""

    call: float
    """A call of the framework."""
    further: float
    """What a call launches after its first kernel."""

    def of(self, launched: Launched) -> float:
        """What so much takes."""
        return self.call * launched.calls + self.further * launched.further


def rates(job: Job, kind: LayerKind, back: bool = False) -> Rates:
    """What calls take in passes through layers of a kind."""
    stack, bare = job.stack, replace(job, lora=None) if job.lora else job
    plain = operators.layer_ops(bare, kind._replace(mlp="dense") if kind.mlp == "moe" else kind)
    kept = launched(replace(bare, recompute="none"), plain, back=back)
    experts = stack.experts_overhead if kind.mlp == "moe" else None
    overhead = (experts or stack.layer_overhead).value
    if stack.product_overhead is None:
        return Rates(overhead / kept.kernels, overhead / kept.kernels)
    return Rates(overhead / kept.calls, stack.product_overhead.value)


def host_time(job: Job, kind: LayerKind, back: bool = False) -> float:
    """Seconds that the host takes to launch a pass through a layer."""
    gathered = _gathering(job, kind)
    if kind.mlp in ("dense", "none") and not job.cuda_graphs and not job.lora:
        return job.stack.layer_overhead.value + gathered
    back = back and not job.lora
    launches = launched(job, operators.layer_ops(job, kind), job.cuda_graphs, back)
    return rates(job, kind, back).of(launches) + gathered


def _gathering(job: Job, kind: LayerKind) -> float:
    """Seconds of the host around the modules of a layer, where each gathers its own parameters."""
    each = job.stack.module_overhead
    return each.value * modules(operators.layer_ops(job, kind)) if each is not None and job.hooked else 0.0


def modules(ops: Sequence[Op]) -> int:
    """Modules of PyTorch that the code of a layer is made of: the layer, attention, MLP, norms, activations and every
    product by itself, queries, keys and values, gates and rows; each expert is an MLP of its own."""
    found = 3
    for op, after in zip(ops, [*ops[1:], None], strict=True):
        does, follows = op.does, getattr(after and after.does, "kind", None)
        if isinstance(does, Linear):
            gated = follows == ACTIVATION and after.does.forward.read > after.does.forward.written  # type: ignore[union-attr]
            found += does.matrices * (3 if op.name == "attention in" else 2 if gated else 1)
            found += does.matrices * (2 if does.matrices > 1 else 1) if follows == ACTIVATION else 0
        elif isinstance(does, Elementwise):
            found += {NORM: 1, HEADS: 2}.get(does.kind, 0)
    return found


def waits_for_counts(job: Job, kind: LayerKind) -> bool:
    """Whether the host waits in a forward pass for the numbers of rows that experts get."""
    sent = kind.mlp == "moe" and "all" not in job.cuda_graphs and not job.blocking
    return sent and job.exchange is not None and not job.exchange.filled


def sends_rows(steps: Sequence[Step]) -> int:
    """Place of the first step that needs the numbers of rows that experts get; that of the end where none does."""
    return next((i for i, step in enumerate(steps) if _needs_counts(step)), len(steps))


def _needs_counts(step: Step) -> bool:
    sends = isinstance(step, Collective) and step.operation in EXPERT_EXCHANGES
    return sends or isinstance(step, Chunks) or step.name == "permute"


def launched(job: Job, ops: Sequence[Op], graphs: Sequence[str] = (), back: bool = False) -> Launched:
    """What the host launches for the forward pass of operations, or for the one `back` with the modules that it
    computes again, and graphs of what is captured; norms of heads are not counted, as `layer_overhead` holds them: the
    steps that it was chosen on have them."""
    left = [op for op, part in zip(ops, _parts(ops), strict=True) if part not in graphs and "all" not in graphs]
    again = computed_again(left, job.recompute_modules) if back and job.recompute == "selective" else ()
    run = (*operators.steps(job, again), *operators.steps(job, backward(left) if back else left))
    found = of_steps(run)
    return found._replace(calls=found.calls + len(set(graphs) & {*_parts(ops), "all"}))


def of_steps(steps: Sequence[Step]) -> Launched:
    """What the host launches for steps."""
    counted = [k for k in operators.each(steps) if isinstance(k, Kernel) and k.name != HEADS]
    alone = [isinstance(k.work, Stream) and k.launches == 1 and not k.calls for k in counted]
    kernels = [k.work.kernels if single else k.launches for k, single in zip(counted, alone, strict=True)]  # type: ignore[union-attr]  # a stream
    calls = sum(min(k.calls or found, found) for k, found in zip(counted, kernels, strict=True))
    return Launched(calls, sum(kernels) - calls)


def _parts(ops: Sequence[Op]) -> list[str]:
    """The part of a layer that each operation belongs to, as graphs are captured: attention, what comes before rows are
    sent to experts, and the rest."""
    blocks = [i for i, op in enumerate(ops) if isinstance(op.does, Elementwise) and op.does.kind == NORM]
    sent = next((i for i, op in enumerate(ops) if op.name == "permute" or exchanges_rows(op)), len(ops))
    second = blocks[1] if len(blocks) > 1 else len(ops)
    return ["attention" if i < second else "router" if i < sent < len(ops) else "rest" for i in range(len(ops))]
