"""Model states and activations against the published formulas."""

import pytest

from simulator.run.simulate import simulate
from simulator.training import memory
from simulator.training.build import build_job
from tests import jobs


@pytest.mark.parametrize(("zero", "published_gb"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_model_states(zero: int, published_gb: float) -> None:
    """7.5 billion parameters over 64 ranks: 120 / 31.4 / 16.6 / 1.9 GB (Rajbhandari et al., arXiv:1910.02054, figure
    1)."""
    shape = jobs.model(layers=1, hidden=8192, heads=64, vocabulary=8, position="none", norm="rmsnorm", biases=False)
    job = build_job(
        jobs.scenario(nodes=8, shape=shape, software=jobs.stack(memory_overhead={}), batch=64, zero=zero, dp=64)
    )
    states = memory.static_memory(job, 0)
    parameters = memory.parameters(job, memory.all_chunks(job)[0])
    total = sum(states[kind] for kind in ("parameters", "gradients", "optimizer"))
    assert total / parameters * 7.5 == pytest.approx(published_gb, abs=0.06)


@pytest.mark.parametrize("tp", [1, 8])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_activations_of_a_gpt_layer(tp: int, sequence_parallel: bool) -> None:
    """s b h (10 + 24 / t + 5 a s / h t), all over t with sequence parallelism (Korthikanti et al., arXiv:2205.05198,
    table 2)."""
    s, b, h, a = 2048, 2, 4096, 32
    shape = jobs.model(hidden=h, heads=a, max_sequence=s)
    job = build_job(
        jobs.scenario(shape=shape, batch=16, micro=b, sequence=s, tp=tp, sequence_parallel=sequence_parallel)
    )
    whole = 10 / tp if sequence_parallel else 10
    assert memory.layer_activations(job, jobs.LAYER) == pytest.approx(
        s * b * h * (whole + 24 / tp + 5 * a * s / h / tp)
    )


def test_selective_recomputation_keeps_34_sbh() -> None:
    s, b, h = 2048, 1, 4096
    shape = jobs.model(hidden=h, heads=32, max_sequence=s)
    job = build_job(
        jobs.scenario(shape=shape, sequence=s, tp=8, sequence_parallel=True, training={"recompute": "selective"})
    )
    middle = memory.Chunk((jobs.LAYER,), first=False, last=False)
    assert memory.chunk_activations(job, middle) == pytest.approx(34 * s * b * h / 8)


def test_full_recomputation_keeps_the_input_of_each_layer() -> None:
    s, b, h = 2048, 1, 4096
    shape = jobs.model(hidden=h, heads=32, max_sequence=s)
    job = build_job(jobs.scenario(shape=shape, sequence=s, tp=8, training={"recompute": "full"}))
    assert memory.chunk_activations(job, memory.Chunk((jobs.LAYER,) * 3, False, False)) == pytest.approx(
        3 * 2 * s * b * h
    )


def test_parameters_of_gpt3() -> None:
    """175 billion, embeddings included."""
    shape = jobs.model(layers=96, hidden=12288, heads=96, max_sequence=2048)
    job = build_job(jobs.scenario(shape=shape))
    assert memory.parameters(job, memory.all_chunks(job)[0]) == pytest.approx(174.6e9, rel=0.005)


@pytest.mark.parametrize(("tp", "share"), [(1, 32.0), (8, 4 + 28 / 8)])
def test_gradients_of_weights_read_32_sbh(tp: int, share: float) -> None:
    """M_W of a GPT layer is 32 s b h (arXiv:2401.10241, table 1): 14 of rows and 18 of gradients. Over 8 ranks with
    sequence parallelism the gradients of both outputs, 4 s b h, stay whole."""
    s, b, h = 2048, 2, 4096
    shape = jobs.model(hidden=h, heads=32, max_sequence=s)
    layout = {"batch": 16, "micro": b, "sequence": s, "tp": tp, "sequence_parallel": tp > 1}
    for recompute in ("none", "full"):  # what was computed again is there until then
        job = build_job(jobs.scenario(shape=shape, training={"recompute": recompute}, **layout))
        middle = memory.Chunk((jobs.LAYER,) * 3, first=False, last=False)
        assert memory.chunk_for_weights(job, middle) == pytest.approx(3 * share * s * b * h)


@pytest.mark.parametrize("name", ["zb-h1", "zb-h2"])
def test_zero_bubble_keeps_what_its_paper_says(name: str) -> None:
    """Worker i of p: (p - i + 1) M_B + (i - 1) M_W under ZB-H1, (2p - 2i + 1) M_B + (2i - 2) M_W under ZB-H2
    (arXiv:2401.10241, table 2), on a stage in the middle; the run's level over time peaks there too."""
    p, i = 4, 3
    run = jobs.scenario(batch=16, pp=p, training={"schedule": name, "recompute": "none"})
    job = build_job(run)
    whole, rest = memory.kept_of_chunks(job)[i - 1], memory.weights_of_chunks(job)[i - 1]
    assert rest < whole
    many = (p - i + 1, i - 1) if name == "zb-h1" else (2 * p - 2 * i + 1, 2 * i - 2)
    expected = many[0] * whole + many[1] * rest
    assert memory.peak_activations(job, i - 1) == pytest.approx(expected)
    assert simulate(run).memory[i - 1].at_peak["activations"] == pytest.approx(expected)


def test_what_waits_for_weights_may_be_more_than_what_waited_before() -> None:
    """Under full recomputation a layer keeps 2 s b h until I, 32 s b h from there to W."""
    run = jobs.scenario(batch=16, pp=4, training={"schedule": "zb-h1", "recompute": "full"})
    job = build_job(run)
    whole, rest = memory.kept_of_chunks(job)[2], memory.weights_of_chunks(job)[2]
    assert rest == pytest.approx(16 * whole)
    assert memory.peak_activations(job, 2) == pytest.approx(whole + 3 * rest)  # two are late, and one has just ended
    assert simulate(run).memory[2].at_peak["activations"] == pytest.approx(whole + 3 * rest)
