"""Optimizers: what they keep, multiply and send, by hand."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from simulator.cost.work import Gemm, Stream
from simulator.errors import InputError
from simulator.run.simulate import simulate
from simulator.specs import load_scenario
from simulator.training import memory
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.optimizers import OPTIMIZERS, Matrices, Share, UpdateRule
from simulator.training.optimizers.muon import dealt, sides
from simulator.training.optimizers.step import optimizer_step, updates
from simulator.training.step import Collective, Kernel, Step
from tests import jobs

H, LAYERS, VOCABULARY = 1024, 8, 51200
MATRICES = LAYERS * 12 * H**2
"""Elements of the matrices of the layers: queries, keys and values, output, both of the MLP."""
SHAPES = (*3 * ((H, H),), (H, H), (H, 4 * H), (4 * H, H))


def scenario(optimizer: object = None, software: str = "megatron-core", **changes: Any) -> Any:
    layout = {name: changes.pop(name) for name in ("tp", "pp", "zero", "dp", "shard_size") if name in changes}
    training = changes | ({"optimizer": optimizer} if optimizer else {})
    return jobs.scenario(on="generic-h100", software=jobs.stack(software), training=training, **layout)


def job(optimizer: object = None, **changes: Any) -> Job:
    return build_job(scenario(optimizer, **changes))


def flops(found: Job, stage: int = 0) -> float:
    """FLOP of the products of an optimizer."""
    steps = [one for one in optimizer_step(found, stage) if isinstance(one, Kernel)]
    return sum(one.times * one.work.flops for one in steps if isinstance(one.work, Gemm))


def sent(found: Job, axis: str) -> list[Collective]:
    return [one for one in optimizer_step(found, 0) if isinstance(one, Collective) and one.axis == axis]


def newton_schulz(rows: int, columns: int, iterations: int = 5) -> float:
    """5 (4 m^2 n + 2 m^3), the shorter side first."""
    m, n = sorted((rows, columns))
    return iterations * (4.0 * m * m * n + 2.0 * m**3)


WHOLE = LAYERS * sum(newton_schulz(*shape) for shape in SHAPES)


def test_newton_schulz_is_4_m2_n_and_2_m3_an_iteration() -> None:
    assert WHOLE == LAYERS * 5 * (3 * 6 + 6 + 18 + 18) * H**3
    assert flops(job("muon", zero=0)) == WHOLE
    assert flops(job({"name": "muon", "iterations": 3}, zero=0)) == pytest.approx(WHOLE * 3 / 5)
    assert flops(job()) == 0
    fused = job({"name": "muon", "fused": "all"}, zero=0)
    assert flops(fused) == LAYERS * 5 * (14 + 6 + 18 + 18) * H**3


def test_fused_matrices_are_taken_apart_or_whole() -> None:
    """A gated MLP of 4 h: gate and input as one are h x 8 h, apart two of h x 4 h."""
    shape = jobs.model(gated_ffn=True, ffn=4 * H, biases=False)

    def of(fused: str) -> float:
        given = {"optimizer": {"name": "muon", "fused": fused}}
        return flops(build_job(jobs.scenario(batch=8, dp=8, zero=0, shape=shape, training=given)))

    assert of("mlp") - of("none") == LAYERS * 5 * (34 - 2 * 18) * H**3
    assert of("all") - of("mlp") == LAYERS * 5 * (14 - 3 * 6) * H**3


@pytest.mark.parametrize(
    ("name", "matrix", "other"),
    [
        ("adam", 12, 12),
        ("adamw", 12, 12),
        ("adam-8bit", 4 + 2 * (1 + 4 / 256), 4 + 2 * (1 + 4 / 256)),
        ("lion", 8, 8),
        ("sgd", 4, 4),
        ("sgd-momentum", 8, 8),
        ("muon", 8, 12),
        ({"name": "adam", "moments": "bf16"}, 8, 8),
        ({"name": "muon", "moments": "bf16"}, 6, 8),
    ],
)
def test_states_in_bytes_of_a_parameter(name: object, matrix: float, other: float) -> None:
    """With fp32 copies of bf16 parameters; the vectors and both ends of the model are never Muon's."""
    found = job(name, zero=0)
    everything = sum(memory.parameters(found, chunk) for chunk in memory.chunks_of_stage(found, 0))
    expected = matrix * MATRICES + other * (everything - MATRICES)
    assert memory.static_memory(found, 0)["optimizer"] == pytest.approx(expected)


