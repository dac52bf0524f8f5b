"""The shipped scenarios: all load and run, published ones say what their authors say, and each shows what it is for."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from simulator import units
from simulator.errors import InputError
from simulator.metrics import METRICS
from simulator.results.result import Result
from simulator.run.simulate import simulate
from simulator.serving.fleet.system import resolve
from simulator.specs import data_root, load_scenario, names
from simulator.specs.scenario import Scenario, ServingScenario
from simulator.training.build import build_job
from simulator.training.job import Job

FAMILIES = [name for name in names(Scenario) if "families/" in name]
PAPERS = [name for name in names(Scenario) if name.startswith("papers/")]
TRAINED = [name for name in PAPERS if isinstance(load_scenario(name).spec, Scenario)]
"""Scenarios of papers on training."""
SERVING = [name for name in names(Scenario) if name.startswith(("serving/", "papers/")) and name not in TRAINED]
JOBS = [name for name in names(Scenario) if name.startswith("jobs/")]
SCENARIOS = [name for name in names(Scenario) if name not in (*FAMILIES, *SERVING, *JOBS, *TRAINED)]
LONG = ("training/frontier-1t", "training/megatron-1t", "training/megatron-529.6b")
"""Scenarios of more than a hundred thousand operations."""
QUICK = [name for name in SCENARIOS if name not in LONG]

ROWS = {
    **{
        f"training/megatron-{ours}": f"megatron21-t1-{theirs}"
        for ours, theirs in (
            ("1.7b", "1.7B"),
            ("3.6b", "3.6B"),
            ("7.5b", "7.5B"),
            ("18.4b", "18B"),
            ("39.1b", "39B"),
            ("76.1b", "76B"),
            ("145.6b", "145B"),
            ("1t", "1T"),
        )
    },
    "training/ptdp-175b": "megatron21-t2-ptdp-174b-384",
    "training/zero3-175b": "megatron21-t2-zero3-174b-384",
    "training/llama-3-405b": "llama3-405b-16384-cp1",
}
"""Scenarios of runs of which we ship the published row."""


def scenario(name: str, *overrides: str) -> Scenario:
    """A shipped scenario by name."""
    loaded = load_scenario(name, overrides).scenario
    assert isinstance(loaded, Scenario)
    return loaded


@cache
def run(name: str, *overrides: str) -> Result:
    """Its result; all chains as the slowest, which is quick and alters the step time by next to nothing."""
    return simulate(scenario(name, *overrides), fold="tiers")


@cache
def rows() -> dict[str, dict[str, Any]]:
    """Published rows by name."""
    lines = (data_root() / "workloads" / "measurements" / "training.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


@pytest.mark.parametrize("name", [*SCENARIOS, *TRAINED])
def test_every_scenario_makes_a_job(name: str) -> None:
    assert build_job(scenario(name)).mesh.world == scenario(name).cluster.devices


@pytest.mark.parametrize("name", SERVING)
def test_every_serving_scenario_has_replicas_that_fit(name: str) -> None:
    loaded = load_scenario(name).scenario
    assert isinstance(loaded, ServingScenario)
    assert all(system.cost.fits for system in resolve(loaded))


@pytest.mark.parametrize("name", SCENARIOS + SERVING)
def test_every_published_figure_is_a_quantity_with_a_source(name: str) -> None:
    for published in load_scenario(name).scenario.published:
        assert units.parse(published.value, METRICS[published.metric].dimension) > 0
        assert any(word in published.source for word in ("arXiv", "github", "README"))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_lacks_only_what_its_members_add(name: str) -> None:
    with pytest.raises(InputError) as error:
        scenario(name)
    assert all("is missing" in problem.message for problem in error.value.problems)
    extended = [s for s in SCENARIOS if f"extends: {name.removeprefix('training/')}\n" in source_of(s)]
    assert len(extended) > 1


def source_of(name: str) -> str:
    """The file of a scenario."""
    return (data_root() / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "row"), ROWS.items())
def test_scenarios_of_published_runs_say_what_their_authors_say(name: str, row: str) -> None:
    assert described(build_job(scenario(name)), scenario(name)) == published(rows()[row])


def described(job: Job, ours: Scenario) -> dict[str, Any]:
    """What a scenario says, by the keys of published rows."""
    return {
        "devices": ours.cluster.devices,
        "hidden": job.model.hidden,
        "layers": job.model.layers,
        "heads": job.model.heads,
        "vocab": job.model.vocabulary,
        "seq_len": job.sequence,
        "precision": job.precision,
        "global_batch": job.global_batch,
        "tp": job.tp,
        "pp": job.pp,
        "dp": job.dp,
        "recompute": job.recompute,
        "figure": [units.parse(p.value, "flop_rate") for p in ours.published if p.metric.endswith("_flops_per_device")],
    }


def published(row: dict[str, Any]) -> dict[str, Any]:
    """The same of a published row."""
    same = ("devices", "hidden", "layers", "heads", "vocab", "seq_len", "precision", "global_batch", "tp", "pp", "dp")
    recompute = row["recompute"].split()[0]
    return {**{key: row[key] for key in same}, "recompute": recompute, "figure": [row["flops_per_s_per_device"]]}


@pytest.mark.parametrize("name", [name for name in ROWS if "megatron-" in name])
def test_micro_batches_and_chunks_are_those_of_the_scripts(name: str) -> None:
    job, row = build_job(scenario(name)), rows()[ROWS[name]]
    assert (job.micro_batch, job.vpp) == (row["micro_batch"], row["vpp"])


@pytest.mark.parametrize("name", QUICK)
def test_every_scenario_runs(name: str) -> None:
    check(run(name), fits=name != "training/edge-cell-oom")


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_scenarios_run(name: str) -> None:
    check(run(name), fits=True)


def check(result: Result, fits: bool) -> None:
    """A result that makes sense: it fits or not as told, and no device exceeds its peak."""
    assert result.feasible is fits
    assert 0 < result.metrics["mfu"] <= result.metrics["hfu"] < 1
    assert sum(c.ranks for c in result.classes) == result.provenance["devices"]


def test_interleaving_gains_less_at_larger_batches() -> None:
    gains = [gain(batch) for batch in (12, 24, 60)]
    assert gains[0] > gains[1] > gains[2] > 1


def gain(batch: int) -> float:
    """Step time of the plain over that of the interleaved schedule."""
    sides = ("training/gpt-175b-plain", "training/gpt-175b-interleaved")
    plain, interleaved = (run(side, f"training.global_batch={batch}").metrics["step_time_s"] for side in sides)
    return plain / interleaved


def test_the_edge_cell_says_what_does_not_fit() -> None:
    result = run("training/edge-cell-oom")
    worst = max(result.memory, key=lambda use: use.peak)
    assert worst.peak > worst.capacity
    assert sum(worst.at_peak.values()) == pytest.approx(worst.peak)


def test_the_csv_schedule_beats_1f1b() -> None:
    ours, other = (run("training/zero-bubble-csv", *change) for change in ((), ("training.schedule=1f1b",)))
    assert ours.metrics["step_time_s"] < other.metrics["step_time_s"]
    assert ours.metrics["bubble_fraction"] < other.metrics["bubble_fraction"]


def test_stages_of_llama_405b_hold_a_layer_fewer_at_both_ends() -> None:
    job = build_job(scenario("training/llama-3-405b"))
    layers = list(stages(job))
    assert layers[0] == layers[-1] == 7
    assert set(layers[1:-1]) == {8}


def stages(job: Job) -> Iterator[int]:
    """Layers of each pipeline rank."""
    for rank in range(job.pp):
        yield sum(layers for layers, home in zip(job.chunks, job.home, strict=True) if home == rank)


@pytest.mark.parametrize(("nodes", "micro_batch", "published"), [(96, 2, 149 / 88), (192, 1, 141 / 44)])
def test_tensors_and_pipelines_beat_sharded_parameters_as_published(
    nodes: int, micro_batch: int, published: float
) -> None:
    """Table 2 of arXiv:2104.04473, 175B on 768 and 1,536 A100; it was 0.7 with ZeRO-3 the faster."""
    sharded = scenario("training/zero3-175b", f"cluster.nodes={nodes}", f"training.micro_batch={micro_batch}")
    cut = scenario("training/ptdp-175b", f"cluster.nodes={nodes}")
    ratio = simulate(sharded).metrics["step_time_s"] / simulate(cut).metrics["step_time_s"]
    assert ratio == pytest.approx(published, rel=0.2)
