"""Coefficients of shipped profiles that lie at a bound of the range in which they are searched.

Such a number is not measured: its rows ask for more than the range allows, or do not tell it. Looked at are groups of
kernels that the command fits and fitted numbers of stacks; what a hand has set is none of a search.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from simulator.calibration.fitting import TABLES, Parameter
from simulator.calibration.kernels.attention import ATTENTION
from simulator.calibration.kernels.experts import EXPERTS, MIXED
from simulator.calibration.kernels.gemm import GEMM, SPLIT
from simulator.calibration.kernels.latents import CORE, LATENT
from simulator.calibration.kernels.scans import FUSED, SCAN, STEP
from simulator.calibration.kernels.serving import DECODE, DEQUANTISED, WRITE
from simulator.calibration.stacks import serving, training
from simulator.specs import data_root
from simulator.specs.base import Figure, Spec
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import KernelProfile
from simulator.specs.resolve import load_spec
from simulator.specs.serving import ServingStack
from simulator.specs.training import Stack

FOLDER = data_root() / "hardware_profiles" / "stacks"
NEAR = 0.01
"""Share of a range within which a number counts as at its bound, as in fits."""

_COMMAND = "calibrate"
_WIDE = {"w4a16": "bf16", "w4a8": "fp8"}


class AtBound(NamedTuple):
    """A number at a bound of its search."""

    profile: str
    coefficient: str
    value: float
    low: float
    high: float

    @property
    def end(self) -> str:
        """Which of the two: `lower` or `upper`."""
        return "lower" if abs(self.value - self.low) <= abs(self.value - self.high) else "upper"


def at_bounds() -> list[AtBound]:
    """All of the fitted kernel profiles and stacks that are shipped."""
    return [*_kernels(), *_stacks()]


def near(value: float, one: Parameter) -> bool:
    """Whether a value lies within `NEAR` of an end of a range, in the scale in which it is fitted."""
    if value <= one.low or value >= one.high:
        return True
    low, high, own = (one.encode(number) for number in (one.low, one.high, value))
    return not NEAR < (own - low) / (high - low) < 1 - NEAR


def _kernels() -> Iterator[AtBound]:
    for name in sorted(TABLES):
        profile = load_spec(KernelProfile, name)
        for key, products in profile.gemm.items():
            if _COMMAND in products.source:
                names = {n: p for n, p in GEMM.items() if products.splits or n not in SPLIT}
                yield from _of(name, f"gemm.{key}", products, names)
        yield from _of(name, "attention.paged", profile.attention["paged"], ATTENTION)
        yield from _of(name, "decode", profile.decode, DECODE | WRITE)
        yield from _experts(name, profile)
        for library, scans in profile.scans.items():
            for kind, scan in scans.items():
                yield from _of(name, f"scans.{library}.{kind}", scan, (FUSED if scan.whole else SCAN) | STEP)
        cuts = profile.latent.cuts
        own = LATENT if cuts else {n: p for n, p in LATENT.items() if n != "overlap"} | {"core": CORE}
        yield from _of(name, "latent", profile.latent, own)
        if _COMMAND in profile.weight_only.source:
            yield from _of(name, "weight_only", profile.weight_only, DEQUANTISED)


def _experts(name: str, profile: KernelProfile) -> Iterator[AtBound]:
    """Those of experts: what is searched as a delay is shipped as traffic, and memory up to all of the bandwidth."""
    bandwidth = load_spec(Accelerator, TABLES[name][2]).memory.bandwidth.value
    delay = EXPERTS["delay"]
    ramp = replace(delay, start=delay.start * bandwidth, low=delay.low * bandwidth, high=delay.high * bandwidth)
    for library, experts in profile.experts.items():
        for number, group in experts.items():
            products = next((one for key, one in profile.gemm.items() if key == _WIDE.get(number, number)), None)
            most = max(EXPERTS["memory"].high, 1 / products.memory) if products else EXPERTS["memory"].high
            ranges = (MIXED if number in _WIDE else EXPERTS) | {"ramp": ramp}
            ranges |= {"memory": replace(EXPERTS["memory"], high=most)}
            yield from _of(name, f"experts.{library}.{number}", group, ranges)


def _of(profile: str, group: str, spec: Spec, ranges: Mapping[str, Parameter]) -> Iterator[AtBound]:
    for name, one in ranges.items():
        value = getattr(spec, name, None)
        if isinstance(value, int | float) and near(float(value), one):
            yield AtBound(profile, f"{group}.{name}", float(value), one.low, one.high)


def _serves(name: str) -> bool:
    """Whether a stack serves, as its own file or the one that it extends says."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    parent = re.search(r"^extends: *(?:stacks/)?([\w.-]+)$", text, re.M)
    return bool(re.search(r"^kind: *serving", text, re.M)) or (parent is not None and _serves(parent[1]))


def _stacks() -> Iterator[AtBound]:
    for path in sorted(FOLDER.glob("*.yaml")):
        kind = ServingStack if _serves(path.stem) else Stack
        ranges = serving.RANGES if kind is ServingStack else training.BOUNDS
        stack = load_spec(kind, f"stacks/{path.stem}")
        for name, (low, high) in ranges.items():
            figure = getattr(stack, name, None)
            if not isinstance(figure, Figure) or not figure.source.startswith("fitted on"):
                continue
            if near(float(figure.value), Parameter(low, low, high, log=False)):
                yield AtBound(path.stem, name, float(figure.value), low, high)
