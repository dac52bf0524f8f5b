"""A machine measured through a stand-in for PyTorch: every kind of case, its file, and what cannot be measured."""

from pathlib import Path

import pytest

from simulator.calibration.asked import Asked
from simulator.calibration.collectives.own import rows_of_file
from simulator.errors import InputError
from simulator.interop.rows.benchmarks import SHAPES, as_text, checked, read_benchmarks
from simulator.study.measure.cases import KINDS, Target, cases
from simulator.study.measure.clock import timed
from simulator.study.measure.measured import Session, device_of, document, dry_run, measure, planned
from tests.stand_in_torch import Device, StandIn

GPU = Target(False, ("bf16", "fp16", "fp8"), 80e9, devices=2)


@pytest.fixture(scope="module")
def session() -> Session:
    """Two GPUs of arithmetic, every fifth case of each operation."""
    on = device_of(StandIn(gpus=2), None)
    listed = [group for kind in KINDS for group in planned(on.target(), [kind])]
    firsts = {case.op: case for case in listed}
    return measure(on, [*firsts.values(), *listed[::5]], 0.1)


def test_every_operation_is_measured_and_its_row_is_whole(session: Session) -> None:
    assert {row["op"] for row in session.rows} == set(SHAPES)
    assert [one.why for one in session.results if one.row is None] == []
    for row in session.rows:
        assert checked(row, "row").metrics["time_s"] == row["metrics"]["time_s"]


def test_times_are_those_of_the_devices_clock(session: Session) -> None:
    row = next(one.row for one in session.results if one.case.op == "gemm" and one.row)
    m, n, k = (row["shape"][side] for side in "mnk")
    size = {"fp8": 1, "bf16": 2, "fp16": 2}[row["dtype"]] * (m * k + k * n + m * n)
    assert row["metrics"]["time_s"] == pytest.approx(3e-6 + max(2 * m * n * k / 600e12, size / 3e12))
    launch = next(row for row in session.rows if row["op"] == "launch")
    assert launch["metrics"]["time_s"] == pytest.approx(3e-6, rel=1e-3)


def test_the_header_says_on_what_and_the_device_is_found_by_its_name(session: Session) -> None:
    assert session.header.accelerator == "h100-sxm"
    assert session.header.versions["torch"] == "2.9.0"
    predicted = {one.case.op for one in session.results if one.predicted_s is not None}
    assert {"gemm", "attention_fwd_bwd", "attention_decode", "stream_copy", "launch", "copy_h2d"} <= predicted
    assert {"block_fwd", "block_fwd_bwd"} <= predicted
    block = next(one for one in session.results if one.case.op == "block_fwd_bwd")
    forward = next(one for one in session.results if one.case.op == "block_fwd")
    assert forward.predicted_s is not None and block.predicted_s is not None
    assert 2.5 < block.predicted_s / forward.predicted_s < 3.5
    flops = 2 * 4096 * 4096 * (4096 * 2 + 1024 * 2 + 3 * 14336) + 2 * 4096**3
    assert flops / 989e12 < forward.predicted_s < 3 * flops / 989e12


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_what_is_written_is_read_as_it_was(session: Session, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(as_text(session.header, session.rows, name.endswith(".csv")))
    found = read_benchmarks(tmp_path / name)
    assert found.refused == ()
    assert found.header == session.header
    assert [(row.id, row.shape) for row in found.rows] == [(row["id"], row["shape"]) for row in session.rows]
    assert [row.metrics["time_s"] for row in found.rows] == [row["metrics"]["time_s"] for row in session.rows]


def test_all_reduces_are_rows_that_calibrate_collectives_reads(session: Session, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(as_text(session.header, session.rows, table=False))
    tables = rows_of_file(Asked((tmp_path / "rows.jsonl",)))
    sent = [row["shape"]["bytes"] for row in session.rows if row["op"] == "all_reduce"]
    ((name, table),) = tables.items()
    assert name == "nccl-h100" and sorted(table["size"]) == sorted(map(float, sent))
    assert set(table.op) == {"all_reduce"} and set(table.ranks) == {2} and set(table.nodes) == {1}


def test_what_a_device_cannot_do_is_said_and_the_rest_is_measured() -> None:
    on = device_of(StandIn(Device(broken=("gemm float16",))), None)
    session = measure(on, [case for case in planned(on.target(), ["gemm"]) if case.shape["m"] == 16], 0.1)
    missing = [one for one in session.results if one.row is None]
    assert {one.case.dtype for one in missing} == {"fp16"}
    assert {one.why for one in missing} == {"gemm float16 is not implemented for this device"}
    assert {row["dtype"] for row in session.rows} == {"bf16", "fp8"}
    drawn = document(session, "out.jsonl")
    assert sum(case.measured_s is None for case in drawn.cases) == len(missing)


def test_the_host_is_measured_with_small_shapes_and_no_copies() -> None:
    on = device_of(StandIn(gpus=0), None)
    assert on.kind == "cpu"
    ops = {case.op for case in planned(on.target(), ())}
    assert "block_fwd_bwd" in ops and not ops & {"copy_h2d", "all_reduce", "gemm_beside_copy"}
    session = measure(on, planned(on.target(), ["launch", "block"]), 0.1)
    assert {row["op"] for row in session.rows} == {"launch", "block_fwd", "block_fwd_bwd"}
    assert {one.why for one in session.results} == {"no profile of this device"}


def test_cases_that_need_more_than_half_of_the_memory_are_left_out() -> None:
    large = [case for case in cases(GPU) if case.bytes > 1e9]
    assert large
    kept = cases(Target(False, GPU.dtypes, 2e9, devices=2))
    assert not {case.name for case in large} & {case.name for case in kept}


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in cases(GPU)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("device", "gpus", "words"),
    [
        ("cuda", 0, "PyTorch sees no device `cuda`"),
        ("cuda:2", 2, "PyTorch sees no device `cuda:2`"),
        ("cuda:x", 2, "PyTorch sees no device `cuda:x`"),
        ("mps", 1, "is no device that is measured"),
    ],
)
def test_a_device_that_is_not_there_is_refused(device: str, gpus: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        device_of(StandIn(gpus=gpus), device)


def test_a_kind_that_is_not_measured_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="gemm"):
        cases(GPU, ["gem"])
    with pytest.raises(InputError, match="nothing of kind copies can be measured here"):
        planned(Target(True, ("fp32",), 8e9), ["copies"])


class Counted:
    """A clock that a test moves: each call lasts longer, so that samples differ."""

    def __init__(self, each: float) -> None:
        self.time, self.each = 0.0, each

    def now(self) -> float:
        return self.time

    def lasts(self, calls: object) -> float:
        begin = self.time
        calls()  # type: ignore[operator]
        return self.time - begin


def test_short_calls_are_repeated_within_a_sample_and_long_ones_are_not() -> None:
    for each, calls in ((1e-5, 100), (0.2, 1)):
        clock = Counted(each)

        def call(clock: Counted = clock) -> None:
            clock.time += clock.each

        timing = timed(call, clock, 0.05)
        assert (timing.calls, timing.seconds) == (calls, pytest.approx(each))
        assert timing.samples >= 3 and timing.spread == pytest.approx(0, abs=1e-6)


def test_a_dry_run_lists_a_gpu_where_there_is_no_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    found = dry_run(None, ["gemm"])
    assert "80 GB" in found.place and {case.kind for case in found.cases} == {"gemm"}
    assert all(case.measured_s is None for case in found.cases)
