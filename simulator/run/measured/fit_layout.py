"""The layout of a row that states none, where no device could hold the model by itself.

Whoever ran it spread the optimizer's states or cut the model; the rule spreads the states where that is open, and then
takes the fewest devices a model that hold it with what is recomputed by default. Dense models are cut by tensor
parallelism up to a node and by stages beyond, as users of Megatron do; mixtures spread their experts over the ranks of
a node first and are cut by stages, as published recipes of them do (NVIDIA-NeMo/Megatron-Bridge scripts/performance).
No rule looks at the measured value.
"""

from collections.abc import Iterator
from typing import Any

from simulator.axes import EP, PP, TP
from simulator.errors import InputError
from simulator.specs.scenario import Scenario
from simulator.training import memory
from simulator.training.arranged import arranged_job


def choose_layout(scenario: Scenario, recomputes: bool, assumed: list[str]) -> Scenario:
    """The scenario as it is where a device holds the model; else with the fewest devices a model that do, and as it
    is where none do. `recomputes` says that recomputation may make room."""
    if _held(scenario, recomputes):
        return scenario
    spread: dict[str, Any] = {} if scenario.stack.zero or scenario.training.parallel.zero else {"zero": 1}
    for sizes in _sizes(scenario):
        parallel = scenario.training.parallel.model_copy(update={**spread, **sizes})
        candidate = _with(scenario, parallel=parallel)
        if _held(candidate, recomputes=False):
            named = ", ".join(
                f"{axis} {size}" for axis, size in {**spread, **sizes}.items() if axis == "zero" or size > 1
            )
            assumed.append(f"{named}: the fewest devices a model that hold it")
            return candidate
    return scenario


def _sizes(scenario: Scenario) -> Iterator[dict[str, int]]:
    """Sizes of the axes, by growing number of devices a model."""
    model, node = scenario.model, scenario.cluster.node.devices
    devices = node * scenario.cluster.nodes
    experts, stated = model.experts or 1, scenario.training.parallel.ep
    spread = stated if experts == 1 or stated > 1 else _shared(experts, node)
    size = 1
    while size <= devices:
        tp = 1 if experts > 1 else min(size, node, _shared(model.heads, node))
        if model.layers % (size // tp) == 0:
            yield {TP.name: tp, PP.name: size // tp, EP.name: min(spread, devices // (size // tp))}
        size *= 2


POWERS: tuple[int, ...] = tuple(2**exponent for exponent in range(11))


def _shared(count: int, most: int) -> int:
    """The largest power of two that divides a count and is at most so many."""
    return max(power for power in POWERS if power <= most and count % power == 0)


def _held(scenario: Scenario, recomputes: bool) -> bool:
    """Whether the memory of a device holds its part of a run, with all layers computed again where that is open."""
    capacity = scenario.cluster.node.accelerator.memory.capacity.value
    changes: list[dict[str, Any]] = [{}, {"recompute": "full"}]
    for change in changes[: 1 + recomputes]:
        try:
            if memory.peak_memory(arranged_job(_with(scenario, **change))) <= capacity:
                return True
        except InputError:
            continue
    return False


def _with(scenario: Scenario, **changes: Any) -> Scenario:
    return scenario.model_copy(update={"training": scenario.training.model_copy(update=changes)})
