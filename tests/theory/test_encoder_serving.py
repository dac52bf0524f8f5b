"""Models with an encoder that are served: an iteration in closed form, the cache, and what leaping leaves as it is."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from simulator import units
from simulator.errors import InputError
from simulator.model.parameters import total_parameters
from simulator.run.serve import ServingRun, run_serving, serve
from simulator.serving.costs.crossed import CrossedAttention
from simulator.serving.costs.iteration import ReplicaCost
from simulator.serving.fleet.system import resolve
from simulator.serving.replica.crossing import Encoder
from simulator.specs import load_scenario, load_spec
from simulator.specs.model import Model
from simulator.specs.scenario import ServingScenario
from simulator.study.frontier.start import start

T5, WHISPER = "model=models/t5-small", "model=models/whisper-large-v3-turbo"
LENGTHS = "requests.lengths={prompt: {uniform: [20, 380]}, output: {uniform: [1, 60]}}"


def scenario(*overrides: str, model: str = T5) -> ServingScenario:
    given = (model, "cluster={extends: clusters/dgx-h100, nodes: 1}", "serving={}", "slo=null", *overrides)
    found = load_scenario("scenarios/serving/quickstart.yaml", given).scenario
    assert isinstance(found, ServingScenario)
    return found


def alone(prompt: int, output: int, *more: str, model: str = T5) -> ServingRun:
    lengths = f"requests.lengths={{prompt: {{fixed: {prompt}}}, output: {{fixed: {output}}}}}"
    return run_serving(scenario("requests.count=1", lengths, *more, model=model))


def costs(run: ServingRun) -> tuple[ReplicaCost, CrossedAttention]:
    cost = run.systems[0].cost
    attention = cost.stages[0].attention
    assert cost.encoder is not None and isinstance(attention, CrossedAttention)
    return cost, attention


def line(segments: Any, tokens: int) -> int:
    return next(base + slope * tokens for end, base, slope in segments if tokens <= end)


@pytest.mark.parametrize(("model", "rows", "start"), [(T5, 300, 1), (WHISPER, 1500, 300)])
def test_a_lone_request_takes_what_its_parts_take(model: str, rows: int, start: int) -> None:
    """The encoder once; then iterations of one row with a kernel over its tokens and one over the encoder's rows."""
    output = 5
    run = alone(300, output, model=model)
    (cost, attention), stage = costs(run), run.systems[0].cost.stages[0]
    assert cost.encoder is not None
    first = run.ledger.first_token[0] - run.ledger.scheduled[0]
    own = attention.own
    beginning = own.prompts([(start, 0)]) + own.across([(start, rows)])
    assert first == cost.encoder.ticks([rows]) + stage.rows(start, 1) + stage.host(1) + beginning
    steps = [
        max(
            stage.rows(1, 1) + stage.host(1) + line(own.decode(1), start + done) + line(own.decode(1), rows),
            stage.least(1, 1),
        )
        for done in range(1, output)
    ]
    assert run.ledger.finish[0] - run.ledger.first_token[0] == sum(steps)


def test_cross_attention_costs_what_its_rows_are_read_for() -> None:
    """The slope is the bytes of a token over the memory's rate, whichever kernel reads it."""
    _, attention = costs(alone(300, 2))
    (*_, (_, base, slope)) = attention.beside(8, 80_000)
    (*_, (_, more, same)) = attention.beside(8, 160_000)
    assert slope == same and slope > 0
    shard, peak = attention.own.shard, attention.own.device.decode.peak
    least = shard.model.layers * shard.kv_bytes / peak
    assert units.to_seconds(slope) >= least * 0.999
    assert more - base == 0  # read at the same rate: rows of the encoder cost what tokens cost


