"""What a training job keeps beside its devices' memory: in that of hosts, or on the NVMe drives of nodes."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, PositiveFraction, Spec

Tier = Literal["host", "nvme"]
Share = Annotated[float, Field(ge=0, le=1)]


class ActivationOffload(Spec):
    """What passes keep that waits elsewhere between forward and backward pass."""

    to: Tier = "host"
    """`host` memory, or the `nvme` drives of the node, by way of the host's link."""
    layers: Count | None = None
    """The first layers of each stage, or of each chunk where vpp > 1; all where left out."""
    share: PositiveFraction | None = None
    """Share of what each of these layers keeps, by bytes; all where left out."""
    tensors: tuple[str, ...] = ()
    """Only inputs of operations of these names, such as `mlp in` or `attention out`; all where left out."""
    tokens: Share | None = None
    """Token by token (MEMO): the input of each layer and what attention gave wait elsewhere whole, of the rest the
    activations of this share of the tokens; those of the others are dropped and computed again, attention excepted."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("share", "tensors", "tokens") if getattr(self, name) not in (None, ())]
        if len(given) > 1:
            raise ValueError(f"say what of a layer is offloaded in one way: leave out `{given[0]}` or `{given[1]}`")
        return self


class OptimizerOffload(Spec):
    """Optimizer states that live elsewhere, and what updates them."""

    to: Tier = "host"
    """`host` memory, or the `nvme` drives of the node, from which they come to the host and go back every step."""
    update: Literal["cpu", "device", "interleaved"] = "cpu"
    """`cpu`: cores of the host update them where they are (ZeRO-Offload); `device`: they travel to the device and
    back; `interleaved`: of subgroups the device takes every so many, the host the others at the same time (Deep
    Optimizer States)."""
    share: PositiveFraction = 1.0
    """Share of the states that lives elsewhere; the device keeps and updates the rest (Twin-Flow of ZeRO-Offload++)."""
    every: int = Field(default=2, ge=2, le=1000)
    """With `interleaved`, the device updates one subgroup of so many."""
    subgroup: Count = 100_000_000
    """Parameters that are updated, and travel, together (DeepSpeed's `sub_group_size`)."""
    flush: Literal["async", "blocking"] = "async"
    """Whether the backward pass waits until the host has each layer's gradients in 32 bits (DeepSpeed's default), or
    they travel beside it, in 32 bits already."""
    during: Literal["step", "backward"] = "step"
    """Whether the update waits for all gradients, as clipping by their norm wants it, or begins with each layer's in
    the backward pass (SuperOffload speculates so)."""


class ParameterOffload(Spec):
    """Parameters that live elsewhere and come to the device before each pass of their layer."""

    to: Tier = "host"
    """`host` memory, or the `nvme` drives of the node."""
    ahead: Count = 2
    """Layers whose parameters are fetched ahead of use; under ZeRO-3 each rank fetches its shard, then it is
    gathered."""


class Offload(Spec):
    """Tiers of memory beside the device's, and what lives there."""

    elsewhere: ClassVar[dict[str, str]] = {"gradients": "they go where `optimizer` goes, which reads them there"}

    activations: ActivationOffload | None = None
    """What passes keep."""
    optimizer: OptimizerOffload | None = None
    """States of the optimizer, and the gradients that it reads."""
    parameters: ParameterOffload | None = None
    """Parameters of all layers."""

    @property
    def tiers(self) -> dict[str, Tier]:
        """Where each of what is offloaded goes, by the name of its key."""
        parts = {"activations": self.activations, "optimizer": self.optimizer, "parameters": self.parameters}
        return {name: part.to for name, part in parts.items() if part is not None}

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.tiers:
            raise ValueError("say what is offloaded: `activations`, `optimizer` or `parameters`")
        return self
