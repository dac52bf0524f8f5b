"""What serving compiles for a stage equals the sum of its blocks' operations, each evaluated alone through `cost`.

Rounding that is documented: whole ticks for each part, slopes of decodes in whole ticks a cached token, and collectives
interpolated between powers of two.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator import collectives, fabric
from simulator.axes import EP, TP
from simulator.cost import Decode, Gemm, Stream, compile_device, seconds
from simulator.cost.attention import rate_at
from simulator.cost.decode import write_seconds
from simulator.cost.experts import expert_seconds, experts_hit
from simulator.cost.rows import Weights
from simulator.model import layers, ops
from simulator.model.blocks import ends
from simulator.model.blocks.around import NORM, RESIDUAL
from simulator.model.cut import Cut
from simulator.serving.costs.iteration import ReplicaCost, compile_costs, split_layers
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.model import LayerKind, Model
from simulator.specs.serving import KvCache, Layout, NumberFormats, ServingStack
from simulator.units import TICKS_PER_SECOND
from tests.effort import examples

MACHINE = load_spec(Cluster, "dgx-a100").model_copy(update={"nodes": 1})
DEVICE, FABRIC = compile_device(MACHINE.node.accelerator), fabric.build(MACHINE)
LIBRARY = load_spec(CollectiveProfile, MACHINE.collectives)
ELEMENT = 2.0
"""Bytes of an element in 16 bits."""
PLAIN = {"name": "plain", "biases": False, "tied_embeddings": False, "norm": "rmsnorm"}
"""Of all models here: biases are left out of what serving runs."""


@dataclass(frozen=True)
class Case:
    """A replica: model, layout and software."""

    model: Model
    layout: Layout
    fused: bool = True
    efficiency: float = 1.0
    launch: float = 0.0
    """Seconds of the host for a kernel; no launches are captured."""

    @property
    def stack(self) -> ServingStack:
        """An engine whose sums are the library's and which reads keys once for a group."""
        usual = load_spec(ServingStack, "vllm")
        efficiency = usual.kernel_efficiency.model_copy(update={"value": self.efficiency})
        launch = usual.kernel_launch.model_copy(update={"value": self.launch})
        changes = {
            "kernel_efficiency": efficiency,
            "kernel_launch": launch,
            "fused_elementwise": self.fused,
            "all_reduce": "library",
            "graphs": None,
            "attention_kernel": None,
        }
        return usual.model_copy(update=changes)

    @property
    def cut(self) -> Cut:
        return Cut({TP.name: self.layout.tp, EP.name: self.layout.ep})

    def compiled(self) -> ReplicaCost:
        given = self.model, self.layout, NumberFormats(), self.stack, MACHINE, 4096, KvCache()
        return compile_costs(*given, token_budget=2048, max_sequences=256)

    def stages(self) -> list[tuple[LayerKind, ...]]:
        """Layers of each stage."""
        counts = split_layers(self.model.layers, self.layout.pp)
        return [self.model.kinds[sum(counts[:i]) : sum(counts[: i + 1])] for i in range(len(counts))]