def test_adafactor_keeps_rows_and_columns() -> None:
    found = job("adafactor", zero=0)
    everything = sum(memory.parameters(found, chunk) for chunk in memory.chunks_of_stage(found, 0))
    fused = (H, 3 * H), (H, H), (H, 4 * H), (4 * H, H)
    sums = LAYERS * sum(map(sum, fused)) + everything - MATRICES
    assert memory.static_memory(found, 0)["optimizer"] == pytest.approx(4 * everything + 4 * sums)


def test_adam_moves_30_bytes_a_parameter() -> None:
    """Gradient, copy and two moments read, copy, moments and the bf16 parameter written, all else in fp32."""
    found = job(zero=0, gradient_precision="fp32")
    (work,) = (one.work for one in optimizer_step(found, 0) if isinstance(one, Kernel) and one.name == "update")
    assert isinstance(work, Stream)
    assert work.bytes / memory.updated(found, 0) == pytest.approx(30)


def test_each_matrix_has_one_owner() -> None:
    """8 layers of 6 matrices over 8 ranks: each owns a layer's worth, and an eighth of the momentum."""
    found = job("muon", zero=1)
    assert flops(found) == WHOLE / 8
    everything = sum(memory.parameters(found, chunk) for chunk in memory.chunks_of_stage(found, 0))
    kept = memory.static_memory(found, 0)["optimizer"]
    assert kept == pytest.approx((8 * MATRICES + 12 * (everything - MATRICES)) / 8)
    assert not sent(found, "dp")


def test_owners_of_what_does_not_divide() -> None:
    """Three large and three small matrices over two ranks: two large ones against one and what is left."""
    large, small = Matrices(4, 4, 3), Matrices(2, 4, 3)
    first, second = dealt((large, small), 2)
    assert (first, second) == (
        (large._replace(number=2), small._replace(number=1)),
        (large._replace(number=1), small._replace(number=2)),
    )
    assert dealt((large,), 4)[3] == ()
    assert sum(one.elements for owned in dealt((large, small), 5) for one in owned) == 3 * 16 + 3 * 8


def test_owners_are_as_slow_as_the_busiest() -> None:
    """Three ranks in a shard set have 48 matrices: a rank has a third of each size rounded up."""
    found = build_job(jobs.scenario(devices=3, batch=3, dp=3, zero=1, training={"optimizer": "muon"}))
    assert flops(found) > WHOLE / 3
    assert flops(found) <= 5 * (3 * 18 + 3 * 18 + 11 * 6) * H**3


def test_gathering_adds_2_bytes_to_the_8_of_adam() -> None:
    """Gradients reduced in fp32 and parameters gathered in fp32 are 8 bytes, so 1.25 times at most (arXiv:2502.16982,
    section 2.3); everybody then multiplies everything."""
    found = job({"name": "muon", "whole": "gathered"}, zero=1)
    (gathered,) = sent(found, "dp")
    assert (gathered.operation, gathered.size) == ("all_gather", 2 * MATRICES)
    assert (8 + gathered.size / MATRICES) / 8 == 1.25
    assert flops(found) == WHOLE


def test_exchanges_move_a_shard_there_and_back() -> None:
    found = job({"name": "muon", "whole": "exchanged"}, zero=1)
    assert [(one.operation, one.size) for one in sent(found, "dp")] == 2 * [("all_to_all", 2 * MATRICES / 8)]
    assert flops(found) == WHOLE / 8


