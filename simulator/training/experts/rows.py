"""Passes that Transformer Engine and Megatron-Core make beside products, those of experts above all, where no kernel
does them with what comes before or after."""

from collections.abc import Iterator

from simulator.cost.work import Stream
from simulator.model.ops import COLUMN, LAYER, ROW, Linear
from simulator.training.job import Job
from simulator.training.step import Kernel


def fills(job: Job, product: Linear, rows: float, cut: str) -> Iterator[Kernel]:
    """Copying rows before or after the products of experts, so that each expert has a multiple of what products in 8
    and 4 bits take (Transformer Engine's `Fp8Padding` and `Fp8Unpadding`).

    They are copied before a product whose matrices are `cut` in columns and back after one cut in rows, in either pass.
    Libraries that merge copies fill rows up as they sort them; a capacity that is filled up is such a multiple.
    """
    if job.recipe is None or product.spread is None or product.cut != cut or job.stack.grouped:
        return
    sent = job.exchange
    if sent is None or sent.merged is not None or sent.filled:
        return
    size = rows * (product.inputs if cut == COLUMN else product.outputs) * job.element
    yield Kernel("fill rows" if cut == COLUMN else "empty rows", Stream(size, size))


def weighted_bias(job: Job, product: Linear, rows: float, backward: bool = False) -> Iterator[Kernel]:
    """Biases of the experts' last product, each times the probability of its row, where no kernel fuses them: in fp32,
    expert by expert (Megatron-Core's `TEGroupedMLP._apply_bias`).

    Forward the product with the probabilities is written, added to the rows, joined over experts and cast; backward the
    gradient is cast twice and joined, and multiplied and summed for the bias and for the probabilities.
    """
    if not product.bias or product.spread is None or product.cut != ROW or job.stack.grouped:
        return
    read, written, kernels = (24, 16, 6) if backward else (14, 14, 2)
    elements = rows * product.outputs
    work = Stream(read * elements, written * elements, kernels=kernels * product.matrices + 2)
    yield Kernel("expert bias", work)


def reordered(job: Job, product: Linear, factors: float, weights: bool = False) -> Iterator[Kernel]:
    """Bringing the scales of a product's two factors, of so many elements together, into the order that its kernel
    takes: one kernel a factor, for all experts together, in the call that launches the product. `weights`: before the
    product that gives the gradient of weights."""
    if job.recipe is None or not job.recipe.scales or product.format != LAYER or job.stack.grouped:
        return
    size = factors * job.recipe.scales
    yield Kernel("reorder scales", Stream(size, size, kernels=2), weights, launches=0)
