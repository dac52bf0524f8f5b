"""A model spread over cards layer by layer (llama.cpp): prompts stream through them, one card decodes at a time."""

import pytest

from simulator.run.serve import run_serving
from simulator.serving.fleet.system import resolve
from simulator.specs import load_spec
from simulator.specs.distribution import Distribution
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Arrivals, Lengths, Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, KvCache, Layout, NumberFormats, Serving, ServingStack


def scenario(cards: int, prompt: int, output: int, **stack: object) -> ServingScenario:
    """One request of Llama 3 8B on some RTX 3090."""
    software = load_spec(ServingStack, "llama.cpp").model_copy(update=stack)
    return ServingScenario(
        version=1,
        name="x",
        cluster=load_spec(Cluster, "workstation-4x-rtx-3090"),
        model=load_spec(Model, "llama-3-8b"),
        stack=software,
        serving=Serving(
            parallel=Layout(pp=cards),
            precision=NumberFormats(weights="fp16"),
            batching=Batching(max_sequences=1),
            kv_cache=KvCache(watermark=0.0),
        ),
        requests=Requests(
            arrivals=Arrivals(at_once=True),
            count=1,
            lengths=Lengths(prompt=Distribution(fixed=prompt), output=Distribution(fixed=output)),
        ),
    )


def times(cards: int, prompt: int, output: int) -> tuple[int, int]:
    """(ticks to the first token, ticks from it to the last)."""
    ledger = run_serving(scenario(cards, prompt, output)).ledger
    return ledger.first_token[0], ledger.finish[0] - ledger.first_token[0]


def test_pieces_of_a_prompt_follow_each_other_from_card_to_card() -> None:
    """8 pieces on 4 stages take 11 steps of a quarter: 2.9 times as fast at best; later pieces read more keys."""
    one, four = times(1, 4096, 1)[0], times(4, 4096, 1)[0]
    assert 2.2 < one / four < 2.95


def test_a_single_piece_and_decoding_gain_nothing() -> None:
    assert times(4, 512, 1)[0] == pytest.approx(times(1, 512, 1)[0], rel=0.05)
    assert times(4, 64, 64)[1] == pytest.approx(times(1, 64, 64)[1], rel=0.05)


def test_scores_in_memory_cost_their_bytes() -> None:
    fused, unfused = (
        resolve(scenario(1, 512, 1, attention_kernel=kernel))[0].cost.stages[0] for kernel in ("fa2", "unfused")
    )
    far = 100_000
    extra = (unfused.prompt(512, far) - fused.prompt(512, far)) / 1e12
    assert fused.prompt(512, far) < unfused.prompt(512, far)
    # Two bytes written and two read by products, twenty and the mask's four by ggml's own kernels.
    traffic = 32 * 32 * 28.0 * 512 * (far + 512) / 936e9
    assert extra < 2 * traffic
    assert unfused.prompt(512, far) / 1e12 > traffic
