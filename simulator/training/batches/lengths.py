"""Lengths of sequences one after the other: drawn from distributions, listed, or read from a file."""

from collections.abc import Iterable, Iterator
from itertools import repeat
from math import pi, sin, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.specs.catalog import data_root
from simulator.specs.distributions import from_scores, sample
from simulator.specs.training import Documents, Training
from simulator.training.batches.padding import Pair

Ints = NDArray[np.int64]

PATH = "training.documents"
AT_ONCE = 4096
"""Sequences that are drawn together."""
MOST = 4_000_000
"""Sequences that are drawn for a step at most."""


def pairs(training: Training, seed: int) -> Iterator[Pair]:
    """Lengths of sequences, and of those of an encoder, until there are no more; InputError for one that is longer than
    the context, and where MOST are not enough."""
    given = training.documents
    assert given is not None
    longest = training.sequence_length, training.encoder_sequence_length or 0
    for tokens, encoder in _checked(_listed(given, training) or _drawn(given, training, seed)):
        for length, most, whose in ((tokens, longest[0], ""), (encoder, longest[1], "encoder_")):
            if length > most and training.batching is not None and training.batching.policy != "cut":
                message = (
                    f"a sequence of {length:,} tokens is longer than the context, `{whose}sequence_length` {most:,}"
                )
                hint = f"write `high: {most}` beside the distribution, a longer context, or `policy: cut`"
                raise InputError(Problem(message, path=f"training.{whose}documents", hint=hint))
        yield tokens, encoder


def _checked(found: Iterable[Pair]) -> Iterator[Pair]:
    """Lengths, as many as are drawn at most."""
    for count, pair in enumerate(found):
        if count >= MOST:
            message = f"more than {MOST:,} sequences for one step"
            raise InputError(Problem(message, path=PATH, hint="write longer ones, or a smaller global_batch"))
        yield pair


def _listed(given: Documents, training: Training) -> list[Pair] | None:
    """Lengths that are given one by one; None where they are drawn."""
    if given.listed is not None:
        return list(zip(given.listed, repeat(0), strict=False))
    return read_lengths(given.trace, training.encoder_sequence_length is not None) if given.trace else None


def _drawn(given: Documents, training: Training, seed: int) -> Iterator[Pair]:
    """Lengths of a distribution, and of an encoder's likewise, tied by the rank correlation of both."""
    random, other = stream(seed, "documents"), training.encoder_documents
    correlation = training.batching.correlation if training.batching is not None else 0.0
    while True:
        if other is None:
            yield from zip(_whole(sample(given, random, AT_ONCE, step=1)), repeat(0), strict=False)
            continue
        own, apart = random.standard_normal(AT_ONCE), random.standard_normal(AT_ONCE)
        share = 2.0 * sin(pi * correlation / 6.0)  # of scores, from Spearman's of ranks
        tied = share * own + sqrt(max(1.0 - share * share, 0.0)) * apart
        yield from zip(_whole(from_scores(given, own, 1)), _whole(from_scores(other, tied, 1)), strict=True)


def _whole(values: NDArray[np.float64]) -> list[int]:
    """Tokens, at least one."""
    found: list[int] = np.maximum(np.rint(values), 1).astype(np.int64).tolist()
    return found


def read_lengths(name: str, encoder: bool) -> list[Pair]:
    """Lengths of a file: one a line, with an encoder two, separated by a comma; a first line of words is a head.

    InputError with the line for what is no number of tokens, and for a file without any.
    """
    path = next((path for path in (Path(name), data_root() / name) if path.is_file()), None)
    if path is None:
        raise InputError(Problem(f"there is no file `{name}`", path=f"{PATH}.trace", hint="write the path of a file"))
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip() or (number == 1 and not any(map(_number, cells))):
            continue
        lengths = [_tokens(cell, path, number) for cell in cells[: 1 + encoder]]
        if len(lengths) <= encoder:
            raise _refused(path, number, "has one number", "write tokens of the decoder, a comma, of the encoder")
        found.append((lengths[0], lengths[1] if encoder else 0))
    if not found:
        raise InputError(Problem(f"{path} holds no lengths", path=f"{PATH}.trace", hint="write one number a line"))
    return found


def _number(cell: str) -> bool:
    return cell.lstrip("-").isdigit()


def _tokens(cell: str, path: Path, number: int) -> int:
    """Tokens of a cell."""
    if not _number(cell) or len(cell) > 9 or int(cell) < 1:
        raise _refused(path, number, f"`{cell[:20]}` is no number of tokens", "write whole numbers of 1 or more")
    return int(cell)


def _refused(path: Path, number: int, message: str, hint: str) -> InputError:
    return InputError(Problem(f"line {number} {message}", path=f"{PATH}.trace", hint=hint, file=str(path), line=number))
