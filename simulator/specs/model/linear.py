"""Sizes of layers that carry a state from token to token, so that their cost is linear in the sequence."""

from typing import Annotated

from pydantic import Field

from simulator.specs.base import Count, Spec

STATEFUL = ("delta", "kda", "gla", "lightning", "mamba1", "mamba2")
"""Kinds of `attention` that these sizes describe."""


class LinearSizes(Spec):
    """Sizes of linear attention and of state-space layers; each kind of `attention` reads those that it has."""

    key_heads: Count = 1
    """Heads of queries and keys; groups of a state-space layer."""
    value_heads: Count
    """Heads of values, each with a state of its own; heads (Mamba-2) or channels (Mamba-1) of a state-space layer."""
    key_dim: Count
    """Size of a key; of the state of a channel in a state-space layer."""
    value_dim: Count = 1
    """Size of a value; of a head in a state-space layer."""
    conv: Annotated[int, Field(ge=0, le=64)] = 4
    """Tokens that the short convolution before the state looks at, itself included; 0: there is none."""
    chunk: Count = 64
    """Tokens of a chunk of the training and prefill kernels."""
    decay_rank: Count | None = None
    """Inner width of the projection of decays (`kda`, `gla`) or of time steps (`mamba1`); `key_dim` where left out."""
    gate_rank: Count | None = None
    """Inner width of the projection of the output gate (`kda`); one whole matrix where left out."""
    state_bytes: Annotated[float, Field(gt=0, le=8)] = 4.0
    """Bytes of a number of a state as it is kept while a sequence is served."""

    @property
    def state(self) -> int:
        """Numbers of the states of all heads of a layer."""
        return self.value_heads * self.key_dim * self.value_dim
