"""Parameters that shards gather around passes: what of a layer, and in how many bytes.

What is gathered in a narrower format counts as fewer elements of the working one.
"""

from simulator.specs.model import LayerKind
from simulator.training import adapters
from simulator.training.job import Job, Replicas
from simulator.training.operators import layer_matrices, layer_parameters, layer_units


def gathered_units(job: Job, kind: LayerKind, replicas: Replicas) -> list[float]:
    """Those of `layer_units` that no rank keeps whole, in elements of the working format: what is gathered in a
    narrower one counts as fewer."""
    least, narrow = job.stack.persistent or 0, _gathered_narrow(job)
    units = layer_units(job, kind, replicas, trained=not job.per_pass)
    units = [unit for unit in units if unit > least] if len(units) > 1 else units
    if narrow is None or not units or (job.lora and not job.per_pass):
        return units
    spared = layer_matrices(job, kind, replicas) * (1.0 - narrow / job.element)
    share = 1.0 - spared / layer_parameters(job, kind, replicas)
    return [unit * share for unit in units]


def _gathered_narrow(job: Job) -> float | None:
    """Bytes of an element of the layers' matrices as they are gathered, where they are fewer than in the working
    format: a recipe's, or frozen ones as QLoRA stores them, which FSDP takes for parameters of 16 bits that hold four
    elements each (bitsandbytes `quant_storage`, huggingface.co/docs/bitsandbytes/fsdp_qlora)."""
    if job.lora and job.lora.base_format:
        return adapters.STORED[job.lora.base_format]
    return job.recipe.weight if job.recipe is not None and job.quantized_parameters else None


def gathered_parameters(job: Job, kind: LayerKind) -> float:
    """Parameters of a layer as they lie where they were gathered, in elements of the working format: frozen ones stay
    as they are stored until a product takes them."""
    base = job.lora.base_format if job.lora else None
    spared = layer_matrices(job, kind) * (1.0 - adapters.STORED[base] / job.element) if base else 0.0
    return layer_parameters(job, kind) - spared
