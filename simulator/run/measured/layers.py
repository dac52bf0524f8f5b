"""Published kernels of latent attention and of mixtures of experts, priced on the accelerator that they ran on.

Decodes are walks over latents, prompts fused attention over expanded keys and values, in the kernel of serving engines,
and rows that an index has chosen latents for walk over these with the sizes of latents, heads filled up as the device's
kernels do. A mixture is the family of kernels that its library names, with every expert as likely as the others.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from simulator.cost import Attention, Decode, Device, seconds
from simulator.cost.experts import expert_seconds, experts_hit
from simulator.cost.rows import Weights
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.kernels import KernelRow, library_of
from simulator.interop.rows.single.layers import Latents, Mixture
from simulator.interop.rows.suspicious import check_timed

PROMPTS = "paged"
"""Kernel of the prompts of serving engines."""
BF16 = "bf16"


def attended(row: KernelRow, latents: Latents, device: Device) -> tuple[float, str, float]:
    """(measured seconds, what the row publishes, ours) of attention over latents."""
    work = _attention(row, latents, device)
    ours = seconds(work, device)
    flops = work.flops / _filled(latents, device) if latents.way == "chosen" else work.flops
    return *_measured(row, flops, work.bytes, device), ours


def _attention(row: KernelRow, latents: Latents, device: Device) -> Decode | Attention:
    width = latents.cached + latents.rotated
    if latents.way == "decode":
        tokens = latents.sequences * latents.tokens
        # Rows of a sequence walk over its latents together, as its heads do.
        return Decode(
            latents.sequences, tokens, latents.heads * latents.rows, 1, width, latents.kv_bytes, latent=latents.cached
        )
    kernel = library_of(row.library) or (PROMPTS if PROMPTS in device.attention else None)
    if latents.way == "chosen":
        heads = round(latents.heads * _filled(latents, device))
        return Attention(
            latents.sequences,
            heads,
            1,
            latents.rows,
            latents.tokens,
            width,
            False,
            kernel=kernel,
            value_dim=latents.cached,
        )
    keys, values = latents.expanded
    return Attention(
        latents.sequences,
        latents.heads,
        latents.heads,
        latents.rows,
        latents.tokens,
        keys,
        True,
        kernel=kernel,
        value_dim=values,
    )


def _filled(latents: Latents, device: Device) -> float:
    """Heads that a kernel over chosen latents works on over those that there are."""
    return -(-latents.heads // device.padded_heads) * device.padded_heads / latents.heads


def _measured(row: KernelRow, flops: float, moved: float, device: Device) -> tuple[float, str]:
    """Seconds, and the figure that they are taken from; shares are those of the peaks of the accelerator's profile."""
    amounts = {
        "flops_per_s": flops,
        "bytes_per_s": moved,
        "fraction_of_spec": flops / device.peak(BF16),
        "fraction_of_peak_bandwidth": moved / device.bandwidth,
    }
    return _timed(row, amounts)


def _timed(row: KernelRow, amounts: Mapping[str, float]) -> tuple[float, str]:
    """Seconds, and the figure that they are taken from: a time, or a rate of one of the `amounts` of a run."""
    if found := row.metrics.get("time_s"):
        return found, "time_s"
    for name, amount in amounts.items():
        if rate := row.metrics.get(name):
            return amount / rate, name
    raise Refused("neither a time nor a rate")


def mixed(row: KernelRow, mixture: Mixture, device: Device) -> tuple[float, str, float]:
    """(measured seconds, what the row publishes, ours) of a mixture; Refused where the device has not its format."""
    if mixture.format not in device.peaks:
        raise Refused(f"{mixture.format} on {device.name}")
    curve = device.mixture((mixture.family,), mixture.format)
    assert curve is not None  # peaks have a curve in every family
    tokens = np.array([mixture.tokens])
    hit = np.maximum(experts_hit(tokens * mixture.spread, mixture.experts, mixture.top_k) / mixture.spread, 1.0)
    products = replace(device.gemm[mixture.format], result_size=2.0)
    weights = Weights(mixture.bits / 8, slim=mixture.bits < 8)
    held = mixture.experts / mixture.spread
    sides = mixture.top_k, mixture.hidden, mixture.inner, True
    ours = float(expert_seconds(tokens, hit, *sides, curve, products, weights, held)[0])
    flops = 6.0 * mixture.tokens * mixture.top_k * mixture.hidden * mixture.inner
    amounts = {"tokens_per_s": float(mixture.tokens), "flops_per_s": flops}
    check_timed(row.metrics, amounts)
    return *_timed(row, amounts), ours
