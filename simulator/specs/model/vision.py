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
    pooled: bool = False
    """Whether the patches of a token are averaged, to the width of one (Gemma 3); else they are joined."""
    projector: Count | tuple[Count, ...] | None = None
    """Inner width of the two matrices that make a token of `merge` patches, or inner widths of more or fewer matrices
    (`[]`: one matrix); the width of joined patches where left out."""
    projectors: Count = 1
    """Such projectors: with more than one, patches of several layers become tokens (DeepStack of Qwen3-VL)."""
    frames: Count = 1
    """Equal frames that an image counts as, which widen the first product (Qwen2-VL: two)."""
    positions: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Learned positions of patches: weights that are looked up."""
    side: Count | None = None
    """Pixels of the side of the square that every image is made into, whatever its form (Gemma 3: 896)."""
    most_pixels: Count | None = None
    """Pixels of an image that is not made smaller; larger ones keep their form. No limit where left out."""

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is no multiple of heads {self.heads}")
        if self.side is not None and self.most_pixels is not None:
            raise ValueError("`side` makes all images one size, so that `most_pixels` has no effect: leave it out")
        return self

    @property
    def joined(self) -> int:
        """Numbers of the patches of a token as the projector gets them."""
        return self.hidden if self.pooled else self.merge * self.hidden

    @property
    def inner(self) -> tuple[int, ...]:
        """Inner widths of the projector."""
        if self.projector is None:
            return (self.joined,)
        return self.projector if isinstance(self.projector, tuple) else (self.projector,)
