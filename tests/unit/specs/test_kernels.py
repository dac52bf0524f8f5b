"""Kernel profiles that ship: equal silicon has equal arithmetic, and what was measured says so."""

import pytest

from simulator.cost.device import MIXED
from simulator.specs import load_spec
from simulator.specs.kernels import KernelProfile

MEASURED = ("a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "l40s")
SEARCHED_RATE = 1.5  # the bound of the search: a fit that ends there is an estimate


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_one_chip_has_one_set_of_compute_coefficients(dtype: str) -> None:
    h100, h200 = (load_spec(KernelProfile, name).gemm[dtype] for name in ("h100-sxm", "h200-sxm"))  # type: ignore[index]
    for name in ("tiles", "launch", "prologue", "step", "softness", "split", "splits", "edge", "limit", "settle"):
        assert getattr(h100, name) == getattr(h200, name), name
    assert h100.store * 3350 == pytest.approx(
        h200.store * 4800, rel=1e-3
    )  # of the cache, written relative to the memory


@pytest.mark.parametrize("profile", MEASURED)
def test_larger_tiles_are_never_slower_and_none_beats_the_boost_clock(profile: str) -> None:
    for kernels in load_spec(KernelProfile, profile).gemm.values():
        sides = [(tile.long * tile.short / (tile.long + tile.short), tile.efficiency) for tile in kernels.tiles]
        assert [rate for _, rate in sorted(sides)] == sorted(rate for _, rate in sides)
        assert max(rate for _, rate in sides) <= 1.08


@pytest.mark.parametrize("profile", MEASURED)
def test_families_of_experts_are_measured(profile: str) -> None:
    families = load_spec(KernelProfile, profile).experts
    assert "cutlass" in families and len(families) > 1
    for kind, kernels in ((kind, kernels) for known in families.values() for kind, kernels in known.items()):
        most = 2.5 if kind in MIXED else SEARCHED_RATE
        assert kernels.status == ("measured" if kernels.rate < most else "estimate")
