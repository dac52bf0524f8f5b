"""Elementwise operations of model code that PyTorch runs as it stands, a kernel an operation.

Counted in the code of models: each kernel reads its operands and writes its result, half of them in fp32, to which
norms are brought and back. RMSNorm: `LlamaRMSNorm` of huggingface/transformers (models/llama/modeling_llama.py), as
`rms_norm` composed in PyTorch (aten/src/ATen/native/layer_norm.cpp) is but for a cast. Positions:
`apply_rotary_pos_emb` and `rotate_half` there; complex products in fp32 (torchtitan) move as much. Backward, autograd
runs the rule of each operation and adds what comes back on several ways. A layer norm is one kernel in PyTorch too.
"""

from collections.abc import Mapping
from typing import NamedTuple

from simulator.cost.work import Stream
from simulator.model.blocks.around import HEADS, NORM, RESIDUAL, ROTARY
from simulator.model.ops import Elementwise
from simulator.training.job import Job


class Counted(NamedTuple):
    """What the kernels of an operation move of each element of a row."""

    read: float
    """Elements read in the format of the rows."""
    written: float
    wide_read: float = 0.0
    """Elements read in fp32."""
    wide_written: float = 0.0
    kernels: int = 1

    def stream(self, elements: float, element: float) -> Stream:
        """The kernels on so many elements."""
        read = elements * (self.read * element + self.wide_read * 4)
        return Stream(read, elements * (self.written * element + self.wide_written * 4), kernels=self.kernels)


NORMED, NORMED_BACK = Counted(2, 2, 4, 3, 8), Counted(5, 3, 11, 8, 17)
FORWARD: Mapping[str, Counted] = {
    NORM: NORMED,
    HEADS: NORMED,
    ROTARY: Counted(5.5, 4.5, kernels=10),
    RESIDUAL: Counted(2, 1),
}
BACKWARD: Mapping[str, Counted] = {
    NORM: NORMED_BACK,
    HEADS: NORMED_BACK,
    ROTARY: Counted(7.5, 7.5, kernels=18),
    RESIDUAL: Counted(2, 1),
}


def one_by_one(job: Job, does: Elementwise, rows: float) -> Stream | None:
    """The kernels of an elementwise operation on so many rows; None where a stack fuses some of them, and for what no
    count is here. Kernels of the backward pass are those that have none of their own."""
    stack = job.stack
    if stack.fused_elementwise or stack.fused_norms or does.forward.masks_written or does.forward.masks_read:
        return None
    if does.kind == NORM and job.model.norm == "layernorm":
        elements, own = rows * (does.element or job.element), does.forward
        return Stream(own.read * elements, own.written * elements, kernels=own.kernels)
    counted = (FORWARD if does.back else BACKWARD).get(does.kind)
    width = does.kept or does.forward.written
    return counted.stream(rows * width, does.element or job.element) if counted else None