class Sum:
    """Seconds by part, and the kernels that the host launches for the layers."""

    def __init__(self, case: Case, stage: int) -> None:
        self.case, self.parts, self.kernels = case, Counter[str](), 0
        own = range(stage * case.layout.tp, (stage + 1) * case.layout.tp)
        self.groups = {TP: tuple(own), EP: tuple(i * case.layout.devices for i in range(case.layout.ep))}

    def add(self, does: Iterable[ops.Op], rows: int) -> None:
        """Run operations one after the other."""
        for op in does:
            self._one(op.does, rows)

    def _kernel(self, part: str, lasts: float, kernels: int = 1) -> None:
        self.parts[part] += lasts / self.case.efficiency
        self.kernels += kernels

    def _pass(self, part: str, moved: float, kernels: int = 1) -> None:
        """A pass over memory; frameworks that do not fuse take two for each, over twice the bytes."""
        self._kernel(part, seconds(Stream(moved / 2, moved / 2, kernels), DEVICE), kernels)

    def _one(self, does: ops.Does, rows: int) -> None:
        factor = 1 if self.case.fused else 2
        if isinstance(does, ops.Linear):
            part = "head" if does.format == ops.TABLE else "linear"
            self._kernel(part, seconds(Gemm(rows, does.outputs, does.inputs), DEVICE))
        elif isinstance(does, ops.Elementwise) and does.kind != RESIDUAL:
            moved = (does.forward.read + does.forward.written) * (2 if does.kind == NORM else 1)
            self._pass("other", factor * rows * moved * (does.element or ELEMENT), factor)
        elif isinstance(does, ops.Lookup):
            self._pass("other", factor * rows * (3 if does.learned else 2) * does.width * ELEMENT, factor)
        elif isinstance(does, ops.CacheWrite):
            size = does.elements * ELEMENT
            self._kernel("other", write_seconds(rows, size, size, DEVICE.stream.launch, DEVICE.decode))
        elif isinstance(does, ops.Sample):
            self._pass("head", rows * does.width * (ELEMENT + 4 + 4), 3)
        elif isinstance(does, ops.Experts):
            self._kernel("linear", self._experts(does, rows * does.sharers), 5)
        elif isinstance(does, ops.Comm) and does.operation != ops.COPY:
            self._collective(does, rows)

    def _experts(self, does: ops.Experts, rows: int) -> float:
        """Rows of all sharers over the experts of one."""
        all_rows = np.array([rows])
        hit = np.maximum(experts_hit(all_rows, does.experts, does.top_k) / does.sharers, 1.0)
        curve = DEVICE.mixture(self.case.stack.expert_kernels, "bf16")
        sizes = does.top_k, does.hidden, does.inner, does.gated
        here = all_rows / does.sharers
        return float(expert_seconds(here, hit, *sizes, curve, DEVICE.gemm["bf16"], Weights(ELEMENT))[0])

    def _collective(self, does: ops.Comm, rows: int) -> None:
        everyone = rows * (self.case.layout.ep if does.axis == EP else 1)
        size = everyone * does.width * ELEMENT
        low = 2.0 ** np.floor(np.log2(size))
        ends = [
            collectives.cost_of(does.operation, [self.groups[does.axis]], end, FABRIC, LIBRARY).slowest
            for end in (low, 2 * low)
        ]
        self.parts[does.axis.name] += (ends[0] + (ends[1] - ends[0]) * (size / low - 1)) / TICKS_PER_SECOND
        self.kernels += 1


def rows_of(case: Case, stage: int, tokens: int, sampled: int) -> Counter[str]:
    """Seconds of all that depends on the rows of a pass, by part; attention only launches here."""
    body, launch = Sum(case, stage), DEVICE.attention[DEVICE.best_attention].launch
    for kind in case.stages()[stage]:
        body.add(layers.layer(case.model, case.cut, kind, beside=True), tokens)
        body._kernel("other", launch)
    kernels = body.kernels
    body.add(ends.embedding(case.model, case.cut) if stage == 0 else (), tokens)
    body.parts["other"] += max(case.launch * kernels - sum(body.parts.values()), 0.0)
    ending = Sum(case, stage)
    if stage == case.layout.pp - 1 and sampled:
        ending.add(ends.with_choice(case.model, case.cut), sampled)
    return body.parts + ending.parts


def core(case: Case, kind: LayerKind) -> ops.AttentionCore:
    """Attention of a layer."""
    found = layers.attention_of(case.model, case.cut, kind)
    return next(op.does for op in found if isinstance(op.does, ops.AttentionCore))


def decodes_of(case: Case, stage: int, sequences: int, each: int) -> float:
    """Seconds of the attention of decodes of `each` cached tokens, apart from the launch of the kernel of prompts."""
    total = 0.0
    for kind in case.stages()[stage]:
        does, seen = core(case, kind), min(each, kind.window or each)
        work = Decode(sequences, sequences * seen, does.heads, does.kv_heads, does.head_dim)
        total += seconds(work, DEVICE) - DEVICE.attention[DEVICE.best_attention].launch
    return total / case.efficiency


