"""A stand-in for PyTorch: tensors that have a shape and a format and no numbers, on a device whose clock is arithmetic.

Operations check shapes as PyTorch does and add to the clock what a device of `rate` FLOP/s, `bandwidth` bytes/s and
`launch` seconds a kernel would take.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "int32": 4}


@dataclass
class Device:
    """A GPU of arithmetic."""

    rate: float = 600e12
    bandwidth: float = 3e12
    launch: float = 3e-6
    seconds: float = 0.0
    kernels: list[str] = field(default_factory=list)
    broken: tuple[str, ...] = ()
    """Kernels that it does not have."""

    def run(self, name: str, flops: float, size: float) -> None:
        if name in self.broken:
            raise RuntimeError(f"{name} is not implemented\nfor this device")
        self.kernels.append(name)
        self.seconds += self.launch + max(flops / self.rate, size / self.bandwidth)


class Tensor:
    """A shape and a format."""

    def __init__(self, torch: "StandIn", shape: Sequence[int], dtype: str = "float32") -> None:
        self.torch, self.shape, self.dtype = torch, tuple(map(int, shape)), dtype

    @property
    def size(self) -> float:
        return float(prod(self.shape)) * SIZES[self.dtype]

    def _passed(self, shape: Sequence[int], *others: Any, name: str = "pass") -> "Tensor":
        found = Tensor(self.torch, shape, self.dtype)
        read = sum(one.size for one in (self, *others) if isinstance(one, Tensor))
        self.torch.device.run(name, 0.0, read + found.size)
        return found

    def _with(self, other: Any) -> "Tensor":
        shape = np.broadcast_shapes(self.shape, other.shape if isinstance(other, Tensor) else ())
        return self._passed(shape, other)

    __add__ = __radd__ = __mul__ = __rmul__ = __floordiv__ = __imul__ = _with

    def __rpow__(self, other: float) -> "Tensor":
        return self._with(other)

    def __neg__(self) -> "Tensor":
        return self._passed(self.shape)

    def __getitem__(self, key: Any) -> "Tensor":
        if isinstance(key, Tensor):
            return self._passed((*key.shape, *self.shape[1:]))
        picked = np.broadcast_to(np.int8(0), self.shape)[key]
        return Tensor(self.torch, picked.shape, self.dtype)

    def __setitem__(self, key: Any, value: "Tensor") -> None:
        assert self[key].shape == value.shape

    def to(self, dtype: str) -> "Tensor":
        return Tensor(self.torch, self.shape, dtype)

    def t(self) -> "Tensor":
        return self.transpose(0, 1)

    def transpose(self, one: int, other: int) -> "Tensor":
        shape = list(self.shape)
        shape[one], shape[other] = shape[other], shape[one]
        return Tensor(self.torch, shape, self.dtype)

    def reshape(self, *sides: int) -> "Tensor":
        return Tensor(self.torch, np.broadcast_to(np.int8(0), self.shape).reshape(sides).shape, self.dtype)

    def mean(self, axis: int, keepdim: bool) -> "Tensor":
        assert axis == -1 and keepdim
        return self._passed((*self.shape[:-1], 1))

    def requires_grad_(self, wanted: bool) -> "Tensor":
        return self

    def mul_(self, other: float) -> "Tensor":
        return self

    def add_(self, other: float) -> "Tensor":
        self._with(other)
        return self

    def copy_(self, other: "Tensor", non_blocking: bool = False) -> "Tensor":
        assert self.shape == other.shape
        self.torch.device.run("copy", 0.0, 2 * self.size)
        return self

    def index_add_(self, axis: int, index: "Tensor", rows: "Tensor") -> "Tensor":
        assert axis == 0 and index.shape[0] == rows.shape[0] and rows.shape[1:] == self.shape[1:]
        return self

    def cumsum(self, axis: int) -> "Tensor":
        return self

    def tolist(self) -> list[int]:
        """Of rows counted by expert: all to the first two."""
        total = self.torch.counted
        return [total // 2, total - total // 2, *([0] * (self.shape[0] - 2))]


class Event:
    """A moment of the device."""

    def __init__(self, device: Device) -> None:
        self.device, self.at = device, 0.0

    def record(self) -> None:
        self.at = self.device.seconds

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "Event") -> float:
        return 1e3 * (end.at - self.at)


class StandIn:
    """The functions of PyTorch that are measured."""

    __version__ = "2.9.0"
    float32, bfloat16, float16, float8_e4m3fn, int32 = SIZES

    def __init__(self, device: Device | None = None, gpus: int = 1, name: str = "NVIDIA H100 80GB HBM3") -> None:
        self.device, self.counted = device or Device(), 0
        self.version = SimpleNamespace(cuda="13.0" if gpus else None, hip=None)
        properties = SimpleNamespace(major=9, minor=0, total_memory=80e9)
        self.cuda = SimpleNamespace(
            is_available=lambda: gpus > 0,
            device_count=lambda: gpus,
            get_device_name=lambda device: name,
            get_device_properties=lambda device: properties,
            synchronize=lambda device: None,
            device=self._inside,
            stream=self._inside,
            Stream=lambda device: SimpleNamespace(wait_stream=lambda other: None),
            current_stream=lambda device: SimpleNamespace(wait_stream=lambda other: None),
            Event=lambda enable_timing: Event(self.device),
            nccl=SimpleNamespace(all_reduce=self._all_reduce),
        )
        attend = self._attend
        self.nn = SimpleNamespace(
            functional=SimpleNamespace(linear=self._linear, silu=self._unary, scaled_dot_product_attention=attend)
        )
        self.autograd = SimpleNamespace(grad=self._grad)
        self.cos = self.sin = self.rsqrt = self.empty_like = self._unary

    @contextmanager
    def _inside(self, device: Any) -> Iterator[None]:
        yield

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        yield

    def _unary(self, tensor: Tensor) -> Tensor:
        return tensor._passed(tensor.shape)

    def softmax(self, tensor: Tensor, axis: int) -> Tensor:
        return self._unary(tensor)

    def randn(self, *sides: int, device: str, dtype: str) -> Tensor:
        return Tensor(self, sides, dtype)

    def empty(self, *sides: int, dtype: str, device: str = "cpu", pin_memory: bool = False) -> Tensor:
        return Tensor(self, sides, dtype)

    def ones(self, shape: Any, dtype: str, device: str) -> Tensor:
        return Tensor(self, shape if isinstance(shape, tuple) else (shape,), dtype)

    def ones_like(self, tensor: Tensor) -> Tensor:
        return Tensor(self, tensor.shape, tensor.dtype)

    zeros_like = ones_like

    def arange(self, count: int, device: str, dtype: str) -> Tensor:
        return Tensor(self, (count,), dtype)

    def tensor(self, values: Sequence[int], device: str) -> Tensor:
        return Tensor(self, (len(values),), "int32")

    def outer(self, one: Tensor, other: Tensor) -> Tensor:
        return one._passed((one.shape[0], other.shape[0]))

    def cat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        assert axis == -1
        return parts[0]._passed((*parts[0].shape[:-1], sum(part.shape[-1] for part in parts)), *parts[1:])

    def split(self, tensor: Tensor, sides: Sequence[int], axis: int) -> list[Tensor]:
        assert axis == -1 and sum(sides) == tensor.shape[-1]
        return [Tensor(self, (*tensor.shape[:-1], side), tensor.dtype) for side in sides]

    def topk(self, tensor: Tensor, count: int) -> tuple[Tensor, Tensor]:
        shape = (*tensor.shape[:-1], count)
        return Tensor(self, shape, tensor.dtype), Tensor(self, shape, "int32")

    def argsort(self, tensor: Tensor) -> Tensor:
        return Tensor(self, tensor.shape, "int32")

    def bincount(self, tensor: Tensor, minlength: int) -> Tensor:
        self.counted = tensor.shape[0]
        return Tensor(self, (minlength,), "int32")

    def matmul(self, one: Tensor, other: Tensor) -> Tensor:
        assert one.shape[-1] == other.shape[-2] and one.dtype == other.dtype
        found = Tensor(self, (*one.shape[:-1], other.shape[-1]), one.dtype)
        self.device.run(
            f"gemm {one.dtype}", 2.0 * prod(one.shape) * other.shape[-1], one.size + other.size + found.size
        )
        return found

    def _scaled_mm(self, one: Tensor, other: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: str) -> Tensor:
        return self.matmul(one, other).to(out_dtype)

    def bmm(self, one: Tensor, other: Tensor) -> Tensor:
        assert one.shape[0] == other.shape[0]
        return self.matmul(one, other)

    def _grouped_mm(self, rows: Tensor, weights: Tensor, offs: Tensor) -> Tensor:
        assert offs.shape[0] == weights.shape[0] and rows.shape[1] == weights.shape[1]
        self.device.run("grouped", 2.0 * prod(rows.shape) * weights.shape[2], rows.size + weights.size)
        return Tensor(self, (rows.shape[0], weights.shape[2]), rows.dtype)

    def add(self, one: Tensor, other: Tensor, alpha: float, out: Tensor) -> Tensor:
        assert one.shape == other.shape == out.shape
        return one._passed(one.shape, other)

    def _linear(self, rows: Tensor, weights: Tensor) -> Tensor:
        return self.matmul(rows, weights.t())

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, enable_gqa: bool = False) -> Tensor:
        assert k.shape == v.shape and q.shape[-1] == k.shape[-1]
        assert q.shape[1] == k.shape[1] or (enable_gqa and q.shape[1] % k.shape[1] == 0)
        flops = 4.0 * prod(q.shape) * k.shape[2] * (0.5 if is_causal else 1.0)
        self.device.run("attention", flops, q.size + k.size + v.size)
        return Tensor(self, q.shape, q.dtype)

    def _grad(self, out: Tensor, inputs: Sequence[Tensor], gradient: Tensor) -> list[Tensor]:
        assert out.shape == gradient.shape
        done = list(self.device.kernels)
        self.device.run("backward", 0.0, sum(one.size for one in inputs))
        assert done
        return list(inputs)

    def _all_reduce(self, parts: Sequence[Tensor]) -> None:
        self.device.run("all-reduce", 0.0, 2.0 * parts[0].size * 10)
