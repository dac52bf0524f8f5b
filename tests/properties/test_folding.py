"""Folding changes nothing: classes against every chain on its own, over random layouts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.results.result import Result
from simulator.run.simulate import simulate
from simulator.specs import load_spec
from simulator.specs.model import Model
from tests import jobs
from tests.effort import simulations

LAYOUTS = st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))


def by_rank(result: Result) -> dict[str, float]:
    """Mean seconds of each part of the breakdown over all ranks."""
    total = sum(c.ranks for c in result.classes)
    keys = result.breakdown[0].keys()
    return {
        k: sum(part[k] * c.ranks for part, c in zip(result.breakdown, result.classes, strict=True)) / total
        for k in keys
    }


@simulations(25)
@given(
    layout=LAYOUTS,
    microbatches=st.sampled_from([2, 4]),
    zero=st.sampled_from([0, 1, 2, 3]),
    overlap=st.booleans(),
    cluster=st.sampled_from(["generic-a100", "efa-p4d", "frontier"]),
)
def test_folded_equals_unfolded(
    layout: tuple[int, int, int], microbatches: int, zero: int, overlap: bool, cluster: str
) -> None:
    tp, pp, vpp = layout
    dp = 16 // (tp * pp)
    scenario = jobs.scenario(
        nodes=2,
        devices=8,
        on=cluster,
        batch=dp * microbatches * (pp if vpp > 1 else 1),
        tp=tp,
        pp=pp,
        vpp=vpp if pp > 1 else 1,
        zero=zero,
        software=jobs.stack(overlap_gradients=overlap, overlap_parameters=overlap),
    )
    folded, whole = simulate(scenario, fold="exact"), simulate(scenario, fold="none")
    assert len(folded.classes) <= len(whole.classes)
    rounding = max(len(whole.spans.start), 1) * 1e-12
    assert folded.metrics["step_time_s"] == pytest.approx(whole.metrics["step_time_s"], rel=1e-9, abs=rounding)
    for key, value in by_rank(whole).items():
        assert by_rank(folded)[key] == pytest.approx(value, rel=1e-9, abs=rounding)
    for result in (folded, whole):
        for part in result.breakdown:
            assert sum(part.values()) == pytest.approx(result.metrics["step_time_s"], rel=1e-9)


def test_waits_are_of_the_same_kinds_where_ranks_that_a_layer_is_cut_over_begin_together() -> None:
    """Each chain alone meets those of its tensor group before every pass, as they are classes of their own there."""
    scenario = jobs.scenario(
        nodes=4,
        devices=8,
        on="l40s-cluster",
        shape=load_spec(Model, "llama-3-8b").model_copy(update={"layers": 8}),
        sequence=512,
        batch=8,
        micro=2,
        tp=4,
        pp=2,
        vpp=2,
        zero=1,
        software=jobs.stack("deepspeed"),
        training={"schedule": "zb-v"},
    )
    folded, whole = simulate(scenario, fold="exact"), simulate(scenario, fold="none")
    assert len(folded.classes) < len(whole.classes)
    for key, value in by_rank(whole).items():
        assert by_rank(folded)[key] == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_tiers_name_their_bound() -> None:
    scenario = jobs.scenario(nodes=2, batch=16, tp=2, pp=2)
    result = simulate(scenario, fold="tiers")
    assert result.provenance["fold"] == "tiers"
    assert result.provenance["fold_error_bound"] == 0
    assert result.metrics["step_time_s"] == simulate(scenario, fold="exact").metrics["step_time_s"]
