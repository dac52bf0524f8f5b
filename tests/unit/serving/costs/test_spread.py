"""Rows and experts of the busiest device: closed forms, by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cost import compile_device
from simulator.cost.experts import experts_hit
from simulator.errors import InputError
from simulator.serving.costs.formats import resolve_formats
from simulator.serving.costs.operators import Experts, Gemm, Shard, layer
from simulator.serving.costs.spread import Spread, shared_among
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.serving import NumberFormats, ServingStack
from simulator.specs.training import RouterLoad
from tests import jobs

SHAPE = jobs.model(experts=8, top_k=2)
WIDE = jobs.model(experts=64, top_k=4)


def spread(devices: int = 4, model: Any = SHAPE, **load: object) -> Spread:
    return Spread(model, devices, RouterLoad.model_validate(load))


def busiest(of: Spread, rows: int) -> tuple[float, float]:
    found = list(of.work(np.array([rows])))
    return max(float(here[0]) for here, _ in found), max(float(hit[0]) for _, hit in found)


def test_experts_that_rows_touch_in_closed_form() -> None:
    """64 experts, 4 each: one row touches 4, sixteen 64 (1 - (15 / 16)^16), many all."""
    rows = np.array([1, 16, 100_000])
    expected = [4, 64 * (1 - (15 / 16) ** 16), 64]
    assert experts_hit(rows, 64, 4) == pytest.approx(expected)
    ((_, hit),) = spread(4, WIDE).work(rows)
    assert hit == pytest.approx([1, expected[1] / 4, 16])


def test_experts_touched_agree_with_draws() -> None:
    random = np.random.default_rng(1)
    found = [len(np.unique([random.choice(64, 4, replace=False) for _ in range(24)])) for _ in range(400)]
    assert np.mean(found) == pytest.approx(float(experts_hit(np.array([24]), 64, 4)[0]), rel=0.01)


def test_the_busiest_device_under_zipf_by_hand() -> None:
    """Shares 1, 1/2, ... 1/8 over their sum H; in order, two experts a device: the first has 1.5 / H of all copies."""
    whole = sum(1 / n for n in range(1, 9))
    here, hit = busiest(spread(load="zipf"), 100)
    assert here == pytest.approx(100 * 1.5 / whole)
    assert hit == pytest.approx(2, rel=1e-6)
    few = busiest(spread(load="zipf"), 3)[1]
    chosen = [min(1.0, 2 * share / whole) for share in (1, 1 / 2)]
    assert few == pytest.approx(sum(1 - (1 - one) ** 3 for one in chosen))


def test_packed_experts_and_copies_by_hand() -> None:
    """Counts 4, 2, 1, 1, 0, ...: packed, the busiest has 4 of 8; a copy more on each device: the first expert is there
    four times, the second twice, and every device has 2 of 8."""
    counts = [4, 2, 1, 1, 0, 0, 0, 0]
    assert busiest(spread(load="counts", counts=counts), 800)[0] == pytest.approx(600)
    assert busiest(spread(load="counts", counts=counts, placement="packed"), 800)[0] == pytest.approx(400)
    copied = spread(load="counts", counts=counts, placement="packed", replicas=1)
    assert (copied.slots, busiest(copied, 800)[0]) == (3, pytest.approx(200))


def test_all_rows_on_the_same_experts() -> None:
    here, hit = busiest(spread(load="degenerate"), 10)
    assert (here, hit) == (pytest.approx(10), pytest.approx(2))


def test_no_rows_have_no_busiest_device() -> None:
    """Ranges of rows that no batch reaches are priced as arrays without entries."""
    assert len(spread(16, WIDE, load="random").hottest(np.array([], np.int64))) == 0


def test_rows_that_choose_freely_are_uneven_where_there_are_few() -> None:
    few, many = (spread(16, WIDE, load="random").hottest(np.array([rows]))[0] for rows in (64, 1 << 18))
    assert 1 < many < 1.02 < few
    random = np.random.default_rng(2)
    draws = [
        np.bincount(random.choice(64, 4 * 64) // 4, minlength=16).max() / 16 for _ in range(500)
    ]  # 256 copies over 16 devices: 16 each
    assert few == pytest.approx(np.mean(draws), rel=0.03)


def test_unevenly_chosen_experts_fill_devices_unevenly_however_many_rows_there_are() -> None:
    """One device reads fewer experts; of several the popularity of experts decides who has most rows, unless a balancer
    packs them."""
    rows = np.array([1, 16, 100_000])
    ((here, hit),) = spread(1, WIDE, load="uneven").work(rows)
    assert here == pytest.approx(rows) and hit == pytest.approx(experts_hit(rows, 64, 4, 0.5))
    many = np.array([1 << 18])
    uneven, even = (spread(16, WIDE, load=load).hottest(many)[0] for load in ("uneven", "random"))
    packed = spread(16, WIDE, load="uneven", placement="packed").hottest(many)[0]
    liked = np.random.default_rng(3).dirichlet(np.full(64, 2.0), 4000).reshape(4000, 16, 4).sum(axis=2)
    assert uneven == pytest.approx(16 * np.mean(liked.max(axis=1)), rel=0.06)
    assert packed == even < 1.02
    wide = spread(16, WIDE, load="uneven", variance=2.0).hottest(many)[0]
    assert wide > uneven
    few = busiest(spread(4, WIDE, load="uneven"), 8)[1], busiest(spread(4, WIDE, load="random"), 8)[1]
    assert few[0] < 1.1 * few[1]


@given(
    counts=st.lists(st.integers(0, 1000), min_size=16, max_size=16).filter(any),
    devices=st.sampled_from([2, 4, 8]),
    replicas=st.integers(0, 1),
)
def test_a_balancer_never_makes_the_busiest_device_busier(counts: list[int], devices: int, replicas: int) -> None:
    model = jobs.model(experts=16, top_k=2)
    without = spread(devices, model, load="counts", counts=counts).held.max()
    with_it = spread(devices, model, load="counts", counts=counts, replicas=replicas, placement="packed").held.max()
    assert with_it <= without * (1 + 1e-12)


def test_devices_that_do_not_divide_the_experts_are_filled_up_with_copies() -> None:
    """DeepSeek's decode: 256 experts on 144 devices, 32 of them twice (arXiv:2412.19437, section 3.4.2)."""
    model = jobs.model(experts=256, top_k=8)
    found = spread(144, model, placement="packed")
    assert found.slots == 2 and found.held.sum() == pytest.approx(1)
    assert found.held.max() * 144 == pytest.approx(144 * 2 / 256)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"capacity": 1.0}, "capacity"),
        ({"replicas": 7}, "7 replicas a device of 8 experts"),
        ({"load": "counts", "counts": [1.0]}, "1 numbers for the 8 experts"),
    ],
)
def test_loads_that_do_not_fit_are_refused(load: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        spread(**load)


DEEPSEEK = load_spec(Model, "deepseek-v3")
MIXED = next(kind for kind in DEEPSEEK.kinds if kind.mlp == "moe")


@pytest.mark.parametrize(("devices", "ranks", "expected"), [("dgx-h100", 1, 1), ("dgx-h100", 8, 0), ("dgx-b200", 1, 0)])
def test_sglang_runs_shared_experts_in_tritons_kernels(devices: str, ranks: int, expected: int) -> None:
    """Not where experts are spread, and not in FlashInfer's kernels; vLLM's stack has them apart."""
    device = compile_device(load_spec(Cluster, devices).node.accelerator)
    formats = resolve_formats(NumberFormats(weights="fp8"), device)[0]
    sglang, vllm = load_spec(ServingStack, "sglang"), load_spec(ServingStack, "vllm")
    assert shared_among(DEEPSEEK, formats, sglang, device, ranks) == expected
    assert shared_among(DEEPSEEK, formats, vllm, device, ranks) == 0
    others = DEEPSEEK.model_copy(update={"experts": 384})  # Kimi-K2's
    assert shared_among(others, formats, sglang, device, ranks) == 0


def test_shared_experts_among_the_others_are_no_products_of_their_own() -> None:
    device = compile_device(load_spec(Cluster, "dgx-h100").node.accelerator)
    formats = resolve_formats(NumberFormats(weights="fp8"), device)[0]
    apart, among = (
        list(layer(Shard(DEEPSEEK, 8, formats, True, spread=Spread(DEEPSEEK, 1, shared=one)), kind=MIXED))
        for one in (0, 1)
    )
    (mixture,) = (piece for piece in among if isinstance(piece, Experts))
    assert (mixture.experts, mixture.top_k) == (257, 9)
    gone = [p for p in apart if isinstance(p, Gemm)][-2:]
    assert [(p.n, p.k) for p in gone] == [(512, 7168), (7168, 256)]
    assert len([p for p in among if isinstance(p, Gemm)]) == len([p for p in apart if isinstance(p, Gemm)]) - 2
