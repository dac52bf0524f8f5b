"""Number formats with nothing left open: what weights, factors, and the cache of keys and values take."""

from dataclasses import dataclass, field, replace

from simulator.cost import Device
from simulator.cost.work import ELEMENT_BYTES
from simulator.errors import InputError, Problem
from simulator.specs.serving import NumberFormats

BITS = {"fp32": 32.0, "bf16": 16.0, "fp16": 16.0, "fp8": 8.0, "int8": 8.0, "fp4": 4.25, "int4": 4.25, "ternary": 2.0}
"""Bits of a weight: 4-bit formats with a 16-bit scale (and zero point) for each 64 or 128 of them, ternary ones packed
in two bits."""
ELEMENT = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5}
"""Bytes of an element of activations or of the cache."""
NARROWEST = 0.6
"""Bytes of a weight up to which it is one of 4 bits with its scales."""
BLOCKED = "fp8_block"
"""Products in fp8 that take a scale for each block of the weights, in tables of kernels."""
BOTH = ("fp8", "int8", "fp4")
"""Formats of weights for which the other factor is rounded to the same format where the device multiplies in it."""


@dataclass(frozen=True, slots=True)
class Formats:
    """Number formats of a replica."""

    weights: str
    """Format of the weights of linear layers."""
    weight_size: float
    """Bytes of such a weight, scales included."""
    compute: str
    """Format of the device in which linear layers are multiplied."""
    factor_size: float
    """Bytes of an element of the other factor."""
    kv: str
    """Format of keys and values."""
    kv_size: float
    """Bytes of one of them."""
    plain: str
    """Format of what is not quantised: 16 bits, or 32 where the weights have them."""
    plain_size: float
    """Bytes of one of those elements in memory."""
    plain_compute: str
    """Format of the device in which it is multiplied."""

    blocks: bool = field(default=False, kw_only=True)
    """Whether products take a scale for each block of the weights."""
    experts: "Formats | None" = field(default=None, kw_only=True)
    """Those of experts, where they are others."""
    fused_casts: bool = field(default=False, kw_only=True)
    """Whether norms and activations round what they write for the product after them."""
    whole: bool
    """Whether embedding and output head are in the format of the linear layers too: bits a weight are then given as
    the average of a whole file."""

    @property
    def of_experts(self) -> "Formats":
        """Those of experts."""
        return self.experts or self

    @property
    def mixture(self) -> str:
        """Name of the kernels of experts in these formats: the format of both factors, or of weights and rows."""
        if not self.dequantised or self.weight_size > NARROWEST:
            return self.compute
        return f"w4a{8 * self.factor_size:.0f}"

    @property
    def table_size(self) -> float:
        """Bytes of a weight of embedding and output head."""
        return self.weight_size if self.whole else self.plain_size

    @property
    def dequantised(self) -> bool:
        """Whether weights are turned into a wider format as they are read."""
        return self.weight_size < 0.9 * self.factor_size

    @property
    def cast(self) -> bool:
        """Whether activations are rounded to a narrower format before each product."""
        return self.factor_size < self.plain_size


def resolve_formats(
    formats: NumberFormats, device: Device, sums: str = "fp32", fused_casts: bool = False
) -> tuple[Formats, tuple[str, ...]]:
    """(formats, assumptions), with sums of fp16 products kept in `sums`; InputError where the device has no arithmetic
    for them."""
    found, notes = _resolved(formats, device, sums)
    found = replace(found, fused_casts=fused_casts)
    if formats.experts is None and formats.expert_activations is None:
        return found, notes
    weights = formats.experts or formats.weights
    activations = formats.expert_activations or (None if formats.experts else formats.activations)
    of_experts = NumberFormats(weights=weights, activations=activations, kv=formats.kv)
    try:
        own, more = _resolved(of_experts, device, sums)
    except InputError as error:
        problem = error.problems[0]
        path = "serving.precision.expert_activations"
        raise InputError(Problem(problem.message, path=path, hint=problem.hint)) from None
    return replace(found, experts=own), (*notes, *(f"of experts: {note}" for note in more if note not in notes))


def _resolved(formats: NumberFormats, device: Device, sums: str) -> tuple[Formats, tuple[str, ...]]:
    weights: str = formats.weights or "bf16"
    plain = "fp32" if weights == "fp32" else "fp16" if weights == "fp16" else "bf16"
    notes: list[str] = []
    activations: str = formats.activations or plain
    if formats.activations is None:
        if weights in BOTH and device.native(weights) == weights:
            activations = weights
        if BITS[weights] < 16.0:
            notes.append(f"activations' format is not given: {activations}, with weights in {weights} on {device.name}")
    if activations not in ELEMENT:
        raise InputError(Problem(f"activations cannot be {activations}", path="serving.precision.activations"))
    compute = _multiplied(activations, device, sums)
    narrow = ELEMENT[activations] < 2.0 and compute == activations
    if formats.activations is not None and ELEMENT[activations] < ELEMENT_BYTES[compute]:
        message = f"{device.name} multiplies nothing in {activations}"
        hint = f"leave `activations` out: weights in {weights} are then read and multiplied in {compute}"
        raise InputError(Problem(message, path="serving.precision.activations", hint=hint))
    blocks = formats.weight_blocks and compute == "fp8"
    if formats.weight_blocks and weights != "fp8":
        message, hint = f"weights in {weights} have no scales of blocks", "leave it out, or write `weights: fp8`"
        raise InputError(Problem(message, path="serving.precision.weight_blocks", hint=hint))
    if blocks and BLOCKED not in device.gemm:
        notes.append(f"products of weights with scales of blocks are priced as others in fp8 on {device.name}")
    kv: str = formats.kv or plain
    if kv not in ELEMENT:
        raise InputError(Problem(f"keys and values cannot be {kv}", path="serving.precision.kv"))
    return Formats(
        weights=weights,
        weight_size=(formats.weight_bits or BITS[weights]) / 8.0,
        compute=compute,
        factor_size=ELEMENT[activations] if narrow else ELEMENT[plain],
        kv=kv,
        kv_size=ELEMENT[kv],
        plain=plain,
        plain_size=ELEMENT[plain],
        plain_compute=_multiplied(plain, device, sums),
        whole=formats.weight_bits is not None and formats.embeddings is None,
        blocks=blocks and BLOCKED in device.gemm,
    ), tuple(notes)


def _multiplied(dtype: str, device: Device, sums: str) -> str:
    """Format of the device in which factors of a format are multiplied."""
    native = device.native(dtype)
    return "fp16_acc16" if native == sums == "fp16" and "fp16_acc16" in device.peaks else native
