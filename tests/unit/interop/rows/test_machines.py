"""What sources state of their machines becomes part of a row's scenario, and of no other row's."""

from functools import cache
from typing import Any

import pytest

from simulator.interop.rows.jsonl import parse_line, read_lines, read_row
from simulator.interop.rows.machines import MENDED, blocking, named, noise
from simulator.interop.rows.training import Row, draft
from simulator.run.measured.training import map_row, simulated
from simulator.specs import data_root

JEAN_ZAY = "bloom-jean-zay"
EARLIER = (
    "Choosing the fastest 3D Topology",
    "tile and wave quantization",
    "48 node contenders",
    "Final round comparison",
    "NHEADs comparison",
)
LATER = ("GBS Variations", "Another round of NHEADS", "Re-do", "Rebalancing layers", "Batchsize Warmup")


@cache
def rows() -> dict[str, dict[str, Any]]:
    """Shipped rows of BLOOM's tests."""
    lines = map(parse_line, read_lines(data_root() / "workloads" / "measurements" / "training.jsonl"))
    return {data["id"]: data for data in lines if data["source"] == "bloom-prequel"}


@pytest.mark.parametrize("section", EARLIER)
def test_kernels_were_slower_before_the_machine_was_mended(section: str) -> None:
    assumed: list[str] = []
    slow = noise(JEAN_ZAY, f"chronicles-prequel: {section}", 16, assumed)["stragglers"]
    assert slow == {"devices": tuple(range(16)), "slowdown": MENDED[JEAN_ZAY].slowdown}
    assert assumed == [MENDED[JEAN_ZAY].words]


@pytest.mark.parametrize("section", LATER)
def test_nothing_is_said_of_later_runs(section: str) -> None:
    assumed: list[str] = []
    assert noise(JEAN_ZAY, f"chronicles-prequel: {section}", 16, assumed) == {}
    assert not assumed


@pytest.mark.parametrize(("cluster", "table"), [("dgx-a100", "48 node contenders"), (JEAN_ZAY, None)])
def test_other_machines_and_rows_without_a_table_are_as_they_were(cluster: str, table: str | None) -> None:
    assert noise(cluster, table, 16, []) == {}


def test_every_shipped_table_of_the_machine_is_known() -> None:
    sections = {data["table"].removeprefix("chronicles-prequel: ") for data in rows().values()}
    assert sections <= {*EARLIER, *LATER}


def test_large_runs_block_and_small_ones_do_not() -> None:
    assumed: list[str] = []
    assert [blocking(JEAN_ZAY, size, assumed) for size in (312, 320)] == [False, True]
    assert len(assumed) == 1
    assert not blocking("dgx-a100", 1024, assumed)
    assert (named("NVLink3 (4 inter-GPU connects)"), named("NVLink3"), named(None)) == (JEAN_ZAY, None, None)


def test_a_step_takes_three_percent_longer() -> None:
    """As much as the middle of what the authors say, whatever the layout; only the table tells the two runs apart."""
    for one in ("bloom-prequel-031", "bloom-prequel-026"):
        steps = [
            simulated(map_row(read_row(Row, rows()[one] | {"table": table}))).metrics["step_time_s"]
            for table in ("48 node contenders", "GBS Variations")
        ]
        assert 1.025 < steps[0] / steps[1] < 1.035


def test_the_assumption_is_listed() -> None:
    drafted = draft(read_row(Row, rows()["bloom-prequel-031"]))
    assert MENDED[JEAN_ZAY].words in drafted.assumed
    assert drafted.scenario.training.noise.stragglers is not None
