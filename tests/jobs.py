"""Small training scenarios for tests, with a device and a network that need no measured tables."""

from functools import cache
from typing import Any

from simulator.cost.work import Stream
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import LayerKind, Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import Parallel, Stack, Training
from simulator.training import operators
from simulator.training.job import Job
from simulator.training.step import Kernel

shipped = cache(load_spec)
"""A spec of the catalogue; specs do not change, so that each is read once."""

LAYER = LayerKind("grouped", "dense")
"""The kind of the layers of `model`."""


def model(**changes: Any) -> Model:
    """A GPT of 8 layers."""
    shape: dict[str, Any] = {
        "name": "small",
        "layers": 8,
        "hidden": 1024,
        "heads": 16,
        "vocabulary": 51200,
        "max_sequence": 1024,
    }
    return Model.model_validate(shape | changes)


def buffers(multiprocessors: float, memory: float) -> dict[str, Any]:
    """What tensor-parallel collectives take that a stack runs over buffers of its own."""
    known = {"status": "estimate", "source": "test"}
    held = {"value": multiprocessors, **known}
    operations = ("all_gather", "reduce_scatter", "all_reduce")
    return {"multiprocessors": dict.fromkeys(operations, held), "memory": {"value": memory, **known}}


def stack(name: str = "megatron-lm-2021", **changes: Any) -> Stack:
    """A stack of the catalogue with some fields changed, whose host is never late: small layers would wait for it."""
    found = shipped(Stack, name)
    changes.setdefault("layer_overhead", found.layer_overhead.model_copy(update={"value": 0.0}))
    if name == "megatron-core":
        changes |= {name: changes.get(name) for name in ("experts_overhead", "product_overhead")}
    return found.model_copy(update=changes)


def cluster(nodes: int = 1, devices: int = 8, name: str = "generic-a100") -> Cluster:
    """A cluster of the catalogue in another size."""
    found = shipped(Cluster, name)
    return found.model_copy(update={"nodes": nodes, "node": found.node.model_copy(update={"devices": devices})})


def scenario(
    *,
    nodes: int = 1,
    devices: int = 8,
    on: str = "generic-a100",
    software: Stack | None = None,
    shape: Model | None = None,
    batch: int = 16,
    micro: int = 1,
    sequence: int = 1024,
    training: dict[str, Any] | None = None,
    **parallel: Any,
) -> Scenario:
    """A scenario; keywords that are not listed are sizes of the mesh."""
    job = Training(
        global_batch=batch,
        micro_batch=micro,
        sequence_length=sequence,
        parallel=Parallel(**parallel),
        **(training or {}),
    )
    return Scenario(
        version=1,
        name="test",
        cluster=cluster(nodes, devices, on),
        model=shape or model(),
        stack=software or stack(),
        training=job,
    )


def kernels(built: Job, name: str, backward: bool = False) -> list[Kernel]:
    """Kernels of a name in a pass of the first layer of a job."""
    passes = operators.layer_backward if backward else operators.layer_forward
    steps = operators.each(passes(built, built.model.kinds[0]))
    return [step for step in steps if isinstance(step, Kernel) and step.name == name]


def moved(found: list[Kernel]) -> list[tuple[float, float]]:
    """Bytes read and written by each kernel that only moves memory."""
    return [(one.work.read_bytes, one.work.write_bytes) for one in found if isinstance(one.work, Stream)]
