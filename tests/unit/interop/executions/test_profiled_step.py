"""Two steps that PyTorch 2.13 profiled on a CPU replay to the time that it marked them with.

The traces are those of two processes of distributed data parallelism over gloo: an embedding of 1,000 tokens, one
`TransformerEncoderLayer` of width 256 and the way back to tokens, 8 sequences of 128 tokens, one thread each, as
`torch.profiler` wrote them but for the name of the host.
"""

import gzip
import json
from pathlib import Path

import pytest

from simulator.cli import main

TRACES = sorted(Path(__file__).parent.glob("torch-cpu-rank-*.json.gz"))


def marked(path: Path) -> float:
    """Seconds of the steps that a trace marks."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return sum(one["dur"] for one in events if str(one.get("name")).startswith("ProfilerStep#")) / 1e6


@pytest.mark.parametrize("traces", [TRACES[:1], TRACES])
def test_a_profiled_step_replays_to_its_own_time(traces: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    steps = max(map(marked, traces))
    assert steps == pytest.approx(2.256, abs=1e-3)
    assert main(["replay", *map(str, traces), "--cluster", "dgx-h100", "--json", "-", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ranks"] == len(traces)
    assert found["makespan_s"] == pytest.approx(steps, rel=0.05)
    assert all("2 steps, 2.26 s" in note for note in found["notes"])
