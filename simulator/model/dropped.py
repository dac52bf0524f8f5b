"""Operations whose results are dropped after the forward pass and computed again in the backward pass, by name.

`norm`: norms before blocks; `activation`: nonlinearities of MLPs and experts; `latent`: the products that expand the
latents of attention, with their positions (Megatron-Core's `layernorm`, `moe_act` and `mla_up_proj`; DeepSeek-V3,
arXiv:2412.19437, section 3.2.3, drops all three); `experts`: a mixture from its router on, exchanges and shared experts
included (Megatron-Core's `moe`), of which only the input is kept.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from simulator.model.blocks.around import ACTIVATION, CLAMP, NORM, PARTED, RESIDUAL, ROTARY
from simulator.model.ops import AttentionCore, Comm, Elementwise, Linear, Op

MODULES = ("norm", "activation", "latent", "experts")
_EXPANDED = ("query up", "key and value up")


def computed_again(ops: Sequence[Op], modules: Collection[str]) -> list[Op]:
    """The operations of a layer that its backward pass runs again."""
    latent = any(op.name in _EXPANDED for op in ops)
    whole = _mixture(ops) if "experts" in modules else range(0)
    return [op for i, op in enumerate(ops) if i in whole or _module(op, latent) in modules]


def needed_again(ops: Sequence[Op]) -> list[Op]:
    """The operations of a layer up to the last whose inputs its backward pass needs: the last product and what follows
    it are not run again where nothing keeps their results."""
    for i in range(len(ops) - 1, -1, -1):
        does = ops[i].does
        if isinstance(does, Linear) and does.spread is None:
            return list(ops[:i])
        if not (isinstance(does, Comm) or (isinstance(does, Elementwise) and not does.kept)):
            break
    return list(ops)


def dropping(ops: Sequence[Op], modules: Collection[str]) -> Iterator[Op]:
    """The operations of a layer; those that read only what is dropped do not keep it."""
    latent = any(op.name in _EXPANDED for op in ops)
    dropped, whole, entered = False, _mixture(ops) if "experts" in modules else range(0), False
    for i, op in enumerate(ops):
        does = op.does
        if i in whole and isinstance(does, Elementwise):
            op = replace(op, does=replace(does, kept=0.0))
        elif i in whole and isinstance(does, Linear):
            op = replace(op, does=replace(does, keeps=not entered and not dropped))
            entered = True
        elif isinstance(does, Linear) and dropped:
            op = replace(op, does=replace(does, keeps=False))
        elif (isinstance(does, Elementwise) and does.kind == ACTIVATION and dropped) or (
            isinstance(does, AttentionCore) and latent and "latent" in modules
        ):
            op = replace(op, does=replace(does, kept=0.0))
        yield op
        dropped = (_module(op, latent) in ("norm", "activation") and _module(op, latent) in modules) or (
            dropped and isinstance(does, Comm)
        )


def _mixture(ops: Sequence[Op]) -> range:
    """Places of the operations of a mixture of experts, from what follows its norm to the residual."""
    kinds = [op.does.kind if isinstance(op.does, Elementwise) else "" for op in ops]
    router = next((i for i, op in enumerate(ops) if op.name == "router"), None)
    if router is None:
        return range(0)
    first = max((i + 1 for i in range(router) if kinds[i] == NORM), default=router)
    return range(first, next((i for i in range(router, len(ops)) if kinds[i] == RESIDUAL), len(ops)))


def _module(op: Op, latent: bool) -> str:
    """The word for an operation; empty where there is none."""
    kind = op.does.kind if isinstance(op.does, Elementwise) else ""
    if latent and (op.name in _EXPANDED or kind in (ROTARY, PARTED)):
        return "latent"
    return {NORM: "norm", ACTIVATION: "activation", CLAMP: "activation"}.get(kind, "")
