"""Which optimizer a scenario asks for, with what it leaves open filled in."""

from simulator.axes import TP
from simulator.parallel import Mesh
from simulator.specs.training import Optimizer, Training
from simulator.training.optimizers.base import OPTIMIZERS

PATH = "training.optimizer"


def chosen(training: Training, zero: int, per_pass: bool, assumptions: list[str]) -> Optimizer:
    """The optimizer with all of its options; InputError for one that is unknown or does not fit the ZeRO stage."""
    given = training.optimizer or Optimizer()
    rule = OPTIMIZERS.get(given.name, f"{PATH}.name" if training.optimizer else PATH)
    rule.check(given, zero, per_pass)
    if "whole" not in rule.options or not zero:
        return given.model_copy(update={"whole": None})
    if given.whole is None:
        usual = "exchanged" if per_pass else "owners"
        assumptions.append(f"optimizer.whole is not given: {usual}")
        given = given.model_copy(update={"whole": usual})
    return given


def unused(training: Training, mesh: Mesh, zero: int) -> list[str]:
    """Options that change nothing."""
    given = training.optimizer
    if given is None:
        return []
    read = OPTIMIZERS.get(given.name).options
    found = [(f"{key}: {given.name} has none" if key not in read else "") for key in sorted(given.model_fields_set)]
    found = [text for text in found if text and not text.startswith("name:")]
    if given.whole and "whole" in read and not zero:
        found.append("whole: parallel.zero is 0, so that every rank has whole matrices")
    if given.tensor != "blockwise" and "tensor" in read and mesh.sizes[TP.name] == 1:
        found.append(f"tensor {given.tensor}: there is no tensor parallelism")
    return [f"no effect: optimizer.{text}" for text in found]
