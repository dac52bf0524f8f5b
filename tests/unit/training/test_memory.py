"""The ledger of a rank: formats, offload, what is alive at once; the closed form against the simulated run."""

from dataclasses import replace
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.results.infeasibility import infeasibility, reason
from simulator.results.result import Result
from simulator.run.simulate import simulate
from simulator.specs.base import Figure
from simulator.training import memory, operators
from simulator.training.build import build_job
from tests import jobs

MIDDLE = memory.Chunk((jobs.LAYER,) * 4, first=False, last=False)


@pytest.mark.parametrize(
    ("changes", "parameters", "optimizer"),
    [
        ({}, 2.0, 12.0),
        ({"master_weights": False}, 2.0, 8.0),
        ({"master_remainders": True, "precision": "bf16"}, 2.0, 10.0),
        ({"master_remainders": True, "precision": "fp16"}, 2.0, 12.0),
        ({"fp32_parameters": True}, 4.0, 8.0),
    ],
)
def test_bytes_of_a_parameter(changes: dict[str, Any], parameters: float, optimizer: float) -> None:
    job = build_job(jobs.scenario(software=jobs.stack(memory_overhead={}, **changes), dp=8))
    states, count = memory.static_memory(job, 0), memory.parameters(job, memory.all_chunks(job)[0])
    assert states["parameters"] / count == pytest.approx(parameters)
    assert states["optimizer"] / count == pytest.approx(optimizer)


def test_inputs_of_products_are_kept_in_8_bits_under_fp8() -> None:
    """Outputs of norms (2 h) and of the activation (4 h) lose a byte each; the fused attention's is kept twice."""
    software = jobs.stack("megatron-core")
    wide, narrow = (
        build_job(jobs.scenario(on="generic-h100", software=software, training={"precision": name}))
        for name in ("bf16", "fp8")
    )
    hidden, tokens = wide.model.hidden, wide.tokens
    lost = memory.layer_activations(wide, jobs.LAYER) - memory.layer_activations(narrow, jobs.LAYER)
    assert lost == pytest.approx(tokens * hidden * (2 + 4 - 1))


def test_offloaded_layers_keep_nothing_on_the_device() -> None:
    shape = jobs.model(vocabulary=1024)  # so that the logits are not what is widest
    whole = build_job(jobs.scenario(shape=shape, training={"recompute": "none"}))
    some = build_job(jobs.scenario(shape=shape, training={"recompute": "none", "offload_layers": 3}))
    layer = memory.layer_activations(some, jobs.LAYER)
    assert memory.chunk_activations(some, MIDDLE) == pytest.approx(layer)
    assert memory.working_memory(some, 0) == pytest.approx(memory.working_memory(whole, 0) + 2 * layer)


def test_layers_recomputed_and_offloaded_are_counted_once() -> None:
    job = build_job(jobs.scenario(training={"recompute": "full", "recompute_layers": 2, "offload_layers": 1}))
    expected = 2 * memory.boundary_activations(job) + memory.layer_activations(job, jobs.LAYER)
    assert memory.chunk_activations(job, MIDDLE) == pytest.approx(expected)


def test_offload_lasts_at_least_as_long_as_the_copies() -> None:
    plain = jobs.scenario(micro=2, training={"recompute": "none"})
    slow = Figure[float](value=1e9, status="estimate", source="test")
    node = plain.cluster.node
    accelerator = node.accelerator.model_copy(update={"host_link": slow})
    cluster = plain.cluster.model_copy(update={"node": node.model_copy(update={"accelerator": accelerator})})
    moved = plain.model_copy(
        update={"cluster": cluster, "training": plain.training.model_copy(update={"offload_layers": 4})}
    )
    job, result = build_job(moved), simulate(moved)
    copied = job.microbatches * 2 * 4 * memory.layer_activations(job, jobs.LAYER)  # out and back
    assert result.metrics["step_time_s"] >= copied / 1e9
    assert result.metrics["step_time_s"] > simulate(plain).metrics["step_time_s"]


