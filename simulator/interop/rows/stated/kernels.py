"""Kernels that the words of published training rows name beside those of a framework."""

import re

from simulator.interop.rows.accelerators import plain

_FUSED_LOSS = re.compile(r"(?<!\w)(?<!no )(?<!without )(liger|unsloth)(?!\w)")


def fused_loss(*texts: str | None) -> bool:
    """Whether the words of a row name kernels that take the cross entropy of a few rows at a time, beside the product
    of the head, and never copy logits to fp32: Liger's (linkedin/Liger-Kernel, `fused_linear_cross_entropy=True` of
    `apply_liger_kernel_to_*`) and Unsloth's."""
    return any(_FUSED_LOSS.search(plain(text or "")) for text in texts)


_FUSED_ADAM = re.compile(r"(?<!\w)(?<!no )(?<!not )(?<!without )(fused adamw?|adamw?( torch)? fused|nano ?gpt)(?!\w)")


def fused_optimizer(*texts: str | None) -> bool:
    """Whether the words of a row say that Adam is one kernel, or name a program that asks PyTorch for it
    (karpathy/nanoGPT model.py, `configure_optimizers`: `fused=True` on CUDA)."""
    return any(_FUSED_ADAM.search(plain(text or "")) for text in texts)
