"""A kernel profile from one's own file: known coefficients come back, and what rows do not tell is said."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.calibration.asked import Asked
from simulator.calibration.kernels import own
from simulator.cost import compile_device
from simulator.cost.device import kernels_named
from simulator.errors import InputError
from simulator.interop.rows.benchmarks import MARK, checked
from simulator.run.measured.benchmarks import predicted
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import KernelProfile
from simulator.specs.resolve import load_spec

ACCELERATOR = load_spec(Accelerator, "h100-sxm").model_copy(update={"sustained": None})
SHIPPED = kernels_named(ACCELERATOR.kernels)
HEADER = {
    MARK: 1,
    "device": 'NVIDIA "H100"',
    "accelerator": "h100-sxm",
    "date": "2026-01-01",
    "versions": {"torch": "2.9"},
}


def slower(profile: KernelProfile) -> KernelProfile:
    """The kernels of another machine: four fifths of the rates, two thirds of the bandwidth, late launches."""
    gemm = profile.gemm["bf16"]
    tiles = tuple(tile.model_copy(update={"efficiency": 0.8 * tile.efficiency}) for tile in gemm.tiles)
    gemm = gemm.model_copy(update={"tiles": tiles, "memory": 0.6, "launch": 8e-6, "limit": 1.0})
    stream = profile.stream.model_copy(update={"memory": 0.55, "launch": 6e-6})
    return profile.model_copy(update={"gemm": {**profile.gemm, "bf16": gemm}, "stream": stream})


def rows(profile: KernelProfile, shapes: list[dict[str, Any]], noise: float) -> list[dict[str, Any]]:
    """Rows of products and passes as a machine with these kernels would show them."""
    device, random, found = compile_device(ACCELERATOR, profile), np.random.default_rng(0), []
    for shape in shapes:
        op, dtype = ("stream_copy", "fp32") if "bytes" in shape else ("gemm", "bf16")
        row: dict[str, Any] = {"op": op, "dtype": dtype, "shape": shape, "metrics": {"time_s": 1.0}}
        seconds = predicted(checked(row, "row"), ACCELERATOR, device) * float(np.exp(noise * random.normal()))
        found.append(row | {"metrics": {"time_s": seconds}})
    return found


def products(ms: tuple[int, ...]) -> list[dict[str, Any]]:
    return [
        {"m": m, "n": n, "k": k} for m, (n, k) in product(ms, ((4096, 4096), (8192, 4096), (4096, 14336), (1024, 8192)))
    ]


def calibrated(tmp_path: Path, listed: list[dict[str, Any]], **asked: Any) -> tuple[KernelProfile, str]:
    """(the profile that is written, what is said)."""
    path, said = tmp_path / "rows.jsonl", list[str]()
    path.write_text("\n".join(map(json.dumps, [HEADER, *listed])) + "\n")
    out = tmp_path / "fitted"
    out.mkdir()
    own.calibrate(Asked((path,), out=out, say=said.append, **asked))
    (file,) = out.iterdir()
    return load_spec(KernelProfile, str(file)), "\n".join(said)


PASSES = [{"bytes": 1 << power} for power in (12, 14, 16, 28, 29, 30, 31, 32)]


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelProfile, str]:
    shapes = [*products((1, 16, 128, 1024, 4096, 8192)), *PASSES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "EVALUATIONS", 12)
        return calibrated(tmp_path_factory.mktemp("own"), rows(slower(SHIPPED), shapes, 0.03))


def test_known_coefficients_come_back_from_noisy_rows(noisy: tuple[KernelProfile, str]) -> None:
    profile, _ = noisy
    assert profile.stream.memory == pytest.approx(0.55, rel=0.03)
    assert profile.stream.launch == pytest.approx(6e-6, rel=0.05)
    assert profile.gemm["bf16"].launch == pytest.approx(8e-6, rel=0.3)  # traded against filling a tile
    assert profile.gemm["bf16"].memory == pytest.approx(0.6, rel=0.05)


def test_products_that_the_fit_has_not_seen_are_as_on_the_machine(noisy: tuple[KernelProfile, str]) -> None:
    fitted, true = compile_device(ACCELERATOR, noisy[0]), compile_device(ACCELERATOR, slower(SHIPPED))
    shapes = [{"m": m, "n": n, "k": k} for m in (32, 512, 3072, 12288) for n, k in ((5120, 5120), (2048, 8192))]
    unseen = [checked(row, "row") for row in rows(SHIPPED, shapes, 0.0)]
    errors = [predicted(row, ACCELERATOR, fitted) / predicted(row, ACCELERATOR, true) - 1 for row in unseen]
    assert np.median(np.abs(errors)) < 0.03
    assert max(map(abs, errors)) < 0.12


def test_what_was_not_measured_stays_and_the_source_says_on_what_it_was(noisy: tuple[KernelProfile, str]) -> None:
    profile, said = noisy
    assert profile.attention == SHIPPED.attention and profile.gemm["fp8"] == SHIPPED.gemm["fp8"]
    assert "NVIDIA H100, torch 2.9, 2026-01-01, 24 rows" in profile.gemm["bf16"].source
    (row,) = [line for line in said.splitlines() if "products bf16 | all | held back" in line]
    assert float(row.split("|")[6].split()[0]) < 6


def test_what_rows_do_not_tell_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "EVALUATIONS", 3)
    profile, said = calibrated(tmp_path, rows(slower(SHIPPED), products((4096, 8192, 16384)), 0.03))
    (line,) = [line for line in said.splitlines() if "products bf16: not identified by its rows" in line]
    assert {"launch", "split", "ramp"} <= set(line.rpartition(": ")[2].split(", "))
    assert "not identified" in profile.notes


def test_a_damaged_row_is_named_and_the_others_are_fitted(tmp_path: Path) -> None:
    listed = [*rows(slower(SHIPPED), PASSES, 0.0), {"op": "gemm\x1b[31m"}, {"op": "moe", "shape": {}}]
    profile, said = calibrated(tmp_path, listed)
    assert profile.stream.memory == pytest.approx(0.55, rel=0.01)
    assert f"refused: {tmp_path / 'rows.jsonl'}:10: " in said and f"{tmp_path / 'rows.jsonl'}:11: " in said
    assert "\x1b" not in said


def test_rows_that_the_model_does_not_describe_write_nothing(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    listed = rows(SHIPPED, PASSES, 0.0)
    for row in listed:
        row["metrics"]["time_s"] *= float(np.exp(3 * random.normal()))
    with pytest.raises(InputError, match="describes no group of its rows"):
        calibrated(tmp_path, listed)
    assert list((tmp_path / "fitted").iterdir()) == []


@pytest.mark.parametrize(
    ("header", "asked", "words"),
    [
        ({"accelerator": None}, {}, "the files name no accelerator"),
        ({"accelerator": "../../etc/passwd"}, {}, "passwd"),
        ({}, {"profiles": ("../evil",)}, "is no name of a profile"),
        ({}, {"profiles": (".hidden",)}, "is no name of a profile"),
    ],
)
def test_a_file_of_no_known_device_and_names_that_lead_elsewhere_are_refused(
    header: dict[str, Any], asked: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "HEADER", HEADER | header)
    with pytest.raises(InputError, match=words):
        calibrated(tmp_path, rows(SHIPPED, PASSES, 0.0), **asked)


def test_few_rows_are_not_fitted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no group has 6 rows or more"):
        calibrated(tmp_path, rows(SHIPPED, PASSES[:5], 0.0))
