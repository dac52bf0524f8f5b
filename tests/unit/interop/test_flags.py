"""Layouts as flags of Megatron-LM and torchtitan, read back by the parsers of these."""

from dataclasses import dataclass

import pytest

from simulator.errors import InputError
from simulator.interop.flags import flags
from simulator.run.kinds import TRAINING
from simulator.specs import load_scenario
from simulator.specs.scenario import Scenario

QUICK = "scenarios/quickstart.yaml"


@dataclass(frozen=True)
class Case:
    program: str
    changes: tuple[str, ...]


MEGATRON = ("stack=megatron-core",)
TITAN = ("stack=fsdp", "model=models/llama-3.1-8b", "training.parallel.sequence_parallel=true")
LAYOUTS = (
    "{tp: 2, pp: 2, dp: 2, zero: 1}",
    "{tp: 1, pp: 4, vpp: 2, dp: 2, zero: 0}",
    "{tp: 2, pp: 1, cp: 2, dp: 2, zero: 1}",
    "{tp: 8, pp: 1, dp: 1}",
)
TITANS = (
    "{tp: 2, pp: 1, dp: 4, zero: 3}",
    "{tp: 1, pp: 4, dp: 2, zero: 2}",
    "{tp: 1, pp: 4, vpp: 2, dp: 2, zero: 2}",
    "{dp: 8, zero: 0}",
)
CASES = [
    *(Case("megatron", (*MEGATRON, f"training.parallel={one}", "training.recompute=full")) for one in LAYOUTS),
    Case("megatron", (*MEGATRON, "training.parallel={tp: 2, pp: 4}", "training.schedule=zb-h1")),
    Case("megatron", (*MEGATRON, "training.parallel={tp: 2, pp: 4, vpp: 2}", "training.schedule=v-half")),
    Case(
        "megatron", (*MEGATRON, "model=models/mixtral-8x7b", "training.parallel={tp: 2, ep: 4, etp: 1, pp: 1, zero: 1}")
    ),
    *(Case("torchtitan", (*TITAN, f"training.parallel={one}")) for one in TITANS),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.program} {case.changes[-1]}")
def test_flags_read_back_are_the_same_training(case: Case, tmp_path) -> None:  # type: ignore[no-untyped-def]
    from simulator.interop.machine import Machine
    from simulator.run.imports import import_file

    changes = [one for one in case.changes if "sequence_parallel" not in one]
    scenario = load_scenario(QUICK, ["training.schedule=null", "training.micro_batch=1", *changes]).scenario
    assert isinstance(scenario, Scenario)
    scenario = _complete(scenario, case)
    file = tmp_path / ("job.toml" if case.program == "torchtitan" else "train.txt")
    file.write_text(flags(scenario, case.program))
    text = import_file(str(file), Machine("dgx-h100", None), case.program, {})
    target = tmp_path / "read.yaml"
    target.write_text(text)
    read = load_scenario(target, [f"stack={_stack(case)}"]).scenario
    assert isinstance(read, Scenario)
    own, other = scenario.training, read.training
    assert other.parallel.sizes() | {"etp": None} == own.parallel.sizes() | {"etp": None}
    for name in ("global_batch", "micro_batch", "sequence_length"):
        assert getattr(other, name) == getattr(own, name)
    times = [TRAINING.evaluate(one).metrics["step_time_s"] for one in (scenario, read)]
    assert times[1] == pytest.approx(times[0], rel=0.03)


def _stack(case: Case) -> str:
    return next(one.partition("=")[2] for one in case.changes if one.startswith("stack="))


def _complete(scenario: Scenario, case: Case) -> Scenario:
    """The scenario with what the programs always state: dp, and sequence parallelism beside tensor parallelism."""
    parallel = scenario.training.parallel
    dp = scenario.cluster.devices // (parallel.tp * parallel.pp * parallel.cp)
    spread = parallel.tp > 1
    parallel = parallel.model_copy(update={"dp": dp, "sequence_parallel": spread, "zero": parallel.zero or 0})
    return scenario.model_copy(update={"training": scenario.training.model_copy(update={"parallel": parallel})})


@pytest.mark.parametrize(
    ("program", "changes", "said"),
    [
        ("megatron", ("training.parallel={pp: 4, vpp: 2}", "training.schedule=dualpipev"), "no schedule `dualpipev`"),
        ("megatron", ("training.offload_layers=1",), "not written"),
        ("torchtitan", ("model=models/gpt3-2.7b",), "no flavor"),
        ("torchtitan", ("model=models/llama-3.1-8b", "training.parallel={dp: 8, zero: 1}"), "shards as ZeRO-3"),
        ("torchtitan", ("model=models/llama-3.1-8b", "training.recompute=selective"), "whole layers"),
    ],
)
def test_what_cannot_be_told(program: str, changes: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        flags(load_scenario(QUICK, ["training.schedule=null", *changes]).scenario, program)
