"""Attention on other devices: what it takes, what fits there, and what it cannot stand beside."""

from typing import Any

import pytest

from simulator.cli import main
from simulator.errors import InputError
from simulator.serving.costs.attention import FAR
from simulator.serving.costs.beside.remote_attention import longest
from simulator.serving.fleet.system import System, resolve
from simulator.specs import load_scenario
from simulator.units import TICKS_PER_SECOND

LAYERS, HIDDEN, GROUP, ROWS = 80, 8192, 8, 200
"""Of Llama-3-70B; sequences that decode."""
CARD, WAY = 40e9, 20e-6


def system(*overrides: str) -> System:
    changes = ("stack.graph_context=null", *overrides)  # a line in place of two
    return resolve(load_scenario("papers/lamina/apart-70b", changes).spec)[0]  # type: ignore[arg-type]


def elsewhere(more: str = "") -> System:
    return system(
        f"serving.remote_attention={{node: nodes/hgx-h20, devices: 4, bandwidth: 40 GB/s, latency: 20 us{more}}}"
    )


def line(found: System, context: int) -> int:
    segments = found.cost.stages[0].decode(ROWS)
    return next(base + slope * context for end, base, slope in segments if context <= end)


def test_queries_and_results_cross_the_network_in_every_layer() -> None:
    """(2 + 2 / G) e d bytes of a row over the cards of the narrower side, and both latencies (arXiv:2405.01814)."""
    cost = elsewhere().cost.stages[0]
    assert cost.remote is not None
    row = (2 + 2 / GROUP) * 2 * HIDDEN / (2 * CARD)
    wires = LAYERS * TICKS_PER_SECOND * (2 * WAY + ROWS * row)
    alone = cost.remote.there.decode(ROWS)
    for (end, base, slope), (last, own, rise) in zip(cost.decode(ROWS), alone, strict=True):
        assert (end, slope) == (last, rise)
        assert base - own == pytest.approx(wires, rel=1e-6)


def test_the_cache_is_that_of_the_devices_that_hold_it() -> None:
    """327,680 bytes a token over four H20, of whose memory 90 % are used, 1.5 GB of them by software."""
    found = elsewhere()
    device = found.kv_cache
    assert device.tiers == ()
    tokens = found.cost.blocks * found.cost.block_size
    assert tokens == pytest.approx(4 * (0.9 * 95.1 * 2**30 - 1.5e9) / 327_680, rel=1e-3)
    assert found.cost.ledger["kv cache"] == 0.0
    assert "4 x NVIDIA H20" in found.cost.warnings[-1]


def test_a_part_that_stays_is_attended_to_beside_the_rest() -> None:
    """Never less than either side alone, and as much as the longer of the two."""
    half = elsewhere(", share: 0.5, memory: 0.5 GB")
    remote = half.cost.stages[0].remote
    assert remote is not None
    wires = remote.base_ticks + remote.row_ticks * ROWS
    for context in (1_000, 100_000, 10_000_000):
        sides = [
            next(b + s * context / 2 for e, b, s in side.decode(ROWS) if context / 2 <= e)
            for side in (remote.here, remote.there)
        ]
        assert line(half, context) == pytest.approx(max(sides[0], sides[1] + wires), rel=1e-4)
    assert half.cost.blocks * half.cost.block_size == pytest.approx(4 * 0.5e9 / 327_680 / 0.5, rel=1e-2)


def test_the_longer_of_two_lines_changes_where_they_meet() -> None:
    first, second = ((FAR, 100, 1),), ((50, 20, 2), (FAR, 20, 4))
    found = longest(first, second)
    for context in (0, 10, 26, 27, 50, 51, 1000):
        segments = [next(b + s * context for e, b, s in lines if context <= e) for lines in (first, second)]
        assert next(b + s * context for e, b, s in found if context <= e) == max(segments)


def test_a_run_conserves_tokens_and_fast_forwards_alike() -> None:
    few = ("requests.count=12", "requests.arrivals.closed_loop.clients=6")
    assert main(["run", "papers/lamina/apart-70b", *few]) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("serving.remote_attention.devices=3", "do not divide the 8 key heads"),
        ("serving.parallel.pp=2", "replica of one stage"),
        ("serving.kv_cache.preemption=swap", "sequences that are swapped"),
        ("+serving.kv_cache.tiers=[{name: host, capacity: 10 GB}]", "tiers of the cache"),
        ("model=models/deepseek-v2-lite", "latents"),
        ("serving.remote_attention={node: nodes/mac-mini-m4, devices: 1}", "no network cards"),
    ],
)
def test_what_cannot_be_elsewhere(change: str, said: str) -> None:
    more = ["serving.kv_cache.prefix_caching=block"] if "tiers" in change else []
    more += ["serving.precision.weights=bf16", "cluster.nodes=2"] if "deepseek" in change else []
    with pytest.raises(InputError) as found:
        system(change, *more)
    assert said in str(found.value)


def test_a_share_above_all_is_refused(capsys: Any) -> None:
    assert main(["run", "papers/lamina/apart-70b", "serving.remote_attention.share=1.2"]) == 2
    assert "share" in capsys.readouterr().err
