"""The bounds of layouts are lower bounds: of the step of every layout, and of its memory."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.run.kinds import TRAINING
from simulator.run.simulate import least_step_s
from simulator.study.layouts.floors import Floors
from simulator.study.layouts.layout import Layout
from simulator.study.layouts.machines import machines
from simulator.study.layouts.space import layouts, space
from tests.effort import simulations

CASES = {
    "dense": ("model.layers=8", "cluster.nodes=2"),
    "fsdp": ("model.layers=4", "stack=fsdp", "cluster.nodes=2"),
    "deepspeed": ("model.layers=4", "stack=deepspeed", "cluster.nodes=2"),
    "slow": ("model.layers=4", "stack=fsdp", "cluster.nodes=2", "cluster.node.nics.bandwidth.value=1 GB/s"),
    "old": ("model=models/gpt3-2.7b", "model.layers=8", "stack=megatron-lm-2021", "training.sequence_length=2048"),
    "experts": ("model=models/olmoe-1b-7b", "model.layers=4", "training.sequence_length=4096"),
    "long": ("model.layers=4", "training.sequence_length=65536", "cluster.nodes=2", "training.global_batch=16"),
    "offloaded": ("model.layers=8", "training.global_batch=32"),
}
ONLY = ("schedule=1f1b,interleaved-1f1b,gpipe,zb-h1,zb-v,v-half,dualpipev",)


@cache
def of(case: str) -> tuple[Floors, list[Layout]]:
    scenario = machines("scenarios/quickstart.yaml", CASES[case])[0].scenario
    only = (*ONLY, "offload=0,1") if case == "offloaded" else ONLY
    return Floors(scenario), list(layouts(space(scenario, only, ["all"])))


@simulations(25)
@given(case=st.sampled_from(sorted(CASES)), place=st.floats(0, 1, exclude_max=True))
def test_no_layout_is_faster_or_smaller_than_its_bounds(case: str, place: float) -> None:
    floors, every = of(case)
    layout = every[int(place * len(every))]
    need = floors.memory(layout)
    try:
        result = TRAINING.evaluate(layout.of(floors.scenario))
    except InputError:
        return
    assert not isinstance(need, str)
    step = floors.step(layout)
    assert step.compute <= step.communication <= step.bubble
    assert step.bubble <= result.metrics["step_time_s"] * (1 + 1e-9)
    assert 0 < least_step_s(layout.of(floors.scenario)) <= result.metrics["step_time_s"]
    assert need <= result.metrics["peak_memory_bytes"] * (1 + 1e-9)


@pytest.mark.parametrize("case", ["slow", "deepspeed"])
def test_what_is_gathered_around_every_pass_counts_in_every_microbatch(case: str) -> None:
    floors, every = of(case)
    wide = [one for one in every if one.zero == 3 and one.tp == 1 and one.pp == 1 and one.micro_batch == 1]
    for layout in wide[::7]:
        scenario = layout.of(floors.scenario)
        step_s, bounds = TRAINING.evaluate(scenario).metrics["step_time_s"], floors.step(layout)
        cut = floors.step(layout._replace(zero=0))
        assert cut.communication < bounds.communication <= step_s
        assert least_step_s(scenario) > 0.8 * step_s


@pytest.mark.parametrize("case", ["dense", "old"])
def test_the_bounds_say_something(case: str) -> None:
    """A bound of 0 would be one, too: here it is near the step."""
    floors, every = of(case)
    fitting = [one for one in every if one.schedule == "1f1b" and one.tp < 8][::97]
    for layout in fitting:
        metrics = TRAINING.evaluate(layout.of(floors.scenario)).metrics
        assert floors.step(layout).bubble > 0.75 * metrics["step_time_s"]
        assert floors.memory(layout) == pytest.approx(metrics["peak_memory_bytes"], rel=0.02)
