"""From schedules to tapes."""

import numpy as np
import pytest

from simulator.engine.executor import execute
from simulator.engine.tape import Ints
from simulator.errors import DeadlockError
from simulator.program.actions import Action, Kind, parse
from simulator.program.lowering import lower
from simulator.program.maxplus import sweep
from simulator.program.passes import add_communication
from simulator.program.schedule import Schedule, from_actions
from simulator.training.schedules import Pipeline, gpipe, interleaved, one_f_one_b

MADE = [gpipe(Pipeline(3, 2, 4)), one_f_one_b(Pipeline(4, 1, 6)), interleaved(Pipeline(2, 3, 4))]


def ticks(stages: int, **kinds: int) -> Ints:
    """The same durations for all stages."""
    table = np.zeros((stages, len(Kind)), np.int64)
    for name, duration in kinds.items():
        table[:, Kind[name]] = duration
    return table


def sends(stages: int, forward: int = 0, backward: int = 0) -> Ints:
    return np.tile(np.array([forward, backward], np.int64), (stages - 1, 1))


def schedule(*lines: str) -> Schedule:
    return from_actions([[parse(cell) for cell in line.split(",")] for line in lines])


TWO = schedule("0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1")


def test_sends_that_overlap_have_a_lane_each_way() -> None:
    lowered = lower(TWO, ticks(2, F=10, B=20), sends(2, 3, 4))
    purposes = ("rank 0 compute", "rank 1 compute", "rank 0 send forward", "rank 1 send backward")
    assert lowered.tape.lane_names == purposes
    assert lowered.lane_rank.tolist() == [0, 1, 0, 1]
    assert list(lowered.tape.names) == [
        "0F0",
        "0F1",
        "0B0",
        "0B1",
        "1F0",
        "1B0",
        "1F1",
        "1B1",
        "0SEND_F0",
        "0SEND_F1",
        "1SEND_B0",
        "1SEND_B1",
    ]
    timeline = execute(lowered.tape)
    assert timeline.start.tolist() == [0, 10, 47, 77, 13, 23, 43, 53, 10, 20, 43, 73]
    assert timeline.makespan == 97


def test_sends_that_do_not_overlap_block_their_sender() -> None:
    lowered = lower(TWO, ticks(2, F=10, B=20), sends(2, 3, 4), overlap_sends=False)
    assert lowered.tape.lane_names == ("rank 0 compute", "rank 1 compute")
    assert list(lowered.tape.names) == [
        "0F0",
        "0SEND_F0",
        "0F1",
        "0SEND_F1",
        "0B0",
        "0B1",
        "1F0",
        "1B0",
        "1SEND_B0",
        "1F1",
        "1B1",
        "1SEND_B1",
    ]
    timeline = execute(lowered.tape)
    assert timeline.start.tolist() == [0, 10, 13, 23, 47, 81, 13, 23, 43, 47, 57, 77]


def test_a_send_lane_is_busy_with_one_send_at_a_time() -> None:
    timeline = execute(lower(TWO, ticks(2, F=10, B=20), sends(2, 15, 0)).tape)
    assert timeline.start[8:10].tolist() == [10, 25]


def test_stages_on_one_rank_hand_over_for_nothing() -> None:
    v = schedule("0F0,3F0,3B0,0B0", "1F0,2F0,2B0,1B0")
    lowered = lower(v, ticks(4, F=10, B=20), sends(4, 1, 1))
    assert lowered.tape.lane_names == (
        "rank 0 compute",
        "rank 1 compute",
        "rank 0 send forward",
        "rank 1 send forward",
        "rank 0 send backward",
        "rank 1 send backward",
    )
    assert [name for name in lowered.tape.names if "SEND" in name] == ["0SEND_F0", "2SEND_F0", "3SEND_B0", "1SEND_B0"]
    assert execute(lowered.tape).makespan == 4 * 30 + 4


def test_interleaving_sends_around_the_ring() -> None:
    lowered = lower(interleaved(Pipeline(2, 2, 2)), ticks(4, F=10, B=20), sends(4, 1, 1))
    senders = {name for name, kind in zip(lowered.tape.names, lowered.kind, strict=True) if kind == Kind.SEND_F}
    assert senders == {"0SEND_F0", "0SEND_F1", "1SEND_F0", "1SEND_F1", "2SEND_F0", "2SEND_F1"}