def prompt_of(case: Case, stage: int, chunk: int, before: int) -> float:
    """Seconds of the attention of a chunk of a prompt, apart from its launch: block by block of its rows."""
    curve, total = DEVICE.attention[DEVICE.best_attention], 0.0
    for kind in case.stages()[stage]:
        does, window = core(case, kind), kind.window or chunk + before
        token = 4.0 * curve.rows * does.head_dim / rate_at(does.head_dim, curve.forward)
        keys = [
            before + min(first + curve.rows, chunk) - max(0, before + first - window)
            for first in range(0, chunk, curve.rows)
        ]
        longest = curve.block + token * min(chunk + before, curve.rows + window)
        work = does.heads * sum(curve.block + token * k for k in keys) / curve.cores + curve.tail * longest
        tensors = 2 * does.heads * chunk + 2 * does.kv_heads * min(chunk + before, chunk + window)
        memory = tensors * does.head_dim * ELEMENT / curve.bandwidth
        total += (max(longest, work) ** 4 + memory**4) ** 0.25
        total += 2 * does.heads * chunk * does.head_dim * ELEMENT / DEVICE.decode.query
    return total / case.efficiency


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Random dense and sparse models, with and without groups of heads and windows, on random layouts."""
    tp, pp = draw(st.sampled_from(((1, 1), (1, 2), (2, 2), (4, 1), (4, 2), (8, 1))))
    kv_heads, group = draw(st.sampled_from((1, 2, 8))), draw(st.sampled_from((1, 4, 8)))
    kv_heads = kv_heads if kv_heads * group % tp == 0 else tp
    data = PLAIN | {
        "layers": draw(st.integers(pp, 6)),
        "hidden": 64 * draw(st.integers(4, 64)),
        "heads": kv_heads * group,
        "kv_heads": kv_heads,
        "head_dim": draw(st.sampled_from((64, 128))),
        "ffn": 64 * draw(st.integers(4, 128)),
        "gated_ffn": draw(st.booleans()),
        "vocabulary": 512 * draw(st.integers(1, 64)),
        "position": draw(st.sampled_from(("rotary", "none"))),
        "parallel_mlp": draw(st.booleans()),
    }
    ep = 1
    if sparse := draw(st.booleans()):
        experts = draw(st.sampled_from((8, 16)))
        shared = draw(st.integers(0, 1))
        data |= {"experts": experts, "top_k": draw(st.integers(1, 4)), "expert_ffn": 512, "shared_experts": shared}
        ep = draw(st.sampled_from((1, 2))) if tp == 1 else 1
    if draw(st.booleans()):
        group_of = {"repeat": 1, "window": 256} | ({"mlp": "dense"} if sparse else {})
        data["pattern"] = [group_of, {"repeat": data["layers"] - 1}] if data["layers"] > 1 else [{"window": 256}]
    layout = Layout(tp=tp, pp=pp, ep=ep)
    fused, efficiency = draw(st.booleans()), draw(st.sampled_from((1.0, 0.8)))
    return Case(Model.model_validate(data), layout, fused, efficiency, draw(st.sampled_from((0.0, 6e-6))))


UNEVEN = Case(
    Model.model_validate(
        PLAIN
        | {
            "layers": 4,
            "hidden": 1024,
            "heads": 8,
            "kv_heads": 2,
            "ffn": 2048,
            "vocabulary": 2048,
            "position": "rotary",
        }
        | {"pattern": [{"repeat": 1, "window": 256}, {"repeat": 3}]}
    ),
    Layout(pp=2),
)
"""Only the first stage has a layer with a window."""


def ticks(lasts: float) -> float:
    """Ticks, not yet whole."""
    return lasts * TICKS_PER_SECOND


@examples(25, 1000)
@given(cases(), st.integers(1, 3000), st.data())
def test_rows_are_their_operations(case: Case, tokens: int, data: st.DataObject) -> None:
    """Each part to a few ticks."""
    sampled = data.draw(st.integers(0, min(tokens, 256)))
    for stage, cost in enumerate(case.compiled().stages):
        found, parts = rows_of(case, stage, tokens, sampled), cost.parts(tokens, sampled)
        for part in parts:
            assert parts[part] == pytest.approx(ticks(found[part]), rel=1e-9, abs=4), part
        assert cost.rows(tokens, sampled) == sum(parts.values())


@examples(25, 1000)
@example(UNEVEN, 200, 8000)
@given(cases(), st.integers(1, 256), st.integers(0, 8192))
def test_decodes_are_their_kernels(case: Case, sequences: int, each: int) -> None:
    """To half a tick a cached token, and a few more."""
    for stage, cost in enumerate(case.compiled().stages):
        context = sequences * each
        base, slope = next((base, slope) for limit, base, slope in cost.decode(sequences) if context <= limit)
        exact = ticks(decodes_of(case, stage, sequences, each))
        assert base + slope * context == pytest.approx(exact, rel=1e-9, abs=4 + 2 * context)


@examples(25, 1000)
@example(UNEVEN, 3000, 8000)
@given(cases(), st.integers(1, 3000), st.integers(0, 8192))
def test_prompts_are_their_kernels(case: Case, chunk: int, before: int) -> None:
    """To a tick."""
    for stage, cost in enumerate(case.compiled().stages):
        assert cost.prompt(chunk, before) == pytest.approx(
            ticks(prompt_of(case, stage, chunk, before)), rel=1e-9, abs=4
        )
