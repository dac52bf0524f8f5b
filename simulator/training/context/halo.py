"""Windows over consecutive tokens: a rank needs of its neighbour the keys and values of one window, and nothing else.

Rank r gets the last `window` keys and values of rank r - 1 and attends with its own queries to them and to its own;
what is sent does not grow with the sequence (SpikingBrain, arXiv:2509.05276; LightSeq, arXiv:2310.03294, appendix F).
Backward they are sent again, and their gradients return. Nothing runs beside these messages.

Every layer with attention has a window, no longer than the tokens of a rank; layers with a state pass their own states.
"""

from collections.abc import Iterator

from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.step import Step, Turn


def halo(sharing: Sharing) -> Iterator[Step]:
    """The window before a rank's tokens, attention, and backward the gradients of what was lent."""
    window, s = sharing.core.window or 0, sharing.tokens
    yield sharing.send("keys and values of a window", "shift", lent(sharing))
    work = sharing.over(s, s + min(window, s), causal=True)
    yield Turn("attention", ((work,),))
    if sharing.core.backward:
        yield sharing.send("gradients of a window", "shift:-1", lent(sharing))


def lent(sharing: Sharing) -> float:
    """Bytes of the keys and values of a window."""
    return sharing.block_bytes * min(sharing.core.window or 0, sharing.tokens) / sharing.tokens


def in_flight(sharing: Sharing) -> float:
    """Keys and values of a window, backward with their gradients."""
    return lent(sharing) * (2 if sharing.core.backward else 1)


SCHEMES.add("halo")(Scheme(halo, in_flight, only_windows=True))
