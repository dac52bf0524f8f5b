"""Kernel profiles as text: what a fit writes loads again, and what it has not fitted stays."""

from pathlib import Path

import pytest

from simulator.calibration.at_bounds import at_bounds
from simulator.calibration.fitting import TABLES
from simulator.calibration.kernels.figures import NOTES
from simulator.calibration.kernels.gemm import CURVE, GEMM, SPLIT, TILES, gemm_lines, tile_rates
from simulator.calibration.kernels.profiles import attention_lines, head_lines, stream_lines, write
from simulator.calibration.kernels.serving import SECTIONS, replaced
from simulator.specs import data_root, load_spec
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


@pytest.mark.parametrize("name", sorted(TABLES))
def test_what_ended_at_a_bound_of_its_range_is_named_in_the_notes(name: str) -> None:
    profile = load_spec(KernelProfile, name)
    _, _, listed = profile.notes.partition("At a bound of their range: ")
    assert {one.coefficient for one in at_bounds() if one.profile == name} == set(listed.split("`")[1::2])
    assert profile.notes == NOTES[name]
