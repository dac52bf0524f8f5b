"""What changes on a machine while jobs run."""

from typing import Annotated, ClassVar, Self

from pydantic import model_validator

from simulator.specs.base import Percentage, Seconds
from simulator.specs.kinds import Extensible, Keys, OneOf, built_in

PERTURBATION_KEYS = built_in("perturbation", ("slow-links",))
"""Kinds of perturbations."""


class Perturbation(Extensible):
    """Something that begins, and may end, while jobs run."""

    kinds: ClassVar[Keys] = PERTURBATION_KEYS

    kind: Annotated[str, OneOf(PERTURBATION_KEYS)]
    """`slow-links`: links that have only a share of their bandwidth meanwhile; or one that a plug-in adds."""
    start: Seconds = 0.0
    """When it begins."""
    lasts: Seconds | None = None
    """For how long; until all jobs have done what counts where left out, and never longer."""
    links: tuple[str, ...] = ()
    """On which links, by name: `NIC 17` (both directions), `NIC up 17`, `leaf down 0`, `node 3: 2 > switch`."""
    factor: Percentage | None = None
    """For `slow-links`: share of the bandwidth that is left, `0.1` or `10 %`; with 0 they are down."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "slow-links" and (not self.links or self.factor is None):
            raise ValueError("a perturbation of kind 'slow-links' needs `links` and `factor`")
        if self.kind == "slow-links" and self.factor == 0 and self.lasts is None:
            raise ValueError("links that are down for ever end no run: write how long it `lasts`")
        return self
