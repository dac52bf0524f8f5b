import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks import validation
from simulator.report.catalogue.profiles import ROOMS
from simulator.run.extent import Extent, _profiles_of
from simulator.run.ground import Conditions, conditions, ground, of_accelerator, of_stack, shipped, validated
from simulator.run.measured.scores import Part
from simulator.run.spread.near import Like
from simulator.specs import load_scenario, load_spec, names
from simulator.specs.hardware import Accelerator
from simulator.specs.serving import ServingStack
from simulator.specs.training import Stack
from simulator.study.validate.serving import ServingOutcome
from simulator.study.validate.training import Outcome

QUICKSTART = "scenarios/quickstart.yaml"


def of(*overrides: str, file: str = QUICKSTART) -> str:
    return ground(load_scenario(file, overrides).scenario).kind


def test_a_machine_and_software_whose_runs_were_simulated() -> None:
    found = ground(load_scenario("scenarios/training/megatron-1t.yaml").scenario)
    assert found.kind == "measured and validated"
    assert found.validation.rows > 3
    assert 0 < found.validation.mean_error < 0.2
    assert found.inputs["accelerator"] == "datasheet"


def test_estimated_kernels_make_an_estimate() -> None:
    found = ground(load_scenario("scenarios/training/frontier-175b.yaml").scenario)
    assert found.kind == "estimate"
    assert found.weakest.startswith("kernels (AMD CDNA 2")
    assert found.validation.rows == 0


@pytest.mark.parametrize(
    "override",
    [
        "stack.compute_efficiency=0.5",
        "cluster.node.accelerator.memory.bandwidth=9 TB/s",
        "cluster.node.scale_up.bandwidth=900 GB/s",
        "cluster.collectives=ethernet",
        "cluster.node.accelerator.kernels=generic",
    ],
)
def test_what_a_user_puts_in_place_of_a_known_figure_is_an_estimate(override: str) -> None:
    assert of(override) == "estimate"


def test_layers_with_a_state_are_an_estimate_in_training_and_measured_where_tables_are(tmp_path: Path) -> None:
    megatron = "scenarios/quickstart.yaml"
    assert ground(load_scenario(megatron, ["model=models/mamba-2-1.3b"]).scenario).inputs["kernels"] == "estimate"
    lines = "version: 1\nname: one\ncluster: {extends: clusters/dgx-h100, nodes: 1}\nstack: vllm\nserving: {}\n"
    lines += "requests: {arrivals: {poisson: 1 /s}, lengths: azure-conversation, count: 1}\nmodel: models/"
    for model, status in (("qwen3.5-27b", "measured"), ("kimi-linear-48b-a3b", "measured"), ("gla-1.3b", "estimate")):
        (tmp_path / "one.yaml").write_text(lines + model)
        assert ground(load_scenario(tmp_path / "one.yaml").scenario).inputs["kernels"] == status


def test_runs_in_other_conditions_do_not_validate() -> None:
    found = ground(load_scenario(QUICKSTART, ["stack=nemo", "cluster.collectives=nccl-a100"]).scenario)
    assert found.validation.rows == 0 < found.validation.elsewhere
    assert found.kind == "measured"


def test_a_format_whose_kernels_are_borrowed_is_an_estimate() -> None:
    assert of("training.precision=fp32") == "estimate"


def test_the_weakest_of_several_machines_decides() -> None:
    kinds = load_scenario("scenarios/serving/fleet-two-device-kinds.yaml").scenario
    assert ground(kinds).kind == "estimate"


def test_conditions_tell_formats_and_kinds_of_models_apart() -> None:
    plain = conditions(load_scenario(QUICKSTART).scenario)
    assert plain.format == "16 bits"
    assert plain.model == "dense"
    assert conditions(load_scenario(QUICKSTART, ["training.precision=fp8"]).scenario).format == "fp8"


def test_errors_are_gathered_by_conditions() -> None:
    one, other = (Conditions("training", "a", "b", f, "dense", "") for f in ("fp8", "16 bits"))
    small, large = Extent(8, ("ZeRO-1",)), Extent(64, ("ZeRO-3",))
    found = validated([(one, small, 0.1), (other, small, -0.2), (one, large, -0.3)])
    assert [(row["format"], row["rows"], row["mean_error"]) for row in found] == [("16 bits", 1, 0.2), ("fp8", 2, 0.2)]
    assert [(row["devices"], row["features"]) for row in found] == [(8, ("ZeRO-1",)), (64, ("ZeRO-1", "ZeRO-3"))]


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("cluster.node.accelerator.peak.bf16=2000 TFLOP/s", "accelerator"),
        ("cluster.node.accelerator.kernels=generic", "accelerator"),
        ("cluster.node.scale_up.bandwidth=900 GB/s", "network"),
        ("stack.compute_efficiency=0.5", "stack"),
    ],
)
def test_no_validated_run_speaks_for_other_figures_than_those_of_the_profiles(override: str, changed: str) -> None:
    held = ground(load_scenario(QUICKSTART, [override]).scenario).validation
    assert (held.rows, held.changed) == (0, (changed,))


