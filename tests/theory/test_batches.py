"""Microbatches of uneven length in a step: equal ones are what they ever were, others last as long as they take."""

from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest

from simulator.program.actions import Kind
from simulator.program.codes import PASSES
from simulator.program.lump import lump
from simulator.program.piece import Piece
from simulator.results.result import Result
from simulator.run.gather import Run
from simulator.run.simulate import run, simulate
from simulator.specs.batching import Batching
from simulator.specs.scenario import Scenario
from simulator.specs.training import Documents, Lora
from simulator.training import flops
from simulator.training.build import build_job
from tests import jobs

FIGURES = ("step_time_s", "mfu", "hfu", "mfu_causal", "tokens_per_s", "samples_per_s", "bubble_fraction")
Node = tuple[Kind, int, int, str]
DRAWN = {"lognormal": [300, 1.0], "high": 1024}


def scenario(batching: Any, documents: Any = DRAWN, *, training: dict[str, Any] | None = None, **more: Any) -> Scenario:
    given: dict[str, Any] = {"attention": "fused", "batching": Batching.model_validate(batching)}
    if documents is not None:
        given["documents"] = Documents.model_validate(documents)
    return jobs.scenario(training=given | (training or {}), **more)


LAYOUTS: list[dict[str, Any]] = [
    {"tp": 2, "pp": 2, "batch": 8},
    {"tp": 2, "pp": 2, "vpp": 2, "batch": 16, "micro": 2},
    {"cp": 2, "pp": 2, "batch": 8},
    {"zero": 3, "software": jobs.stack("fsdp"), "batch": 16},
    {"pp": 4, "zero": 1, "batch": 16, "software": jobs.stack("megatron-core")},
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("policy", ["pad", "grid"])
def test_equal_lengths_are_a_plain_step_to_the_tick(layout: dict[str, Any], policy: str) -> None:
    micro = layout.get("micro", 1)
    made = {"policy": policy, **({"shapes": [[micro, 512]]} if policy == "grid" else {})}
    even = simulate(scenario(made, 512 if policy == "pad" else None, **layout))
    plain = simulate(jobs.scenario(sequence=512, training={"attention": "fused"}, **layout))
    assert {name: even.metrics[name] for name in FIGURES} == pytest.approx(
        {name: plain.metrics[name] for name in FIGURES}, rel=1e-12
    )
    assert even.metrics["step_time_s"] == plain.metrics["step_time_s"]
    assert even.metrics["peak_memory_bytes"] == plain.metrics["peak_memory_bytes"]
    assert even.provenance["classes"] == plain.provenance["classes"]
    assert (even.metrics["padding_fraction"], even.metrics["rank_imbalance"]) == (0.0, 1.0)


def test_one_pack_of_documents_is_what_listed_documents_are() -> None:
    """A pack of 512, 256 and 256 tokens in each of 16 microbatches."""
    listed = [512, 256, 256] * 16
    packed = simulate(scenario({"policy": "cut"}, listed, tp=2, pp=2))
    plain = simulate(
        jobs.scenario(
            tp=2, pp=2, training={"attention": "fused", "documents": Documents.model_validate([512, 256, 256])}
        )
    )
    same = set(FIGURES) - {"samples_per_s", "mfu_causal"}
    assert {name: packed.metrics[name] for name in same} == pytest.approx(
        {name: plain.metrics[name] for name in same}, rel=1e-12
    )
    assert packed.metrics["mfu_causal"] == pytest.approx(plain.metrics["mfu_causal"], rel=1e-4)
    assert packed.metrics["samples_per_s"] == pytest.approx(3 * plain.metrics["samples_per_s"])


def test_a_rank_computes_what_its_microbatches_take_by_themselves() -> None:
    """Without pipeline and overlap: each microbatch is a step of its own, less what ends the step."""
    shape = {"devices": 1, "batch": 2}
    long, short, both = (
        simulate(scenario({"policy": "pad"}, lengths, **shape)).breakdown[0]
        for lengths in ([1024] * 2, [256] * 2, [1024, 256])
    )
    parts = ("compute", "recompute")
    for part in parts:
        assert both[part] == pytest.approx((long[part] + short[part]) / 2, rel=1e-9)
    assert both["optimizer"] == long["optimizer"] == short["optimizer"]


def longest(done: Run) -> int:
    """Ticks until the last pass has ended: the longest path through passes and sends, each of which lasts by its own
    microbatch; ranks run their passes and sends in order."""
    costs, actions = done.classes.costs[0], done.job.schedule.actions()
    graph = nx.DiGraph()

    def add(node: Node, piece: Piece | None, pieces: list[Piece], *after: Node | None) -> Node:
        graph.add_node(node, ticks=lump(pieces).ticks if piece is None else piece.ticks)
        graph.add_edges_from((one, node) for one in after if one is not None)
        return node

    for row in actions:
        lane: dict[str, Node | None] = dict.fromkeys(("compute", "forward", "backward"))
        for one in row:
            stage, micro, size = one.stage, one.microbatch, int(costs.sizes[one.microbatch])
            forward = one.kind is Kind.F
            other = stage - 1 if forward else stage + 1
            sent = (one.kind, other, micro, "send") if 0 <= other < len(actions) else None
            passes = costs.passes[size][stage]
            own: Node = (one.kind, stage, micro, "pass")
            lane["compute"] = add(own, None, passes.forward if forward else passes.backward, lane["compute"], sent)
            if 0 <= (to := stage + 1 if forward else stage - 1) < len(actions):
                way = "forward" if forward else "backward"
                piece = costs.send_forward[size][stage] if forward else costs.send_backward[size][to]
                lane[way] = add((one.kind, stage, micro, "send"), piece, [], lane[way], own)
    ends: dict[Node, int] = {}
    for node in nx.topological_sort(graph):
        ends[node] = max((ends[one] for one in graph.predecessors(node)), default=0) + graph.nodes[node]["ticks"]
    return max(ends.values())


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("pp", [2, 4])
@pytest.mark.parametrize("lengths", [[1024, 256, 256, 256], [256, 256, 256, 1024], [128, 1024, 512, 768]])
def test_a_pipeline_of_uneven_microbatches_ends_on_its_longest_path(lengths: list[int], pp: int, schedule: str) -> None:
    training = {"schedule": schedule, "overlap_pipeline": True}
    done = run(scenario({"policy": "pad"}, lengths, devices=pp, pp=pp, batch=4, training=training))
    passes = np.isin(done.program.columns.kind, PASSES)
    assert int(done.timeline.end[passes].max()) == longest(done)


def test_a_long_microbatch_makes_bubbles_that_equal_ones_do_not() -> None:
    """The same tokens: 1024 + 3 x 256 beside 4 x 448."""
    shape = {"devices": 4, "pp": 4, "batch": 4}
    uneven, even = (
        simulate(scenario({"policy": "pad"}, lengths, **shape)).metrics["bubble_fraction"]
        for lengths in ([1024, 256, 256, 256], [448] * 4)
    )
    assert uneven > even


@pytest.mark.parametrize(
    "layout",
    [
        {"devices": 4, "batch": 8},
        {"devices": 4, "pp": 2, "batch": 8},
        {"devices": 4, "batch": 8, "software": jobs.stack("fsdp"), "zero": 3},
        {"devices": 4, "batch": 8, "zero": 1, "software": jobs.stack("megatron-core")},
    ],
)
def test_waiting_for_slower_ranks_is_told_and_parts_add_up(layout: dict[str, Any]) -> None:
    result = simulate(scenario({"policy": "pad"}, [1024, 128, 1024, 256] * 2, **layout))
    step = result.metrics["step_time_s"]
    assert all(sum(parts.values()) == pytest.approx(step, rel=1e-9) for parts in result.breakdown)
    assert max(parts.get("straggler", 0.0) for parts in result.breakdown) > 0.05 * step
    weight = [one.ranks for one in result.classes]
    late = sum(parts.get("straggler", 0.0) * ranks for parts, ranks in zip(result.breakdown, weight, strict=True))
    assert result.metrics["straggler_fraction"] == pytest.approx(late / sum(weight) / step)


def test_the_wait_is_what_the_slowest_rank_works_longer() -> None:
    """Two ranks without pipeline and overlap: 2 x 1,024 tokens, and 2 x 256."""
    result = simulate(scenario({"policy": "pad"}, [1024, 256] * 2, devices=2, batch=4))
    slow, fast = result.breakdown
    assert "straggler" not in slow or slow["straggler"] == 0.0
    work = [parts["compute"] + parts["recompute"] for parts in (slow, fast)]
    assert fast["straggler"] == pytest.approx(work[0] - work[1], rel=1e-9)
    assert result.metrics["rank_imbalance"] == pytest.approx(result.metrics["microbatch_imbalance"])


@pytest.mark.parametrize("policy", ["pad", "cut", "first-fit", "balanced"])
@pytest.mark.parametrize("layout", [{"tp": 2, "pp": 2, "batch": 8}, {"batch": 16, "zero": 1}])
def test_folding_changes_nothing(policy: str, layout: dict[str, Any]) -> None:
    exact, none = (simulate(scenario({"policy": policy}, **layout), fold=fold) for fold in ("exact", "none"))
    assert exact.metrics == pytest.approx(none.metrics, rel=1e-9)
    assert exact.provenance["classes"] < none.provenance["classes"] or layout.get("zero")


def test_ranks_of_equal_microbatches_fold_and_others_do_not() -> None:
    def classes(lengths: list[int]) -> int:
        return int(simulate(scenario({"policy": "pad"}, lengths, batch=8)).provenance["classes"])

    assert classes([512] * 8) == 1
    assert classes([512, 256] * 4) == 2
    assert classes([128 * (place + 1) for place in range(8)]) == 8


def test_balanced_packs_make_no_longer_steps_than_first_fit() -> None:
    shape = {"devices": 8, "batch": 64, "sequence": 8192}
    lengths = {"lognormal": [700, 1.3], "high": 8192}
    first, by_work = (
        simulate(scenario({"policy": policy}, lengths, **shape)).metrics for policy in ("first-fit", "balanced")
    )
    assert by_work["microbatch_imbalance"] <= first["microbatch_imbalance"]
    assert by_work["tokens_per_s"] >= first["tokens_per_s"]
    assert by_work["straggler_fraction"] < first["straggler_fraction"]


def test_buckets_leave_less_padding_than_sequences_as_they_come() -> None:
    shape, lengths = {"batch": 64, "micro": 8}, {"lognormal": [200, 1.0], "high": 1024}
    found = {
        name: simulate(scenario(batching, lengths, **shape)).metrics
        for name, batching in {
            "context": {"policy": "pad", "fill": "context"},
            "longest": {"policy": "pad"},
            "bound": {"policy": "bucket", "buckets": [64, 128, 256, 512], "fill": "bucket"},
            "bucket": {"policy": "bucket", "buckets": [64, 128, 256, 512]},
        }.items()
    }
    padding = [found[name]["padding_fraction"] for name in ("context", "longest", "bound", "bucket")]
    assert padding == sorted(padding, reverse=True)
    assert found["bucket"]["mfu"] > found["longest"]["mfu"] >= found["context"]["mfu"]  # the slowest rank decides


def test_padding_of_uniform_lengths_in_closed_form() -> None:
    """Lengths uniform on (0, L], B at a time: the longest is L B / (B + 1) on average, the mean L / 2."""
    shape, lengths = {"devices": 1, "batch": 4000, "micro": 4}, {"uniform": [1, 1024]}
    batch = build_job(scenario({"policy": "pad"}, lengths, **shape)).batch
    assert batch is not None
    assert batch.padding == pytest.approx(1 - 0.5 * 5 / 4, abs=0.01)


def test_flops_count_lengths_once_and_padding_beside() -> None:
    """Two sequences of 1,024 and 256 tokens in one microbatch: devices work on twice the longer."""
    of = build_job(scenario({"policy": "pad"}, [1024, 256], devices=1, batch=2, micro=2))
    assert of.batch is not None

    def plain(length: int) -> float:
        return flops.model_flops(
            build_job(jobs.scenario(devices=1, batch=1, sequence=length, training={"attention": "fused"}))
        )

    assert flops.model_flops(of) == pytest.approx(plain(1024) + plain(256))
    again = build_job(jobs.scenario(devices=1, batch=2, micro=2, training={"attention": "fused"}))
    assert flops.hardware_flops(of) == pytest.approx(flops.hardware_flops(again))


def test_flops_of_frozen_matrices_are_those_of_each_length() -> None:
    """Adapters beside frozen matrices, which have no gradients of weights."""
    lora = {"lora": Lora(rank=4), "attention": "fused"}
    of = build_job(scenario({"policy": "pad"}, [1024, 256], devices=1, batch=2, training=lora))
    each = [build_job(jobs.scenario(devices=1, batch=1, sequence=length, training=lora)) for length in (1024, 256)]
    assert flops.model_flops(of) == pytest.approx(sum(map(flops.model_flops, each)))
    assert flops.hardware_flops(of) == pytest.approx(sum(map(flops.hardware_flops, each)))


def test_speech_pads_both_of_its_sequences() -> None:
    """An encoder's and a decoder's lengths: buckets of both leave less padding than buckets of one."""
    shape = jobs.model(encoder_layers=8)
    given = {
        "encoder_sequence_length": 3000,
        "encoder_documents": Documents.model_validate({"uniform": [100, 3000]}),
    }

    def padding(batching: dict[str, Any]) -> float:
        of = scenario(
            {"correlation": 0.8, **batching}, {"uniform": [10, 500]}, shape=shape, batch=256, micro=8, training=given
        )
        return simulate(of).metrics["padding_fraction"]

    rows, columns = [125, 250, 375], [750, 1500, 2250]
    naive = padding({"policy": "pad"})
    one = padding({"policy": "bucket", "buckets": [500], "encoder_buckets": columns})
    two = padding({"policy": "bucket", "buckets": rows, "encoder_buckets": columns})
    assert two < one < naive


def test_a_grid_of_shapes_has_the_same_tokens_in_every_microbatch() -> None:
    """Multigrid: half the frames, an eighth of the tokens, eight times the clips."""
    result = simulate(scenario({"policy": "grid", "shapes": [[1, 1024], [2, 512], [8, 128]]}, None, devices=1, batch=6))
    plain = simulate(jobs.scenario(devices=1, batch=6, training={"attention": "fused"}))
    assert result.metrics["samples_per_s"] * result.metrics["step_time_s"] == pytest.approx(22)
    assert result.metrics["padding_fraction"] == 0.0
    assert result.metrics["step_time_s"] < plain.metrics["step_time_s"]


@pytest.mark.parametrize("policy", ["pad", "first-fit"])
def test_a_rank_keeps_what_its_own_microbatches_keep(policy: str) -> None:
    """The longest sequence of a rank decides its peak."""
    result: Result = simulate(scenario({"policy": policy}, [1024, 256] * 8, devices=2, batch=8))
    peaks = Counter(round(use.peak) for use in result.memory)
    assert len(peaks) == (2 if policy == "pad" else len(peaks))
    plain = simulate(jobs.scenario(devices=2, batch=8, training={"attention": "fused"}))
    assert max(peaks) <= round(plain.metrics["peak_memory_bytes"]) + 1
