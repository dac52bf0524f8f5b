"""An encoder and a decoder that attends to it, against counts by hand and against published sizes."""

from typing import Any

import pytest

from simulator.cost.work import Attention, Gemm
from simulator.errors import InputError
from simulator.model.parameters import total_parameters
from simulator.run.simulate import simulate
from simulator.specs import load_spec
from simulator.specs.model import Model
from simulator.training import flops, memory, operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.step import Kernel
from tests import jobs

HIDDEN, FFN, VOCABULARY = 1024, 4096, 51200
PLAIN: dict[str, Any] = {"biases": False, "norm": "rmsnorm", "position": "none"}
ENCODED, DECODED = 512, 128


def scenario(**changes: Any) -> Any:
    more = {"encoder_sequence_length": ENCODED, "attention": "fused", **changes.pop("training", {})}
    shape = jobs.model(layers=4, encoder_layers=6, **PLAIN)
    return jobs.scenario(shape=shape, sequence=DECODED, training=more, **changes)


def job(**changes: Any) -> Job:
    return build_job(scenario(**changes))


def kinds(of: Job) -> tuple[Any, Any]:
    encoder, decoder = of.layers[0], of.layers[-1]
    assert (encoder.encodes, encoder.crosses, decoder.encodes, decoder.crosses) == (True, False, False, True)
    return encoder, decoder


def kernels(of: Job, kind: Any) -> dict[str, Any]:
    return {step.name: step.work for step in operators.layer_forward(of, kind) if isinstance(step, Kernel)}


@pytest.mark.parametrize(
    ("name", "billions"),
    [("t5-base", 0.2229), ("t5-11b", 11.307), ("flan-t5-xxl", 11.135), ("whisper-large-v3", 1.5436)],
)
def test_published_models_have_their_parameters(name: str, billions: float) -> None:
    assert total_parameters(load_spec(Model, f"models/{name}")) / 1e9 == pytest.approx(billions, rel=1e-3)


def test_parameters_are_those_of_both_stacks_and_one_table() -> None:
    attention, mlp, norm = 4 * HIDDEN**2, 2 * HIDDEN * FFN, HIDDEN
    encoder, decoder = attention + mlp + 2 * norm, 2 * attention + mlp + 3 * norm
    assert total_parameters(scenario().model) == 6 * encoder + 4 * decoder + 2 * norm + VOCABULARY * HIDDEN
    one = job()
    assert memory.parameters(one, memory.all_chunks(one)[0]) == total_parameters(one.model)


def test_encoders_work_on_their_own_tokens_and_all_of_them_see_each_other() -> None:
    encoder, _ = kinds(job())
    found = kernels(job(micro=2), encoder)
    assert found["attention in"] == Gemm(2 * ENCODED, 3 * HIDDEN, HIDDEN, dtype="fp16")
    core = found["attention"]
    assert isinstance(core, Attention)
    assert (core.query, core.context, core.causal) == (ENCODED, ENCODED, False)


def test_decoders_take_queries_of_their_rows_and_keys_of_the_encoders() -> None:
    _, decoder = kinds(job())
    found = kernels(job(micro=2), decoder)
    assert found["cross query"] == Gemm(2 * DECODED, HIDDEN, HIDDEN, dtype="fp16")
    assert found["cross key and value"] == Gemm(2 * ENCODED, 2 * HIDDEN, HIDDEN, dtype="fp16")
    crossed = [step.work for step in operators.layer_forward(job(), decoder) if isinstance(step, Kernel)]
    shapes = [(one.query, one.context, one.causal) for one in crossed if isinstance(one, Attention)]
    assert shapes == [(DECODED, DECODED, True), (DECODED, ENCODED, False)]


def test_flops_are_those_of_both_stacks() -> None:
    one = job()
    encoder, decoder = kinds(one)
    attention, mlp = 4 * HIDDEN**2, 2 * HIDDEN * FFN
    expected = 2 * ENCODED * (attention + mlp) + 4 * ENCODED**2 * HIDDEN
    assert flops.layer_forward_flops(one, encoder) == pytest.approx(expected)
    products = 2 * DECODED * (attention + 2 * HIDDEN**2 + mlp) + 2 * ENCODED * 2 * HIDDEN**2
    scores = 4 * HIDDEN * (DECODED**2 + DECODED * ENCODED)
    assert flops.layer_forward_flops(one, decoder) == pytest.approx(products + scores)
    masked = 4 * 4 * HIDDEN * DECODED**2 * (DECODED - 1) / (2 * DECODED)
    assert flops.model_flops(one) - flops.causal_flops(one) == pytest.approx(3 * 16 * masked)


def test_what_is_kept_of_a_decoders_layer_is_its_rows_and_the_keys_of_the_encoders() -> None:
    """Beyond a plain layer: norm, query product and its result, output product, statistics; keys and values."""
    encoder, decoder = kinds(job())
    one, plain = (
        job(),
        build_job(jobs.scenario(shape=jobs.model(**PLAIN), sequence=DECODED, training={"attention": "fused"})),
    )
    more = memory.layer_activations(one, decoder) - memory.layer_activations(plain, jobs.LAYER)
    rows = DECODED * (2 * 4 * HIDDEN + HIDDEN + 4 * 16)  # 16 bits; the residual's mask; statistics of each of 16 heads
    assert more == pytest.approx(rows + 2 * ENCODED * 2 * HIDDEN)
    ratio = memory.layer_activations(one, encoder) / memory.layer_activations(plain, jobs.LAYER)
    assert ratio == pytest.approx(ENCODED / DECODED)


@pytest.mark.parametrize("parallel", [{}, {"tp": 2}, {"tp": 4, "sequence_parallel": True}, {"zero": 3}])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_steps_run_under_the_layouts_of_one_stage(parallel: dict[str, Any], recompute: str) -> None:
    found = simulate(scenario(training={"recompute": recompute}, **parallel))
    assert found.metrics["step_time_s"] > 0


def test_a_longer_encoder_takes_longer_and_a_step_is_the_sum_of_its_work() -> None:
    short, long = (
        simulate(scenario(devices=1, training={"encoder_sequence_length": length})).metrics["step_time_s"]
        for length in (512, 1024)
    )
    assert 1.3 * short < long < 2.1 * short


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pp": 2}, "pp 2: an encoder and its decoder are on one stage"),
        ({"cp": 2}, "cp 2: an encoder and its decoder are on one stage, with whole sequences"),
        ({"training": {"encoder_sequence_length": None}}, "small has an encoder; write its tokens"),
        ({"training": {"lora": {"rank": 8}}}, "not simulated for models with an encoder yet"),
        ({"training": {"documents": {"fixed": 64}}}, "not simulated for models with an encoder yet"),
    ],
)
def test_what_is_not_built_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        job(**changes)
    assert words in str(refused.value)


def test_an_encoders_sequences_need_an_encoder() -> None:
    with pytest.raises(InputError, match="small has no encoder; leave it out"):
        build_job(jobs.scenario(training={"encoder_sequence_length": 512}))
    with pytest.raises(ValueError, match="`encoder_layers` is described for models of `grouped` attention"):
        jobs.model(encoder_layers=4, mtp_layers=1)
