"""Ring Self-Attention: scores of a rank's queries with all keys in memory, keys and values passed around in two rings.

Keys go round for the scores, values for the weighted sums: 2 (N - 1) messages forward. Backward both go round again,
and gradients of keys and values of the whole sequence are summed over all ranks by all-reduces (arXiv:2105.13120,
section 3). Products and messages take turns. Masks save nothing; dropout inside attention is left out.
"""

from collections.abc import Iterator

from simulator.cost.work import Gemm, Stream
from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.step import Kernel, Step


def scores(sharing: Sharing) -> Iterator[Step]:
    """Scores block by block, softmax, weighted sums block by block; backward in the other order."""
    s, core = sharing.tokens, sharing.core
    batch = sharing.batch * core.heads
    outer = Gemm(s, s, core.head_dim, batch, sharing.dtype)
    size = float(batch * s * sharing.sequence * sharing.element)
    if not core.backward:
        yield from _ring(sharing, "keys", (Kernel("scores", outer),))
        yield Kernel("softmax", Stream(size, size))
        yield from _ring(sharing, "values", (Kernel("weighted values", Gemm(s, core.values, s, batch, sharing.dtype)),))
        return
    inner = Kernel("weighted values", Gemm(s, core.values, s, batch, sharing.dtype))
    yield from _ring(sharing, "values", (Kernel("weighted values", outer), inner))
    yield sharing.send("sum gradients of values", "all_reduce", sharing.ranks * sharing.value_bytes)
    yield Kernel("softmax", Stream(2 * size, size))
    product = Kernel("scores", Gemm(s, core.head_dim, s, batch, sharing.dtype))
    yield from _ring(sharing, "keys", (product, product))
    yield sharing.send("sum gradients of keys", "all_reduce", sharing.ranks * sharing.key_bytes)


def _ring(sharing: Sharing, name: str, products: tuple[Kernel, ...]) -> Iterator[Step]:
    """Products with each block, and the next block after them."""
    size = sharing.value_bytes if name == "values" else sharing.key_bytes
    for turn in range(sharing.ranks):
        yield from products
        if turn < sharing.ranks - 1:
            yield sharing.send(name, "shift", size)


def in_flight(sharing: Sharing) -> float:
    """Two blocks of keys or of values; backward besides the gradients of those of the whole sequence.

    Those of the values are summed before those of the keys exist.
    """
    return max(sharing.key_bytes, sharing.value_bytes) * (2 + sharing.ranks * sharing.core.backward)


SCHEMES.add("rsa")(Scheme(scores, in_flight, fused=False, unfused=True))
