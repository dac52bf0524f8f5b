"""Cases as calls of PyTorch on one device: products, attention, mixtures, passes over memory, launches, copies.

PyTorch is handed in as a module, so that it is imported only where something is measured. Operands rotate over sets of
`COLD` bytes together, so that a call does not find in the cache what the call before left there, as no layer of a model
does. Host and device clocks: events of the device where it has them, else the host's.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from simulator.study.measure.block import block_calls
from simulator.study.measure.cases import Case, Target

COLD = {"cuda": 256e6, "cpu": 64e6}
"""Bytes over which operands rotate, several times a last-level cache."""
SETS = 32
"""Sets of operands at most."""
NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn"}
Call = Callable[[], object]


class NotMeasured(Exception):
    """A case that this device or version cannot run; the message says why."""


class OnTorch:
    """One device of PyTorch, as clock and as what makes calls of cases."""

    def __init__(self, torch: Any, device: str) -> None:
        """`device` is a word of PyTorch (`cuda`, `cuda:1`, `cpu`)."""
        self.torch, self.device = torch, device
        self.kind = device.partition(":")[0]

    # ---- what it is

    @property
    def name(self) -> str:
        """The device as its driver names it."""
        if self.kind == "cuda":
            return str(self.torch.cuda.get_device_name(self.device))
        return _processor() if self.kind == "cpu" else self.device

    @property
    def versions(self) -> dict[str, str]:
        """Software by name."""
        version = self.torch.version
        found = {"torch": self.torch.__version__, "cuda": version.cuda, "hip": getattr(version, "hip", None)}
        return {name: str(said) for name, said in found.items() if said}

    def target(self) -> Target:
        """What decides which cases it gets."""
        if self.kind != "cuda":
            return Target(True, ("fp32", "bf16"), float(_memory_of_host()), 1)
        properties = self.torch.cuda.get_device_properties(self.device)
        newest = (properties.major, properties.minor) >= (8, 9)
        dtypes = ("bf16", "fp16", "fp8") if newest else ("bf16", "fp16")
        return Target(False, dtypes, float(properties.total_memory), int(self.torch.cuda.device_count()))

    # ---- the clock

    def now(self) -> float:
        """Seconds of the host."""
        return perf_counter()

    def synchronize(self) -> None:
        """Wait until the device has nothing to do."""
        if self.kind == "cuda":
            self.torch.cuda.synchronize(self.device)

    def lasts(self, calls: Callable[[], None]) -> float:
        """Seconds of some calls on the device."""
        self.synchronize()
        if self.kind != "cuda":
            begin = perf_counter()
            calls()
            return perf_counter() - begin
        with self.torch.cuda.device(self.device):
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            calls()
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    # ---- calls

    def call(self, case: Case) -> Call:
        """The call that a case times; raises NotMeasured, or what PyTorch raises of formats and sizes beyond it."""
        make = getattr(self, f"_{case.op}", None)
        if make is None:
            raise NotMeasured(f"{case.op} is not measured on {self.kind}")
        call: Call = make(case)
        return call

    def random(self, *sides: int, dtype: str) -> Any:
        """A tensor of normal numbers."""
        wide = "bf16" if dtype == "fp8" else dtype
        found = self.torch.randn(*sides, device=self.device, dtype=getattr(self.torch, NAMES[wide]))
        return found.to(getattr(self.torch, NAMES[dtype])) if dtype == "fp8" else found

    def rotated(self, case: Case, make: Callable[[], Call]) -> Call:
        """A call that takes another set of operands each time."""
        count = int(min(max(COLD.get(self.kind, COLD["cpu"]) // max(case.bytes, 1.0), 1), SETS))
        calls, place = [make() for _ in range(count)], [0]

        def call() -> object:
            place[0] = (place[0] + 1) % count
            return calls[place[0]]()

        return call

    def _gemm(self, case: Case) -> Call:
        m, n, k = (case.shape[side] for side in "mnk")
        return self.rotated(case, lambda: self._product(m, n, k, case.dtype))

    def _product(self, m: int, n: int, k: int, dtype: str) -> Call:
        torch = self.torch
        a, b = self.random(m, k, dtype=dtype), self.random(n, k, dtype=dtype).t()
        if dtype != "fp8":
            return lambda: torch.matmul(a, b)
        one = torch.ones((), device=self.device, dtype=torch.float32)
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    def _grouped_gemm_contiguous(self, case: Case) -> Call:
        groups, rows, n, k = (case.shape[side] for side in ("groups", "m_per_group", "n", "k"))

        def make() -> Call:
            a, b = self.random(groups * rows, k, dtype=case.dtype), self.random(groups, k, n, dtype=case.dtype)
            return self._grouped(a, b, [rows] * groups)

        return self.rotated(case, make)

    def _grouped(self, rows: Any, weights: Any, counts: Sequence[int]) -> Call:
        """Products of consecutive rows with a matrix each: one kernel where PyTorch has it, else batched."""
        torch = self.torch
        if self.kind == "cuda" and hasattr(torch, "_grouped_mm"):
            ends = torch.tensor(counts, device=self.device).cumsum(0).to(torch.int32)
            return lambda: torch._grouped_mm(rows, weights, offs=ends)
        batched = rows.reshape(len(counts), -1, rows.shape[-1])
        return lambda: torch.bmm(batched, weights)

    def _moe(self, case: Case) -> Call:
        tokens, hidden, inner, experts, topk = (
            case.shape[side] for side in ("tokens", "hidden", "inner", "experts", "topk")
        )
        torch, silu = self.torch, self.torch.nn.functional.silu
        rows, router = self.random(tokens, hidden, dtype=case.dtype), self.random(hidden, experts, dtype=case.dtype)
        up = self.random(experts, hidden, 2 * inner, dtype=case.dtype)
        down = self.random(experts, inner, hidden, dtype=case.dtype)

        def call() -> object:
            shares, chosen = torch.topk(torch.softmax(torch.matmul(rows, router), -1), topk)
            order = torch.argsort(chosen.reshape(-1))
            counts = torch.bincount(chosen.reshape(-1), minlength=experts)
            mine = rows[order // topk]
            out = torch.empty_like(mine)
            begin = 0
            for expert, count in enumerate(counts.tolist()):
                if count:
                    part = torch.matmul(mine[begin : begin + count], up[expert])
                    out[begin : begin + count] = torch.matmul(silu(part[:, :inner]) * part[:, inner:], down[expert])
                begin += count
            out *= shares.reshape(-1)[order][:, None]
            return torch.zeros_like(rows).index_add_(0, order // topk, out)

        return call

    def _heads(self, case: Case, gradient: bool) -> tuple[Any, Any, Any]:
        """Queries, keys and values, shape (sequences, heads, tokens, size of a head)."""
        shape = case.shape

        def make(heads: int) -> Any:
            found = self.random(shape["batch"], heads, shape["seqlen"], shape["head_dim"], dtype=case.dtype)
            return found.requires_grad_(True) if gradient else found

        return make(shape["heads"]), make(shape["kv_heads"]), make(shape["kv_heads"])

    def _attention_fwd(self, case: Case) -> Call:
        attend, causal = self.torch.nn.functional.scaled_dot_product_attention, bool(case.shape.get("causal"))
        shared = case.shape["heads"] != case.shape["kv_heads"]

        def make() -> Call:
            q, k, v = self._heads(case, gradient=False)
            return lambda: attend(q, k, v, is_causal=causal, **_grouped_queries(shared))

        return self.rotated(case, make)

    def _attention_fwd_bwd(self, case: Case) -> Call:
        attend, causal = self.torch.nn.functional.scaled_dot_product_attention, bool(case.shape.get("causal"))
        shared, torch = case.shape["heads"] != case.shape["kv_heads"], self.torch
        q, k, v = self._heads(case, gradient=True)
        out = torch.ones_like(q)
        return lambda: torch.autograd.grad(
            attend(q, k, v, is_causal=causal, **_grouped_queries(shared)), (q, k, v), out
        )

    def _attention_decode(self, case: Case) -> Call:
        shape, attend = case.shape, self.torch.nn.functional.scaled_dot_product_attention
        shared = shape["heads"] != shape["kv_heads"]

        def make() -> Call:
            q = self.random(shape["batch"], shape["heads"], 1, shape["head_dim"], dtype=case.dtype)
            cached = (shape["batch"], shape["kv_heads"], shape["context"], shape["head_dim"])
            k, v = self.random(*cached, dtype=case.dtype), self.random(*cached, dtype=case.dtype)
            return lambda: attend(q, k, v, **_grouped_queries(shared))

        return self.rotated(case, make)

    def _stream_copy(self, case: Case) -> Call:
        elements = max(case.shape["bytes"] // 8, 1)  # half is read, half written, 4 bytes each

        def make() -> Call:
            source, target = self.random(elements, dtype="fp32"), self.random(elements, dtype="fp32")
            return lambda: target.copy_(source)

        return self.rotated(case, make)

    def _stream_triad(self, case: Case) -> Call:
        elements = max(case.shape["bytes"] // 12, 1)

        def make() -> Call:
            a, b, c = (self.random(elements, dtype="fp32") for _ in range(3))
            return lambda: self.torch.add(a, b, alpha=3.0, out=c)

        return self.rotated(case, make)

    def _launch(self, case: Case) -> Call:
        tensor, count = self.random(16, dtype="fp32"), case.shape["kernels"]

        def call() -> None:
            for _ in range(count):
                tensor.add_(1.0)

        return call

    def _copy_h2d(self, case: Case) -> Call:
        host, device = self._pair(case.shape["bytes"])
        return lambda: device.copy_(host, non_blocking=True)

    def _copy_d2h(self, case: Case) -> Call:
        host, device = self._pair(case.shape["bytes"])
        return lambda: host.copy_(device, non_blocking=True)

    def _pair(self, size: int) -> tuple[Any, Any]:
        """Pinned memory of the host, and memory of the device."""
        if self.kind == "cpu":
            raise NotMeasured("the device is the host")
        elements = max(size // 4, 1)
        host = self.torch.empty(elements, dtype=self.torch.float32, pin_memory=True)
        return host, self.torch.empty(elements, dtype=self.torch.float32, device=self.device)

    def _all_reduce(self, case: Case) -> Call:
        return self._reducing(case.shape["bytes"], case.shape["ranks"])

    def _reducing(self, size: int, ranks: int) -> Call:
        """An all-reduce over the first devices of this process, by NCCL."""
        if self.kind != "cuda":
            raise NotMeasured("collectives are measured between devices of CUDA or ROCm")
        torch, count = self.torch, max(size // 2, 1)
        parts = [torch.ones(count, dtype=torch.bfloat16, device=f"cuda:{rank}") for rank in range(ranks)]
        return lambda: torch.cuda.nccl.all_reduce(parts)

    def _gemm_beside_copy(self, case: Case) -> Call:
        elements = case.shape["bytes"] // 8
        source, target = self.random(elements, dtype="fp32"), self.random(elements, dtype="fp32")
        return self._both(case, lambda: target.copy_(source))

    def _gemm_beside_all_reduce(self, case: Case) -> Call:
        return self._both(case, self._reducing(case.shape["bytes"], case.shape["ranks"]))

    def _both(self, case: Case, other: Call) -> Call:
        """A product on one stream while something else runs on another."""
        torch = self.torch
        m, n, k = (case.shape[side] for side in "mnk")
        one = self._product(m, n, k, case.dtype)
        stream, main = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)

        def call() -> None:
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                other()
            one()
            main.wait_stream(stream)

        return call

    def _block_fwd(self, case: Case) -> Call:
        return block_calls(self, case)[0]

    def _block_fwd_bwd(self, case: Case) -> Call:
        return block_calls(self, case)[1]


def _grouped_queries(shared: bool) -> dict[str, bool]:
    return {"enable_gqa": True} if shared else {}


def _processor() -> str:
    from platform import machine, processor

    return processor() or machine() or "cpu"


def _memory_of_host() -> float:
    from os import sysconf

    try:
        return float(sysconf("SC_PHYS_PAGES") * sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError):
        return 8e9
