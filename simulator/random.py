"""One seed, many independent streams of random numbers: every consumer draws from its own, known by a name.

A consumer that is added, or that draws more than before, changes nothing for the others. Each stream is the child of
one `numpy.random.SeedSequence` whose key is the name, so that it does not depend on the order in which streams are
asked for either.
"""

import numpy as np


def stream(seed: int, name: str) -> "np.random.Generator":
    """The generator of the consumer `name` under a seed of at least 0; the same two always give the same numbers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=tuple(name.encode()))))