def test_memory_and_price_are_no_figures_of_time() -> None:
    changes = ["cluster.node.accelerator.memory.capacity=200 GB", "cluster.node.accelerator.price=1 USD/h"]
    assert (
        ground(load_scenario("scenarios/training/megatron-1t.yaml", changes).scenario).kind == "measured and validated"
    )


@pytest.mark.parametrize(
    ("overrides", "beyond"),
    [
        (["training.offload_layers=1"], "offloaded activations"),
        (["training.attention=unfused"], "unfused attention"),
        (["cluster.nodes=8192"], "near 65,536 devices"),
    ],
)
def test_what_no_validated_run_has_is_said_and_not_validated(overrides: list[str], beyond: str) -> None:
    found = ground(load_scenario(QUICKSTART, overrides).scenario)
    assert found.kind == "measured"
    assert any(beyond in text for text in found.validation.beyond)
    assert beyond in found.sentence


def test_the_shipped_validation_is_of_profiles_that_exist() -> None:
    devices = {load_spec(Accelerator, name).name for name in names(Accelerator)}
    training = {load_spec(Stack, name).name for name in names(Stack) if _trains(name)}
    serving = {load_spec(ServingStack, name).name for name in names(Stack) if not _trains(name)}
    stacks = {"training": training, "serving": serving}
    assert len(shipped()) > 50
    for known, rows, error, reach in shipped():
        assert reach.devices >= 1
        assert known.kind == "serving" or reach.features
        assert known.device in devices
        assert known.stack in stacks[known.kind]
        assert rows > 0
        assert error >= 0


def test_lists_of_profiles_say_it_too() -> None:
    assert of_accelerator(load_spec(Accelerator, "h100-sxm")).startswith("measured, ")
    assert of_accelerator(load_spec(Accelerator, "mi250x")) == "estimate"
    assert of_stack(load_spec(Stack, "fsdp")).startswith("measured, ")


def _trains(name: str) -> bool:
    return name in _training_stacks()


@cache
def _training_stacks() -> frozenset[str]:
    return frozenset(ROOMS["training stacks"].names())


def test_the_command_that_writes_the_validation_page_ships_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "validated.json"
    file.write_text('{"memory": {"rows": 1, "mean_error": 0.5}, "rows": []}')
    monkeypatch.setattr(validation, "VALIDATED", file)
    one, reach = Conditions("training", "a", "b", "fp8", "dense", ""), Extent(8, ("ZeRO-1",))
    rows = [
        Outcome("x", measured_s=1.0, predicted_s=e, memory_error=m, like=Like(one, reach, "v", 2022))
        for e, m in ((1.1, 0.1), (0.7, -0.3))
    ]
    validation.ship("training.jsonl", [*rows, Outcome("y", refused="no")])
    served = one._replace(kind="serving")
    like = Like(served, reach, "v", 2022)
    validation.ship("serving.jsonl", [ServingOutcome("z", parts=(Part("ttft", 1.0, 1.5, False),), like=like)])
    validation.ship("serving.jsonl", [ServingOutcome("z", parts=(Part("ttft", 1.0, 1.5, False),), like=like)])
    told = json.loads(file.read_text())
    assert told["memory"] == {"rows": 2, "mean_error": 0.2}
    assert [(row["kind"], row["rows"], row["mean_error"]) for row in told["rows"]] == [
        ("serving", 1, 0.5),
        ("training", 2, 0.2),
    ]


def test_mixtures_of_experts_stand_on_the_table_of_the_family_that_runs() -> None:
    asked = ["cluster={extends: clusters/dgx-h100, nodes: 1}", "model=models/mixtral-8x7b", "+serving.parallel.tp=4"]
    kernels = {
        families: ground(
            load_scenario("scenarios/serving/quickstart.yaml", [*asked, f"stack.expert_kernels=[{families}]"]).scenario
        ).inputs["kernels"]
        for families in ("triton", "unheard-of")
    }
    assert kernels == {"triton": "measured", "unheard-of": "estimate"}


def test_every_shipped_accelerator_is_found_by_its_name() -> None:
    for reference in names(Accelerator):
        spec = load_spec(Accelerator, reference)
        assert spec in _profiles_of(spec.name), reference
