"""The requests of a run: columns that fit together, the same for the same seed, each choice from its own stream."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import ValidationError

from simulator.errors import InputError
from simulator.serving.workload.generate import ANY, NEVER, Workload, generate
from simulator.serving.workload.sharing import BLOCK, Joined
from simulator.specs.requests import Requests
from simulator.units import TICKS_PER_SECOND, to_ticks

LENGTHS = {"prompt": {"lognormal": [500, 0.8], "high": 8000}, "output": {"uniform": [1, 400]}}
SESSIONS = {"turns": {"uniform": [1, 6]}, "think": {"exponential": 20}}
SHARED = {"tokens": {"uniform": [100, 900]}, "groups": 5, "zipf": 1.0}

KINDS: dict[str, dict[str, Any]] = {
    "at once": {},
    "Poisson": {"arrivals": {"poisson": "4 /s"}},
    "gamma": {"arrivals": {"gamma": {"rate": "4 /s", "burstiness": 0.3}}},
    "constant": {"arrivals": {"constant": "4 /s"}},
    "varying": {"arrivals": {"varying": [{"duration": "5 s", "rate": "9 /s"}, {"duration": "2 s", "rate": "0 /s"}]}},
    "closed loop": {"arrivals": {"closed_loop": {"clients": 16, "think": {"exponential": 2}}}},
    "correlated": {"lengths": {**LENGTHS, "correlation": 0.6}},
    "sessions": {"arrivals": {"poisson": "1 /s"}, "sessions": SESSIONS},
    "users with sessions": {"arrivals": {"closed_loop": {"clients": 3}}, "sessions": SESSIONS},
    "prefixes": {"arrivals": {"poisson": "1 /s"}, "shared_prefix": SHARED},
    "sessions with prefixes": {"sessions": SESSIONS, "shared_prefix": SHARED},
    "priorities": {"priorities": [0.2, 0.3, 0.5]},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def asked(count: int | None = 400, **keys: Any) -> Requests:
    """A workload of so many requests."""
    return Requests.model_validate({"lengths": LENGTHS, "count": count, **keys})


def of_kind(kind: str, count: int = 400, seed: int = 1) -> Workload:
    """A workload of one of `KINDS`."""
    return generate(asked(count, **KINDS[kind]), seed)


class Recorded(NamedTuple):
    """A trace."""

    arrival_s: Any = None
    prompt: Any = np.array([40, 100, 30])
    output: Any = np.array([8, 20, 5])
    hashes: Any = None
    hash_block: int = 0
    session: Any = None
    priority: Any = None
    images: tuple[tuple[tuple[int, int], ...], ...] | None = None
    assumptions: tuple[str, ...] = ("a guess",)
    warnings: tuple[str, ...] = ("a loss",)


def columns(workload: Workload) -> list[bytes]:
    """All numbers of a workload."""
    named = (workload.arrival, workload.prompt, workload.output, workload.priority, workload.follows, workload.delay)
    return [*(column.tobytes() for column in named), repr(list(map(list, workload.prefix or ()))).encode()]


@every_kind
def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(kind: str) -> None:
    assert columns(of_kind(kind)) == columns(of_kind(kind))
    assert columns(of_kind(kind)) != columns(of_kind(kind, seed=2))


@every_kind
def test_columns_are_whole_and_of_one_length(kind: str) -> None:
    workload = of_kind(kind)
    for column in (
        workload.arrival,
        workload.prompt,
        workload.output,
        workload.priority,
        workload.follows,
        workload.delay,
    ):
        assert column.dtype == np.int64
        assert len(column) == len(workload) == 400
    assert workload.prompt.min() >= 1
    assert workload.output.min() >= 1
    assert workload.delay.min() >= 0
    assert workload.prefix is None or len(workload.prefix) == 400


@every_kind
def test_every_request_either_comes_by_itself_or_is_released_by_an_earlier_one(kind: str) -> None:
    workload = of_kind(kind)
    alone = workload.arrival != NEVER
    assert ((workload.follows == NEVER) == alone).all()
    assert (np.diff(workload.arrival[alone]) >= 0).all()
    assert (workload.follows < np.arange(400)).all()
    assert (workload.delay[alone] == 0).all()


@every_kind
@pytest.mark.parametrize("count", [1, 2, 17])
def test_few_requests_are_no_special_case(kind: str, count: int) -> None:
    assert len(of_kind(kind, count)) == count


@every_kind
def test_more_requests_leave_the_first_ones_as_they_were(kind: str) -> None:
    few, many = of_kind(kind, 100), of_kind(kind, 400)
    same = slice(99)  # the last turn may end a conversation early
    if kind not in ("sessions", "users with sessions", "sessions with prefixes", "closed loop"):
        assert (few.arrival[same] == many.arrival[same]).all()
    assert (few.output[same] == many.output[same]).all()


def test_another_consumer_changes_nothing_for_the_others() -> None:
    plain, more = generate(asked(), 1), generate(asked(arrivals={"poisson": "2 /s"}, priorities=[0.5, 0.5]), 1)
    assert (plain.prompt == more.prompt).all()
    assert (plain.output == more.output).all()


def test_all_come_at_once_where_nothing_is_said() -> None:
    assert not generate(asked(), 1).arrival.any()


def test_constant_rates_have_equal_gaps_from_the_start() -> None:
    workload = generate(asked(4, arrivals={"constant": "3 /s"}), 1)
    assert workload.arrival.tolist() == [to_ticks(i / 3) for i in range(4)]


def test_nobody_comes_while_the_rate_is_zero() -> None:
    arrivals = of_kind("varying").arrival / TICKS_PER_SECOND
    assert arrivals[-1] > 21
    assert (arrivals % 7 <= 5).all()


def test_users_of_a_closed_loop_begin_by_thinking_and_any_finish_releases_the_next() -> None:
    workload = of_kind("closed loop")
    assert (workload.arrival[:16] > 0).all()
    assert (workload.follows[16:] == ANY).all()
    assert (workload.delay[16:] > 0).all()
    without = generate(asked(arrivals={"closed_loop": {"clients": 16}}), 1)
    assert not without.arrival[:16].any()
    assert not without.delay.any()


def test_requests_of_a_closed_loop_with_a_rate_fall_due_one_after_the_other() -> None:
    workload = generate(asked(arrivals={"closed_loop": {"clients": 16, "rate": "2 /s"}}), 1)
    assert workload.due is not None and (np.diff(workload.due) > 0).all()
    assert (workload.arrival[:16] == workload.due[:16]).all()
    assert workload.due[-1] / TICKS_PER_SECOND == pytest.approx(len(workload) / 2, rel=0.3)


def test_each_turn_repeats_what_was_said_and_adds_to_it() -> None:
    workload = of_kind("sessions")
    later = np.flatnonzero(workload.follows >= 0)
    assert len(later) > 200
    assert (workload.follows[later] == later - 1).all()
    new = workload.prompt[later] - workload.prompt[later - 1] - workload.output[later - 1]
    assert new.min() >= 1
    assert (workload.delay[later] > 0).all()


def test_turns_share_all_full_blocks_of_the_earlier_turn_and_its_answer() -> None:
    workload = of_kind("sessions")
    assert workload.prefix is not None
    for row in np.flatnonzero(workload.follows >= 0).tolist():
        before, here = list(workload.prefix[row - 1]), list(workload.prefix[row])
        said = int(workload.prompt[row - 1] + workload.output[row - 1])
        assert len(before) == said // BLOCK
        assert here[: len(before)] == before
        assert len(here) >= workload.prompt[row] // BLOCK


def test_conversations_share_nothing_with_each_other() -> None:
    workload = of_kind("sessions")
    assert workload.prefix is not None
    conversation = np.cumsum(workload.follows < 0)
    owner: dict[int, int] = {}
    for row, blocks in enumerate(workload.prefix):
        assert all(owner.setdefault(block, conversation[row]) == conversation[row] for block in blocks)


def test_users_take_up_the_next_conversation_when_theirs_is_over() -> None:
    workload = of_kind("users with sessions")
    opening = np.flatnonzero((workload.follows < 0) | (workload.follows != np.arange(400) - 1)).tolist()
    assert [workload.arrival[row] for row in opening[:3]] == [0, 0, 0]
    for number, row in enumerate(opening[3:60]):
        assert workload.follows[row] == opening[number + 1] - 1  # the last turn of the conversation three before


def test_prompts_of_a_group_begin_with_the_same_blocks_and_are_longer_than_these() -> None:
    workload = of_kind("prefixes")
    assert workload.prefix is not None
    chains = {tuple(blocks) for blocks in workload.prefix}
    assert len(chains) == 5
    assert len({block for chain in chains for block in chain}) == sum(map(len, chains))
    assert (workload.prompt > [len(blocks) * BLOCK for blocks in workload.prefix]).all()
    assert "one token longer" in workload.assumptions[0]


def test_conversations_of_a_group_share_its_prefix_and_go_on_apart() -> None:
    workload = of_kind("sessions with prefixes")
    assert workload.prefix is not None
    heads = {tuple(blocks)[:6] for blocks in workload.prefix}
    assert len(heads) == 5
    for row in np.flatnonzero(workload.follows >= 0).tolist():
        before = workload.prefix[row - 1]
        assert list(workload.prefix[row][: len(before)]) == list(before)
        assert workload.prefix[row][0] == before[0]
        assert list(workload.prefix[row])[-1] == workload.prefix[row][len(workload.prefix[row]) - 1]


@pytest.mark.parametrize("kind", ["sessions", "prefixes", "sessions with prefixes"])
def test_blocks_may_have_another_size(kind: str) -> None:
    small, large = of_kind(kind), generate(asked(**KINDS[kind]), 1, block=64)
    assert large.prefix_block == 64
    assert small.prefix is not None
    assert large.prefix is not None
    assert (small.prompt == large.prompt).all()
    for fine, coarse in zip(small.prefix, large.prefix, strict=True):
        assert len(fine) - 7 <= 4 * len(coarse) <= len(fine)


def test_long_conversations_take_no_memory_a_block() -> None:
    lengths = {"prompt": {"fixed": 1e6}, "output": {"fixed": 1000}}
    workload = generate(asked(1000, lengths=lengths, sessions={"turns": {"fixed": 10}, "think": {"fixed": 0}}), 1)
    assert workload.prefix is not None
    assert len(workload.prefix[8]) == 9 * 1_001_000 // BLOCK


def test_priorities_have_their_shares() -> None:
    workload = generate(asked(100_000, priorities=[0.2, 0.3, 0.5]), 1)
    assert np.bincount(workload.priority) / 1e5 == pytest.approx([0.2, 0.3, 0.5], abs=0.006)


def test_a_trace_is_replayed_as_it_is() -> None:
    trace = Recorded(np.array([0.0, 0.5, 2.0]), priority=np.array([1, 0, 2]))
    workload = generate(Requests(trace="x"), 1, trace)
    assert workload.arrival.tolist() == [0, 5 * 10**11, 2 * 10**12]
    assert workload.prompt.tolist() == [40, 100, 30]
    assert workload.output.tolist() == [8, 20, 5]
    assert workload.priority.tolist() == [1, 0, 2]
    assert workload.prefix is None
    assert (workload.assumptions, workload.warnings) == (("a guess",), ("a loss",))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"speed": 2.0}, [0, 25 * 10**10, 10**12]),
        ({"count": 2}, [0, 5 * 10**11]),
        ({"arrivals": {"constant": "1 /s"}}, [0, 10**12, 2 * 10**12]),
        ({"arrivals": {"at_once": True}}, [0, 0, 0]),
        ({"arrivals": {"closed_loop": {"clients": 2}}}, [0, 0, NEVER]),
    ],
)
def test_the_times_of_a_trace_can_be_sped_up_cut_and_replaced(keys: dict[str, Any], expected: list[int]) -> None:
    requests = Requests.model_validate({"trace": "x", **keys})
    assert generate(requests, 1, Recorded(np.array([0.0, 0.5, 2.0]))).arrival.tolist() == expected


def test_a_trace_without_times_comes_at_once() -> None:
    assert generate(Requests(trace="x"), 1, Recorded()).arrival.tolist() == [0, 0, 0]


def test_lengths_beside_a_trace_replace_its_lengths_and_what_they_share() -> None:
    trace = Recorded(np.array([0.0, 0.5, 2.0]), hashes=((1,), (1, 2), (1,)), hash_block=512)
    given = Requests.model_validate({"trace": "x", "lengths": {"prompt": {"fixed": 7}, "output": {"fixed": 9}}})
    workload = generate(given, 1, trace)
    assert workload.prompt.tolist() == [7, 7, 7]
    assert workload.prefix is None
    assert workload.arrival.tolist() == [0, 5 * 10**11, 2 * 10**12]


def test_hashes_of_a_trace_are_passed_on() -> None:
    workload = generate(Requests(trace="x", count=2), 1, Recorded(hashes=((1,), (1, 2), (1,)), hash_block=512))
    assert (workload.prefix, workload.prefix_block) == (((1,), (1, 2)), 512)


def test_recorded_conversations_share_what_they_repeat() -> None:
    trace = Recorded(
        None, np.array([64, 48, 200, 300, 50]), np.array([32, 16, 10, 10, 10]), session=np.array([0, 1, 0, -1, 0])
    )
    workload = generate(Requests(trace="x"), 1, trace)
    assert workload.prefix is not None
    first, alone, second, nobody, anew = map(list, workload.prefix)
    assert len(first) == 96 // BLOCK
    assert second[:6] == first
    assert len(second) == 200 // BLOCK
    assert alone == nobody == anew == []  # the last is shorter than what it would have to repeat
    assert workload.assumptions[1:] == (
        "1 of 5 requests are at least as long as the earlier turn of their session and its answer;"
        " they are taken to repeat both",
    )


def test_prefixes_are_laid_under_a_trace_that_says_nothing_of_them() -> None:
    given = Requests.model_validate({"trace": "x", "shared_prefix": {"tokens": {"fixed": 64}}})
    workload = generate(given, 1, Recorded())
    assert workload.prompt.tolist() == [65, 100, 65]
    assert workload.prefix is not None
    assert list(map(list, workload.prefix)) == [[0, 1, 2, 3]] * 3


REFUSED: dict[str, tuple[dict[str, Any], Recorded | None, str]] = {
    "more than the trace has": ({"trace": "x", "count": 4}, Recorded(), "requests.count: the trace holds 3 requests"),
    "two sources of sharing": (
        {"trace": "x", "shared_prefix": {"tokens": {"fixed": 64}}},
        Recorded(hashes=((1,),) * 3),
        "what its prompts share",
    ),
    "longer than the clock": (
        {"count": 9, "arrivals": {"constant": "0.001 /h"}},
        None,
        "requests.arrivals: times reach",
    ),
    "a trace longer than the clock": (
        {"trace": "x"},
        Recorded(np.array([0, 1, 2e7])),
        "requests.trace: times reach 20,000,000 s",
    ),
    "longer than all reason": (
        {"count": 9, "lengths": {"prompt": {"lognormal": [1e9, 99]}, "output": {"fixed": 1}}},
        None,
        "requests.lengths.prompt: the distribution reaches",
    ),
    "turns without end": (
        {"count": 9, "sessions": {"turns": {"fixed": 1e12}, "think": {"fixed": 1}}},
        None,
        "requests.sessions.turns",
    ),
    "a pause without end": (
        {"count": 9, "sessions": {"turns": {"fixed": 2}, "think": {"fixed": 1e12}}},
        None,
        "requests.sessions.think",
    ),
    "thinking without end": (
        {"count": 9, "arrivals": {"closed_loop": {"clients": 1, "think": {"fixed": 1e300}}}},
        None,
        "closed_loop.think",
    ),
    "no trace where one is named": ({"trace": "x"}, None, "neither a trace nor lengths"),
}


@pytest.mark.parametrize(("keys", "trace", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_had_is_said_clearly(keys: dict[str, Any], trace: Recorded | None, message: str) -> None:
    given = Requests.model_validate(keys if "trace" in keys else {"lengths": LENGTHS, **keys})
    with pytest.raises(InputError) as caught:
        generate(given, 1, trace)
    assert message in str(caught.value)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "two processes": ({"arrivals": {"poisson": "1 /s", "constant": "1 /s"}}, "give one of `poisson` and `constant`"),
    "no rate at all": ({"arrivals": {"varying": [{"duration": "1 s", "rate": 0}]}}, "a rate above 0"),
    "a step of no time": ({"arrivals": {"varying": [{"duration": 0, "rate": "1 /s"}]}}, "greater than 0"),
    "a trace and sessions": ({"trace": "x", "sessions": SESSIONS}, "give one of them"),
    "shares that miss 1": ({"priorities": [0.5, 0.4]}, "sum to 1, not to 0.9"),
    "no count": ({"count": None}, "write `count`"),
    "no lengths": ({"lengths": None}, "write `lengths`"),
    "a falling cdf": ({"lengths": {**LENGTHS, "prompt": {"cdf": [[9, 0], [1, 1]]}}}, "rise in value"),
    "a cdf short of 1": ({"lengths": {**LENGTHS, "prompt": {"cdf": [[1, 0], [9, 0.9]]}}}, "is 1, not 0.9"),
    "zipf from 0": ({"lengths": {**LENGTHS, "prompt": {"zipf": 1, "low": 0, "high": 9}}}, "`low` (at least 1)"),
    "zipf of parts": ({"lengths": {**LENGTHS, "prompt": {"zipf": 1, "low": 1, "high": 9.5}}}, "whole numbers"),
    "a negative spread": ({"lengths": {**LENGTHS, "prompt": {"normal": [9, -1]}}}, "not negative"),
    "a median of 0": ({"lengths": {**LENGTHS, "prompt": {"lognormal": [0, 1]}}}, "median above 0"),
    "swapped bounds": ({"lengths": {**LENGTHS, "prompt": {"uniform": [9, 1]}}}, "the lower first"),
    "no number": ({"lengths": {**LENGTHS, "prompt": {"fixed": float("nan")}}}, "finite number"),
    "two distributions": ({"lengths": {**LENGTHS, "prompt": {"fixed": 1, "exponential": 2}}}, "exactly one of"),
}


@pytest.mark.parametrize(("keys", "message"), WRONG.values(), ids=WRONG)
def test_specs_refuse_what_makes_no_sense(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Requests.model_validate({"lengths": LENGTHS, "count": 3, **keys})
    assert message in str(caught.value)


def test_slices_of_joined_blocks_are_those_of_a_tuple_without_a_copy() -> None:
    joined = Joined(range(3), range(10, 14))
    whole = tuple(joined)
    for start, stop in product((None, *range(-8, 9)), repeat=2):
        part = joined[start:stop]
        assert isinstance(part, Joined)
        assert (tuple(part), tuple(reversed(part))) == (whole[start:stop], whole[start:stop][::-1])
    assert tuple(joined[::-2]) == whole[::-2]
    assert [joined[place] for place in range(-7, 7)] == 2 * list(whole)
    with pytest.raises(IndexError, match="no block 7 of 7"):
        joined[7]


def test_tools_take_the_place_of_thinking_before_a_share_of_later_turns() -> None:
    """Half of the pauses are those of a tool, which takes 2 s; the others, and all else, are as without tools."""
    lone = {"arrivals": {"poisson": "1 /s"}, "sessions": {"turns": {"uniform": [8, 8]}, "think": {"uniform": [10, 30]}}}
    tools = {**lone, "sessions": {**lone["sessions"], "tools": {"share": "50 %", "wait": {"uniform": [2, 2]}}}}
    plain, agents = (generate(asked(4000, **given), 1) for given in (lone, tools))
    later = agents.follows >= 0
    by_tool = agents.delay == 2 * TICKS_PER_SECOND
    assert not by_tool[~later].any()
    assert by_tool[later].mean() == pytest.approx(0.5, abs=0.03)  # 3,500 turns: 3.5 standard deviations
    assert (agents.delay[~by_tool] == plain.delay[~by_tool]).all()
    for name in ("arrival", "prompt", "output", "follows", "session"):
        assert (getattr(agents, name) == getattr(plain, name)).all()
