"""A device as the cost model sees it: plain numbers, compiled once from an accelerator and its kernel profile."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, log2

from simulator.cost.attention import AttentionCurve
from simulator.cost.decode import DecodeCurve
from simulator.cost.economy import held_clock
from simulator.cost.experts import ExpertCurve
from simulator.cost.gemm import SPLITS, GemmCurve
from simulator.cost.scan import ScanCurve
from simulator.cost.stream import StreamCurve
from simulator.cost.work import ELEMENT_BYTES
from simulator.errors import InputError
from simulator.specs.hardware import Accelerator, DType
from simulator.specs.kernels import (
    ANY_FAMILY,
    SCAN_ESTIMATES,
    AttentionKernels,
    DecodeKernels,
    ExpertFormat,
    ExpertKernels,
    GemmKernels,
    KernelProfile,
    LatentKernels,
    ScanKernels,
)
from simulator.specs.resolve import load_spec

WIDER = {
    "fp4": ("fp8", "bf16", "fp16", "tf32", "fp32"),
    "int4": ("int8", "fp16", "bf16", "fp32"),
    "fp8": ("bf16", "fp16", "tf32", "fp32"),
    "fp8_block": ("fp8", "bf16", "fp16", "tf32", "fp32"),
    "int8": ("fp16", "bf16", "tf32", "fp32"),
    "bf16": ("fp16", "tf32", "fp32"),
    "fp16": ("bf16", "tf32", "fp32"),
    "tf32": ("fp32", "fp64"),
    "fp32": ("fp64",),
}
"""What a format is computed in where a device lacks it, best first: what a library would convert to."""


@dataclass(frozen=True, eq=False)
class Device:
    """Everything that durations depend on. Equal accelerators compile to the same object, which hashes by identity."""

    name: str
    """Product name."""
    vendor: str
    """Maker."""
    profile: str
    """Name of the kernel profile."""
    status: str
    """How its matrix products are known: `measured`, `datasheet` or `estimate`."""
    peaks: Mapping[str, float]
    """Dense peak FLOP/s by number format."""
    bandwidth: float
    """Peak bytes/s of device memory."""
    cores: int
    """Multiprocessors, or what the kernel profile counts as such."""
    cycles: float
    """Cycles a second of all multiprocessors together; infinite where cores or clock are not known."""
    sustained: bool
    """Whether the clock of long runs is stated, so that rates fitted on devices whose clock falls do not hold it."""
    gemm: Mapping[str, GemmCurve]
    """Matrix products by number format of the device."""
    attention: Mapping[str, AttentionCurve]
    """Fused attention by generation."""
    best_attention: str
    """Generation that runs where none is asked for."""
    stream: StreamCurve
    """Passes over memory."""
    decode: DecodeCurve
    """Attention over a cache."""
    latent: DecodeCurve
    """The same over latents that all query heads share."""
    padded_heads: int
    """Multiple to which query heads are filled up where rows of prompts attend to chosen latents."""
    experts: Mapping[str, Mapping[str, ExpertCurve]]
    """Mixtures of experts by family of kernels and number format of the device, or of weights and rows."""
    fitted_experts: Mapping[str, tuple[str, ...]]
    """Number formats that the profile knows of each family."""
    scans: Mapping[str, Mapping[str, ScanCurve]]
    """Recurrences by family of kernels and kind."""
    scan_estimates: Mapping[str, ScanCurve]
    """By kind, `any` among them: those that are not known."""
    dequantising: tuple[float, float]
    """Rates of arithmetic and of reading where weights are dequantised as they are read, over those elsewhere."""

    def native(self, dtype: str) -> str:
        """The format in which work of a format is computed; InputError where the device has none wide enough."""
        if dtype in self.peaks:
            return dtype
        for wider in WIDER.get(dtype, ()):
            if wider in self.peaks:
                return wider
        raise InputError(f"{self.name} computes nothing in {dtype}; it supports {', '.join(sorted(self.peaks))}")

    def mixture(self, families: Sequence[str], dtype: str) -> ExpertCurve | None:
        """The mixture of experts of the first of some families that the profile has; of its first one where none is.
        None where the format is one of weights and rows that its kernels are not known in."""
        return self.experts[self._family(families, dtype)].get(dtype)

    def mixture_family(self, families: Sequence[str], dtype: str) -> str:
        """The family that `mixture` takes."""
        return self._family(families, dtype)

    def extrapolated_mixture(self, families: Sequence[str], dtype: str) -> str:
        """What `mixture` takes in place of kernels that are not known here; empty where it takes them."""
        family = self._family(families, dtype)
        if family == ANY_FAMILY:
            return ""
        if family not in families:
            wanted = " or ".join(families)
            return (
                f"no `{wanted}` kernels of mixtures of experts are known for {self.name}: those of `{family}` are taken"
            )
        if dtype not in self.fitted_experts[family]:
            known = ", ".join(self.fitted_experts[family])
            what = f"`{family}` kernels of mixtures of experts are known for {self.name} in {known} only"
            return f"{what}: {dtype} is priced alike"
        return ""

    def scan(self, families: Sequence[str], kind: str) -> ScanCurve:
        """The recurrences of a kind of the first of some families that has them; estimates where none has."""
        named = (self.scans.get(family, {}) for family in families)
        estimate = self.scan_estimates.get(kind, self.scan_estimates["any"])
        return next((known[kind] for known in named if kind in known), estimate)

    def _family(self, families: Sequence[str], dtype: str) -> str:
        return next((name for name in families if dtype in self.experts.get(name, ())), next(iter(self.experts)))

    def peak(self, dtype: str) -> float:
        """Peak FLOP/s of work of a format; InputError as in `native`."""
        return self.peaks[self.native(dtype)]


def compile_device(accelerator: Accelerator, profile: KernelProfile | None = None) -> Device:
    """The device of an accelerator; its kernel profile is loaded by name (InputError if there is none) unless given."""
    if profile is not None:
        return _compile(accelerator, profile)
    kernels = kernels_named(accelerator.kernels)
    return _cached(_Key(accelerator.model_dump_json(), id(kernels), accelerator, kernels))


@dataclass(frozen=True, slots=True)
class _Key:
    """An accelerator that hashes by its content, and its kernel profile as it was loaded."""

    text: str
    loaded: int
    """Identity of the profile, which is another one where its file has changed."""
    accelerator: Accelerator = field(compare=False)
    kernels: KernelProfile = field(compare=False)


@lru_cache(maxsize=256)
def _cached(key: _Key) -> Device:
    return _compile(key.accelerator, key.kernels)


def kernels_named(name: str) -> KernelProfile:
    """The kernel profile of a name, read once and again where its file has changed; InputError if there is none."""
    return load_spec(KernelProfile, name)


def _compile(accelerator: Accelerator, profile: KernelProfile) -> Device:
    peaks = {str(dtype): figure.value for dtype, figure in accelerator.peak.items() if figure.value > 0}
    peaks = with_blocks(peaks) if "fp8_block" in profile.gemm else peaks
    bandwidth = accelerator.memory.bandwidth.value
    cores = accelerator.cores.value if accelerator.cores else profile.cores
    clock = accelerator.sustained.value if accelerator.sustained else 1.0
    held = held_clock(accelerator.power) if accelerator.power else 1.0
    clock *= held
    return Device(
        name=accelerator.name,
        vendor=accelerator.vendor,
        profile=profile.name,
        status=next(iter(profile.gemm.values())).status,
        peaks=peaks,
        bandwidth=bandwidth,
        cores=cores,
        cycles=_cycles(accelerator) or inf,
        sustained=accelerator.sustained is not None,
        gemm={dtype: gemm_curve(dtype, profile.gemm, peaks, bandwidth, cores, clock, held) for dtype in peaks},
        attention={
            name: attention_curve(generation, sixteen_bit(peaks), bandwidth, cores, clock)
            for name, generation in profile.attention.items()
        },
        best_attention=profile.best_attention,
        stream=_stream_curve(accelerator, profile, peaks, bandwidth, clock),
        decode=decode_curve(
            profile.decode, bandwidth, cores, sixteen_bit(peaks), profile.stream.memory, _cycles(accelerator)
        ),
        latent=latent_curve(profile.latent, bandwidth, cores, sixteen_bit(peaks), clock),
        padded_heads=profile.latent.padded_heads,
        experts={
            name: {
                dtype: expert_curve(dtype, known)
                for dtype in (*(peaks if set(known) - MIXED else ()), *MIXED & set(known))
            }
            for name, known in profile.experts.items()
        },
        fitted_experts={name: tuple(map(str, known)) for name, known in profile.experts.items()},
        scans={
            name: {
                kind: scan_curve(spec, bandwidth, cores, sixteen_bit(peaks), profile.stream.memory)
                for kind, spec in known.items()
            }
            for name, known in profile.scans.items()
        },
        scan_estimates={
            kind: scan_curve(spec, bandwidth, cores, sixteen_bit(peaks), profile.stream.memory)
            for kind, spec in SCAN_ESTIMATES.items()
        },
        dequantising=(profile.weight_only.rate, profile.weight_only.memory),
    )


def with_blocks(peaks: Mapping[str, float]) -> dict[str, float]:
    """Peaks with that of fp8 whose scales belong to blocks, which is the one of fp8."""
    return {**peaks, **({"fp8_block": peaks["fp8"]} if "fp8" in peaks else {})}


NARROW = 0.75
"""Rate of reading 8-bit caches over that of 16-bit ones, between the fits on H100 (0.76) and H200 (0.59)."""


def _cycles(accelerator: Accelerator) -> float:
    """Cycles a second of all multiprocessors together; 0 where cores or clock are not known."""
    return accelerator.cores.value * accelerator.clock.value if accelerator.cores and accelerator.clock else 0.0


def decode_curve(
    spec: DecodeKernels, bandwidth: float, cores: int, arithmetic: float, stream: float = 1.0, cycles: float = 0.0
) -> DecodeCurve:
    """Attention over a cache in SI units; `stream` is the share of the bandwidth that passes over memory reach."""
    memory = stream if spec.memory is None else spec.memory
    narrow = NARROW * memory if spec.narrow is None else spec.narrow
    return DecodeCurve(
        peak=bandwidth,
        arithmetic=arithmetic,
        bandwidth=bandwidth * memory,
        narrow=bandwidth * narrow,
        core=spec.core * bandwidth / cores,
        cores=cores,
        launch=spec.launch,
        gather=spec.gather,
        sequence=spec.sequence,
        block=spec.block,
        overlap=spec.overlap,
        cuts_all=spec.cuts_all,
        write=bandwidth * spec.write,
        write_token=spec.write_token,
        query=bandwidth * spec.query,
        reread=max(bandwidth, spec.reread * cycles),
    )


def latent_curve(
    spec: LatentKernels, bandwidth: float, cores: int, arithmetic: float, clock: float = 1.0
) -> DecodeCurve:
    """Attention over latents in SI units."""
    return DecodeCurve(
        peak=bandwidth,
        arithmetic=arithmetic * clock * spec.rate,
        bandwidth=bandwidth * spec.memory,
        narrow=bandwidth * spec.memory,
        core=spec.core * bandwidth / cores,
        cores=cores,
        launch=spec.launch,
        gather=0.0,
        sequence=spec.sequence,
        block=0.0,
        overlap=spec.overlap,
        cuts_all=spec.cuts,
        write=bandwidth,
        write_token=0.0,
        query=bandwidth,
        reread=bandwidth,
    )


MIXED: frozenset[ExpertFormat] = frozenset(("w4a16", "w4a8"))
"""Mixtures whose weights are narrower than their rows: no format of the device."""


def expert_curve(kind: str, known: Mapping[ExpertFormat, ExpertKernels]) -> ExpertCurve:
    """A mixture of experts in one format, by the kernels of a family."""
    both = {dtype: spec for dtype, spec in known.items() if dtype not in MIXED}
    spec = known[kind] if kind in MIXED else both[reference(kind, both)]  # type: ignore[arg-type]
    spread = spec.passes_elsewhere, spec.apart, spec.tile
    return ExpertCurve(spec.launch, spec.rate, spec.memory, spec.ramp, spec.passes, spec.each, *spread)


def scan_curve(spec: ScanKernels, bandwidth: float, cores: int, peak: float, stream: float) -> ScanCurve:
    """Recurrences in SI units; `stream` is the share of the bandwidth that passes over memory reach."""
    return ScanCurve(
        bandwidth=bandwidth * stream,
        cores=cores,
        peak=peak / cores,
        core=peak / cores * spec.rate,
        launch=spec.launch,
        block=spec.block,
        chain=spec.chain,
        whole=spec.whole,
        backward=spec.backward,
        step_launch=spec.step_launch,
        step_bandwidth=bandwidth * spec.step_memory,
        known=spec.status == "measured",
    )


def reference(dtype: str, measured: Iterable[DType]) -> DType:
    """The format whose coefficients a format takes: its own, one of equal width, one of the nearest width."""
    return min(measured, key=lambda known: (known != dtype, abs(log2(ELEMENT_BYTES[known] / ELEMENT_BYTES[dtype]))))


def gemm_curve(
    dtype: str,
    known: Mapping[DType, GemmKernels],
    peaks: Mapping[str, float],
    bandwidth: float,
    cores: int,
    clock: float,
    held: float = 1.0,
) -> GemmCurve:
    """Matrix products of one format in SI units, at `clock` times the rate of the benchmarks, long ones at `held` times
    theirs, whose power has a limit."""
    name = reference(dtype, known)
    spec = known[name]
    size, peak = ELEMENT_BYTES[dtype], peaks[dtype]
    result = max(size, 2.0)
    per_core = peak / cores * clock
    cache = ELEMENT_BYTES[name] * peaks.get(name, peak) * clock
    return GemmCurve(
        peak=peak,
        bandwidth=bandwidth * spec.memory,
        cores=cores,
        size=size,
        result_size=result,
        tiles=tuple(
            (tile.long, tile.short, max(2.0 * tile.long * tile.short / (per_core * tile.efficiency), spec.step / clock))
            for tile in spec.tiles
        ),
        launch=spec.launch,
        prologue=spec.prologue,
        store=result * cores / (bandwidth * spec.store),
        softness=spec.softness,
        ramp=spec.ramp,
        split=spec.split,
        split_traffic=8.0 * spec.split_traffic / bandwidth,
        feed=2.0 * spec.edge / cache,
        limit=spec.limit * held,
        settle=spec.settle,
        alignment=spec.alignment,
        misaligned=spec.misaligned,
        memory_peak=bandwidth,
        misaligned_batch=spec.misaligned_batch,
        splits=SPLITS if spec.splits else (1,),
    )


def sixteen_bit(peaks: Mapping[str, float]) -> float:
    """Peak of the format that fused attention runs in, FLOP/s."""
    for dtype in ("bf16", "fp16", "tf32", "fp32"):
        if dtype in peaks:
            return peaks[dtype]
    return max(peaks.values())


def attention_curve(
    spec: AttentionKernels,
    peak: float,
    bandwidth: float,
    cores: int,
    clock: float,
) -> AttentionCurve:
    """One generation of fused attention in SI units, at `clock` times the rate of the benchmarks."""
    core = peak / cores * clock
    return AttentionCurve(
        peak=peak,
        bandwidth=bandwidth * spec.memory,
        cores=cores,
        rows=spec.rows,
        forward=tuple((size, core * share) for size, share in sorted(spec.forward.items())),
        backward=tuple((size, core * share) for size, share in sorted(spec.backward.items())),
        launch=spec.launch,
        block=spec.block,
        backward_block=spec.backward_block,
        tail=spec.tail,
        narrow=tuple(sorted(spec.narrow.items())),
        narrow_backward=tuple(sorted(spec.narrow_backward.items())),
    )


def _stream_curve(
    accelerator: Accelerator,
    profile: KernelProfile,
    peaks: Mapping[str, float],
    bandwidth: float,
    clock: float,
) -> StreamCurve:
    spec = profile.stream
    vector = peaks.get("fp32", sixteen_bit(peaks) / 16.0)
    return StreamCurve(
        bandwidth=bandwidth,
        efficiency=spec.memory,
        cache=accelerator.on_chip.value if accelerator.on_chip else 0.0,
        launch=spec.launch,
        vector=vector * clock * spec.vector,
    )
