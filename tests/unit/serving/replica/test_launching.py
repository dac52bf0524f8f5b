"""How far a host is ahead of the stages it launches on, by hand."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from simulator.serving.replica.launching import HostThread
from simulator.serving.replica.stages import Stages


def through(kernels: Sequence[int], places: int, pieces: int, ticks: int = 100, ahead: int = 4) -> int:
    """When pieces that are there at 0 have passed all stages."""
    thread = HostThread(kernels, places, ahead)
    free, ready = [0] * len(kernels), 0
    for _ in range(pieces):
        host = thread.begin(free[0] if thread.launched[0] else 0)
        ready = 0
        for stage in range(len(kernels)):
            host, ready = thread.stage(stage, host, max(ready, free[stage]), ticks)
            free[stage] = ready
    return ready


def test_queues_with_room_for_all_let_pieces_follow_each_other() -> None:
    assert through([10] * 4, places=1000, pieces=8, ahead=100) == 100 * (8 + 3)


def test_a_piece_that_fills_every_queue_is_alone() -> None:
    """The thread leaves a stage when all but one of its kernels are done."""
    assert through([1000] * 4, places=1, pieces=8) >= 100 * (8 * 4 - 3) * 0.99


def test_two_stages_with_half_a_piece_too_many() -> None:
    """200 launches, 100 places. The thread leaves the first stage when 100 kernels are done, at 50, the second one,
    which begins at 100, at 150; the second piece begins then, not at 100."""
    assert through([200, 200], places=100, pieces=1) == 200
    assert through([200, 200], places=100, pieces=2) == 150 + 200


def test_inputs_that_are_written_over_hold_the_thread_back() -> None:
    """With one copy of the inputs the thread has launched the second piece on the last stage when the first one has
    left it, at 400: the third begins then; with two it begins at 200."""
    assert through([1] * 4, places=100, pieces=3, ahead=1) == 400 + 400
    assert through([1] * 4, places=100, pieces=3, ahead=2) == 200 + 400


@given(
    kernels=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    places=st.integers(1, 400),
    pieces=st.integers(1, 8),
)
def test_between_one_after_the_other_and_without_a_pause(kernels: list[int], places: int, pieces: int) -> None:
    found = through(kernels, places, pieces)
    stages = len(kernels)
    assert 100 * (pieces + stages - 1) <= found <= 100 * pieces * stages
    assert through(kernels, 10_000, pieces, ahead=100) <= found


class Sends:
    """A stage that sends for five ticks, whatever it sends."""

    def send(self, tokens: int) -> int:
        return 5


PIECES = st.lists(
    st.tuples(st.booleans(), st.lists(st.integers(1, 900), min_size=4, max_size=4)), min_size=1, max_size=9
)


@given(kernels=st.lists(st.integers(1, 300), min_size=4, max_size=4), places=st.integers(1, 400), pieces=PIECES)
def test_what_nothing_is_before_or_behind_passes_as_if_its_launches_were_counted(
    kernels: list[int], places: int, pieces: list[tuple[bool, list[int]]]
) -> None:
    """Pieces of prompts follow each other as soon as the first stage is free, iterations with decodes are awaited."""
    ends = []
    for counted in (True, False):
        stages, now, found = Stages.__new__(Stages), 0, []
        stages.costs, stages.free, stages.gate = (Sends(),) * 4, [0] * 4, 0  # type: ignore[assignment]
        stages.host = HostThread(kernels, places, 2)
        stages.roomy = stages.host.roomy and not counted
        for followed, ticks in pieces:
            span = stages.pass_through(ticks, 1, now, followed)
            found.append(now + span)
            now = stages.gate if followed else now + span
        ends.append(found)
    assert ends[0] == ends[1]
