"""How well layouts of vTrain's runs can be ranked at all: single runs were held up, most of them with 2 or 4 cards a
layer.

    python -m benchmarks.held_up [SOURCE]

A run is taken to have been held up where measured over simulated is by a share more than in the middle of its model's
runs with all cards of a node a layer. A simulator that knows nothing of what held runs up, and is right about all
others, finds measured times for these and, for those held up, ours on the level of the others. Its rank correlation is
the ceiling. Which runs were held up, and what they would have taken, is read off our own errors: the ceiling is an
estimate, not a bound. It is told beside that of a simulator with our times for those runs as they are.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from benchmarks.rows import chosen
from simulator.study.validate.accuracy import ranking
from simulator.study.validate.training import Outcome, validate_row

SOURCE = "vtrain-multi"
NODE = 8
"""Cards of a node."""
SHARES = (0.06, 0.08, 0.1)
"""By how much a run that was held up took longer."""
Model = tuple[object, ...]


class Ceiling(NamedTuple):
    """What a simulator without other errors would reach."""

    level: float
    """Rank correlation with our times for runs that were held up on the level of the others."""
    ours: float
    """The same with our times as they are."""
    held: int
    """Runs that were held up."""


def lines(outcomes: Iterable[Outcome], source: str = SOURCE) -> list[str]:
    """What there is to say of the runs of a source, as text of a page; nothing where no layouts are compared."""
    own = [one for one in outcomes if one.row is not None and one.row.source == source and one.error is not None]
    found = ranking(own)
    if found is None or not _levels(own):
        return []
    head = [
        f"Of {source} single runs were held up: they took longer by a share than those of their model with {NODE}",
        "cards a layer have it. What a simulator would reach that is right about all other runs and has our times",
        "for these, on the level of the others, and as they are (`python -m benchmarks.held_up`; an estimate, as",
        f"which runs were held up is read off our errors). Ours is {found:.2f}.",
        "",
        "| longer by | of 2 and 4 cards | on the level | as they are | of all | on the level | as they are |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return [*head, *(_line(own, share) for share in SHARES), ""]


def _line(outcomes: Sequence[Outcome], share: float) -> str:
    some, every = (ceiling(outcomes, share, cards) for cards in ((2, 4), None))
    told = (f"{one.held} | {one.level:.2f} | {one.ours:.2f}" for one in (some, every))
    return f"| {100 * share:.0f} % | {' | '.join(told)} |"


def ceiling(outcomes: Sequence[Outcome], share: float, cards: tuple[int, ...] | None = None) -> Ceiling:
    """Rank correlation of a simulator that is right about all runs but those held up, of any `cards` a layer or of
    these alone."""
    known, held = _levels(outcomes), list[bool]()
    for one in outcomes:
        assert one.row is not None
        slow = (one.measured_s or 0.0) * known.get(_model(one), 0.0) > (1.0 + share) * (one.predicted_s or 0.0)
        held.append(slow and (cards is None or one.row.tp in cards))

    def ranked(levels: dict[Model, float]) -> float:
        right = [
            replace(one, predicted_s=(one.predicted_s or 0.0) / levels[_model(one)] if slow else one.measured_s)
            for one, slow in zip(outcomes, held, strict=True)
        ]
        return ranking(right) or 0.0

    return Ceiling(ranked(known), ranked(dict.fromkeys(known, 1.0)), sum(held))


def _model(one: Outcome) -> Model:
    row = one.row
    assert row is not None
    return row.model, row.hidden, row.layers


def _levels(outcomes: Sequence[Outcome]) -> dict[Model, float]:
    """Simulated over measured of each model's runs with all cards of a node a layer, in the middle."""

    def whole(model: Model) -> Iterator[float]:
        for one in outcomes:
            if _model(one) == model and one.row is not None and one.row.tp == NODE:
                yield 1.0 + (one.error or 0.0)

    found = {model: list(whole(model)) for model in dict.fromkeys(map(_model, outcomes))}
    return {model: median(some) for model, some in found.items() if some}


def main() -> None:
    """Simulate the runs of a source and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", default=SOURCE)
    source = parser.parse_args().source
    outcomes = map(validate_row, chosen([f"source={source}"], frozenset(), 1))
    print("\n".join(lines([one for one in outcomes if one.in_scope], source)) or f"{source}: nothing to compare")


if __name__ == "__main__":
    main()