def test_offload_without_a_known_host_link_is_refused() -> None:
    with pytest.raises(InputError, match="host_link"):
        build_job(jobs.scenario(on="tpu-v5p-pod", devices=4, training={"offload_layers": 1}))


def test_a_rank_without_tokens_has_one_tile() -> None:
    """Ranks to which no document of a batch goes: dividing by their tokens was an internal error."""
    job = build_job(jobs.scenario(training={"recompute": "full", "tile_tokens": 64}))
    assert replace(job, micro_batch=0).tile == 1.0


def test_tiles_leave_one_tile_of_the_mlp_and_of_the_logits_in_memory() -> None:
    """An eighth of the logits and their gradient, and an eighth of what the MLP block keeps; attention stays whole."""
    training = {"recompute": "full"}
    whole = build_job(jobs.scenario(shape=jobs.model(vocabulary=1024), training=training))
    tiled = build_job(
        jobs.scenario(shape=jobs.model(vocabulary=1024), training={**training, "tile_tokens": whole.tokens // 8})
    )
    assert memory.head_activations(tiled) == pytest.approx(memory.head_activations(whole) / 8)
    mixer = memory.layer_activations(whole, jobs.LAYER._replace(mlp="none"))
    mlp = memory.layer_activations(whole, jobs.LAYER._replace(attention="none"))
    hidden, tokens, element = whole.model.hidden, whole.tokens, whole.element
    assert memory.working_memory(whole, 0) == pytest.approx(mixer + mlp + 2 * 4 * hidden * tokens * element)
    assert memory.working_memory(tiled, 0) == pytest.approx(mixer + mlp / 8 + 2 * 3 * hidden * tokens * element)
    assert memory.peak_activations(tiled, 0) == memory.peak_activations(whole, 0)


@pytest.mark.parametrize("training", [{"recompute": "none"}, {"recompute": "full", "recompute_layers": 1}])
def test_tiles_of_layers_that_are_kept_are_refused(training: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="tile_tokens needs `recompute: full` of all layers"):
        build_job(jobs.scenario(training={**training, "tile_tokens": 64}))


def test_a_fused_loss_keeps_logits_in_the_working_format() -> None:
    wide, narrow = (build_job(jobs.scenario(software=jobs.stack(fp32_logits=wide))) for wide in (True, False))
    assert memory.head_activations(wide) == pytest.approx(3 * memory.head_activations(narrow))


def test_logits_wait_only_where_several_microbatches_do() -> None:
    """Under 1F1B the last stage runs backward at once, so its logits are gone before a layer's pass."""
    one, all_of_them = (build_job(jobs.scenario(pp=2, training={"schedule": name})) for name in ("1f1b", "gpipe"))
    assert (one.logits_in_flight, all_of_them.logits_in_flight) == (1, all_of_them.microbatches)
    last = memory.all_chunks(one)[-1]
    more = memory.chunk_activations(all_of_them, last) - memory.chunk_activations(one, last)
    assert more == pytest.approx(memory.head_activations(one))


@pytest.mark.parametrize(
    "layout",
    [{"pp": 1}, {"pp": 4}, {"pp": 4, "vpp": 2}, {"pp": 2, "training": {"schedule": "gpipe"}}, {"pp": 1, "zero": 3}],
)
def test_the_closed_form_is_the_peak_of_the_run(layout: dict[str, Any]) -> None:
    run = jobs.scenario(**layout)
    assert memory.peak_memory(build_job(run)) == pytest.approx(simulate(run).metrics["peak_memory_bytes"])


def test_fsdp_with_zero_2_keeps_a_shard_and_what_a_pass_gathered() -> None:
    """SHARD_GRAD_OP: fp32 shards outside of computation, all parameters in bf16 from forward to backward pass."""
    job = build_job(jobs.scenario(software=jobs.stack("fsdp"), batch=8, zero=2))
    states = memory.static_memory(job, 0)
    whole = memory.parameters(job, memory.all_chunks(job)[0])
    assert states["parameters"] == pytest.approx(4 * whole / 8)
    assert states["gathered parameters"] == pytest.approx(2 * whole)


@pytest.mark.parametrize(
    ("stack", "training", "pieces"),
    [
        ("pytorch-ddp", {}, 2),  # one bucket is filled while the one before it is reduced
        ("pytorch-ddp", {"overlap_gradients": False}, 1),
        ("deepspeed", {"overlap_parameters": False}, 2),
    ],
)
def test_zero_2_keeps_whole_gradients_until_their_buckets_are_reduced(
    stack: str, training: dict[str, Any], pieces: int
) -> None:
    training = {"bucket_size": "150 MB", "recompute": "none", **training}
    kept = [
        memory.static_memory(build_job(jobs.scenario(software=jobs.stack(stack), training=training, zero=zero)), 0)
        for zero in (1, 2)
    ]
    assert "unreduced gradients" not in kept[0]
    assert kept[1]["unreduced gradients"] == pytest.approx(pieces * 150e6)


def test_without_buckets_all_gradients_of_a_chunk_wait_for_the_end_of_its_pass() -> None:
    job = build_job(jobs.scenario(software=jobs.stack("megatron-lm-2021"), pp=2, zero=2))
    for stage, chunk in enumerate(memory.all_chunks(job)):
        states = memory.static_memory(job, stage)
        assert states["unreduced gradients"] == pytest.approx(memory.parameters(job, chunk) * job.reduce_bytes)


def test_a_tensor_larger_than_a_bucket_is_a_bucket() -> None:
    """The head is reduced beside the pass through the last MLP, and neither is the largest tensor twice."""
    job = build_job(jobs.scenario(software=jobs.stack("pytorch-ddp"), training={"bucket_size": "1 MB"}, zero=2))
    tensors = operators.head_parameters(job) + job.model.hidden * job.model.ffn
    assert memory.unreduced_gradients(job, 0) == pytest.approx(2 * tensors)


@pytest.mark.parametrize("zero", [2, 3])
def test_fsdp_keeps_the_gradients_of_the_unit_that_it_reduces_and_of_the_next(zero: int) -> None:
    """The first in the format in which it is reduced, the second in that of the pass."""
    job = build_job(jobs.scenario(software=jobs.stack("fsdp"), shape=jobs.model(vocabulary=1024), batch=8, zero=zero))
    layer = operators.layer_parameters(job, jobs.LAYER)
    assert memory.static_memory(job, 0)["unreduced gradients"] == pytest.approx(layer * (4 + 2))
    cut = build_job(jobs.scenario(software=jobs.stack("fsdp"), batch=8, pp=4, zero=zero))
    ends = operators.embedding_parameters(cut) * 4 + layer * 2  # of 51,200 words
    assert memory.unreduced_gradients(cut, 0) == pytest.approx(ends)
    assert memory.unreduced_gradients(cut, 1) == pytest.approx(layer * (4 + 2))


def test_devices_of_a_node_share_the_memory_of_their_host() -> None:
    """GPipe keeps all microbatches of the offloaded layers at once; stages that lie on one node add up."""
    training = {"recompute": "none", "offload_layers": 2, "schedule": "gpipe"}
    scenario = jobs.scenario(batch=32, pp=2, training=training)
    job, node = build_job(scenario), scenario.cluster.node
    a_device = job.microbatches * 2 * memory.layer_activations(job, jobs.LAYER)
    assert memory.fullest_host(job, node.devices) == pytest.approx({0: 4 * a_device, 1: 4 * a_device})

    def in_a_host(size: float | None) -> Result:
        known = None if size is None else Figure[float](value=size, status="estimate", source="test")
        other = scenario.cluster.model_copy(update={"node": node.model_copy(update={"host_memory": known})})
        return simulate(scenario.model_copy(update={"cluster": other}))

    full, enough, unknown = in_a_host(7.9 * a_device), in_a_host(8.1 * a_device), in_a_host(None)
    assert enough.feasible and enough.host is not None and enough.host.peak == pytest.approx(8 * a_device)
    assert not full.feasible and infeasibility(full) == "out of memory" and "host" in reason(full)
    assert unknown.feasible and any("size is not known" in text for text in unknown.warnings)


def test_nothing_is_kept_on_hosts_without_offloading() -> None:
    assert simulate(jobs.scenario()).host is None
