"""Adapters of low rank that requests ask for beside one served model."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bandwidth, Count, Fraction, Seconds, Spec

Rank = Annotated[int, Field(ge=1, le=65_536)]


class Adapters(Spec):
    """Many adapters of one model (LoRA): which requests ask for which, where they are, how they are computed."""

    aliases: ClassVar[dict[str, str]] = {
        "r": "rank",
        "lora_rank": "rank",
        "max_lora_rank": "rank",
        "target_modules": "targets",
        "max_loras": "slots",
        "max_loras_per_batch": "slots",
        "max_cpu_loras": "host_slots",
    }

    count: Annotated[int, Field(ge=1, le=10_000_000)]
    """How many there are."""
    kind: Literal["low-rank", "whole"] = Field(default="low-rank", exclude_if=lambda kind: kind == "low-rank")
    """`low-rank`: matrices beside those of the model (LoRA); `whole`: weights of their own, models of one shape that
    take turns in `slots`, the model itself being the first of them (Samba-CoE, fine-tuned models without adapters)."""
    rank: Rank | tuple[Rank, ...] = 16
    """Inner width of all; or several, which adapters have in turn."""
    targets: tuple[str, ...] = Field(default=("attention in", "attention out"), min_length=1)
    """Products that have adapters, by their names: `attention in` (queries, keys and values), `attention out`,
    `mlp in`, `mlp out`."""
    zipf: float = Field(default=0.0, ge=0)
    """Exponent of their popularity; 0: all alike."""
    by_tenant: bool = False
    """Whether the adapter is that of the request's tenant, in the order of `requests.tenants`, in place of a random
    one."""
    base_share: Fraction = 0.0
    """Share of the requests (of conversations, where there are such) that ask for the model without an adapter."""
    slots: Count | None = None
    """Adapters that the devices of a replica hold at most, whose memory is set aside for the largest rank (vLLM's
    `max_loras`). Where left out, adapters share the blocks of the cache with keys and values (S-LoRA), and those that
    no request uses give way."""
    host_slots: Count | None = None
    """Adapters that the hosts of a replica hold at most (vLLM's `max_cpu_loras`), others come from `storage`; all of
    them where left out."""
    storage: Bandwidth | None = None
    """Bytes per second from storage to the hosts of a replica."""
    latency: Seconds = 0.0
    """Time before the bytes of a load move."""
    kernels: Literal["grouped", "one-by-one"] = "grouped"
    """`grouped`: one kernel for the adapters of all rows of an iteration (Punica, S-LoRA); `one-by-one`: one for each
    adapter among them."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that adapters have in turn."""
        return (self.rank,) if isinstance(self.rank, int) else self.rank

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kind == "whole":
            self._check_whole()
        if not self.ranks:
            raise ValueError("`rank` lists at least one rank, such as [8, 64]")
        if self.host_slots is not None and self.host_slots < self.count and self.storage is None:
            raise ValueError(
                f"hosts hold {self.host_slots} of {self.count} adapters: write the `storage` that others come from, "
                "such as 6 GB/s of a drive"
            )
        if self.storage is not None and (self.host_slots is None or self.host_slots >= self.count):
            raise ValueError("hosts hold all adapters, so that none comes from `storage`: write `host_slots` too")
        if self.slots is not None and self.host_slots is not None and self.host_slots < self.slots:
            raise ValueError(f"`host_slots` {self.host_slots} are fewer than the {self.slots} `slots` of the devices")
        if self.by_tenant and self.zipf:
            raise ValueError("`zipf` is of adapters that are drawn, and `by_tenant` draws none: leave one out")
        return self

    def _check_whole(self) -> None:
        if self.slots is None:
            raise ValueError("`kind: whole` needs `slots`: how many models the devices of a replica hold at once")
        for key in filter(self.states, ("rank", "targets", "kernels", "base_share")):
            raise ValueError(f"`{key}` is of adapters of low rank, and `kind: whole` has none: leave it out")


class Finetuning(Spec):
    """Training of one adapter of low rank on the devices that serve, token by token in what iterations leave (FlexLLM):
    frozen weights are those that serve."""

    aliases: ClassVar[dict[str, str]] = {"r": "rank", "lora_rank": "rank", "target_modules": "targets"}

    sequence_length: Annotated[int, Field(ge=1, le=4_194_304)]
    """Tokens of a sequence that is trained on; one is in memory at a time."""
    rank: Rank = 16
    """Inner width of the adapter."""
    targets: tuple[str, ...] = Field(default=("mlp out",), min_length=1)
    """Products that have it, by their names: `attention in` (queries, keys and values), `attention out`, `mlp in`,
    `mlp out`."""
    iteration: Annotated[Seconds, Field(gt=0)] | None = None
    """How long an iteration may last for the sake of training; `slo.tpot` where left out."""
    window: Annotated[int, Field(ge=1, le=65_536)] = 1024
    """Most tokens of a forward pass at once, and those of a window of the backward pass, which goes layer by layer."""
    batch: Count = 1
    """Sequences from one update of the adapter to the next."""
