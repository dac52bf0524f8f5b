"""Sensitivities: each is the re-run of a scenario that somebody else changed in the same way."""

from pathlib import Path

import pytest
import yaml

from simulator import units
from simulator.cost import compile_device, kernel_cost
from simulator.cost.work import Gemm
from simulator.run.simulate import Executor, simulate
from simulator.specs import data_root, load_scenario, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.scenario import Scenario
from simulator.study.sensitivity import changes, more_cards, sensitivities
from tests import jobs

TWO_NODES = """
version: 1
name: two nodes
cluster: {extends: clusters/selene, nodes: 2}
model: {name: small, layers: 8, hidden: 1024, heads: 16, vocabulary: 51200, max_sequence: 1024}
stack: megatron-lm-2021
training:
  {global_batch: 32, micro_batch: 1, sequence_length: 1024, precision: fp16, parallel: {tp: 2, pp: 2, zero: %d}}
"""

OVERRIDES = {
    "flop_rate": tuple(
        f"cluster.node.accelerator.peak.{dtype}={rate} TFLOP/s"
        for dtype, rate in (("fp16", 343.2), ("bf16", 343.2), ("fp32", 21.45))
    ),
    "hbm_bandwidth": ("cluster.node.accelerator.memory.bandwidth=2242.9 GB/s",),
    "scale_up_bandwidth": ("cluster.node.scale_up.bandwidth=330 GB/s",),
    "nic_bandwidth": ("cluster.node.nics.bandwidth=220 Gbit/s",),
    "nics": ("cluster.node.nics.count=16",),
}


def two_nodes(folder: Path, zero: int, *overrides: str) -> Scenario:
    """A job on two nodes of Selene, with some values of its file overridden."""
    path = folder / "two.yaml"
    path.write_text(TWO_NODES % zero)
    return load_scenario(path, overrides).scenario


@pytest.mark.parametrize(("zero", "executor"), [(0, "max-plus"), (3, "simpy")])
@pytest.mark.parametrize("name", OVERRIDES)
def test_a_sensitivity_is_the_run_with_the_changed_value(
    name: str, zero: int, executor: Executor, tmp_path: Path
) -> None:
    scenario = two_nodes(tmp_path, zero)
    found = next(s for s in sensitivities(scenario) if s.name == name)
    before = simulate(scenario).metrics["step_time_s"]
    after = simulate(two_nodes(tmp_path, zero, *OVERRIDES[name]), executor=executor).metrics["step_time_s"]
    assert found.step_time_s == pytest.approx(after, rel=1e-9)
    assert found.gain == pytest.approx(1 - after / before, abs=1e-9)


def tenth_less(text: str) -> str:
    """A time with its unit, shorter."""
    return f"{0.9 * units.parse(text, 'time')!r} s"


def test_lower_latency_is_the_run_with_a_quicker_library_and_quicker_wires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = two_nodes(tmp_path, 0)
    found = next(s for s in sensitivities(scenario) if s.name == "latency")
    library = yaml.safe_load((data_root() / CollectiveProfile.folder / "nccl-a100.yaml").read_text())
    steps = [scope["latency"] for p in library["protocols"].values() for scope in (p["scale_up"], p["scale_out"])]
    for figure in (*steps, *library["wire"].values()):
        figure["value"] = tenth_less(figure["value"])
    (tmp_path / "quicker.yaml").write_text(yaml.safe_dump(library))
    monkeypatch.chdir(tmp_path)
    wires = (
        "node.scale_up.latency=0.54 us",
        "node.nics.latency=1.8 us",
        "network.levels.0.latency=117 ns",
        "network.levels.1.latency=117 ns",
        "collectives=./quicker.yaml",
    )
    quicker = simulate(two_nodes(tmp_path, 0, *(f"cluster.{wire}" for wire in wires)), executor="max-plus")
    assert found.change == "-10 %"
    assert found.step_time_s == pytest.approx(quicker.metrics["step_time_s"], rel=1e-9)
    assert found.gain > 0


def test_a_higher_flop_rate_is_that_of_kernels_bound_by_it() -> None:
    scenario = jobs.scenario()
    faster = next(change.scenario for change in changes(scenario) if change.name == "flop_rate")
    devices = (compile_device(s.cluster.node.accelerator) for s in (scenario, faster))
    before, after = (kernel_cost(Gemm(8192, 8192, 8192), device) for device in devices)
    assert before.bound == "compute"
    assert before.seconds / after.seconds == pytest.approx(1.1, abs=0.01)


@pytest.mark.parametrize(
    ("cards", "devices", "more"),
    [(8, 8, 16), (4, 8, 8), (1, 8, 2), (2, 8, 4), (3, 8, 4), (5, 8, 8), (1, 1, 2), (2, 1, 3), (12, 8, 16), (2, 6, 3)],
)
def test_more_cards_serve_every_device(cards: int, devices: int, more: int) -> None:
    assert more_cards(cards, devices) == more


def named(scenario: Scenario) -> list[str]:
    """What could be better about the machine of a scenario."""
    return [change.name for change in changes(scenario)]


def test_only_what_a_machine_has_can_be_better() -> None:
    assert named(jobs.scenario(devices=1)) == ["flop_rate", "hbm_bandwidth"]
    assert named(jobs.scenario()) == ["flop_rate", "hbm_bandwidth", "scale_up_bandwidth", "latency"]
    assert named(jobs.scenario(nodes=2)) == [*OVERRIDES, "latency"]
    torus = load_spec(Cluster, "tpu-v4-pod")
    assert torus.network.kind == "torus"
    assert "torus_bandwidth" in named(jobs.scenario().model_copy(update={"cluster": torus}))


def test_the_unchanged_scenario_stays_as_it_was() -> None:
    scenario = jobs.scenario(nodes=2)
    before = scenario.model_dump_json()
    list(changes(scenario))
    assert scenario.model_dump_json() == before


def test_the_latency_of_every_hop_falls_by_a_tenth(tmp_path: Path) -> None:
    """The wire in nodes, of cards and of each level, and the steps of the library in nodes and between them."""
    scenario = two_nodes(tmp_path, 0)
    found = next(one for one in changes(scenario) if one.name == "latency")
    before, after = scenario.cluster, found.scenario.cluster
    library = load_spec(CollectiveProfile, before.collectives)
    assert before.node.nics is not None and after.node.nics is not None and before.network.levels
    pairs = [
        (before.node.scale_up.latency, after.node.scale_up.latency),
        (before.node.nics.latency, after.node.nics.latency),
        (before.network.latency, after.network.latency),
        *((old.latency, new.latency) for old, new in zip(before.network.levels, after.network.levels, strict=True)),
        (library.wire.scale_up, found.profile.wire.scale_up),
        (library.wire.scale_out, found.profile.wire.scale_out),
    ]
    for name, protocol in library.protocols.items():
        quick = found.profile.protocols[name]
        pairs += [(protocol.scale_up.latency, quick.scale_up.latency)]
        pairs += [(protocol.scale_out.latency, quick.scale_out.latency)]
        assert protocol.scale_up.launch == quick.scale_up.launch
    known = [(old.value, new.value) for old, new in pairs if old is not None and new is not None]
    assert len(known) > 4
    assert [new for _, new in known] == pytest.approx([0.9 * old for old, _ in known])


def test_two_devices_gain_from_latency_and_one_does_not() -> None:
    names = [[one.name for one in changes(jobs.scenario(devices=devices))] for devices in (1, 2)]
    assert ["latency" in found for found in names] == [False, True]
