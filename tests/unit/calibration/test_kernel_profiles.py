"""Kernel profiles as text: what a fit writes loads again, and what it has not fitted stays."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.calibration.fitting import TABLES, Parameter
from simulator.calibration.kernels.attention import ATTENTION as ATTENTION_RANGES
from simulator.calibration.kernels.experts import EXPERTS, MIXED
from simulator.calibration.kernels.figures import NOTES
from simulator.calibration.kernels.gemm import CURVE, GEMM, SPLIT, TILES, gemm_lines, tile_rates
from simulator.calibration.kernels.latents import CORE, LATENT
from simulator.calibration.kernels.profiles import attention_lines, head_lines, stream_lines, write
from simulator.calibration.kernels.scans import FUSED, SCAN, STEP
from simulator.calibration.kernels.serving import DECODE, DEQUANTISED, SECTIONS, WRITE, replaced
from simulator.specs import data_root, load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import KernelProfile

SHIPPED = data_root() / "hardware_profiles" / "kernels"
FOUND = {name: parameter.start for name, parameter in (GEMM | CURVE).items()}
ATTENTION = {"launch": 5e-6, "block": 1e-6, "backward_block": 5e-6, "tail": 0.4, "f128": 0.6, "b128": 0.5}


def profile_lines(dtype: str, found: dict[str, float]) -> list[str]:
    paged = {"paged": ATTENTION}
    return [
        *head_lines("h100-sxm"),
        "gemm:",
        *gemm_lines(dtype, found, "h100-sxm"),
        *attention_lines("h100-sxm", paged),
        *stream_lines("h100-sxm"),
    ]


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_what_is_written_loads_with_the_coefficients(dtype: str, tmp_path: Path) -> None:
    found = {name: value for name, value in FOUND.items() if dtype == "bf16" or name not in SPLIT}
    lines = [*profile_lines(dtype, found), "best_attention: paged"]
    (tmp_path / "mine.yaml").write_text("\n".join(lines) + "\n")
    profile = load_spec(KernelProfile, str(tmp_path / "mine.yaml"))
    kernels = profile.gemm[dtype]  # type: ignore[index]
    rates = tile_rates(found, TILES["h100-sxm", dtype])
    assert [tile.efficiency for tile in kernels.tiles] == pytest.approx(rates, rel=1e-3)
    assert kernels.launch == pytest.approx(found["launch"])
    assert kernels.splits == (dtype == "bf16")
    assert "clustersim calibrate kernels" in kernels.source
    assert profile.attention["paged"].forward[128] == pytest.approx(0.6)


@pytest.mark.parametrize("profile", sorted(TABLES))
def test_sections_of_serving_replace_theirs_alone(profile: str) -> None:
    text = (SHIPPED / f"{profile}.yaml").read_text()
    new = replaced(text, ["decode:", "  new: 1"])
    assert new.count("\ndecode:\n  new: 1\n") == 1
    kept = [line.partition(":")[0] for line in new.splitlines() if line[:1].isalpha()]
    before = [line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha()]
    assert [name for name in kept if name != "decode"] == [name for name in before if name not in SECTIONS]


def test_what_a_hand_has_measured_stays(tmp_path: Path) -> None:
    name = next(path.stem for path in sorted(SHIPPED.glob("*.yaml")) if "misaligned_batch:" in path.read_text())
    by_hand = [line for line in (SHIPPED / f"{name}.yaml").read_text().splitlines() if "misaligned_batch:" in line]
    before = (SHIPPED / f"{name}.yaml").read_bytes()
    write(tmp_path, name, profile_lines("bf16", FOUND))
    assert [line for line in (tmp_path / f"{name}.yaml").read_text().splitlines() if line in by_hand] == by_hand
    assert (SHIPPED / f"{name}.yaml").read_bytes() == before


def at_bounds(where: str, ranges: dict[str, Parameter], group: object) -> Iterator[str]:
    """Paths of coefficients that are within a hundredth of their range of one of its bounds."""
    for name, parameter in ranges.items():
        value = getattr(group, name, None)
        if value is not None:
            low, high = parameter.encode(parameter.low), parameter.encode(parameter.high)
            at = parameter.encode(value) if value > 0 or not parameter.log else low
            if not 0.01 < (at - low) / (high - low) < 0.99:
                yield f"{where}.{name}"


def fitted_at_bounds(profile: KernelProfile, bandwidth: float) -> Iterator[str]:
    for dtype, products in profile.gemm.items():
        if "calibrate" in products.source:
            yield from at_bounds(
                f"gemm.{dtype}", {n: p for n, p in GEMM.items() if products.splits or n not in SPLIT}, products
            )
    yield from at_bounds("attention.paged", ATTENTION_RANGES, profile.attention["paged"])
    yield from at_bounds("decode", DECODE | WRITE, profile.decode)
    delay = EXPERTS["delay"]
    ramp = replace(delay, start=delay.start * bandwidth, low=delay.low * bandwidth, high=delay.high * bandwidth)
    for family, kinds in profile.experts.items():
        for kind, kernels in kinds.items():
            ranges = dict(MIXED if kind in ("w4a16", "w4a8") else EXPERTS)
            products = profile.gemm.get({"w4a16": "bf16", "w4a8": "fp8"}.get(kind, kind))
            most = max(1.3, 1 / products.memory) if products else 1.3
            ranges |= {"ramp": ramp, "memory": replace(EXPERTS["memory"], high=most)}
            yield from at_bounds(f"experts.{family}.{kind}", ranges, kernels)
    for family, scans in profile.scans.items():
        for kind, kernels_of in scans.items():
            yield from at_bounds(f"scans.{family}.{kind}", (FUSED if kernels_of.whole else SCAN) | STEP, kernels_of)
    own = {name: one for name, one in LATENT.items() if profile.latent.cuts or name != "overlap"}
    yield from at_bounds("latent", own if profile.latent.cuts else own | {"core": CORE}, profile.latent)
    if "calibrate" in profile.weight_only.source:
        yield from at_bounds("weight_only", DEQUANTISED, profile.weight_only)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_what_ended_at_a_bound_of_its_range_is_named_in_the_notes(name: str) -> None:
    profile = load_spec(KernelProfile, name)
    bandwidth = load_spec(Accelerator, TABLES[name][2]).memory.bandwidth.value
    _, _, listed = profile.notes.partition("At a bound of their range: ")
    assert set(fitted_at_bounds(profile, bandwidth)) == set(listed.split("`")[1::2])
    assert profile.notes == NOTES[name]
