"""Retrieved chunks that prompts begin with: which of many each prompt has, in which order.

For caches of prefixes the identities of a prompt's blocks stand for all chunks up to there, in their order: equal ones
are given only to prompts whose chunks are the same from the start. Caches of chunks look at the chunks themselves.
"""

from collections.abc import Sequence

import numpy as np

from simulator.random import stream
from simulator.specs.distributions import zipf
from simulator.specs.requests import RetrievedChunks

Chunks = tuple[tuple[int, ...], ...]
"""Those of each request, in the order of its prompt."""


ROUNDS = 32
"""Draws of as many chunks as a prompt has, after which those that it still lacks are drawn without repeats: few are so
popular that hardly another one comes up."""


def drawn(spec: RetrievedChunks, count: int, seed: int) -> Chunks:
    """Different chunks for each of so many requests; the k-th chunk is chosen in proportion to k**-zipf."""
    random, found = stream(seed, "chunks"), []
    for _ in range(count):
        own: dict[int, None] = {}
        for _ in range(ROUNDS):
            own.update(dict.fromkeys(zipf(spec.zipf, 1, spec.of, random.random(spec.each)).tolist()))
            if len(own) >= spec.each:
                break
        else:
            own.update(dict.fromkeys(_others(spec, set(own), random)))
        found.append(tuple(own)[: spec.each])
    return tuple(found)


def _others(spec: RetrievedChunks, own: set[int], random: np.random.Generator) -> list[int]:
    """Chunks that a prompt does not have yet, in the order in which they would come up: the least of exponential times
    over weights, by their logarithms, as weights may be too small to write down."""
    ranks = np.arange(1, spec.of + 1)
    times = np.log(random.standard_exponential(spec.of)) + spec.zipf * np.log(ranks)
    times[[rank - 1 for rank in own]] = np.inf
    missing = spec.each - len(own)
    least = np.argpartition(times, missing)[:missing]
    return [int(ranks[place]) for place in least[np.argsort(times[least])]]


def identities(chunks: Chunks, tokens: int, block: int) -> tuple[Sequence[int], ...]:
    """Identities of the full blocks of the chunks of each request, equal where all chunks from the start are."""
    known: dict[tuple[int, ...], int] = {}
    found, size = [], -(-tokens // block)
    for own in chunks:
        blocks: list[int] = []
        for place in range(1, len(own) + 1):
            first = known.setdefault(own[:place], len(known)) * size
            more = place * tokens // block - (place - 1) * tokens // block
            blocks.extend(range(first, first + more))
        found.append(tuple(blocks))
    return tuple(found)