def test_halves_of_the_backward_pass() -> None:
    """The send follows the gradient of the input; the gradient of the weights waits for nobody."""
    split = schedule("0F0,0I0,0W0", "1F0,1I0,1W0")
    timeline = execute(lower(split, ticks(2, F=10, I=5, W=7), sends(2, 1, 1)).tape)
    assert timeline.start.tolist() == [0, 27, 32, 11, 21, 26, 10, 26]


def test_other_instructions_last_what_their_stage_says() -> None:
    sharded = schedule("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD")
    timeline = execute(lower(sharded, ticks(1, F=10, B=20, UNSHARD=3, REDUCE_GRAD=4), sends(1)).tape)
    assert timeline.start.tolist() == [0, 3, 13, 33, 37]


def test_kinds_beyond_the_table_last_no_time() -> None:
    sharded = schedule("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD")
    timeline = execute(lower(sharded, ticks(1, F=10, B=20)[:, :4], sends(1)).tape)
    assert timeline.start.tolist() == [0, 0, 10, 30, 30]


def test_durations_by_microbatch() -> None:
    table = np.repeat(ticks(2, F=10, B=20)[:, :, None], 2, axis=2)
    table[0, Kind.F, 1] = 90
    assert execute(lower(TWO, table, sends(2)).tape).start[:3].tolist() == [0, 10, 100]


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("made", MADE)
def test_communication_of_the_schedule_is_placed_anew(made: Schedule, overlap: bool) -> None:
    table, between = ticks(made.stages, F=10, B=20), sends(made.stages, 3, 4)
    plain = lower(made, table, between, overlap)
    complete = lower(from_actions(add_communication(made.actions())), table, between, overlap)
    assert list(plain.tape.names) == list(complete.tape.names)
    assert execute(plain.tape).end.tolist() == execute(complete.tape).end.tolist()


def test_columns_say_what_operations_are() -> None:
    lowered = lower(TWO, ticks(2), sends(2), overlap_sends=False)
    rows = zip(lowered.stage.tolist(), lowered.kind.tolist(), lowered.microbatch.tolist(), strict=True)
    assert [str(Action(stage, Kind(kind), microbatch)) for stage, kind, microbatch in rows] == list(lowered.tape.names)


@pytest.mark.parametrize("overlap", [True, False])
def test_a_schedule_that_waits_for_itself(overlap: bool) -> None:
    stuck = lower(schedule("0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"), ticks(2), sends(2), overlap)
    with pytest.raises(DeadlockError, match="rank 1 compute: next is 1F1, which waits for 0SEND_F1 of rank 0"):
        execute(stuck.tape)
    stuck = lower(schedule("1F0,0F0,1B0,0B0"), ticks(2), sends(2), overlap)
    with pytest.raises(DeadlockError, match="rank 0 compute: next is 1F0, which waits for 0F0 of rank 0 compute"):
        execute(stuck.tape)


def test_one_stage_has_no_sends() -> None:
    lowered = lower(one_f_one_b(Pipeline(1, 1, 3)), ticks(1, F=1, B=2), sends(1))
    assert lowered.tape.lane_names == ("rank 0 compute",)
    assert execute(lowered.tape).makespan == 9


def test_names_are_a_sequence() -> None:
    names = lower(TWO, ticks(2), sends(2)).tape.names
    assert (len(names), names[-1], list(names[:2])) == (12, "1SEND_B1", ["0F0", "0F1"])
    assert "1F1" in names


def test_sends_that_block_follow_all_passes_that_run_side_by_side() -> None:
    """0F1 is sent when the pair has ended, on the compute lane; the pair begins when the gradient is there."""
    pair = schedule("0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1B0,1F1,1B1")
    lowered = lower(pair, ticks(2, F=1, B=1), sends(2, 10, 10), overlap_sends=False, pair=5)
    assert list(lowered.tape.names)[:6] == ["0F0", "0SEND_F0", "0F1", "0B0", "0SEND_F1", "0B1"]
    timeline = execute(lowered.tape)
    assert timeline.start[2:5].tolist() == [1 + 10 + 1 + 1 + 10, 24, 28]
    assert np.array_equal(timeline.end, sweep(lowered.tape).end)
