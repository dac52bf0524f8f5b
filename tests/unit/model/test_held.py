"""What recomputation of whole layers keeps all the same, by hand."""

import pytest

from simulator.cost.work import Attention, Gemm
from simulator.errors import InputError
from simulator.run.simulate import simulate
from simulator.specs.model import Model
from simulator.training import flops, memory, operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.step import Kernel
from tests import jobs

H, F = 1024, 4096
TORCHTITAN = ("every-second-product", "attention", "reductions")


def llama() -> Model:
    return jobs.model(gated_ffn=True, ffn=F, kv_heads=4, norm="rmsnorm", position="rotary", biases=False)


def scenario(keeps: tuple[str, ...] = (), shape: Model | None = None, **changes: object):  # type: ignore[no-untyped-def]
    layout = {name: changes.pop(name) for name in ("tp", "dp", "zero", "sequence_parallel") if name in changes}
    training = {"recompute": "full", "recompute_keeps": keeps} | changes
    software = jobs.stack("megatron-core")
    return jobs.scenario(on="generic-h100", software=software, shape=shape, training=training, **layout)


def job(keeps: tuple[str, ...] = (), shape: Model | None = None, **changes: object) -> Job:
    return build_job(scenario(keeps, shape, **changes))


def again(found: Job) -> float:
    """Elements of the matrices by which a row is multiplied again."""
    steps = operators.recomputed(found, jobs.LAYER)
    products = (one.work for one in steps if isinstance(one, Kernel) and isinstance(one.work, Gemm))
    return sum(work.flops for work in products) / (2 * found.tokens)


def kept(found: Job) -> float:
    """Bytes of a token and recomputed layer beyond its input."""
    return memory.kept_results(found, jobs.LAYER) / found.tokens


@pytest.mark.parametrize(
    ("keeps", "matrices", "size"),
    [
        ((), 12 * H**2, 0),
        (("products",), 0, 2 * (3 + 1 + 4 + 1) * H),
        (("every-second-product",), (1 + 1 + 4) * H**2, 2 * (1 + 1 + 4) * H),
        (("mlp in",), 8 * H**2, 2 * 4 * H),
        (("mlp in", "attention"), 8 * H**2, 2 * 4 * H + 2 * H + 4 * 16),
    ],
)
def test_products_of_a_gpt(keeps: tuple[str, ...], matrices: float, size: float) -> None:
    """Six of them: of queries, keys, values, output, MLP in and out the first, third and fifth stay."""
    found = job(keeps)
    assert again(found) == pytest.approx(matrices)
    assert kept(found) == pytest.approx(size)


def test_what_torchtitan_keeps_of_a_llama() -> None:
    """Queries, values, the first half of the MLP and its end; 4 key heads of 64."""
    found = job(TORCHTITAN, llama())
    assert again(found) == pytest.approx(H * 256 + H * H + H * F)
    assert kept(found) == pytest.approx(2 * (H + 256 + F + H) + 2 * H + 4 * 16)
    cores = [
        one for one in operators.recomputed(found, jobs.LAYER) if isinstance(getattr(one, "work", None), Attention)
    ]
    assert not cores


def test_reductions_stay_and_are_not_run_again() -> None:
    """Of the four collectives of a layer the two gathers; a rank keeps its own rows of the two sums."""
    found = job(("reductions",), tp=4, dp=2, sequence_parallel=True)
    sent = [one.operation for one in operators.collectives(operators.recomputed(found, jobs.LAYER))]
    assert sent == ["all_gather", "all_gather"]
    assert kept(found) == pytest.approx(2 * 2 * H / 4)


def test_flops_time_and_memory_lie_between_none_and_full() -> None:
    none, some, full = (
        simulate(scenario(keeps, recompute=how)) for keeps, how in (((), "none"), (TORCHTITAN, "full"), ((), "full"))
    )
    for metric in ("hardware_flops_per_device", "peak_memory_bytes"):
        assert len({result.metrics[metric] for result in (none, some, full)}) == 3
    assert none.metrics["step_time_s"] < some.metrics["step_time_s"] < full.metrics["step_time_s"]
    assert full.metrics["peak_memory_bytes"] < some.metrics["peak_memory_bytes"] < none.metrics["peak_memory_bytes"]
    each = [flops.hardware_flops(job(keeps)) - flops.model_flops(job(keeps)) for keeps in (TORCHTITAN, ())]
    sequences, layers, pairs = 16, 8, 4 * 1024 * 1024 * H
    assert each == [sequences * layers * 1024 * 12 * H**2, sequences * layers * (1024 * 24 * H**2 + pairs)]


@pytest.mark.parametrize(
    ("keeps", "changes", "words"),
    [
        (("mlp inn",), {}, "did you mean `mlp in`?"),
        (("norm",), {}, "no product, attention or collective"),
        (("attention",), {"attention": "unfused"}, "`attention: fused`"),
        (("products",), {"tile_tokens": 64}, "leave one of them out"),
    ],
)
def test_refusals(keeps: tuple[str, ...], changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as caught:
        job(keeps, **changes)
    assert words in str(caught.value)


def test_without_full_recomputation_nothing_is_kept_besides() -> None:
    warnings = job(("products",), recompute="none").warnings
    assert "no effect: recompute_keeps: only `recompute: full` computes whole layers again" in warnings


def test_summed_products_stay_as_they_are_after_the_sum() -> None:
    """Of tp 4 with cut rows: partial sums of whole rows, or a quarter of the sums; neither product runs again."""
    layout = {"tp": 4, "sequence_parallel": True}
    partial, summed = job(("products",), **layout), job(("products", "summed"), **layout)
    assert again(partial) == again(summed) == 0
    assert kept(partial) == pytest.approx(2 * ((3 + 4) * H / 4 + 2 * H))
    assert kept(summed) == pytest.approx(2 * (3 + 1 + 4 + 1) * H / 4)


def test_without_tensor_parallelism_there_is_nothing_to_sum() -> None:
    assert kept(job(("products", "summed"))) == kept(job(("products",)))


def test_summed_without_a_product_is_refused() -> None:
    with pytest.raises(InputError, match="none is named"):
        job(("summed",), tp=4)
