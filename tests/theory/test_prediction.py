"""Multi-token prediction: what a module after the last stage has and does, against counts by hand."""

from typing import Any

import pytest

from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.ops import Comm
from simulator.model.parameters import active_parameters, predicting_parameters, total_parameters
from simulator.run.simulate import simulate
from simulator.specs import load_spec
from simulator.specs.model import Model
from simulator.training import flops, memory
from simulator.training.build import build_job
from simulator.training.chains import StepCosts
from simulator.training.job import Job
from tests import jobs

PLAIN: dict[str, Any] = {
    "biases": False,
    "norm": "rmsnorm",
    "position": "rotary",
    "tied_embeddings": False,
    "gated_ffn": True,
}
HIDDEN, VOCABULARY, FFN = 1024, 51200, 4096
LAYER = 4 * HIDDEN**2 + 3 * HIDDEN * FFN + 2 * HIDDEN
MODULE = 2 * HIDDEN**2 + 2 * HIDDEN + LAYER + HIDDEN
"""The matrix that joins rows and embedding, their norms, a layer, the norm before the head."""


def of(modules: int, **parallel: Any) -> Job:
    return build_job(scenario(modules, **parallel))


def scenario(modules: int, **changes: Any) -> Any:
    return jobs.scenario(shape=jobs.model(mtp_layers=modules, **PLAIN), software=jobs.stack("megatron-core"), **changes)


def test_a_module_has_a_layer_and_a_matrix_and_shares_embedding_and_head() -> None:
    models = [jobs.model(mtp_layers=modules, **PLAIN) for modules in (0, 1, 3)]
    assert [predicting_parameters(model) for model in models] == [0, MODULE, 3 * MODULE]
    assert len({total_parameters(model) for model in models}) == len({active_parameters(m) for m in models}) == 1


def test_deepseek_v3_has_what_its_card_states_with_and_without_its_module() -> None:
    """671 10^9, 11.5 of the module's own (without the matrix that joins), 685 with its copies of embedding and head."""
    model = load_spec(Model, "models/deepseek-v3")
    own, tables = predicting_parameters(model), 2 * model.vocabulary * model.hidden
    assert total_parameters(model) / 1e9 == pytest.approx(671, abs=0.5)
    assert (own - 2 * model.hidden**2) / 1e9 == pytest.approx(11.5, abs=0.05)
    assert (total_parameters(model) + own + tables) / 1e9 == pytest.approx(685, abs=0.6)


def test_light_modules_have_the_layer_that_is_written_for_them() -> None:
    """0.33 10^9 a module of MiMo-V2-Flash, arXiv:2601.02780: dense and with a window; *E of Nemotron 3."""
    mimo = load_spec(Model, "models/mimo-v2-flash")
    assert predicting_parameters(mimo) / 3e9 == pytest.approx(0.33, abs=0.005)
    hybrid = load_spec(Model, "models/nemotron-3-super-120b-a12b").predicting[0]
    assert (hybrid.attention, hybrid.mlp) == ("grouped", "moe")
    alone = jobs.model(pattern="*-", layers=8, mtp_layers=1).predicting[0]
    assert (alone.attention, alone.mlp) == ("grouped", "dense")


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_flops_are_those_of_a_layer_two_matrices_and_a_head_for_each_module(recompute: str) -> None:
    jobs_of = [of(n, devices=8, dp=8, training={"recompute": recompute}) for n in (0, 1, 2)]
    products = 2 * 1024 * (MODULE - 5 * HIDDEN) + 4 * 1024**2 * HIDDEN  # matrices without norms; the attention square
    one = products + 2 * 1024 * HIDDEN * VOCABULARY
    found = [flops.model_flops(job) for job in jobs_of]
    assert found[1] - found[0] == pytest.approx(3 * 16 * one)
    assert found[2] - found[1] == pytest.approx(3 * 16 * one)
    again = [flops.hardware_flops(job) - flops.model_flops(job) for job in jobs_of]
    assert again[1] - again[0] == pytest.approx(16 * products * (recompute == "full"))


