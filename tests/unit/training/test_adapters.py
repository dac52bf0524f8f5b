"""Adapters of low rank: what is computed, kept and sent beside frozen matrices, by hand."""

from dataclasses import replace
from typing import Any

import pytest

from simulator.cost.device import compile_device
from simulator.cost.work import Gemm, Stream
from simulator.errors import InputError
from simulator.run.simulate import simulate
from simulator.training import flops, memory, operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.operators import Kernel
from simulator.training.pass_costs import PassCosts
from simulator.training.tiers import gathered
from tests import jobs

H = 1024


def job(lora: dict[str, Any] | None, **changes: Any) -> Job:
    parallel = {name: changes.pop(name) for name in ("tp", "pp", "zero") if name in changes}
    given = changes | ({"lora": lora} if lora else {})
    software = jobs.stack("megatron-core")
    return build_job(jobs.scenario(on="generic-h100", software=software, training=given, **parallel))


def products(found: Job) -> float:
    """FLOP of the products of a layer, forward and backward, by token."""
    steps = [*operators.layer_forward(found, jobs.LAYER), *operators.layer_backward(found, jobs.LAYER)]
    return sum(s.work.flops for s in steps if isinstance(s, Kernel) and isinstance(s.work, Gemm)) / found.tokens


def test_frozen_matrices_take_4_flop_a_parameter_and_adapters_6() -> None:
    """r(m + n) parameters: 8 (h + 3 h) beside queries, keys and values, 8 (h + h) after attention."""
    adapters = 8 * 4 * H + 8 * 2 * H
    assert products(job(None)) == 6 * 12 * H**2
    assert products(job({"rank": 8})) == 4 * 12 * H**2 + 6 * adapters


def test_the_host_launches_what_adapters_add() -> None:
    """Two small products more for each adapted one; as many launches as a layer without them where there are none."""
    device = compile_device(jobs.cluster().node.accelerator)
    given: tuple[dict[str, Any] | None, ...] = (None, {"rank": 8}, {"rank": 64})
    second = jobs.stack("megatron-core").layer_overhead.model_copy(update={"value": 1.0})
    found = [replace(one, stack=one.stack.model_copy(update={"layer_overhead": second})) for one in map(job, given)]
    host = [PassCosts(one, device, lambda comm, bulk: 0).host(jobs.LAYER) for one in found]
    assert host[0] == 1.0
    assert host[0] < host[1] == host[2] < 2.0


def test_dropout_of_adapters_is_one_pass_whatever_a_stack_fuses() -> None:
    """Two targets: rows are read, and written with a mask; backward as much. The adapters keep thinned rows in place of
    those that enter, masks besides, and attention what it wrote."""
    found = {}
    for fused in (True, False):
        for dropout in (0.0, 0.05):
            software = jobs.stack("megatron-core").model_copy(update={"fused_elementwise": fused})
            given = {"lora": {"rank": 8, "dropout": dropout}}
            each = build_job(jobs.scenario(on="generic-h100", software=software, training=given))
            kernels = [step for step in operators.layer_forward(each, jobs.LAYER) if isinstance(step, Kernel)]
            found[fused, dropout] = {one.name: one.work.bytes for one in kernels if isinstance(one.work, Stream)}
            tokens = each.tokens
    for fused in (True, False):
        plain, thinned = found[fused, 0.0], found[fused, 0.05]
        assert set(thinned) - set(plain) == {f"adapter of attention {way}, dropout" for way in ("in", "out")}
        assert thinned["adapter of attention in, dropout"] == 5 * H * tokens
    given = {"rank": 8}, {"rank": 8, "dropout": 0.05}
    kept = [memory.kept_bytes(job(lora), operators.layer_ops(job(lora), jobs.LAYER)) for lora in given]
    assert kept[1] - kept[0] == pytest.approx((2 + 2) * H * tokens)


def test_only_adapters_are_trained() -> None:
    found, whole = job({"rank": 8}), job(None)
    adapters = 8 * (8 * 4 * H + 8 * 2 * H)
    assert memory.updated(found, 0) == pytest.approx(adapters / 8)
    static, before = memory.static_memory(found, 0), memory.static_memory(whole, 0)
    assert static["gradients"] == 4 * adapters
    assert static["optimizer"] == pytest.approx(12 * adapters / 8)
    assert static["parameters"] == before["parameters"] + 2 * adapters
    (reduced,) = operators.layer_units(found, jobs.LAYER, found.dense)
    assert reduced == adapters / 8


