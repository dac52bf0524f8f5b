"""Rings: keys and values go from rank to rank, and each rank attends with its own queries to the block that it holds.

While a block is worked on the next one travels (arXiv:2310.01889), so that what a turn lasts is the longer of the two.
What a causal mask leaves of the blocks depends on which tokens lie where:

* `ring`: consecutive tokens. The last rank sees every block whole, its own by half; the first one only its own. The
  last one is simulated, as all wait for its keys in the next layer.
* `striped`: rank r holds tokens r, r + N, r + 2 N ...: every block is half seen by everyone (arXiv:2311.09431).
* `zigzag`: rank r holds pieces r and 2 N - 1 - r of 2 N: of a block that comes from an earlier rank all queries see the
  first half, of one from a later rank the second half of the queries see all (Transformer Engine's p2p, Megatron-Core's
  default; Llama 3 cuts alike, arXiv:2407.21783 section 3.3.2).

Backward, as Transformer Engine does it: keys and values go round once more, and from the second turn on the gradients
of those that passed follow them, so that each rank ends with the gradients of its own: 2 (N - 1) messages.

Packed documents are cut over the ranks one by one in the same way, as Transformer Engine cuts sequences of variable
lengths (`thd`), so that all ranks work alike; each is filled up to a multiple of 2 N tokens.

Results of blocks are added to a running sum in fp32 right after each block. Transformer Engine does it on a second
stream beside the next block.
"""

from collections.abc import Callable, Iterator

from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.step import Collective, Step, Turn, Work

Shares = tuple[tuple[int, int, bool], ...]
"""What different ranks see in a turn: queries, keys, and whether only those of the past."""


def contiguous(sharing: Sharing, turn: int) -> Shares:
    """The last rank, which sees most."""
    s = sharing.tokens
    return ((s, s, sharing.core.causal and turn == 0),)


def striped(sharing: Sharing, turn: int) -> Shares:
    """Every rank alike; that the own token is seen of earlier ranks only is left out, a pair in (s + 1) / 2."""
    s = sharing.tokens
    return ((s, s, sharing.core.causal),)


def zigzag(sharing: Sharing, turn: int) -> Shares:
    """Those that hold a block of an earlier rank, and those that hold one of a later rank."""
    s = sharing.tokens
    if not sharing.core.causal or turn == 0:
        return ((s, s, sharing.core.causal),)
    return (s, s // 2, False), (s // 2, s, False)


def turns(sharing: Sharing, seen: Callable[[Sharing, int], Shares]) -> Iterator[Step]:
    """All blocks, each beside the transfer of the next, and backward beside that of the gradients of the last."""
    known: dict[tuple[bool, tuple[int, int, bool]], tuple[Work, ...]] = {}  # turns after the first are mostly alike
    for turn in range(sharing.ranks):
        shares = [(turn > 0, share) for share in seen(sharing, turn)]
        known |= {one: _works(sharing, *one) for one in shares if one not in known}
        yield from sharing.turn(Turn("attention", tuple(known[one] for one in shares), tuple(_passed(sharing, turn))))


def _works(sharing: Sharing, adds: bool, share: tuple[int, int, bool]) -> tuple[Work, ...]:
    block = sharing.block(*share)
    return (block, sharing.merge(*share[:2])) if adds else (block,)


def _passed(sharing: Sharing, turn: int) -> Iterator[Collective]:
    """The message beside a turn."""
    keys, gradients = turn < sharing.ranks - 1, sharing.core.backward and turn > 0
    if keys or gradients:
        names = ["keys and values"] * keys + ["their gradients"] * gradients
        yield sharing.send(" with ".join(names), "shift", len(names) * sharing.block_bytes)


def in_flight(sharing: Sharing) -> float:
    """The block that is worked on and the one that arrives; backward with the gradients of both."""
    return 2 * sharing.block_bytes * (2 if sharing.core.backward else 1)


def _ring(seen: Callable[[Sharing, int], Shares], pieces: int = 1) -> Scheme:
    return Scheme(lambda sharing: turns(sharing, seen), in_flight, pieces, windows=False, documents=True)


SCHEMES.add("ring")(_ring(contiguous))
SCHEMES.add("striped")(_ring(striped))
SCHEMES.add("zigzag")(_ring(zigzag, pieces=2))
