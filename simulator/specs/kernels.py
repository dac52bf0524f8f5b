"""Kernel efficiencies of a family of accelerators, as condensed from measured kernels or estimated.

Numbers are relative to the accelerator's own peaks wherever that is meaningful, so that one profile serves devices of
equal architecture; only latencies are absolute. Equations: docs/models/compute.md.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bytes, Count, Fraction, PositiveFraction, Seconds, Spec, Status
from simulator.specs.hardware import DType


class Tile(Spec):
    """A block of the result that one core computes; both orientations are tried."""

    long: Count
    """Longer side, elements."""
    short: Count
    """Shorter side, elements."""
    efficiency: float = Field(gt=0, le=1.1)
    """Rate of its main loop over the core's share of the peak; above 1 where a device boosts beyond the clock at which
    its peak is stated (1.98 of 1.83 GHz on H100). No price is below the peak."""


class GemmKernels(Spec):
    """Matrix products of one number format."""

    status: Status
    """How the numbers are known."""
    source: str
    """Where they come from."""
    tiles: tuple[Tile, ...] = Field(min_length=1)
    """Tiles that the library has."""
    launch: Seconds
    """From one kernel to the next, no work."""
    prologue: Seconds
    """Filling the pipeline of a tile."""
    step: Seconds
    """Least time of one element of depth in the main loop of any tile."""
    store: float = Field(gt=0)
    """Bandwidth at which tiles are written back over that of device memory."""
    softness: Fraction
    """0: a started wave of tiles costs a whole one; 1: only its share."""
    memory: PositiveFraction
    """Share of the memory bandwidth that large transfers reach."""
    ramp: Bytes
    """Traffic that a kernel falls behind a steady stream while it starts."""
    splits: bool = True
    """Whether the library splits sums over idle cores."""
    split: Seconds = 0.0
    """Gathering the parts of a split sum."""
    split_traffic: float = Field(default=0.0, ge=0)
    """Traffic of gathering over 8 bytes per element of result and part."""
    edge: float = Field(ge=0)
    """Side of a square tile, in elements, whose operands just arrive from cache at the speed of the peak."""
    limit: PositiveFraction = 1.0
    """Share of the peak that power allows a long kernel."""
    settle: Seconds = 1.0
    """Length of a kernel at which the power limit has half set in."""
    alignment: Count = 8
    """Elements that the contiguous sides must be a multiple of."""
    misaligned: float = Field(default=0.25, gt=0, le=1)
    """Rate where the summed side k is not, over the rate of the padded product; an estimate."""
    misaligned_batch: float = Field(default=0.25, gt=0, le=1)
    """The same for batched products, those of an attention, where either of n and k is not; an estimate unless a
    profile says otherwise."""


class AttentionKernels(Spec):
    """One generation of fused attention kernels."""

    status: Status
    """How the numbers are known."""
    source: str
    """Where they come from."""
    rows: Count = 128
    """Query rows of a block."""
    forward: dict[int, PositiveFraction] = Field(min_length=1)
    """Share of the 16-bit peak by head size."""
    backward: dict[int, PositiveFraction] = Field(min_length=1)
    """The same for the backward pass (2.5 times the arithmetic of the forward pass)."""
    launch: Seconds
    """From one kernel to the next, no work."""
    block: Seconds
    """What a block costs beyond its walk over the keys."""
    backward_block: Seconds
    """The same in the backward pass."""
    tail: Fraction
    """Share of the longest block by which the cores finish unevenly."""
    narrow: dict[int, float] = Field(default_factory=dict)
    """Rate with factors in 8 bits over that in 16, by head size; 1 where left out, as there are no such kernels."""
    narrow_backward: dict[int, float] = Field(default_factory=dict)
    """The same in the backward pass."""
    memory: PositiveFraction = 0.85
    """Share of the memory bandwidth that large transfers reach."""


class StreamKernels(Spec):
    """Elementwise kernels and other passes over memory."""

    status: Status
    """How the numbers are known."""
    source: str
    """Where they come from."""
    memory: PositiveFraction
    """Share of the memory bandwidth that large transfers reach, reads and writes mixed."""
    launch: Seconds
    """From one kernel to the next, no work."""
    vector: PositiveFraction = 0.8
    """Share of the fp32 peak that elementwise arithmetic reaches."""


class DecodeKernels(Spec):
    """Attention of one query a sequence over a cache of keys and values, and writing that cache.

    Defaults lie between the fits on A100 and H100. Equations: docs/models/serving-cost.md.
    """

    status: Status = "estimate"
    """How the numbers are known."""
    source: str = "between the fitted profiles a100-sxm and h100-sxm"
    """Where they come from."""
    launch: Seconds = 9e-6
    """No work, of all kernels that belong to it."""
    gather: Seconds = 4e-6
    """More where the walk over a sequence is cut into parts for idle cores."""
    sequence: Seconds = 1e-8
    """Of each sequence."""
    block: Seconds = 3e-8
    """Of each key head of each sequence beyond the first one of each core, all cores together."""
    overlap: Fraction = 0.4
    """Share of the time of sequences and blocks that is not hidden behind reading."""
    memory: PositiveFraction | None = None
    """Share of the memory bandwidth at which many cached tokens in 16 bits are read; that of streams where left out."""
    narrow: PositiveFraction | None = None
    """The same for 8 bits and less with kernels of `paged` attention; 0.75 of `memory` where left out."""
    core: float = Field(default=1.2, gt=0)
    """Rate of one core alone over its share of the memory bandwidth."""
    cuts_all: bool = False
    """Whether walks are cut also where every query head has keys of its own, and for short chunks of prompts."""
    write: PositiveFraction = 0.4
    """Share of the memory bandwidth at which keys and values are written to the cache."""
    write_token: Seconds = 1e-9
    """Least time of a token that is written."""
    query: float = Field(default=0.5, gt=0, le=4)
    """Share of the memory bandwidth at which prompts' queries are read and results written, beside their walk; above 1
    where the last-level cache still holds them."""

    reread: float = Field(default=18.6, gt=0)
    """Bytes a cycle that a multiprocessor reads keys again at from the last-level cache, for kernels that read them
    once for each query head of a group; in all no less than the memory's bandwidth, which also stands in where cores or
    clock are not known. As H100; TensorRT-LLM 0.5 reaches 4.5 TB/s there and on A100 (29.6) in its published tables."""


class LatentKernels(Spec):
    """Decode attention over latents that all query heads share (multi-head latent attention, absorbed).

    Defaults are near the fits on H100 and B200. Equations: docs/models/serving-cost.md.
    """

    status: Status = "estimate"
    """How the numbers are known."""
    source: str = "between the fitted profiles h100-sxm and b200-sxm"
    """Where they come from."""
    launch: Seconds = 12e-6
    """No work, of all kernels that belong to it."""
    sequence: Seconds = 3e-8
    """Of each sequence."""
    overlap: Fraction = 0.5
    """Share of the time of sequences that is not hidden behind reading."""
    memory: PositiveFraction = 0.85
    """Share of the memory bandwidth at which many cached tokens are read."""
    rate: PositiveFraction = 0.6
    """Share of the 16-bit peak at which many heads multiply."""
    cuts: bool = True
    """Whether the walk over a sequence is cut into parts for idle cores."""
    core: float = Field(default=1.0, gt=0)
    """Rate of one core alone over its share of the memory bandwidth, where walks are not cut."""
    padded_heads: Count = 64
    """Multiple to which query heads are filled up where rows of prompts attend to chosen tokens; 64 on Hopper."""


ExpertFormat = DType | Literal["w4a16", "w4a8"]
"""Format of a mixture of experts: of both factors, or 4-bit weights beside rows of 16 or 8 bits (MXFP4)."""


class ExpertKernels(Spec):
    """Grouped products of a mixture of experts, relative to the same device's dense products.

    Defaults are near the fits on H100. Equations: docs/models/serving-cost.md.
    """

    status: Status = "estimate"
    """How the numbers are known."""
    source: str = "as the fitted profile h100-sxm"
    """Where they come from."""
    launch: Seconds = 25e-6
    """Of the whole mixture: choosing, sorting, products, summing."""
    rate: float = Field(default=0.6, gt=0, le=2.5)
    """Rate of the arithmetic over that of a dense product."""
    memory: float = Field(default=1.0, gt=0, le=1.5)
    """Rate of reading weights over that of a dense product."""
    ramp: Bytes = 5e6
    """Traffic that each product falls behind a steady stream while it starts."""
    passes: float = Field(default=1.5, ge=0)
    """Traffic of gathering rows, activation and sum over reading and writing each row once."""
    each: Seconds = Field(default=0.0, exclude_if=lambda seconds: seconds == 0.0)
    """Time of each expert that the device holds, with rows or without."""
    passes_elsewhere: float = Field(default=0.0, ge=0, exclude_if=lambda passes: passes == 0.0)
    """Traffic over rows that the device has whose experts are on others, over reading and writing each once."""
    apart: Seconds = Field(default=0.0, exclude_if=lambda seconds: seconds == 0.0)
    """Time of the whole mixture, beside `launch`, where other devices have experts too."""
    tile: int = Field(default=0, ge=0, le=1024, exclude_if=lambda rows: rows == 0)
    """Rows of the tallest tile, of kernels that choose it by the rows of all devices over the experts of one."""


PASSES_ELSEWHERE = 1.2
"""Of mixtures without a table, as those of Triton with a scale for each block on H100 and H200."""


class ScanKernels(Spec):
    """Recurrences of linear attention and state-space layers.

    Defaults are near the fits of Triton kernels on H100 and B200. Equations: docs/models/linear.md.
    """

    status: Status = "estimate"
    """How the numbers are known."""
    source: str = "near the fitted `triton` kernels of h100-sxm and b200-sxm"
    """Where they come from."""
    launch: Seconds = 25e-6
    """No work, of all kernels that belong to a scan."""
    block: Seconds = 18e-6
    """Of a core for each head of each sequence with a state of 128 x 128, rows apart."""
    chain: Seconds = 24e-9
    """Of a row of a sequence, which its heads cannot share."""
    rate: float = Field(default=0.045, gt=0, le=1)
    """Share of the 16-bit peak that rows pass at, FLOP counted as published."""
    whole: bool = False
    """Whether one core walks all rows of a head, in whole waves of heads."""
    backward: float = Field(default=3.0, ge=1, le=10)
    """Arithmetic and traffic of the backward pass over those of the forward pass. An estimate everywhere: what a chunk
    makes of its rows is computed again, and each of its products has two gradients."""
    step_launch: Seconds = 3.7e-6
    """Of a step of decoding, no work."""
    step_memory: PositiveFraction = 0.82
    """Share of the memory bandwidth at which states are read and written by a step of decoding."""


_CHUNKS = (
    "tilelang's benchmark of Mamba-2's chunk scan on H800 (19.5 ns a token of 5,120 channels with 128 states: 0.24 of "
    "the peak at 7 FLOP a state), taken as 0.4 of a forward pass; the rest near fitted `triton` kernels"
)
SCAN_ESTIMATES = {
    "any": ScanKernels(),
    "gla": ScanKernels(source=f"as mamba2, which has products of the same kinds: {_CHUNKS}", rate=0.1),
    "lightning": ScanKernels(source=f"as mamba2, which has products of the same kinds: {_CHUNKS}", rate=0.1),
    "mamba1": ScanKernels(source="half the speed of mamba2 (arXiv:2405.21060 section 6: 2 to 8 times)", rate=0.008),
    "mamba2": ScanKernels(source=_CHUNKS, rate=0.1),
}
"""What recurrences take that a profile does not have, by kind."""


class WeightOnlyKernels(Spec):
    """Products whose weights are dequantised as they are read, relative to products without.

    Equations: docs/models/serving-cost.md.
    """

    status: Status = "estimate"
    """How the numbers are known."""
    source: str = "Marlin stays near the speed of 16-bit products on Ampere (arXiv:2408.11743)"
    """Where they come from."""
    rate: float = Field(default=0.85, gt=0, le=1)
    """Rate of the arithmetic."""
    memory: float = Field(default=0.95, gt=0, le=1)
    """Rate of reading weights."""


ANY_FAMILY = "any"
"""The family of estimates that stand for every engine's kernels."""


