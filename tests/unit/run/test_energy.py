"""Energy of a run from what its devices do."""

import pytest

from simulator.results.result import Result
from simulator.run.energy import guessed_idle, step_energy_j
from simulator.run.serve import serve
from simulator.specs import load_scenario, load_spec, names
from simulator.specs.hardware import Accelerator
from simulator.specs.scenario import ServingScenario

PARTS = dict.fromkeys(
    ("compute", "recompute", "exposed_tp", "host", "stall", "exposed_pp", "exposed_dp", "optimizer", "bubble"), 0.0
)


def device() -> Accelerator:
    return load_spec(Accelerator, "h100-sxm")


def step(**parts: float) -> float:
    found = step_energy_j(device(), PARTS | parts, 0.6 * parts.get("compute", 0.0), sum(parts.values()))
    assert found is not None
    return found


def test_a_step_draws_most_while_it_computes_and_its_idle_power_while_it_waits() -> None:
    assert step(bubble=1.0) == step(host=1.0) == 120.0
    assert step(bubble=1.0) < step(exposed_dp=1.0) < step(optimizer=1.0) < step(compute=1.0) < 700.0
    assert step(compute=1.0) > 0.9 * 700.0


def test_a_device_under_a_limit_draws_no_more_than_that() -> None:
    held = load_spec(Accelerator, "h100-sxm-96gb")
    found = step_energy_j(held, PARTS | {"compute": 1.0}, 0.6, 1.0)
    assert found == pytest.approx(500.0)
    assert step(compute=1.0) > 600.0


def test_energy_adds_up() -> None:
    assert step(compute=1.0, bubble=0.5) == pytest.approx(step(compute=1.0) + step(bubble=0.5))


def test_no_shipped_device_has_an_idle_power_of_nothing() -> None:
    for name in names(Accelerator):
        power = load_spec(Accelerator, name).power
        assert power is None or (power.idle is not None and 0 < power.idle.value < power.peak.value), name


def test_an_idle_power_that_nobody_gave_is_assumed_and_said() -> None:
    known = device()
    assert known.power is not None
    silent = known.model_copy(update={"power": known.power.model_copy(update={"idle": None})})
    assert step_energy_j(silent, PARTS | {"bubble": 1.0}, 0.0, 1.0) == pytest.approx(0.15 * 700.0)
    assert "power.idle of NVIDIA H100" in guessed_idle([silent])[0]
    assert guessed_idle([known]) == ()


def power(*changes: str) -> tuple[Result, float]:
    """A run of the quickstart on one device, and its mean watts."""
    spec = load_scenario("serving/quickstart", list(changes)).spec
    assert isinstance(spec, ServingScenario)
    result = serve(spec)
    return result, result.metrics["energy_j"] / result.metrics["duration"]


def test_serving_draws_more_the_more_it_serves_and_never_less_than_idle_or_more_than_the_peak() -> None:
    accelerator = load_scenario("serving/quickstart", []).spec.cluster.node.accelerator
    assert accelerator.power is not None and accelerator.power.idle is not None
    idle, peak = accelerator.power.idle.value, accelerator.power.peak.value
    watts = [power(f"requests.arrivals={{poisson: {rate} /s}}", "requests.count=100")[1] for rate in (0.05, 0.5, 5)]
    assert idle < watts[0] < watts[1] < watts[2] < peak


def test_decoding_alone_draws_less_than_prompts_alone() -> None:
    lengths = "requests.lengths={{prompt: {{fixed: {}}}, output: {{fixed: {}}}}}"
    shape = "requests.count=8", "requests.arrivals={poisson: 1000 /s}"
    _, prompts = power(*shape, lengths.format(4000, 1))
    _, decoding = power(*shape, lengths.format(8, 500))
    assert decoding < 0.65 * prompts


def test_energy_is_the_same_whether_records_are_kept_or_not() -> None:
    """Links work in exchanges with experts too, which only the end of a run knows in full."""
    changes = (
        "cluster=clusters/dgx-h100",
        "model=models/olmoe-1b-7b",
        "serving.parallel={tp: 1, dp: 4, ep: 4}",
        "+serving.experts={dispatcher: deepep}",
        "requests.count=4",
    )
    loaded = [load_scenario("serving/quickstart", [*changes, f"+records={kept}"]) for kept in ("all", "none")]
    whole, none = (
        serve(one.scenario).metrics["energy_j"] for one in loaded if isinstance(one.scenario, ServingScenario)
    )
    assert none == pytest.approx(whole, rel=1e-9)


def test_energy_of_a_static_batch_is_the_same_without_leaps() -> None:
    """What members that are done still read grows in each iteration of a stretch."""
    changes = (
        "serving.batching={policy: static, max_sequences: 16}",
        "requests.lengths={prompt: {fixed: 20}, output: {uniform: [1, 3000]}}",
        "requests.arrivals={at_once: true}",
        "requests.count=16",
    )
    spec = load_scenario("serving/quickstart", list(changes)).spec
    assert isinstance(spec, ServingScenario)
    leaped, stepwise = serve(spec), serve(spec, leap=False)
    assert leaped.metrics["energy_j"] == pytest.approx(stepwise.metrics["energy_j"], rel=1e-4)
    assert leaped.service is not None and stepwise.service is not None
    rows = [result.service.replicas[0].iterations for result in (leaped, stepwise) if result.service is not None]
    assert rows[0].done.max() == 15 and [int(each.done @ each.count) for each in rows] == [int(rows[1].done.sum())] * 2
