"""Pipeline schedules: their order, and what they refuse."""

from pathlib import Path

import numpy as np
import pytest

from simulator.errors import DeadlockError, InputError
from simulator.program.actions import Kind
from simulator.program.csv_form import write_csv
from simulator.program.passes import add_communication
from simulator.program.schedule import Schedule
from simulator.program.validate import validate
from simulator.training.schedules import SCHEDULES, Pipeline, gpipe, interleaved, one_f_one_b, read_schedule

ONE_CHUNK = [(1, 1, 1), (1, 1, 5), (2, 1, 1), (4, 1, 2), (4, 1, 9)]
SEVERAL = [(3, 2, 3), (4, 3, 8), (1, 4, 2), (5, 2, 5)]
MADE = [("1f1b", ONE_CHUNK), ("gpipe", ONE_CHUNK + SEVERAL), ("interleaved-1f1b", SEVERAL)]


def text(schedule: Schedule) -> list[str]:
    return [",".join(map(str, row)) for row in schedule.actions()]


def test_gpipe() -> None:
    assert text(gpipe(Pipeline(2, 1, 3))) == ["0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1F1,1F2,1B0,1B1,1B2"]
    assert text(gpipe(Pipeline(1, 2, 2))) == ["0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1"]


def test_one_forward_one_backward() -> None:
    assert text(one_f_one_b(Pipeline(3, 1, 4))) == [
        "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3",
        "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3",
        "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3",
    ]


def test_fewer_microbatches_than_ranks() -> None:
    assert text(one_f_one_b(Pipeline(4, 1, 2))) == [
        "0F0,0F1,0B0,0B1",
        "1F0,1F1,1B0,1B1",
        "2F0,2F1,2B0,2B1",
        "3F0,3B0,3F1,3B1",
    ]


def test_interleaving_follows_megatron() -> None:
    """Two ranks, two chunks, four microbatches: 4 and 2 forward passes ahead, groups of two microbatches."""
    assert text(interleaved(Pipeline(2, 2, 4))) == [
        "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3",
        "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3",
    ]


def test_interleaving_with_one_chunk_is_plain() -> None:
    assert text(interleaved(Pipeline(3, 1, 4))) == text(one_f_one_b(Pipeline(3, 1, 4)))


@pytest.mark.parametrize("rank", range(4))
def test_forward_passes_ahead(rank: int) -> None:
    def ahead(schedule: Schedule) -> int:
        first, stop = schedule.rank_start[rank : rank + 2]
        return int(np.argmax(schedule.kind[first:stop] == Kind.B))

    assert ahead(one_f_one_b(Pipeline(4, 1, 16))) == 4 - rank - 1 + 1
    assert ahead(interleaved(Pipeline(4, 3, 16))) == (4 - rank - 1) * 2 + (3 - 1) * 4 + 1


@pytest.mark.parametrize(
    ("name", "ranks", "chunks", "microbatches"),
    [(name, *sizes) for name, several in MADE for sizes in several],
)
def test_every_schedule_is_sound(name: str, ranks: int, chunks: int, microbatches: int) -> None:
    schedule = SCHEDULES.get(name)(Pipeline(ranks, chunks, microbatches))
    assert (schedule.ranks, schedule.stages, schedule.microbatches) == (ranks, ranks * chunks, microbatches)
    assert schedule.rank_of_stage().tolist() == [stage % ranks for stage in range(ranks * chunks)]
    validate(schedule)


@pytest.mark.parametrize(("microbatches", "nearest"), [(1, 4), (5, 4), (6, 4), (7, 8), (13, 12)])
def test_interleaving_needs_a_multiple_of_the_ranks(microbatches: int, nearest: int) -> None:
    with pytest.raises(InputError, match=f"groups of 4 .*{microbatches} microbatches are no multiple") as caught:
        interleaved(Pipeline(4, 2, microbatches))
    assert caught.value.problems[0].hint == f"the nearest number is {nearest}"


def test_plain_1f1b_refuses_chunks() -> None:
    with pytest.raises(InputError, match="write `interleaved-1f1b` or `vpp: 1`"):
        one_f_one_b(Pipeline(4, 2, 8))


def test_names() -> None:
    assert {"gpipe", "1f1b", "interleaved-1f1b"} <= set(SCHEDULES.names())
    with pytest.raises(InputError, match="unknown pipeline schedule `1f1bb`; did you mean `1f1b`"):
        SCHEDULES.get("1f1bb")


@pytest.mark.parametrize("communication", [False, True])
def test_csv(tmp_path: Path, communication: bool) -> None:
    made = interleaved(Pipeline(2, 2, 4))
    actions = made.actions()
    write_csv(add_communication(actions) if communication else actions, tmp_path / "s.csv")
    schedule = read_schedule(tmp_path / "s.csv", 2, 4, 4)
    assert text(schedule.passes()) == text(made)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [((4, 4, 4), "2 ranks .lines., not 4"), ((2, 2, 4), "4 stages, not 2"), ((2, 4, 8), "4 microbatches, not 8")],
)
def test_csv_of_other_sizes(tmp_path: Path, sizes: tuple[int, int, int], message: str) -> None:
    write_csv(interleaved(Pipeline(2, 2, 4)).actions(), tmp_path / "s.csv")
    with pytest.raises(InputError, match=message):
        read_schedule(tmp_path / "s.csv", *sizes)


def test_csv_that_deadlocks(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    with pytest.raises(DeadlockError, match="rank 0: next is 0B0, which waits for 1B0 of rank 1") as caught:
        read_schedule(tmp_path / "s.csv", 2, 2, 2)
    assert str(caught.value).startswith(f"{tmp_path / 's.csv'}: deadlock: 2 of 2 lanes wait for ever")
