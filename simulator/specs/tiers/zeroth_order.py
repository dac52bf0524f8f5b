"""Training without gradients: forward passes with parameters that are moved a little, and the differences of losses."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from simulator.specs.base import Count, Spec


class ZerothOrder(Spec):
    """Zeroth-order optimisation (SPSA, MeZO: arXiv:2305.17333): forward passes alone, nothing kept of them."""

    bare: ClassVar[str] = "passes"

    passes: Annotated[int, Field(ge=1, le=64)] = 2
    """Forward passes of each microbatch, with parameters moved another way each: two, forth and back."""
    over_ranks: bool = False
    """Whether as many data-parallel ranks run one of these passes each (perturbation parallelism of DistZO2), in place
    of one rank that runs all, layer by layer."""
    directions: Literal["step", "sample"] = "step"
    """One random direction for a step (MeZO), or one for each sample, all of which every rank makes again from their
    seeds (Just One Byte)."""
    scalar_bytes: Count = 4
    """Bytes of a projected gradient as it is exchanged, one for each sample."""
