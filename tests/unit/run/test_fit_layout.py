"""Layouts of rows that state none, where a device could not hold the model."""

from typing import Any

from simulator.interop.rows.jsonl import read_row
from simulator.interop.rows.training import Row
from simulator.run.measured.training import Mapped, map_row
from simulator.training import memory

ROW: dict[str, Any] = {
    "id": "row",
    "source": "test",
    "device": "H100-80GB",
    "devices": 64,
    "devices_per_node": 8,
    "model": "some llama",
    "hidden": 8192,
    "layers": 80,
    "heads": 64,
    "kv_heads": 8,
    "ffn": 28672,
    "gated_ffn": True,
    "vocab": 32000,
    "seq_len": 4096,
    "precision": "bf16",
    "global_batch": 512,
    "framework": "Megatron-Core",
    "primary_metric": "step_s",
    "step_s": 10.0,
}
EXPERTS: dict[str, Any] = {"hidden": 2880, "layers": 36, "heads": 64, "experts": 128, "topk": 4, "moe_ffn": 2880}


def mapped(**changes: Any) -> Mapped:
    return map_row(read_row(Row, ROW | changes))


def holds(found: Mapped) -> bool:
    return memory.peak_memory(found.job) <= found.scenario.cluster.node.accelerator.memory.capacity.value


def test_a_model_that_no_device_holds_is_cut_over_the_fewest_that_do() -> None:
    found = mapped()
    parallel = found.scenario.training.parallel
    assert parallel.tp > 1 and holds(found)
    assert any("the fewest devices a model that hold it" in assumed for assumed in found.assumed)


def test_experts_are_spread_over_a_node_before_a_model_is_cut() -> None:
    found = mapped(**EXPERTS)
    parallel = found.scenario.training.parallel
    assert (parallel.tp, parallel.ep) == (1, 8) and holds(found)


def test_states_of_the_optimizer_are_spread_where_the_stack_spreads_none() -> None:
    small = {"hidden": 4096, "layers": 32, "heads": 32, "kv_heads": 32, "ffn": 11008, "devices": 8, "device": "Gaudi2"}
    found = mapped(**small, framework="Megatron-DeepSpeed")
    assert found.scenario.training.parallel.zero == 1 and holds(found)


def test_what_a_row_states_or_a_device_holds_stays() -> None:
    assert mapped(tp=8, pp=4).scenario.training.parallel.pp == 4
    small = mapped(hidden=1024, layers=8, heads=16, kv_heads=16, ffn=2816)
    assert (small.scenario.training.parallel.tp, small.scenario.training.parallel.pp) == (1, 1)
    assert not any("fewest devices" in assumed for assumed in small.assumed)
