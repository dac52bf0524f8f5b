"""What a scenario leaves open and what it then is, for the page that explains it."""

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from simulator.axes import CP, PP, TP
from simulator.report.catalogue.explain import scalar
from simulator.report.catalogue.quantities import dimension_of
from simulator.scenario_fields import devices, replicas
from simulator.specs import dump
from simulator.specs.base import Figure, Spec
from simulator.specs.scenario import Scenario, has_jobs, serves

if TYPE_CHECKING:
    from simulator.specs.scenario import AnyScenario


def origins(scenario: "AnyScenario", known: Mapping[str, str]) -> dict[str, str]:
    """What stands beside each value: where it was set (`known`), or what an open one is; beside the placements of
    jobs where they lie."""
    found = {**known, **defaults(scenario)}
    if has_jobs(scenario):
        from simulator.results.places import place_in_words
        from simulator.run.jobs.placing import place

        for i, devices in enumerate(place(scenario)):
            path = f"jobs.{i}.placement"
            if isinstance(scenario.jobs[i].placement, str):
                found[path] = f"{found[path]}: {place_in_words(devices, scenario.cluster.numbering.node_of)}"
    return found


def defaults(scenario: "AnyScenario") -> dict[str, str]:
    """A remark for each open value, by its path: the stack's choice, or the size that follows from the others.

    Raises InputError where jobs cannot be placed.
    """
    if has_jobs(scenario):
        from simulator.run.jobs.parts import parts

        jobs = enumerate(parts(scenario))
        return {f"jobs.{i}.{path}": remark for i, job in jobs for path, remark in defaults(job).items()}
    if serves(scenario):
        return _by_stack(scenario.serving.batching, scenario.stack, "serving.batching") | _by_stack(
            scenario.serving.kv_cache, scenario.stack, "serving.kv_cache"
        )
    training = scenario.training
    found = _by_stack(training, scenario.stack, "training")
    found |= _by_stack(training.parallel, scenario.stack, "training.parallel")
    if training.parallel.dp is None:
        found["training.parallel.dp"] = _replicas(scenario)
    return found


def _by_stack(spec: Spec, stack: Spec, path: str) -> dict[str, str]:
    """The open fields of a spec that a stack has too."""
    found: dict[str, str] = {}
    for name in type(spec).model_fields.keys() & type(stack).model_fields.keys():
        value = getattr(stack, name)
        if getattr(spec, name) is None and value is not None:
            found[f"{path}.{name}"] = f"left to the stack: {_shown(value)}"
    return found


def _shown(value: object) -> str:
    if isinstance(value, Figure):
        return scalar(value.value, dimension_of(type(value).model_fields["value"].metadata))
    return scalar(value)


def _replicas(scenario: Scenario) -> str:
    plain = dump(scenario)
    layout = scenario.training.parallel
    cut = {axis: getattr(layout, axis) for axis in (TP.name, CP.name, PP.name) if getattr(layout, axis) > 1}
    product = " x ".join(f"{axis} {size}" for axis, size in cut.items()) or "1"
    if devices(plain) is None or scenario.cluster.devices % prod(cut.values()):
        return "default"
    return f"derived: {replicas(plain)} = {scenario.cluster.devices} devices / ({product})"
