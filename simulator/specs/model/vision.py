"""Images in a model: the encoder that makes tokens of a prompt of them."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, Spec


class Vision(Spec):
    """A vision transformer before the layers of a model: an image is cut into square patches, which all see each other,
    and some neighbouring patches together become a token of the prompt (arXiv:2010.11929, arXiv:2409.12191)."""

    aliases: ClassVar[dict[str, str]] = {
        "depth": "layers",
        "embed_dim": "hidden",
        "num_heads": "heads",
        "patch_size": "patch",
    }

    layers: Annotated[int, Field(ge=1, le=10_000)]
    """Layers of the encoder."""
    hidden: Count
    """Width of a patch in the encoder."""
    heads: Count
    """Heads, each of hidden / heads elements; every patch of an image sees all of them."""
    ffn: Count | None = None
    """Inner width of the MLP; 4 hidden where left out."""
    gated_ffn: bool = False
    """Whether the MLP multiplies by a gate: three matrices instead of two."""
    patch: Count
    """Pixels of the side of a patch."""
    merge: Count = 1
    """Patches that become one token of the prompt; four are two by two."""
    projector: Count | None = None
    """Inner width of the two matrices that make a token of `merge` patches; `merge` times `hidden` where left out."""
    most_pixels: Count | None = None
    """Pixels of an image that is not made smaller; larger ones keep their form. No limit where left out."""

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is no multiple of heads {self.heads}")
        return self

    @property
    def inner(self) -> int:
        """Inner width of the projector."""
        return self.projector or self.merge * self.hidden