def test_rows_that_only_a_weight_gradient_needs_are_not_kept() -> None:
    """Beside attention alone: the rows that enter both adapters stay (h each) and 8 numbers between their products;
    those that enter the MLP's products (h and 4 h) do not."""
    found, whole = job({"rank": 8}), job(None)
    spared = memory.layer_activations(whole, jobs.LAYER) - memory.layer_activations(found, jobs.LAYER)
    assert spared == pytest.approx(found.tokens * 2 * (H + 4 * H - 2 * 8))


def test_model_flops_are_those_of_the_products() -> None:
    found, whole = job({"rank": 8}), job(None)
    base = 8 * 12 * H**2 + H * 51200
    adapters = 8 * (8 * 4 * H + 8 * 2 * H)
    tokens = found.global_batch * found.sequence
    assert flops.model_flops(whole) - flops.model_flops(found) == pytest.approx(tokens * (2 * base - 6 * adapters))


def test_tensor_parallel_ranks_share_the_work_of_adapters() -> None:
    """The matrix on the side that is not cut is whole on every rank."""
    found = job({"rank": 8}, tp=4)
    assert operators.layer_parameters(found, jobs.LAYER, trained=True) == 8 * (H + 3 * H / 4) + 8 * (H / 4 + H)


def test_a_frozen_base_is_kept_in_the_format_of_its_products_alone() -> None:
    """Two orders of a byte on Hopper, cast once for the whole run."""
    found = job({"rank": 8}, precision="fp8")
    static = memory.static_memory(found, 0)
    assert static["cast parameters"] == 2 * 8 * 12 * H**2
    assert static["parameters"] < 2 * (8 * 12 * H**2)
    assert memory.recast(found, 0) == 0
    assert memory.static_memory(job({"rank": 8}, precision="fp8", quantized_parameters=False), 0)["parameters"] > (
        2 * 8 * 12 * H**2
    )


def test_a_4_bit_base_is_dequantised_at_every_use() -> None:
    found = job({"rank": 8, "base_format": "nf4"})
    steps = [*operators.layer_forward(found, jobs.LAYER), *operators.layer_backward(found, jobs.LAYER)]
    works = [s.work for s in steps if isinstance(s, Kernel) and s.name.startswith("dequantise")]
    assert len(works) == 2 * 4
    size = 12 * H**2
    assert sum(w.bytes for w in works if isinstance(w, Stream)) == pytest.approx(2 * size * (0.5166 + 2), rel=1e-3)
    plain = memory.static_memory(job({"rank": 8}), 0)["parameters"]
    assert plain - memory.static_memory(found, 0)["parameters"] == pytest.approx(8 * size * (2 - 0.5166), rel=1e-3)


def test_shards_of_a_4_bit_base_are_gathered_as_they_are_stored() -> None:
    wide, found = (job({"rank": 8} | base, zero=3) for base in ({}, {"base_format": "nf4"}))
    (whole,), (packed,) = (gathered.gathered_units(j, jobs.LAYER, j.dense) for j in (wide, found))
    size = 12 * H**2
    assert 2 * (whole - packed) == pytest.approx(size * (2 - 0.5166), rel=1e-3)
    assert gathered.gathered_parameters(found, jobs.LAYER) == pytest.approx(packed)
    assert gathered.gathered_parameters(wide, jobs.LAYER) == pytest.approx(whole)


def test_a_4_bit_base_is_kept_in_4_bits_whatever_products_are_in() -> None:
    plain, found = (
        job({"rank": 8, "base_format": "nf4"}, precision=precision, quantized_parameters=keeps)
        for precision, keeps in (("bf16", None), ("fp8", True))
    )
    assert not found.quantized_parameters
    assert memory.static_memory(found, 0)["parameters"] == memory.static_memory(plain, 0)["parameters"] > 0


def test_a_step_of_adapters_takes_about_two_thirds() -> None:
    software = jobs.stack("megatron-core")
    large = jobs.model(hidden=4096, heads=32, layers=4)
    whole, adapted = (
        simulate(jobs.scenario(on="generic-h100", software=software, shape=large, sequence=4096, training=given))
        for given in ({}, {"lora": {"rank": 16}})
    )
    assert 0.62 < adapted.metrics["step_time_s"] / whole.metrics["step_time_s"] < 0.75


def test_a_target_that_is_no_product_is_refused() -> None:
    with pytest.raises(InputError, match="`mlp inn` is no product of a layer"):
        memory.updated(job({"targets": ["mlp inn"]}), 0)
