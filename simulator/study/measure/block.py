"""One real block of a transformer, forward and backward: norm, grouped attention with rotation, norm, gated MLP.

Its tensors and operations are those of a layer of the Llama family, each a call of PyTorch of its own, so that what is
between products is not fused. Gradients are those of all matrices and of the rows that came in.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulator.study.measure.cases import Case

if TYPE_CHECKING:
    from simulator.study.measure.on_torch import OnTorch

EPSILON = 1e-5


def block_calls(on: "OnTorch", case: Case) -> tuple[Callable[[], object], Callable[[], object]]:
    """(forward pass, forward and backward pass) of a block of a shape."""
    torch, shape = on.torch, case.shape
    hidden, ffn, wide = shape["hidden"], shape["ffn"], shape["head_dim"]
    heads, keys = shape["heads"], shape["kv_heads"]

    def matrix(inputs: int, outputs: int) -> Any:
        return on.random(outputs, inputs, dtype=case.dtype).mul_(inputs**-0.5).requires_grad_(True)

    weights = [matrix(hidden, wide * (heads + 2 * keys)), matrix(wide * heads, hidden)]
    weights += [matrix(hidden, 2 * ffn), matrix(ffn, hidden)]
    rows = on.random(shape["batch"], shape["seqlen"], hidden, dtype=case.dtype).requires_grad_(True)
    turns = _rotation(on, shape["seqlen"], wide, case.dtype)
    gradient = torch.ones_like(rows)

    def forward() -> Any:
        return _block(torch, rows, weights, turns, case)

    def inference() -> object:
        with torch.no_grad():
            return forward()

    return inference, lambda: torch.autograd.grad(forward(), (rows, *weights), gradient)


def _rotation(on: "OnTorch", length: int, wide: int, dtype: str) -> tuple[Any, Any]:
    """Cosines and sines of positions, shape (tokens, size of a head)."""
    torch = on.torch
    half = torch.arange(wide // 2, device=on.device, dtype=torch.float32)
    angles = torch.outer(torch.arange(length, device=on.device, dtype=torch.float32), 10000.0 ** (-2.0 / wide * half))
    both, kind = torch.cat((angles, angles), -1), on.random(1, dtype=dtype).dtype
    return torch.cos(both).to(kind), torch.sin(both).to(kind)


def _block(torch: Any, rows: Any, weights: list[Any], turns: tuple[Any, Any], case: Case) -> Any:
    """The forward pass; rows have shape (sequences, tokens, hidden)."""
    shape, functional = case.shape, torch.nn.functional
    heads, keys, wide = shape["heads"], shape["kv_heads"], shape["head_dim"]
    into, out, up, down = weights

    def split(packed: Any, count: int) -> Any:
        return packed.reshape(shape["batch"], shape["seqlen"], count, wide).transpose(1, 2)

    packed = functional.linear(_norm(torch, rows), into)
    edges = (wide * heads, wide * keys, wide * keys)
    q, k, v = (split(part, n) for part, n in zip(torch.split(packed, edges, -1), (heads, keys, keys), strict=True))
    q, k = _turned(torch, q, turns), _turned(torch, k, turns)
    shared = {"enable_gqa": True} if heads != keys else {}
    seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, **shared)
    seen = seen.transpose(1, 2).reshape(shape["batch"], shape["seqlen"], heads * wide)
    rows = rows + functional.linear(seen, out)
    gate, value = torch.split(functional.linear(_norm(torch, rows), up), (shape["ffn"], shape["ffn"]), -1)
    return rows + functional.linear(functional.silu(gate) * value, down)


def _norm(torch: Any, rows: Any) -> Any:
    return rows * torch.rsqrt((rows * rows).mean(-1, keepdim=True) + EPSILON)


def _turned(torch: Any, heads: Any, turns: tuple[Any, Any]) -> Any:
    half = heads.shape[-1] // 2
    swapped = torch.cat((-heads[..., half:], heads[..., :half]), -1)
    return heads * turns[0] + swapped * turns[1]
