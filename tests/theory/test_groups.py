"""Steps in which sequences lie on groups of data-parallel ranks: ByteScale and FlexSP."""

from typing import Any

import pytest

from simulator.errors import InputError
from simulator.program import codes as d
from simulator.run.simulate import run, simulate
from simulator.specs.batching import Batching
from simulator.specs.scenario import Scenario
from simulator.specs.training import Documents
from simulator.training import flops
from simulator.training.build import build_job
from tests import jobs

TAIL = {"lognormal": [1000, 1.5], "high": 16384}
FLEXIBLE = {"policy": "flexible", "capacity": 2048}
HYBRID = {"policy": "hybrid", "capacity": 2048, "balance": True}
NAIVE = {"policy": "hybrid", "capacity": 2048}


def scenario(batching: Any, documents: Any = TAIL, **more: Any) -> Scenario:
    given: dict[str, Any] = {
        "attention": "fused",
        "batching": Batching.model_validate(batching),
        "documents": Documents.model_validate(documents),
    }
    shape: dict[str, Any] = {"sequence": 16384, "batch": 8, "cp_kind": "ulysses"}
    return jobs.scenario(training=given | more.pop("training", {}), **(shape | more))


@pytest.mark.parametrize("kind", ["zigzag", "ulysses", "all-gather"])
@pytest.mark.parametrize("policy", ["hybrid", "flexible"])
def test_sequences_that_need_all_ranks_are_a_plain_context_parallel_step(policy: str, kind: str) -> None:
    """Eight sequences of 16,384 tokens over eight ranks, one after the other."""
    made = simulate(scenario({"policy": policy, "capacity": 2048}, 16384, cp_kind=kind))
    plain = simulate(
        jobs.scenario(sequence=16384, batch=8, cp=8, cp_kind=kind, training={"attention": "fused"}), fold="exact"
    )
    for name in ("step_time_s", "mfu", "hfu", "peak_memory_bytes"):
        assert made.metrics[name] == pytest.approx(plain.metrics[name], rel=1e-9)


@pytest.mark.parametrize("policy", ["hybrid", "flexible"])
def test_sequences_that_fit_a_rank_are_a_plain_data_parallel_step(policy: str) -> None:
    made = simulate(scenario({"policy": policy, "capacity": 2048}, 2048, batch=2))
    plain = simulate(jobs.scenario(sequence=2048, batch=16, training={"attention": "fused"}))
    assert made.metrics["step_time_s"] == plain.metrics["step_time_s"]
    assert made.metrics["mfu"] == pytest.approx(plain.metrics["mfu"], rel=1e-9)


@pytest.mark.parametrize("batching", [FLEXIBLE, HYBRID, NAIVE])
@pytest.mark.parametrize("layout", [{}, {"zero": 1}, {"pp": 2, "devices": 16}])
def test_folding_changes_nothing(batching: dict[str, Any], layout: dict[str, Any]) -> None:
    exact, none = (simulate(scenario(batching, **layout), fold=fold) for fold in ("exact", "none"))
    assert exact.metrics == pytest.approx(none.metrics, rel=1e-9)


@pytest.mark.parametrize("layout", [{}, {"software": jobs.stack("fsdp"), "zero": 3}])
@pytest.mark.parametrize("batching", [FLEXIBLE, HYBRID, NAIVE])
def test_parts_add_up(batching: dict[str, Any], layout: dict[str, Any]) -> None:
    result = simulate(scenario(batching, **layout))
    step = result.metrics["step_time_s"]
    assert all(sum(parts.values()) == pytest.approx(step, rel=1e-9) for parts in result.breakdown)


def test_ranks_of_a_group_begin_together() -> None:
    """Whatever each did before."""
    done = run(scenario(NAIVE), fold="none")
    columns, start = done.program.columns, done.timeline.start
    device = done.program.device(slice(None))
    assert done.job.batch is not None
    batch, shared = done.job.batch, 0
    for rank, row in enumerate(batch.rows):
        for slot, number in enumerate(row):
            size = batch.shapes[number].ranks
            of = [(device == member) & (columns.microbatch == slot) for member in (rank, rank - rank % size)]
            begins = [int(start[one & (columns.kind == d.FORWARD)].min()) for one in of]
            assert begins[0] == begins[1]
            shared += size > 1
    assert shared


def test_work_is_that_of_the_documents() -> None:
    """On however many ranks they lie."""
    found = [build_job(scenario(batching)) for batching in (FLEXIBLE, HYBRID, NAIVE)]
    model, hardware = ({round(count(job)) for job in found} for count in (flops.model_flops, flops.hardware_flops))
    assert len(model) == 1
    assert max(hardware) == pytest.approx(min(hardware), rel=1e-3)  # ranks of a group have equal parts
    assert all(job.batch is not None and job.batch.padding < 0.01 for job in found)


def test_balance_leaves_less_waiting_than_taking_documents_as_they_come() -> None:
    naive, own = (simulate(scenario(batching, batch=32)).metrics for batching in (NAIVE, HYBRID))
    assert own["straggler_fraction"] < naive["straggler_fraction"]
    assert own["rank_imbalance"] < naive["rank_imbalance"]
    assert own["step_time_s"] < naive["step_time_s"]


def test_short_documents_do_not_pay_for_the_longest_where_rings_are_slow() -> None:
    """On two nodes, against one ring for all."""
    shape: dict[str, Any] = {"nodes": 2, "batch": 8, "sequence": 32768, "cp_kind": "zigzag"}
    tail = {"lognormal": [500, 1.2], "high": 32768}
    static = simulate(scenario({"policy": "first-fit"}, tail, cp=16, **shape))
    own = simulate(scenario(HYBRID, tail, **shape))
    assert own.metrics["tokens_per_s"] > static.metrics["tokens_per_s"]
    assert own.metrics["exposed_communication_s"] < static.metrics["exposed_communication_s"]


@pytest.mark.parametrize(
    ("batching", "more", "message"),
    [
        (
            {"policy": "hybrid", "capacity": 1024},
            {},
            "16,384 tokens need 16 ranks with room for 1,024 each, there are 8",
        ),
        (HYBRID, {"cp": 2}, "cp 2: groups are made of data-parallel ranks"),
        (HYBRID, {"order": "tp-cp-ep-pp-dp"}, "in the usual order of ranks"),
        (HYBRID, {"cp_kind": "usp"}, "`cp_kind: usp` has no way to attend within packed documents"),
        (HYBRID, {"shape": jobs.model(heads=4, hidden=1024)}, "more than the 4 attention heads"),
    ],
)
def test_what_groups_cannot_do_is_refused(batching: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_job(scenario(batching, **more))


@pytest.mark.parametrize("policy", ["hybrid", "flexible"])
def test_a_capacity_that_the_hint_names_is_enough(policy: str) -> None:
    """Groups have a power of two of ranks: six ranks hold no more of one document than four do."""
    shape: dict[str, Any] = {"nodes": 3, "tp": 4, "batch": 12, "cp_kind": "zigzag"}
    with pytest.raises(InputError) as refused:
        build_job(scenario({"policy": policy, "capacity": 2048}, **shape))
    assert refused.value.problems[0].hint == "write a capacity of 4,096 or more"
    build_job(scenario({"policy": policy, "capacity": 4096}, **shape))