class KernelProfile(Spec):
    """What share of an accelerator's peaks its kernels reach, by shape."""

    folder: ClassVar[str] = "hardware_profiles/kernels"

    name: str
    """What it stands for."""
    cores: Count = 64
    """Cores that tiles are spread over, where the accelerator does not say."""
    gemm: dict[DType, GemmKernels] = Field(min_length=1)
    """Matrix products by number format; one that is missing takes the coefficients of one of equal, else of the nearest
    width, with its own peak."""
    attention: dict[str, AttentionKernels] = Field(min_length=1)
    """Fused attention by generation."""
    best_attention: str = "fa2"
    """Generation that runs by default."""
    stream: StreamKernels
    """Passes over memory."""
    decode: DecodeKernels = DecodeKernels.model_construct()
    """Attention over a cache."""
    latent: LatentKernels = LatentKernels.model_construct()
    """Decode attention over latents."""
    experts: dict[str, Annotated[dict[ExpertFormat, ExpertKernels], Field(min_length=1)]] = Field(
        default={ANY_FAMILY: {"bf16": ExpertKernels(passes_elsewhere=PASSES_ELSEWHERE)}}, min_length=1
    )
    """Mixtures of experts by family of kernels (`triton`, `cutlass`, `trtllm-gen`; `any`: an estimate for all) and
    number format. A stack names the families that it runs; a family or format that is missing takes the nearest, with a
    warning."""
    scans: dict[str, Annotated[dict[str, ScanKernels], Field(min_length=1)]] = Field(default_factory=dict)
    """Recurrences by family of kernels (`triton`; `fused`, FlashInfer's and FlashKDA's) and kind (`delta`, `kda`, ...).
    What is missing takes estimates, with a warning."""
    weight_only: WeightOnlyKernels = WeightOnlyKernels.model_construct()
    """Products with weights narrower than the arithmetic."""
    notes: str = ""
    """What a reader should know."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.best_attention not in self.attention:
            raise ValueError(f"`best_attention` is one of {', '.join(self.attention)}, not {self.best_attention!r}")
        return self
