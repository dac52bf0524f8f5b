"""Who holds which part of a model, and what has to move."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.run.workflow.pieces import Interval, Piece, missing, of_training
from simulator.specs import load_scenario
from simulator.training.build import build_job

SIZES = st.sampled_from([1, 2, 3, 4])


def part(number: int, of: int) -> Interval:
    """One of equal parts."""
    return Fraction(number, of), Fraction(number + 1, of)


def layout(tp: int, pp: int, copies: int = 1, first: int = 0) -> list[Piece]:
    """Devices of a layout, tp fastest."""
    ranks = product(range(copies), range(pp), range(tp))
    return [Piece(first + i, part(stage, pp), part(t, tp)) for i, (_, stage, t) in enumerate(ranks)]


@given(SIZES, SIZES, SIZES)
def test_nothing_moves_to_the_same_layout(tp: int, pp: int, copies: int) -> None:
    assert missing(layout(tp, pp, copies), layout(tp, pp, copies), lambda one: one // 8) == []


@given(SIZES, SIZES, SIZES, SIZES, SIZES, st.sampled_from([0, 100]))
def test_every_device_ends_with_its_piece(tp: int, pp: int, to_tp: int, to_pp: int, copies: int, first: int) -> None:
    """What a device lacks moves once: its piece, less what it holds already."""
    have, want = layout(tp, pp), layout(to_tp, to_pp, copies, first)
    moved = missing(have, want, lambda one: one // 4)
    holds = {piece.device: piece for piece in have}
    for piece in want:
        own = holds.get(piece.device)
        kept = overlap(own, piece) if own is not None else Fraction(0)
        came = sum((one.share for one in moved if one.target == piece.device), Fraction(0))
        assert came == Fraction(1, to_tp * to_pp) - kept
    assert all(one.source in holds for one in moved)


def overlap(a: Piece, b: Piece) -> Fraction:
    """Part of the model that two pieces share."""
    sides = ((a.layers, b.layers), (a.slices, b.slices))
    found = Fraction(1)
    for one, other in sides:
        found *= max(min(one[1], other[1]) - max(one[0], other[0]), Fraction(0))
    return found


def test_pieces_come_from_the_own_node_and_holders_take_turns() -> None:
    have = [Piece(0, part(0, 1), part(0, 1)), Piece(8, part(0, 1), part(0, 1))]
    want = [Piece(device, part(0, 1), part(0, 1)) for device in (1, 9, 16, 17)]
    found = {one.target: one.source for one in missing(have, want, lambda one: one // 8)}
    assert (found[1], found[9]) == (0, 8)
    assert {found[16], found[17]} == {0, 8}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (("training.parallel.tp=2", "training.parallel.pp=2"), {(2, 2)}),
        (("training.parallel.tp=4", "training.parallel.pp=1", "+training.parallel.zero=3"), {(1, 8)}),
    ],
)
def test_a_training_job_holds_the_whole_model(changes: tuple[str, ...], parts: set[tuple[int, int]]) -> None:
    """All ranks together hold every part as often as it is copied; fully sharded each part once."""
    job = build_job(load_scenario("quickstart", changes).spec)  # type: ignore[arg-type]
    held = of_training(job, range(job.mesh.world))
    sizes = {(round(1 / (b - a)), round(1 / (d - c))) for _, (a, b), (c, d) in held}
    assert sizes == parts
    areas = sum((b - a) * (d - c) for _, (a, b), (c, d) in held)
    (pp, cut) = next(iter(parts))
    assert areas == Fraction(job.mesh.world, pp * cut)