def test_modules_stand_on_the_last_stage_with_a_copy_of_the_embedding() -> None:
    without, with_one = of(0, pp=4, dp=2), of(1, pp=4, dp=2)
    sizes = [
        [sum(memory.parameters(job, chunk) for chunk in memory.chunks_of_stage(job, stage)) for stage in range(4)]
        for job in (without, with_one)
    ]
    assert sizes[0][:3] == sizes[1][:3]
    assert sizes[1][3] - sizes[0][3] == MODULE + VOCABULARY * HIDDEN
    alone = [memory.parameters(job, memory.all_chunks(job)[0]) for job in (of(0, dp=8), of(1, dp=8))]
    assert alone[1] - alone[0] == MODULE  # the one stage has the table already


def test_the_copy_of_the_embedding_is_summed_with_the_first_stages() -> None:
    """Gradients of a table on two stages are added up, of Vocabulary x hidden numbers in the format of the wire."""
    for modules in (0, 1):
        given = scenario(modules, pp=4, dp=2)
        job = build_job(given)
        found = StepCosts(job, None, _Silent()).embedding()  # type: ignore[arg-type]  # neither device nor network is asked
        assert found is None if not modules else found.size == VOCABULARY * HIDDEN * job.reduce_bytes


class _Silent:
    """A network that prices nothing."""

    def collective(self, *given: object) -> None:
        pass

    def ends(self, *given: object) -> None:
        pass


def test_logits_of_all_predicted_tokens_are_kept_at_once() -> None:
    none, two = of(0, pp=4, dp=2), of(2, pp=4, dp=2)
    assert memory.head_activations(two) == 3 * memory.head_activations(none)
    deep = memory.chunk_activations(two, memory.all_chunks(two)[-1])
    flat = memory.chunk_activations(none, memory.all_chunks(none)[-1])
    joined = 1024 * HIDDEN * 2 * (2 + 2)  # both norms keep their input, the matrix the two of them
    layers = memory.layer_activations(none, none.kinds[0])
    heads = 1024 * HIDDEN * 2 * 2  # the norm and the head keep a row each
    assert deep - flat == pytest.approx(2 * (joined + layers + heads))


def test_with_tensor_parallelism_rows_and_columns_are_gathered_around_the_matrix() -> None:
    model = jobs.model(mtp_layers=1, **PLAIN)
    ops = list(layer(model, Cut({"tp": 4}, scattered=True), model.predicting[0]))
    sent = [(op.does.operation, op.does.width) for op in ops if isinstance(op.does, Comm)][:3]
    assert sent == [("reduce_scatter", HIDDEN), ("all_gather", 2 * HIDDEN), ("all_gather", HIDDEN)]
    plain = list(layer(model, Cut({"tp": 4}, scattered=True), replace_kind(model)))
    assert [op.name for op in ops[-len(plain) :]] == [op.name for op in plain]


def replace_kind(model: Model) -> Any:
    return model.predicting[0]._replace(predicts=False)


def test_a_step_takes_longer_by_about_the_work_of_the_module() -> None:
    """One device, no exchange: a module is a layer, a matrix and a head more."""
    plain, more = (
        simulate(scenario(modules, devices=1, batch=2, micro=2)).metrics["step_time_s"] for modules in (0, 1)
    )
    nine = simulate(
        jobs.scenario(
            devices=1, batch=2, micro=2, shape=jobs.model(layers=9, **PLAIN), software=jobs.stack("megatron-core")
        )
    ).metrics["step_time_s"]
    head = flops.head_forward_flops(of(0, devices=1, dp=1))
    layer_flops = flops.layer_forward_flops(of(0, devices=1, dp=1), jobs.LAYER)
    assert (more - plain) / (nine - plain) == pytest.approx(1 + (head + 4 * 1024 * HIDDEN**2) / layer_flops, rel=0.25)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mtp": {"mlp": "dense"}}, "mtp_layers"),
        ({"mtp_layers": 1, "mtp": {"repeat": 2}}, "repeat"),
        ({"mtp_layers": 1, "mtp": {"mlp": "moe"}}, "sizes"),
        ({"mtp_layers": 1, "mtp": {"attention": "mla"}}, "`mtp` has mla and dense, whose sizes"),
    ],
)
def test_a_module_without_sizes_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        jobs.model(**given)
