"""Pieces of passes: one instruction lasts what its parts last on lanes."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.executor import execute
from simulator.engine.tape import RESERVED, Activity, Use, chain
from simulator.fabric.sharing import max_min
from simulator.program.builder import Builder
from simulator.program.content import Call, Comm, Content
from simulator.program.piece import COMPUTE, COPY, HOST, InParts, Part, Piece, PieceBuilder, Takes, series, single

REDUCE = Comm("all_reduce", "tp", 1e6, "tp")


def kernels(ticks: int) -> Content:
    return Content(ticks)


def mixed(ticks: int) -> Content:
    """Kernels that the memory bounds for half of the time, and fixed costs for a fifth of it."""
    return Content(ticks, memory=ticks // 2, latency=ticks // 5)


def call(ticks: int) -> Content:
    return Content(calls=(Call(REDUCE, 1, ticks),))


def beside(ticks: int, multiprocessors: float, memory: float = 0.0) -> Part:
    return Part("tp", call(ticks), takes=Takes(multiprocessors, memory))


def test_each_kernel_lacks_what_bounds_it() -> None:
    """Beside a collective that takes a fifth of the multiprocessors and a third of the memory, of 100 ticks the 20 of
    fixed costs last as long, 30 of arithmetic 30 / 0.8 and 50 of the memory 50 / (2 / 3)."""
    built = PieceBuilder()
    built.run(mixed(100), [beside(500, 0.2, 1 / 3)])
    content = built.build().content
    assert content.stall == round(20 + 30 / 0.8) + 75 - 100
    assert content.exposed == 500 - 100 - content.stall


def test_what_no_multiprocessor_carries_leaves_products_alone() -> None:
    """A copy engine reads and writes memory: products go on, what the memory bounds does not."""
    for content, stall in ((kernels(100), 0), (Content(100, memory=100), 100)):
        built = PieceBuilder()
        built.run(content, [beside(300, 0.0, 0.5)])
        assert built.build().content.stall == stall


def test_a_collective_beside_a_longer_product_costs_what_it_takes_of_the_device() -> None:
    built = PieceBuilder()
    built.run(kernels(100), [beside(50, 0.2)])
    content = built.build().content
    assert content.total == 110
    assert (content.compute, content.stall, content.exposed) == (100, 10, 0)
    assert [each.runs for each in content.calls] == [1]


def test_what_outlasts_the_product_is_exposed() -> None:
    built = PieceBuilder()
    built.run(kernels(40), [beside(100, 0.2)])
    built.run(kernels(7))
    content = built.build().content
    assert (content.compute, content.stall, content.exposed) == (47, 10, 50)
    assert content.total == 107


def test_launches_of_the_next_layer_run_beside_this_one() -> None:
    def layer(host: int) -> Piece:
        built = PieceBuilder([Part(HOST, Content(host=host)), Part(COPY, Content(offload=30))])
        built.run(kernels(20))
        built.run(call(25))
        return built.build()

    short, long = layer(10).content, layer(60).content
    assert (short.total, short.host) == (45, 0)
    assert (long.total, long.host, long.exposed) == (60, 15, 25)
    assert series([layer(60), layer(10)]).content.total == 105


def test_kernels_without_a_seam_are_one_part() -> None:
    built = PieceBuilder()
    for ticks in (3, 4):
        built.run(kernels(ticks))
    built.run(call(5))
    built.run(kernels(6))
    assert [part.content.total for part in built.build().parts] == [7, 5, 6]


def test_nothing_adds_nothing() -> None:
    piece = single(kernels(5))
    assert piece + single(Content()) is piece
    assert single(Content()) + piece is piece
    assert PieceBuilder().build() == single(Content())


def test_recomputation_is_counted_apart() -> None:
    built = PieceBuilder()
    built.run(kernels(40), [beside(100, 0.2)])
    again = built.build().again().content
    assert (again.compute, again.recompute, again.exposed) == (0, 40, 50)


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    ticks = st.integers(1, 300)
    shares = st.sampled_from([0.0, 0.1, 0.25, 0.4])
    share = draw(shares), draw(shares)
    kernels = draw(st.sampled_from([Content, mixed]))
    ahead = [Part(lane, Content(host=draw(ticks))) for lane in (HOST, COPY) if draw(st.booleans())]
    built = PieceBuilder(ahead)
    for _ in range(draw(st.integers(0, 6))):
        what = draw(st.integers(0, 2))
        if what == 0:
            built.run(kernels(draw(ticks)), [beside(draw(ticks), *share) for _ in range(draw(st.integers(0, 2)))])
        elif what == 1:
            built.run(call(draw(ticks)))
        else:
            later = tuple(kernels(draw(ticks)) for _ in range(draw(st.integers(0, 1))))
            part = InParts(
                (beside(draw(ticks), *share),), (kernels(draw(ticks)),), (beside(draw(ticks), *share),), later
            )
            arrived = built.begin_parts(part, draw(st.integers(1, 4)))
            if draw(st.booleans()):
                built.run(kernels(draw(ticks)), [beside(draw(ticks), *share)] * draw(st.integers(0, 1)))
            sent = built.run_parts(part, arrived)
            if draw(st.booleans()):
                built.run(kernels(draw(ticks)))
            built.wait(sent)
    return built.build()


def in_parts(part: InParts, parts: int) -> Piece:
    built = PieceBuilder()
    built.wait(built.run_parts(part, built.begin_parts(part, parts)))
    return built.build()


def test_parts_of_a_work_travel_beside_each_other() -> None:
    """Arrivals at 10, 20, 30; work until 50, 90, 130, its last beside nothing; results at 60, 100, 140."""
    content = in_parts(InParts((beside(10, 0.0),), (kernels(40),), (beside(10, 0.0),)), 3).content
    assert (content.total, content.compute, content.exposed) == (140, 120, 20)
    assert sum(each.runs for each in content.calls) == 6


def test_parts_that_travel_longer_than_they_are_worked_on() -> None:
    """Three arrivals until 90, and only then three results."""
    content = in_parts(InParts((beside(30, 0.0),), (kernels(20),), (beside(30, 0.0),)), 3).content
    assert (content.total, content.exposed) == (180, 120)


def test_gradients_of_weights_do_not_hold_up_what_a_part_sends() -> None:
    content = in_parts(InParts((beside(10, 0.0),), (kernels(20),), (beside(10, 0.0),), (kernels(15),)), 2).content
    assert (content.total, content.exposed) == (10 + 2 * 35, 10)


def on_lanes(parts: tuple[Part, ...], pace: float) -> list[int]:
    """Ends of the parts of pieces when the engine runs them on lanes that share a device."""
    builder, names = Builder(), sorted({part.lane for part in parts} | {COMPUTE})
    device, numbers = (builder.resource(), builder.resource()), list[Any]()
    for turn, part in enumerate(parts):
        content = part.content.at(pace)
        activity = builder.activity(on_device(content, part.takes, device)) if content.kernels or content.calls else -1
        numbers.append(builder.append(names.index(part.lane), turn, builder.piece(single(content)), activity=activity))
        for earlier in part.after:
            builder.after(numbers[-1], numbers[earlier])
    tape, columns = builder.build(tuple(names))
    places = zip(columns["lane"].tolist(), columns["turn"].tolist(), strict=True)
    ends = dict(zip(places, execute(tape, max_min).end.tolist(), strict=True))
    return [ends[names.index(part.lane), turn] for turn, part in enumerate(parts)]


def on_device(content: Content, takes: Takes, device: tuple[int, int]) -> Activity:
    """Kernels one after the other on what bounds them; a collective on what it takes."""
    if content.calls:
        uses = tuple(Use(one, share, RESERVED) for one, share in zip(device, takes, strict=True) if share)
        return Activity(0, content.total, uses)
    fixed, arithmetic, memory = (int(ticks[0]) for ticks in content.bound(np.array([content.total])))
    on = [Activity(0, ticks, (Use(one, 1.0, 1.0),)) for one, ticks in zip(device, (arithmetic, memory), strict=True)]
    return chain([Activity(0, fixed, ()), *on])


@given(st.lists(pieces(), min_size=1, max_size=3), st.floats(0.5, 3.0))
def test_an_instruction_lasts_what_its_parts_last_on_lanes(several: list[Piece], pace: float) -> None:
    whole = series(several)
    for factor in (1.0, pace):
        ends = on_lanes(whole.parts, factor)
        assert whole.schedule(np.array([factor]))[1] == [[end] for end in ends]
        assert whole.lasts(np.array([factor]))[0] == whole.at(factor).content.total == ends[-1]
    assert whole.content.total == sum(piece.content.total for piece in several)


def test_work_beside_two_calls_of_one_share_is_booked_once() -> None:
    """Booked where one call follows another at the same speed, 52.5 ticks left were 52.499999."""
    built = PieceBuilder()
    built.run(mixed(111), [beside(228, 0.1, 0.1), beside(16, 0.1, 0.1)])
    whole = built.build()
    assert [int(end[0]) for end in whole.schedule(np.array([2.5]))[1]] == on_lanes(whole.parts, 2.5)


@given(pieces())
def test_an_instruction_keeps_what_its_parts_are(piece: Piece) -> None:
    content = piece.content
    assert content.kernels == sum(part.content.kernels for part in piece.parts)
    runs = sum(each.runs for part in piece.parts for each in part.content.calls)
    assert sum(each.runs for each in content.calls) == runs
    assert min(content.stall, content.host, *(each.exposed for each in content.calls), 0) == 0


@given(pieces(), st.floats(0.2, 5.0))
def test_slower_devices_take_no_less(piece: Piece, pace: float) -> None:
    slow, fast = max(1.0, pace), min(1.0, pace)
    lasts = piece.lasts(np.array([fast, 1.0, slow]))
    assert lasts[0] <= lasts[1] + 1 and lasts[1] <= lasts[2] + 1


def test_paces_of_many_devices_at_once() -> None:
    built = PieceBuilder([Part(HOST, Content(host=90))])
    built.run(kernels(100), [beside(80, 0.25)])
    paces = np.array([0.5, 1.0, 1.5])
    assert built.build().lasts(paces).tolist() == [90, 120, 170]
    assert [built.build().at(pace).content.total for pace in paces.tolist()] == [90, 120, 170]


def test_parts_of_kernels_of_hours_are_none_below_nothing() -> None:
    """Ticks beyond those that a float tells apart were rounded up, and what the rest was bound by lasted -1 of them."""
    for ticks in range(2**54 + 1, 2**54 + 999, 2):
        parts = Content(compute=ticks, latency=ticks).bound(np.array([ticks]))
        assert min(int(part[0]) for part in parts) >= 0 and sum(int(part[0]) for part in parts) == ticks