def test_the_encoder_takes_its_arithmetic() -> None:
    run = alone(448, 2, model=WHISPER)
    cost, _ = costs(run)
    assert cost.encoder is not None
    model, rows, hidden = run.scenario.model, 1500, 1280
    layers = model.encoder_layers or 0
    products = 2.0 * rows * (layers * (4 + 8) * hidden**2 + model.layers * 2 * hidden**2)
    flops = products + 4.0 * rows**2 * hidden * layers + 2.0 * rows * (2 * 3 * 128 * hidden + 3 * hidden**2)
    seconds = units.to_seconds(cost.encoder.ticks([rows]))
    assert flops / 989.4e12 < seconds < 4 * flops / 989.4e12
    together = cost.encoder.ticks([rows] * 8)
    assert 4 * cost.encoder.ticks([rows]) < together < 8 * cost.encoder.ticks([rows])
    assert cost.encoder.ticks([]) == 0


@pytest.mark.parametrize("model", ["t5-base", "flan-t5-xxl", "bart-large", "whisper-large-v3"])
def test_weights_are_those_of_both_stacks(model: str) -> None:
    shape = load_spec(Model, f"models/{model}")
    (system,) = resolve(scenario(model=f"model=models/{model}"))
    biased = shape.model_copy(update={"biases": False})
    assert system.cost.weights_bytes == pytest.approx(2 * total_parameters(biased), rel=2e-3)
    (cut,) = resolve(scenario("serving.parallel={tp: 4}", model=f"model=models/{model}"))
    assert 0.25 <= cut.cost.weights_bytes / system.cost.weights_bytes < 0.27


def test_rows_of_the_encoder_lie_in_the_cache_until_the_request_leaves() -> None:
    """Keys and values of a row take as many bytes as those of a token: 2 x heads x size x layers, of 16 bits."""
    run = alone(300, 40)
    size = run.systems[0].cost.block_size
    assert run.systems[0].cost.kv_token_bytes == 2 * 8 * 64 * 6 * 2
    used = np.frombuffer(run.replicas[0].record.log, np.int64).reshape(-1, 11)[:, 8]
    assert used[0] == -(-301 // size) and used[-1] <= -(-(300 + 40) // size)
    blocks = run.replicas[0].blocks
    assert blocks.free == blocks.memory.blocks


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("serving.parallel={tp: 2}",),
        ("serving.kv_cache={blocks: 120}",),
        ("serving.batching={policy: orca}",),
        ("serving.batching={policy: static, max_sequences: 8}",),
        ("serving.batching={policy: vllm-v0}", "serving.kv_cache={blocks: 80, preemption: swap}"),
    ],
)
@pytest.mark.parametrize("model", [T5, WHISPER])
def test_leaping_changes_nothing(more: tuple[str, ...], model: str) -> None:
    blocks = tuple(one.replace("blocks: 1", "blocks: 4").replace("blocks: 8", "blocks: 30") for one in more)
    given = scenario(
        LENGTHS,
        "requests.count=40",
        "requests.arrivals={poisson: 400 /s}",
        *(more if model == T5 else blocks),
        model=model,
    )
    runs = [run_serving(given, leap=leap) for leap in (True, False)]
    columns = [(list(run.ledger.first_token), list(run.ledger.finish), list(run.ledger.preemptions)) for run in runs]
    assert columns[0] == columns[1] and min(columns[0][1]) > 0
    for run in runs:
        encoder = run.replicas[0].encoder
        assert isinstance(encoder, Encoder) and run.workload.encoded is not None
        again = sum(run.ledger.preemptions) if "swap" not in str(more) else 0
        assert encoder.rows >= run.workload.encoded.sum()
        assert (encoder.rows > run.workload.encoded.sum()) == (again > 0)
        for batch in run.replicas[0].batches:
            assert (batch.decodes.context, getattr(batch.decodes, "crossed")) == (0, 0)  # noqa: B009


