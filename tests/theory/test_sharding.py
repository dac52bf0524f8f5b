"""ZeRO++: bytes that sharded parameters and gradients put on links, and what second shards cost."""

from typing import Any

import pytest

from simulator.errors import InputError
from simulator.results.result import Result
from simulator.run.simulate import simulate
from simulator.training.build import build_job
from tests import jobs


def step(sharding: dict[str, Any] | None, **more: Any) -> Result:
    training = {"recompute": "none"} | ({"sharding": sharding} if sharding else {})
    return simulate(jobs.scenario(nodes=2, zero=3, training=training, **more))


def carried(result: Result, operation: str) -> float:
    """Bytes that the busiest card sends in operations of a name."""
    (card,) = (load for load in result.links if load.name == "NIC up")
    return card.by_operation.get(operation, 0.0)


def test_formats_are_bytes_on_the_wire() -> None:
    """Parameters in 8 bits halve gathers, gradients in 4 bits take an eighth of fp32 (with a stack that reduces so)."""
    job = build_job(jobs.scenario(nodes=2, zero=3))
    plain, less = step(None), step({"gather_format": "int8", "reduce_format": "int4"})
    assert carried(less, "gather parameters") == pytest.approx(carried(plain, "gather parameters") / job.element)
    ratio = 0.5 / job.reduce_bytes
    assert carried(less, "reduce gradients") == pytest.approx(ratio * carried(plain, "reduce gradients"))
    assert less.metrics["step_time_s"] < plain.metrics["step_time_s"]


def test_second_shards_spare_half_of_the_gathers_between_nodes() -> None:
    plain, near = step(None), step({"secondary": 8})
    assert carried(near, "gather parameters") == pytest.approx(carried(plain, "gather parameters") / 2)
    job = build_job(jobs.scenario(nodes=2, zero=3))
    whole = plain.memory[0].at_peak["parameters"] * 16 * job.element / job.stored
    assert near.memory[0].at_peak["second shards"] == pytest.approx(whole / 8)


def test_levels_keep_what_passes_need_on_fast_links() -> None:
    """Of two nodes of eight: gathers and scatters of passes stay inside. Once a step each rank sends half of its eighth
    of the gradients to the other node, and a ring of eight ranks, four cards a node, carries seven eighths of P / 2."""
    plain, levels = step(None), step({"levels": {"parameters": 2, "gradients": 8}})
    job = build_job(jobs.scenario(nodes=2, zero=3))
    assert carried(plain, "gather parameters") > 0.0 == carried(levels, "gather parameters")
    assert carried(plain, "reduce gradients") > 0.0 == carried(levels, "reduce gradients")
    kept, shard = plain.memory[0].at_peak, levels.memory[0].at_peak
    for name, ranks in (("parameters", 2), ("gradients", 8), ("optimizer", 16)):
        assert shard[name] == pytest.approx(kept[name] * 16 / ranks)
    whole = 16 * kept["parameters"] / job.stored
    once = whole * (job.reduce_bytes / 16 + job.element / 2 * 7 / 8 / 4)
    assert carried(levels, "optimizer") == pytest.approx(once)


def test_one_level_for_all_is_none() -> None:
    assert step({"levels": {"parameters": 16}}).metrics == pytest.approx(step(None).metrics)


@pytest.mark.parametrize(
    ("sharding", "zero", "said"),
    [
        ({"levels": {"parameters": 3}}, 3, "3 ranks do not divide the 8 that share gradients"),
        ({"levels": {"parameters": 2, "gradients": 16}}, 3, "16 ranks do not divide a shard set of 8"),
        ({"levels": {"parameters": 2}}, 2, "nothing is sharded that is gathered around every pass"),
        ({"secondary": 3}, 3, "3 ranks do not divide a shard set of 8"),
        ({"gather_format": "int8"}, 1, "nothing is sharded that is gathered around every pass"),
    ],
)
def test_what_cannot_be_is_refused(sharding: dict[str, Any], zero: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build_job(jobs.scenario(zero=zero, training={"sharding": sharding}))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"offload": {"optimizer": {"to": "host"}}}, "`offload`"),
        ({"lora": {"rank": 8}}, "`lora`"),
        ({"local_steps": {"inner": 4, "workers": 2}}, "shard set of"),
    ],
)
def test_levels_are_refused_with_what_is_not_simulated(more: dict[str, Any], said: str) -> None:
    training = {"sharding": {"levels": {"parameters": 2, "gradients": 8}}, **more}
    with pytest.raises(InputError, match=said):
        build_job(jobs.scenario(zero=3, training=training))


def test_second_shards_and_levels_are_two_answers() -> None:
    with pytest.raises(ValueError, match="leave `secondary` out"):
        jobs.scenario(zero=3, training={"sharding": {"secondary": 8, "levels": {"parameters": 2}}})
