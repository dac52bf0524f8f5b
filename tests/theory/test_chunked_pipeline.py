"""Pieces of a prompt that follow each other through the stages of a replica: (C + p - 1) t in place of C p t."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.run.serve import serve
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario
from tests.effort import simulations
from tests.replicas import TOKENS, Setting, asked, check, run

STREAM = Setting(price=TOKENS, budget=100, most=4, blocks=100_000, streams=True)


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("pieces", [1, 5, 40])
@pytest.mark.parametrize("hop", [0, 3])
def test_the_first_token_of_a_long_prompt(stages: int, pieces: int, hop: int) -> None:
    """Equal pieces of 100 tokens of 10 ticks each; `hop` ticks a row when they leave a stage."""
    setting = replace(STREAM, stages=stages, price=replace(TOKENS, hop=hop))
    (first,) = run(asked([(0, 100 * pieces, 1)]), setting).ledger.first_token
    each, way = 1000, 100 * hop * stages if stages > 1 else 0
    assert first == (pieces + stages - 1) * each + way
    (whole,) = run(asked([(0, 100 * pieces, 1)]), replace(setting, streams=False)).ledger.first_token
    assert whole == pieces * (stages * each + way)


@given(stages=st.integers(2, 5), pieces=st.integers(1, 9), pair=st.integers(1, 3), rest=st.integers(0, 99))
@simulations(30)
def test_pieces_that_grow_by_a_recursion(stages: int, pieces: int, pair: int, rest: int) -> None:
    """Later pieces see more context: end of piece c on stage s = max(of c - 1 on s, of c on s - 1) + ticks of c."""
    setting = replace(STREAM, stages=stages, price=replace(TOKENS, pair=pair))
    sizes = [100] * pieces + ([rest] if rest else [])
    (first,) = run(asked([(0, sum(sizes), 1)]), setting).ledger.first_token
    end = [0] * stages
    before = 0
    for size in sizes:
        ready = 0
        for stage in range(stages):
            ready = end[stage] = max(end[stage], ready) + 10 * size + pair * size * (before + size)
        before += size
    assert first == end[-1]


@pytest.mark.parametrize("policy", ["vllm-v1", "sarathi", "prefill-first"])
def test_nothing_is_lost_beside_decodes_and_first_tokens_come_sooner(policy: str) -> None:
    random = np.random.default_rng(3)
    rows = np.stack(
        [np.cumsum(random.integers(0, 90_000, 60)), random.integers(1, 900, 60), random.integers(1, 30, 60)], axis=1
    ).tolist()
    setting = replace(STREAM, policy=policy, stages=3)
    streamed, whole = (run(asked(rows), replace(setting, streams=streams)) for streams in (True, False))
    check(streamed)
    mean = [float((ran.times("first_token") - ran.times("arrival")).mean()) for ran in (streamed, whole)]
    assert mean[0] < mean[1]


def test_a_scenario_divides_its_first_token_by_nearly_its_stages() -> None:
    """128,000 tokens in pieces of 2,048 over four stages; without stages to follow it says that it has no effect."""
    base = [
        "model=models/llama-3.1-8b",
        "serving.context=131072",
        "requests.count=1",
        "requests.lengths={prompt: {fixed: 128000}, output: {fixed: 2}}",
        "serving.replicas=1",
        "serving.batching={token_budget: 2048, max_sequences: 16}",
        "serving.parallel={pp: 4}",
    ]
    found = []
    for more in ([], ["serving.batching.chunked_pipeline=true"]):
        scenario = load_scenario("scenarios/serving/quickstart.yaml", [*base, *more]).scenario
        assert isinstance(scenario, ServingScenario)
        found.append(serve(scenario).metrics["mean_ttft_ms"])
    pieces = 128_000 / 2048
    assert found[0] / found[1] == pytest.approx(4 * pieces / (pieces + 3), rel=0.05)
    one = load_scenario("scenarios/serving/quickstart.yaml", [*base[:6], "+serving.batching.chunked_pipeline=true"])
    assert isinstance(one.scenario, ServingScenario)
    assert any("has no effect with one stage" in warning for warning in serve(one.scenario).warnings)


def test_a_word_that_is_no_yes_or_no_is_refused() -> None:
    with pytest.raises(InputError, match="chunked_pipeline"):
        load_scenario("scenarios/serving/quickstart.yaml", ["+serving.batching.chunked_pipeline=perhaps"])
