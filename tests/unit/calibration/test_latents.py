"""Coefficients of decode attention over latents are found again in tables that were made from them."""

from pathlib import Path

import pandas as pd
import pytest

from simulator.calibration.kernels.latents import fit_latents, latent_times
from simulator.cost import compile_device
from simulator.cost.device import latent_curve, sixteen_bit
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import LatentKernels


@pytest.mark.parametrize(
    ("profile", "name", "folder", "known"),
    [
        ("h200-sxm", "h200-sxm", "h200_sxm/mla/trtllm/1.3.0rc20", {"launch": 2e-5, "memory": 0.7, "rate": 0.4}),
        ("l40s", "l40s", "l40s/mla/trtllm/1.0.0", {"memory": 0.7, "rate": 0.3, "core": 1.5, "cuts": False}),
    ],
)
def test_coefficients_are_found_again(
    profile: str, name: str, folder: str, known: dict[str, float], tmp_path: Path
) -> None:
    accelerator = load_spec(Accelerator, name)
    device = compile_device(accelerator)
    spec = LatentKernels().model_copy(update={"overlap": 0.0 if "core" in known else 0.5} | known)
    curve = latent_curve(spec, device.bandwidth, device.latent.cores, sixteen_bit(device.peaks))
    shapes = [(h, n, 1, c - 1) for h in (1, 8, 64, 128) for n in (1, 4, 32, 128, 256) for c in (16, 1024, 8192, 65536)]
    table = pd.DataFrame(shapes, columns=["num_heads", "batch_size", "isl", "step"])
    table = table.assign(kv_cache_dtype="bfloat16", latency=latent_times(table, curve) * 1e3)
    (tmp_path / folder).mkdir(parents=True)
    table.to_parquet(tmp_path / folder / "generation_mla_perf.parquet")
    table.assign(isl=table.step + 1, step=0).to_parquet(tmp_path / folder / "context_mla_perf.parquet")
    assert accelerator.on_chip is not None
    lines, report, _ = fit_latents(tmp_path, profile, device, accelerator.on_chip.value)
    found = dict(line.strip().split(": ", 1) for line in lines[1:])
    for key in ("memory", "rate"):
        assert float(found[key]) == pytest.approx(known[key], rel=0.03)
    assert ("cuts" in found) == ("cuts" in known)
    assert all(row["median"] < 2.0 for row in report if row["set"] == "held out")  # type: ignore[operator]
