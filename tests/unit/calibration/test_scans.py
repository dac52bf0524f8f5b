"""A fit of recurrences finds the coefficients that a table was made with."""

from pathlib import Path

import pandas as pd
import pytest
import yaml

from simulator.calibration.kernels import scans
from simulator.calibration.kernels.scans import FUSED_GDN, fit_scans
from simulator.cost import compile_device
from simulator.cost.device import scan_curve
from simulator.cost.scan import scan_seconds, step_seconds
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import ScanKernels

GIVEN = {"launch": "5 us", "block": "8 us", "chain": "0 s", "rate": 0.3, "step_launch": "4 us", "step_memory": 0.7}
TRUE = ScanKernels.model_validate(GIVEN | {"whole": True})


def table() -> pd.DataFrame:
    """Times of gated delta net as `TRUE` prices them on H100."""
    curve = scan_curve(TRUE, 3.35e12, 132, 989.4e12, 0.88)
    rows = []
    for heads in (4, 8, 16, 32, 64):
        for batch in (1, 4, 16, 64):
            shape = {"batch_size": batch, "num_k_heads": heads // 2, "head_k_dim": 128, "num_v_heads": heads}
            shape |= {"head_v_dim": 128, "num_tokens": 0}
            for length in (64, 1024, 8192):
                moved = 2.0 * 2 * 128 * (heads // 2 + heads)
                time = scan_seconds((length,) * batch, heads, 128 * 128, 8.0 * 128 * 128, moved, curve)[0]
                names = {"phase": "context", "kernel_source": FUSED_GDN.scans, "seq_len": length}
                rows.append(shape | names | {"latency": time * 1e3})
            time = step_seconds(batch, 4.0 * heads * 128 * 128, curve)
            names = {"phase": "generation", "kernel_source": "fused_recurrent_packed", "seq_len": 1}
            rows.append(shape | names | {"latency": time * 1e3})
    return pd.DataFrame(rows)


def test_coefficients_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "h100_sxm" / FUSED_GDN.path
    file.parent.mkdir(parents=True)
    table().to_parquet(file)
    monkeypatch.setattr(scans, "FAMILIES", {"h100-sxm": {"fused": (FUSED_GDN,)}})
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    lines, report, _ = fit_scans(tmp_path, "h100-sxm", device, 50e6)
    found = ScanKernels.model_validate(yaml.safe_load("\n".join(lines))["scans"]["fused"]["delta"])
    assert found.rate == pytest.approx(TRUE.rate, rel=0.03)
    assert found.block == pytest.approx(TRUE.block, rel=0.1)
    assert found.step_memory == pytest.approx(TRUE.step_memory, rel=0.03)
    assert found.whole and found.status == "measured"
    assert all(float(str(row["median"])) < 3.0 for row in report)


def test_a_profile_without_tables_has_no_lines(tmp_path: Path) -> None:
    device = compile_device(load_spec(Accelerator, "a100-sxm-80gb"))
    assert fit_scans(tmp_path, "a100-sxm", device, 0.0) == ([], [], [])
