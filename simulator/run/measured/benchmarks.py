"""Kernels and blocks of a file of `clustersim measure`, priced on the accelerator that they ran on.

Prices are those of kernels alone, at the clock of benchmarks. A block is what a layer of a training job runs, kernel by
kernel with nothing fused between products, as eager PyTorch does; no framework is on it.
"""

from dataclasses import replace

from simulator.cost import Attention, Decode, Device, Gemm, Stream, Work, compile_device, seconds
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.kernels import KernelRow
from simulator.specs.hardware import Accelerator, Cluster
from simulator.specs.model import Model
from simulator.specs.resolve import load_spec
from simulator.specs.scenario import Scenario
from simulator.specs.training import Stack, Training
from simulator.training.build import build_job
from simulator.training.operators import each, layer_backward, layer_forward
from simulator.training.step import Kernel

STREAMS = {"stream_copy": (1, 1), "stream_triad": (2, 1)}
"""Tensors read and written by a pass."""
BARE = "bare-kernels"
"""The stack of a block: kernels alone."""
PLACE = "server-4x-a40"
"""A cluster that lends a block its node; nothing of it but one device is used."""


def at_benchmarks(accelerator: Accelerator) -> Device:
    """A device at the clock of benchmarks."""
    return compile_device(accelerator.model_copy(update={"sustained": None}))


def predicted(row: KernelRow, accelerator: Accelerator, device: Device | None = None) -> float:
    """Seconds of a row; raises Refused where nothing of ours stands for it. `device` is the accelerator with other
    kernels than its own."""
    device = device or at_benchmarks(accelerator)
    if row.op in ("copy_h2d", "copy_d2h"):
        if accelerator.host_link is None:
            raise Refused("the accelerator has no `host_link`")
        return float(row.shape["bytes"]) / accelerator.host_link.value
    works = works_of(row, accelerator)
    for work in works:
        if isinstance(work, Gemm | Attention) and work.dtype not in device.peaks:
            raise Refused(f"no {work.dtype} on {accelerator.name}")
    return sum(seconds(work, device) for work in works)


def works_of(row: KernelRow, accelerator: Accelerator) -> tuple[Work, ...]:
    """The kernels that a row timed together; raises Refused where none stand for it."""
    shape, dtype = row.shape, row.dtype or "bf16"
    match row.op:
        case "gemm":
            return (Gemm(shape["m"], shape["n"], shape["k"], 1, dtype),)
        case "grouped_gemm_contiguous":
            return (Gemm(shape["m_per_group"], shape["n"], shape["k"], shape["groups"], dtype),)
        case "attention_fwd" | "attention_fwd_bwd":
            passes = (False, True) if row.op == "attention_fwd_bwd" else (False,)
            return tuple(_attention(row, backward) for backward in passes)
        case "attention_decode":
            cached, size = shape["batch"] * shape["context"], 4.0 if dtype == "fp32" else 2.0
            return (Decode(shape["batch"], cached, shape["heads"], shape["kv_heads"], shape["head_dim"], size),)
        case "stream_copy" | "stream_triad":
            reads, writes = STREAMS[row.op]
            part = shape["bytes"] / (reads + writes)
            return (Stream(reads * part, writes * part),)
        case "launch":
            return (Stream(64.0, 64.0),)
        case "block_fwd" | "block_fwd_bwd":
            return block_works(row, accelerator)
    raise Refused(f"no price of {row.op} by itself")


def _attention(row: KernelRow, backward: bool) -> Attention:
    shape = row.shape
    heads, keys, length = shape["heads"], shape["kv_heads"], shape["seqlen"]
    causal = bool(shape.get("causal"))
    return Attention(
        shape["batch"], heads, keys, length, length, shape["head_dim"], causal, row.dtype or "bf16", backward
    )


def block_works(row: KernelRow, accelerator: Accelerator) -> tuple[Work, ...]:
    """Kernels of a block, forward or forward and backward."""
    sides = ("batch", "seqlen", "hidden", "heads", "kv_heads", "head_dim", "ffn")
    return _works(accelerator, row.dtype or "bf16", row.op == "block_fwd_bwd", *(row.shape[side] for side in sides))


def _works(accelerator: Accelerator, dtype: str, both: bool, *sides: int) -> tuple[Work, ...]:
    batch, length, hidden, heads, keys, size, ffn = sides
    model = Model(
        name="one block",
        layers=1,
        hidden=hidden,
        heads=heads,
        kv_heads=keys,
        head_dim=size,
        ffn=ffn,
        gated_ffn=True,
        vocabulary=1024,
        position="rotary",
        norm="rmsnorm",
        biases=False,
        tied_embeddings=False,
        source="the block that is measured",
    )
    cluster = load_spec(Cluster, PLACE)
    node = cluster.node.model_copy(
        update={"accelerator": accelerator.model_copy(update={"sustained": None}), "devices": 1}
    )
    stack = load_spec(Stack, BARE).model_copy(update={"fused_elementwise": False, "precision": dtype})
    scenario = Scenario(
        version=1,
        name="one block",
        cluster=cluster.model_copy(update={"node": node, "nodes": 1}),
        model=model,
        stack=stack,
        training=Training(global_batch=batch, micro_batch=batch, sequence_length=length),
    )
    job = build_job(scenario)
    kind = job.model.kinds[0]
    steps = [*layer_forward(job, kind), *(layer_backward(job, kind) if both else ())]
    kernels = [step for step in each(steps) if isinstance(step, Kernel)]
    return tuple(_whole(step) for step in kernels for _ in range(step.times))


def _whole(step: Kernel) -> Work:
    """The work of a kernel; a pass over memory with the kernels that the host launches for it."""
    work = step.work
    return replace(work, kernels=max(work.kernels, step.launches)) if isinstance(work, Stream) else work