@pytest.mark.parametrize(
    ("mode", "first", "out"),
    [
        ("blockwise", newton_schulz(H, H), newton_schulz(H // 4, H)),
        ("duplicated", newton_schulz(H, 4 * H), newton_schulz(H, H)),
        (
            "distributed",
            5 * (4 * H * H * H + 2 * H**3),
            5 * (4 * H * H * (H // 4) + 2 * H**3),
        ),
    ],
)
def test_tensor_parallel_ranks_take_blocks_all_or_parts(mode: str, first: float, out: float) -> None:
    """The first product of an MLP is cut along its outputs, the output of attention along its inputs."""
    found = job({"name": "muon", "tensor": mode}, tp=4, dp=2, zero=0)
    column, row = Matrices(H, H, 1, "column", 4), Matrices(H // 4, H, 1, "row", 4)
    for matrix, expected in ((column, first), (row, out)):
        m, n = sides(found, matrix)
        assert 5 * (4.0 * m * m * n + 2.0 * m**3) == expected
    share = memory.shares(found, 0)[0]
    assert sum(one.elements for one in share.matrices) == MATRICES / 4
    assert column._replace(number=LAYERS) in share.matrices


def test_what_tensor_parallel_ranks_send() -> None:
    """All matrices in 16 bits once; or 2 h^2 bytes for each matrix and iteration."""
    whole = sent(job({"name": "muon", "tensor": "duplicated"}, tp=4, dp=2, zero=0), "tp")
    assert sum(one.size for one in whole) == 2 * MATRICES
    parts = sent(job({"name": "muon", "tensor": "distributed"}, tp=4, dp=2, zero=0), "tp")
    assert {one.operation for one in parts} == {"all_reduce"}
    assert (len(parts), sum(one.size for one in parts)) == (LAYERS * 6 * 5, LAYERS * 6 * 5 * 2 * H * H)


def test_owners_sum_gradients_to_all_and_the_step_says_so() -> None:
    """Megatron's layer-wise optimizer: an all-reduce and a gather, where ZeRO-1 of Adam scatters and gathers."""
    ring = {"dp": "ring"}
    muon, adam = (simulate(scenario(name, zero=1, dp=8, algorithms=ring)) for name in ("muon", "adam"))
    moved = [max(link.bytes for link in result.links) for result in (muon, adam)]
    assert moved[0] / moved[1] == pytest.approx((4 * 2 + 2) / (4 + 2), rel=0.02)
    assert muon.metrics["step_time_s"] > adam.metrics["step_time_s"]
    assert muon.metrics["peak_memory_bytes"] < adam.metrics["peak_memory_bytes"]
    assert "optimizer.whole is not given: owners" in job("muon", zero=1).assumptions


@pytest.mark.parametrize("whole", ["exchanged", "gathered"])
def test_executors_agree_where_ranks_exchange(whole: str) -> None:
    options = {"name": "muon", "whole": whole, "tensor": "distributed"}
    given = scenario(options, tp=2, pp=2, dp=2, zero=1, overlap_gradients=False, overlap_parameters=False)
    one, other = (simulate(given, executor=name) for name in ("simpy", "maxplus"))
    assert one.metrics["step_time_s"] == other.metrics["step_time_s"]


def test_wrapped_units_exchange() -> None:
    found = job("muon", software="fsdp2", dp=8)
    assert found.optimizer.whole == "exchanged"
    assert simulate(scenario("muon", "fsdp2", dp=8)).metrics["step_time_s"] > 0


@pytest.mark.parametrize(
    ("optimizer", "changes", "words"),
    [
        ("shampoo", {}, "`adafactor`"),
        ("muonn", {}, "did you mean `muon`?"),
        ("adafactor", {"zero": 1}, "ZeRO-1 cuts"),
        ({"name": "muon", "whole": "owners"}, {"zero": 3}, "`exchanged` or `gathered`"),
    ],
)
def test_refusals(optimizer: object, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        job(optimizer, **changes)
    assert words in str(caught.value)
    assert "training.optimizer" in str(caught.value)


def test_options_without_effect() -> None:
    warnings = job({"name": "adam", "iterations": 3, "tensor": "duplicated"}).warnings
    assert "no effect: optimizer.iterations: adam has none" in warnings
    assert "no effect: optimizer.tensor: adam has none" in warnings
    warnings = job({"name": "muon", "whole": "gathered", "tensor": "duplicated"}, zero=0).warnings
    assert "no effect: optimizer.whole: parallel.zero is 0, so that every rank has whole matrices" in warnings
    assert "no effect: optimizer.tensor duplicated: there is no tensor parallelism" in warnings
    assert not [text for text in job("muon").warnings if "optimizer" in text]


def test_a_rule_of_a_plugin() -> None:
    """One class: a number a parameter, one pass over it, and a sum of all over data parallelism."""

    class Normed(UpdateRule):
        def states(self, job: Job, share: Share) -> float:
            return share.elements

        def steps(self, job: Job, shares: Sequence[Share]) -> Iterator[Step]:
            yield Kernel("update", Stream(sum(share.elements for share in shares), 0.0))
            yield Collective("a norm", "all_reduce", 4.0, "dp")

    OPTIMIZERS.add("normed")(Normed())
    try:
        found = job("normed", dp=8)
        assert memory.static_memory(found, 0)["optimizer"] == memory.shares(found, 0)[0].elements
        assert simulate(scenario("normed", dp=8)).metrics["step_time_s"] > 0
    finally:
        del OPTIMIZERS._things["normed"]


BACKWARD = {"name": "adam", "in_backward": True}


def test_inside_the_backward_pass_gradients_of_one_layer_are_there() -> None:
    """The embedding is the largest piece with its layer; nothing is reduced, so nothing waits."""
    alone = {"nodes": 1, "devices": 1, "on": "generic-h100", "batch": 1, "dp": 1}
    software = jobs.stack("megatron-core", gradient_bytes=4)
    inside, after = (
        build_job(jobs.scenario(software=software, training={"optimizer": one}, **alone)) for one in (BACKWARD, "adam")
    )
    chunk = memory.chunks_of_stage(inside, 0)[0]
    pieces = [memory.parameters(inside, piece) for piece in memory.pieces_of(chunk)]
    assert (len(pieces), sum(pieces)) == (LAYERS, memory.parameters(inside, chunk))
    assert memory.static_memory(inside, 0)["gradients"] == 4 * max(pieces)
    assert memory.static_memory(after, 0)["gradients"] == 4 * sum(pieces)
    moved = [sum(one.work.bytes for one in steps if isinstance(one, Kernel)) for steps in updates(inside, chunk)]
    whole = [one.work.bytes for one in optimizer_step(after, 0) if isinstance(one, Kernel) and one.name == "update"]
    assert sum(moved) == pytest.approx(sum(whole))
    assert not list(optimizer_step(inside, 0))


def test_inside_the_backward_pass_a_layer_is_updated_when_its_gradients_are_reduced() -> None:
    """FSDP: what is left at the end is the update of the last piece; the norm of all gradients is not taken."""
    options = {"batch": 8, "dp": 8, "on": "generic-h100", "software": jobs.stack("fsdp2")}
    inside, after = (
        simulate(jobs.scenario(training={"optimizer": one}, **options), executor="simpy") for one in (BACKWARD, "adam")
    )
    assert inside.metrics["peak_memory_bytes"] < after.metrics["peak_memory_bytes"]
    spent = [result.breakdown[0]["optimizer"] for result in (inside, after)]
    assert spent[0] > 0
    assert inside.metrics["step_time_s"] < after.metrics["step_time_s"] * 1.02


@pytest.mark.parametrize(
    ("optimizer", "options", "words"),
    [
        (BACKWARD, {"batch": 16, "dp": 8}, "2 microbatches, whose gradients are summed; write `micro_batch: 2`"),
        (BACKWARD, {"batch": 4, "dp": 4, "pp": 2}, "a pipeline; write `pp: 1`"),
        (BACKWARD, {"batch": 8, "dp": 8, "zero": 1, "software": jobs.stack("megatron-core")}, "in buckets"),
        ({"name": "muon", "in_backward": True}, {"batch": 8, "dp": 8}, "matrices that are sharded"),
    ],
)
def test_no_update_inside_the_backward_pass_with(optimizer: Any, options: dict[str, Any], words: str) -> None:
    given = {"software": jobs.stack("fsdp2"), "training": {"optimizer": optimizer}} | options
    with pytest.raises(InputError) as caught:
        build_job(jobs.scenario(**given))
    assert words in str(caught.value)
    assert "training.optimizer.in_backward" in str(caught.value)


LAYERWISE = {"name": "adam", "layerwise": True}
LARGE = jobs.model(hidden=4096, heads=32)


@pytest.mark.parametrize("pp", [1, 2])
def test_layers_are_gathered_beside_the_updates_of_the_next(pp: int) -> None:
    """All but the last gather may hide behind updates, and each layer is one of them; the passes are the same."""
    given = {
        "on": "generic-h100",
        "batch": 16,
        "dp": 8 // pp,
        "pp": pp,
        "zero": 1,
        "software": jobs.stack("megatron-core"),
        "shape": LARGE,
    }
    other = {"overlap_parameters": False, "overlap_gradients": False}
    apart, beside = (
        simulate(jobs.scenario(training={"optimizer": one} | other, **given), executor="simpy")
        for one in ("adam", LAYERWISE)
    )
    assert beside.metrics["step_time_s"] < apart.metrics["step_time_s"]
    assert beside.breakdown[0]["exposed_dp"] < apart.breakdown[0]["exposed_dp"]
    assert beside.breakdown[0]["compute"] == apart.breakdown[0]["compute"]
    moved = [max(link.bytes for link in result.links) for result in (apart, beside)]
    assert moved[0] == pytest.approx(moved[1])


def test_each_gather_waits_for_its_update_and_for_the_gather_before() -> None:
    """Eight updates in a row, and beside them eight gathers in a row."""
    options = {"on": "generic-h100", "batch": 8, "dp": 8, "zero": 1, "shape": LARGE}
    quiet = {"overlap_parameters": False, "overlap_gradients": False}
    software = jobs.stack("megatron-core")
    spans = simulate(jobs.scenario(training={"optimizer": LAYERWISE} | quiet, software=software, **options)).spans
    words = [spans.names[name] for name in spans.name.tolist()]
    norm, *updates = (i for i, word in enumerate(words) if word == "optimizer")
    gathers = [i for i, word in enumerate(words) if word == "gather parameters"]
    assert len(updates) == len(gathers) == LAYERS
    before = spans.end[norm]
    for update, gather in zip(updates, gathers, strict=True):
        assert spans.start[gather] == max(spans.end[update], before)
        before = spans.end[gather]
    assert max(spans.end) == before


@pytest.mark.parametrize(
    ("optimizer", "options", "words"),
    [
        (LAYERWISE | {"in_backward": True}, {"zero": 1}, "inside the backward pass or after it"),
        ({"name": "muon", "layerwise": True}, {"zero": 1}, "matrices that are sharded"),
        (LAYERWISE, {"zero": 1, "dp": 4, "pp": 2, "batch": 32, "training": {"schedule": "dualpipe"}}, "two copies"),
    ],
)
def test_no_layer_by_layer_with(optimizer: Any, options: dict[str, Any], words: str) -> None:
    given = {"software": jobs.stack("megatron-core"), "dp": 8} | options
    training = {"optimizer": optimizer} | given.pop("training", {})
    with pytest.raises(InputError) as caught:
        build_job(jobs.scenario(training=training, **given))
    assert words in str(caught.value)


def test_layer_by_layer_without_effect() -> None:
    assert "no effect: optimizer.layerwise: parameters are not sharded" in job(LAYERWISE, zero=0).warnings
    assert "no effect: optimizer.layerwise: ZeRO-3 gathers around every pass" in job(LAYERWISE, zero=3).warnings
    blocked = job(LAYERWISE, zero=1, blocking_launches=True)
    assert "no effect: optimizer.layerwise: the host waits for every kernel" in blocked.warnings
    assert not blocked.optimizer.layerwise


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("bf16", 2), ("fp16", 2)])
def test_gradients_are_kept_in_their_own_format(precision: str, size: int) -> None:
    found = job(zero=0, gradient_precision=precision)
    kept = memory.static_memory(found, 0)["gradients"]
    assert kept == size * sum(memory.parameters(found, chunk) for chunk in memory.chunks_of_stage(found, 0))
    assert found.reduce_bytes == found.stack.reduce_bytes


def test_iterations_take_a_share_of_the_step_as_published() -> None:
    """1 to 3 % of a step at the sizes of arXiv:2502.16982 (section 2.3): Llama 3 8B with a million tokens a step."""
    result = simulate(load_scenario("scenarios/quickstart.yaml", ["+training.optimizer=muon"]).scenario)
    spent = [parts["optimizer"] * 1.0 for parts in result.breakdown]
    assert all(0.007 < one / result.metrics["step_time_s"] < 0.03 for one in spent)
