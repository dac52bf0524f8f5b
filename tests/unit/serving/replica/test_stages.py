"""Iterations of decodes on the stages of a pipeline take the same by the short way and by that of any iteration."""

import numpy as np
import pytest

import simulator.run  # noqa: F401
from simulator.run.serve import ServingRun, run_serving
from simulator.serving.replica.batch import Batch
from simulator.serving.replica.stages import Stages
from simulator.specs import load_scenario
from tests.short_ways import all_of

SERVICE = (
    "requests.count=40",
    "requests.arrivals.poisson=30 /s",
    "requests.lengths={prompt: {uniform: [10, 900]}, output: {uniform: [1, 200]}}",
)
PIPELINE = "+serving.parallel={pp: 2}"
CASES = {
    "two stages": (PIPELINE,),
    "four stages": ("+serving.parallel={pp: 4}",),
    "drafts": (PIPELINE, "+serving.speculation={kind: eagle, draft_length: 3, acceptance: 0.7}"),
    "a slow host": (PIPELINE, "+stack.schedules_ahead=true", "+stack.ahead_overhead=20 ms"),
    "blocks run out": (PIPELINE, "+serving.kv_cache={blocks: 150}"),
}


def served(changes: tuple[str, ...]) -> ServingRun:
    """A run of a small service."""
    return run_serving(load_scenario("serving/quickstart", [*SERVICE, *changes]).scenario)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_decodes_alone_are_priced_as_any_iteration(changes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def counted(stages: Stages, batch: Batch, n: int, extra: int) -> list[int]:
        taken.append(n)
        return short_way(stages, batch, n, extra)

    short_way = Stages._decoding
    monkeypatch.setattr(Stages, "_decoding", counted)
    short = all_of(served(changes))
    assert len(taken) > 20
    monkeypatch.setattr(Stages, "_decoding", Stages._general)
    long = all_of(served(changes))
    for name, value in short.items():
        np.testing.assert_equal(value, long[name], name)
