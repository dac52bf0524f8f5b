"""What layers with a state cost a service, and what memory they take: none of it depends on the tokens before."""

from functools import cache
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.serving.costs.iteration import ReplicaCost, compile_costs
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.serving import KvCache, Layout, NumberFormats, ServingStack

NANO = "nemotron-3-nano-30b-a3b"


@cache
def price(name: str, tp: int = 1, pp: int = 1, **cache_of: Any) -> ReplicaCost:
    cluster, stack = load_spec(Cluster, "dgx-h100"), load_spec(ServingStack, "vllm")
    model, layout = load_spec(Model, f"models/{name}"), Layout(tp=tp, pp=pp)
    return compile_costs(model, layout, NumberFormats(), stack, cluster, 8192, KvCache(**cache_of), 2048, 64)


def ticks(cost: ReplicaCost, sequences: int, context: int) -> int:
    return next(base + slope * context for end, base, slope in cost.stages[0].decode(sequences) if context <= end)


def test_a_step_of_states_does_not_know_the_tokens_before() -> None:
    cost = price("mamba-2-1.3b")
    assert ticks(cost, 8, 8 * 100) == ticks(cost, 8, 8 * 8000) > 0
    assert ticks(cost, 64, 1) - ticks(cost, 32, 1) == pytest.approx(ticks(cost, 32, 1) - ticks(cost, 0, 1), rel=0.5)
    assert ticks(price(NANO), 8, 8 * 8000) > ticks(price(NANO), 8, 8 * 100)


def test_prompts_are_linear_and_cut_in_chunks_cost_the_same_but_for_launches() -> None:
    stage = price("mamba-2-1.3b").stages[0]
    assert stage.prompt(1024, 0) == stage.prompt(1024, 4096)
    one, two, four = (stage.prompt(1024 * n, 0) for n in (1, 2, 4))
    assert four - two == pytest.approx(2 * (two - one), rel=1e-6)
    assert stage.prompts([(1024, 0), (1024, 0)]) < 2 * one


def test_states_are_the_published_bytes_and_keys_only_those_of_attention() -> None:
    cost = price(NANO)
    assert cost.state_replica_bytes / 1e6 == pytest.approx(49, rel=0.01)
    assert cost.kv_token_bytes == 6 * 2 * 2 * 128 * 2
    assert cost.state_blocks == -(-cost.state_replica_bytes // (cost.kv_token_bytes * cost.block_size))
    two = price(NANO, tp=2)
    assert two.state_replica_bytes == pytest.approx(cost.state_replica_bytes, rel=0.01)


def test_a_model_without_attention_has_a_block_for_each_sequence() -> None:
    cost = price("mamba-2-1.3b")
    assert (cost.block_size, cost.state_blocks, cost.kv_token_bytes) == (8192, 0, 0)
    assert cost.ledger["kv cache"] == pytest.approx(cost.blocks * cost.state_replica_bytes)
    assert cost.fits


def test_stages_hold_the_states_of_their_own_layers() -> None:
    whole, cut = price(NANO), price(NANO, pp=2)
    assert cut.state_replica_bytes == pytest.approx(whole.state_replica_bytes)
    assert cut.blocks > whole.blocks


def test_heads_of_states_are_cut_too_and_estimates_say_so() -> None:
    with pytest.raises(InputError, match="tp 8 does not divide the 4 heads"):
        price("gla-1.3b", tp=8)
    assert any("`mamba2` layers are not measured" in said for said in price(NANO).warnings)
