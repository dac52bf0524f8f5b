"""How flows choose among ways of equal length, and cables that carry less than they should."""

from typing import Annotated, Literal

from pydantic import Field

from simulator.specs.base import Fraction, Spec

Policy = Literal["shortest", "ecmp", "planned", "spray", "adaptive", "valiant", "ugal"]
MOST_CONNECTIONS = 64


class Routing(Spec):
    """How flows choose among the shortest ways."""

    policy: Policy = "ecmp"
    """`shortest`: all flows between two switches take one way. `ecmp`: each flow the way of its hash. `planned`: the
    way of the destination's number (D-mod-k, as InfiniBand lays its tables), and from there to the way beside the other
    flows of a collective whose fullest cable has least to carry (C4P). `spray`: packets take all ways in turn.
    `adaptive`: packets take all ways by the rates of their cables. `valiant`: by hash to a switch of another group (of
    a full mesh: any other), and from there to the destination. `ugal`: a short way or one of those, whichever has less
    load times cables beside the other flows (Kim et al. 2008)."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    """Of the hash."""
    connections: Annotated[int, Field(ge=1, le=MOST_CONNECTIONS)] | Literal["even"] = 1
    """Flows that a transfer is split into, each with a hash of its own (queue pairs of a connection). `even`: as few as
    make the flows of a switch divide evenly by its ways up (Ethereal, arXiv:2407.00550)."""


class Degraded(Spec):
    """A cable that carries less than it should."""

    link: str
    """Its name: `leaf up 3` one way, `leaf 3` both ways."""
    left: Fraction
    """Share of its rate that is left; at 0 no route leads over it."""