def test_a_tight_cache_has_preemptions_that_encode_again() -> None:
    given = scenario(
        LENGTHS, "requests.count=40", "requests.arrivals={poisson: 4000 /s}", "serving.kv_cache={blocks: 100}"
    )
    run = run_serving(given)
    encoder = run.replicas[0].encoder
    assert sum(run.ledger.preemptions) > 0 and isinstance(encoder, Encoder) and run.workload.encoded is not None
    assert encoder.rows > run.workload.encoded.sum()


def test_prompts_are_the_encoders_or_the_decoders() -> None:
    t5, whisper = (run_serving(scenario(LENGTHS, "requests.count=9", model=model)) for model in (T5, WHISPER))
    assert t5.workload.encoded is not None and whisper.workload.encoded is not None
    assert (t5.workload.prompt == t5.workload.encoded + 1).all()
    assert (whisper.workload.encoded == 1500).all()
    assert (whisper.workload.prompt - 1500 == t5.workload.encoded).all()
    longer = run_serving(scenario(LENGTHS, "requests.count=9", "+model.decoder_start=3"))
    assert longer.workload.encoded is not None
    assert (longer.workload.prompt == longer.workload.encoded + 3).all()


def test_sequences_are_as_long_as_both_stacks_allow() -> None:
    (t5,), (whisper,) = resolve(scenario()), resolve(scenario(model=WHISPER))
    assert (t5.context, whisper.context) == (1024, 1948)


def test_what_is_said_of_a_run() -> None:
    found = serve(scenario(LENGTHS, "requests.count=20"))
    assert found.metrics["total_encoder_rows"] + 20 == found.metrics["total_input_tokens"]
    assert found.metrics["encoding_s"] > 0
    assert any("prompts are batched whole (`whole-prompts`)" in one for one in found.assumptions)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("serving.batching={policy: sarathi}", "`sarathi` cuts prompts, and every row of the encoder of T5 Small sees"),
        ("serving.parallel={pp: 2}", "an encoder and its decoder are on one stage"),
        ("serving.kv_cache={prefix_caching: block}", "`prefix_caching` is not simulated for models with an encoder"),
        ("serving.speculation={kind: n-gram, draft_length: 2, acceptance: 0.5}", "`speculation` is not simulated"),
        ("serving.overlap={batches: two}", "`overlap` is not simulated"),
        ("serving.batching={instances: 2}", "`instances` is not simulated"),
        ("serving.batching={padded: true, policy: static}", "`padded` is not simulated"),
        (
            "serving={pools: [{name: a, role: prefill}, {name: b, role: decode}]}",
            "`pools` is not simulated for models with an encoder",
        ),
    ],
)
def test_what_is_not_built_is_refused(more: str, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        resolve(scenario(more))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"encoder_rows": 10}, "`encoder_rows` is about an encoder before the decoder: write `encoder_layers`"),
        ({"sound_bins": 80}, "`sound_bins` is about an encoder"),
        ({"decoder_start": 2}, "`decoder_start` is about an encoder"),
        ({"encoder_layers": 2, "encoder_rows": 9, "decoder_start": 2}, "`decoder_start` has no effect"),
    ],
)
def test_keys_of_encoders_need_one(changes: dict[str, Any], words: str) -> None:
    base = {"name": "small", "layers": 2, "hidden": 64, "heads": 4, "vocabulary": 100}
    with pytest.raises(ValidationError, match=words):
        Model.model_validate({**base, **changes})


def test_the_frontier_is_refused() -> None:
    with pytest.raises(InputError, match="the encoder of T5 Small sees whole prompts"):
        start("scenarios/serving/quickstart.yaml", (T5, "slo={tpot: 50 ms}"), "", None, None, None)


def test_more_rows_take_longer() -> None:
    runs = [alone(rows, 20) for rows in (16, 256, 510)]
    spans = [run.ledger.finish[0] - run.ledger.first_token[0] for run in runs]
    assert spans == sorted(spans) and spans[0] < spans[-1]
    encoders = [costs(run)[0].encoder for run in runs]
    assert all(one is not None for one in encoders)
    assert replace(runs[0].systems[0].cost, encoder=None).encoder is None
