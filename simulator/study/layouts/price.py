"""What a worker does: bounds of some layouts of a scenario; of one layout its step with nothing shared; of one its
memory, then its step, by max-plus where that holds."""

import json
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

import numpy as np

from simulator.errors import InfeasibleError, InputError, Problem
from simulator.results.result import Result
from simulator.run.clock_overflow import clock_overflow
from simulator.run.simulate import least_step_s, simulate
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec, restored
from simulator.specs.scenario import Scenario
from simulator.study import fingerprint
from simulator.study.layouts.floors import Bound, Floors
from simulator.study.layouts.layout import Layout
from simulator.study.sweep.evaluate import Outcome, evaluated
from simulator.training.arranged import arranged_job
from simulator.training.memory import peak_memory


@lru_cache(maxsize=256)
def _scenario(document: str) -> Scenario:
    found = restored(json.loads(document))
    if not isinstance(found, Scenario):
        raise InputError(Problem("no scenario that trains"))
    return found.model_copy(update={"published": ()})


@lru_cache(maxsize=8)
def _floors(document: str) -> Floors:
    return Floors(_scenario(document))


def bounds_of(document: str, layouts: Sequence[Layout], program: str) -> list[Bound]:
    """Bounds of layouts of the scenario `document`, in their order."""
    fingerprint.check(program)
    floors = _floors(document)
    return [floors.bound(layout) for layout in layouts]


def least(document: str, layout: Layout, program: str) -> float:
    """Seconds of a step of a layout of the scenario `document` in which nothing is shared, a lower bound; 0 where that
    is not known, and for a layout that does not run."""
    fingerprint.check(program)
    scenario = layout.of(_scenario(document))
    try:
        if peak_memory(arranged_job(scenario)) > scenario.cluster.node.accelerator.memory.capacity.value:
            return 0.0
        with np.errstate(over="raise", invalid="raise"):
            return least_step_s(scenario, load_spec(CollectiveProfile, scenario.cluster.collectives))
    except (InputError, InfeasibleError, OverflowError, FloatingPointError):
        return 0.0  # pricing says what is wrong with it


def price(document: str, layout: Layout, program: str) -> Outcome:
    """The figures of a layout of the scenario `document` (plain data in JSON); what is wrong with it is its outcome."""
    fingerprint.check(program)
    scenario = layout.of(_scenario(document))
    try:
        need = peak_memory(arranged_job(scenario))
    except InputError as error:
        return Outcome("refused", " ".join(str(error).split()))
    except (OverflowError, FloatingPointError):
        return Outcome("refused", " ".join(str(clock_overflow(scenario)).split()))
    capacity = scenario.cluster.node.accelerator.memory.capacity.value
    if need > capacity:
        reason = f"needs {need / 1e9:.1f} GB of {capacity / 1e9:.1f} GB"
        return Outcome("out of memory", reason, {"peak_memory_bytes": need})
    return evaluated(lambda: scenario)


def confirmed(document: str, layout: Layout, program: str) -> Result:
    """The Result of a layout of the scenario `document`, event by event."""
    fingerprint.check(program)
    return simulate(layout.of(_scenario(document)), executor="simpy", recording=False)


def cache_key(base: str, layout: Layout) -> str:
    """Key of the outcome of a layout of the scenario whose own key is `base`."""
    return sha256(json.dumps(["layout", base, *layout]).encode()).hexdigest()
