"""Published dispatches and combines: reading, what bandwidths count, the shipped rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli import main
from simulator.interop.rows.exchanges import LIBRARIES, ExchangeRow, map_exchange
from simulator.interop.rows.jsonl import Refused, read_lines, read_row
from simulator.specs import data_root
from simulator.study.validate.accuracy import statistics
from simulator.study.validate.published import KINDS, chosen

ROW: dict[str, Any] = {
    "id": "e1",
    "op": "moe_dispatch",
    "source": "test",
    "accelerator_id": "h800-sxm",
    "num_ranks": 16,
    "num_nodes": 2,
    "library": "DeepEP",
    "library_version": "V1",
    "algo": "normal",
    "dtype": "fp8",
    "params": {"tokens_per_rank": 4096, "hidden": 7168, "top_k": 8},
    "metrics": {"rdma_bandwidth_bytes_per_s": 43e9},
}
SHIPPED = data_root() / "workloads" / "measurements" / "exchanges.jsonl"


def mapped(**changes: Any) -> Any:
    return map_exchange(read_row(ExchangeRow, ROW | changes))


def test_a_bandwidth_between_nodes_counts_a_copy_for_each_node_the_own_one_too() -> None:
    """DeepEP's figure for InfiniBand: 58 GB/s on cards of 50 are 44 GB/s that move."""
    found = mapped(num_ranks=32, num_nodes=4, metrics={"rdma_bandwidth_bytes_per_s": 58e9})
    assert found.measured_s == pytest.approx(4096 * 3.6142 * 7392 / 58e9, rel=1e-4)
    assert found.size_bytes == 4096 * 8 * 7392


def test_a_bandwidth_inside_a_node_counts_a_copy_for_each_rank_the_own_one_too() -> None:
    """AWS publishes both: 320.68 GB/s are 0.49958 ms."""
    found = mapped(num_ranks=8, num_nodes=1, metrics={"nvlink_bandwidth_bytes_per_s": 320.68e9})
    assert found.measured_s == pytest.approx(0.49958e-3, rel=0.002)


def test_a_time_is_a_time_and_low_latency_carries_addresses() -> None:
    found = mapped(algo="low_latency", metrics={"time_s": 1e-4, "rdma_bandwidth_bytes_per_s": 1.0})
    assert (found.measured_s, found.metric) == (1e-4, "time_s")
    assert found.size_bytes == 4096 * 8 * 7408


def test_tokens_take_four_of_more_nodes() -> None:
    found = mapped(num_ranks=64, num_nodes=8)
    assert (found.routing.groups, found.routing.group_limit) == (8, 4)
    assert "tokens take 4 of 8 nodes" in found.assumed
    assert mapped().routing.group_limit == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"op": "all_reduce"}, "operation"),
        ({"accelerator_id": "abacus"}, "no cluster"),
        ({"library": "pplx"}, "library pplx"),
        ({"params": {"hidden": 7168}}, "without tokens_per_rank, top_k"),
        ({"metrics": {"bandwidth_bytes_per_s": 1e9}}, "neither a time"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        mapped(**changes)


def test_every_shipped_row_is_priced_within_the_error_that_the_page_states() -> None:
    kind, lines = chosen(list(read_lines(SHIPPED)))
    assert (kind.name, len(lines)) == ("exchanges", 83)
    outcomes = kind.validate(lines)
    assert [outcome.id for outcome in outcomes if outcome.refused] == []
    found = statistics([outcome.error for outcome in outcomes])
    assert found.median < 0.08
    assert found.p90 < 0.25
    assert abs(found.signed) < 0.03
    every = set(LIBRARIES.values()) | {"uccl-ep-efa", "uccl-ep-low-latency-efa"}
    assert {outcome.library for outcome in outcomes} == every


def test_the_command_lists_them_by_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--kind", "exchanges", "--by", "library,device,ranks,operation"]) == 0
    shown = capsys.readouterr().out
    assert "83 of 83 rows simulated" in shown
    assert "deepep-low-latency" in shown


def test_rows_of_three_kinds_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join([json.dumps(ROW), json.dumps({"id": "t", "primary_metric": "mfu"})]))
    assert main(["validate", str(file)]) == 2
    assert "1 of training and 1 of exchanges" in capsys.readouterr().err
    assert main(["validate", str(file), "--kind", "exchanges"]) == 0
    assert "1 of 1 rows" in capsys.readouterr().out


def test_a_key_of_another_kind_is_refused() -> None:
    KINDS["exchanges"].check(("library", "ranks"))
    with pytest.raises(Exception, match="not listed by `stack`"):
        KINDS["exchanges"].check(("stack",))


def test_ranks_lie_on_the_nodes_that_a_row_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16 ranks of four nodes were taken as those of two, and 24 ranks of one node ended with an internal error."""
    file, seconds = tmp_path / "rows.jsonl", []
    for ranks, nodes in ((16, 2), (16, 4), (24, 1), (7, 2)):
        file.write_text(json.dumps(ROW | {"num_ranks": ranks, "num_nodes": nodes, "metrics": {"time_s": 1e-3}}))
        main(["validate", str(file), "--json", "-"])
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        seconds.append(row["predicted"])
        assert row["refused"] == (None if ranks == 16 else f"{ranks} ranks on {nodes} nodes of 8")
    assert seconds[0] != seconds[1] and seconds[2:] == [None, None]
