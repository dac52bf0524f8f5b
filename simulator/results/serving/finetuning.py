"""What of an adapter was trained beside serving."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FinetuningUse:
    """The training of all replicas together."""

    forward_tokens: int
    """Tokens whose forward pass was done."""
    tokens: int
    """Tokens whose backward pass was done too."""
    sequences: int
    """Sequences that were done."""
    updates: int
    """Updates of the adapter."""
    iterations_alone: int
    """Iterations in which nothing was served."""
    working: float
    """Seconds by which iterations were longer for it, of all replicas."""
    duration: float
    """Seconds from the first arrival to the end of the last iteration that trained."""
