"""Logs of nccl-tests: rows, heads and what is refused."""

from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.interop.nccl_tests import read_log

HEAD = """# nThread 1 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid   100 on     node0 device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   101 on     node1 device  0 [0x1b] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROW = "   1048576   262144     float     sum      -1    41.20   25.45   25.45      0    40.90   25.64   25.64      0\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "log.txt"
    path.write_text(text)
    return path


def test_the_shorter_time_counts_and_the_head_says_who_took_part(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, HEAD + ROW + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 25.5\n"))
    assert (log.ranks, log.nodes, log.devices) == (2, 2, ("NVIDIA H100 80GB HBM3",))
    (row,) = log.sizes
    assert (row.size_bytes, row.count, row.dtype, row.redop) == (1048576.0, 262144, "float", "sum")
    assert row.time_s == pytest.approx(40.9e-6)


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("NCCL version 2.26.2+cuda12.2", "2.26.2"),
        ("# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22803", "2.28.3"),
        ("# nothing of it", ""),
    ],
)
def test_a_log_may_name_the_release(line: str, release: str, tmp_path: Path) -> None:
    assert read_log(written(tmp_path, f"{line}\n{HEAD}{ROW}")).release == release


def test_operations_without_a_reduction_leave_columns_out(tmp_path: Path) -> None:
    bare = ROW.replace("sum", "").replace("-1", "").replace("0\n", "N/A\n")
    (row,) = read_log(written(tmp_path, HEAD + bare)).sizes
    assert (row.dtype, row.time_s) == ("float", pytest.approx(40.9e-6))


def test_columns_follow_the_head(tmp_path: Path) -> None:
    head = "#  size count type redop root time min max algbw busbw #wrong\n"
    row = "1024 256 float sum -1 20.0 19.0 25.0 0.05 0.09 0\n"
    assert read_log(written(tmp_path, head + row)).sizes[0].time_s == pytest.approx(20e-6)


def test_a_damaged_line_is_refused_by_itself(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, HEAD + ROW + "2097152 5242\n" + ROW.replace("1048576", "4194304")))
    assert [one.size_bytes for one in log.sizes] == [1048576.0, 4194304.0]
    (refused,) = log.refused
    assert (refused.line, refused.message) == (10, "2 columns where the head names 13")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# nothing\n", "no rows"),
        (HEAD + "1024 256 float\n", "3 columns where the head names 13"),
        (HEAD + ROW.replace("41.20", "0.00").replace("40.90", "nan"), "no time above 0"),
        (HEAD + ROW.replace("   1048576 ", "0 "), "no size"),
        (HEAD + ROW.replace("   1048576 ", "9" * 5000 + " "), "no size"),
        (HEAD + ROW.replace("   1048576 ", "\u00b2 "), "no size"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read_log(written(tmp_path, text))
