"""What runs are of, in few words: what a comparison or a sweep says above its figures."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from simulator import units
from simulator.axes import CP, DP, EP, PP, TP
from simulator.run.kinds import JOBS, SERVING, TRAINING, WORKFLOW, kind_of_fields
from simulator.scenario_fields import at, devices, parts_of, whole, word
from simulator.specs.text.written import dimension_at

if TYPE_CHECKING:
    from simulator.specs.scenario import AnyRun

DEPENDS = {
    "jobs": ("jobs.*.name",),
    "stages": ("stages.*.name",),
    "model": ("model", "jobs.*.model", "stages.*.model"),
    "cluster": ("cluster",),
    "devices": (
        "cluster.nodes",
        "cluster.node",
        "cluster.extends",
        "cluster.more_nodes",
        "serving.parallel",
        "serving.replicas",
        "serving.pools",
        "serving.partition",
    ),
    "stack": ("stack", "jobs.*.stack", "stages.*.stack"),
    "layout": ("training.parallel", "serving.parallel", "serving.replicas", "cluster.nodes", "cluster.node"),
    "batch": ("training.global_batch", "training.sequence_length", "requests.count"),
}
"""The keys on which each of the facts rests, but the name; `*` is the number of a job."""
_MOST = 8
"""Values that are named of what differs; of more the number."""
_SETTINGS = ("training", "serving", "requests", "slo", "jobs", "perturbations", "pools", "stages", "iterations")
"""Sections of a scenario that are settings of a run, key by key; of the others their names tell enough."""
_OF_SERVING = ("serving", "requests", "slo")
_OF_JOBS = ("jobs", "perturbations")
_OF_WORKFLOWS = ("pools", "stages", "iterations")
_LONGEST = 60
_AXES = (TP.name, PP.name, "vpp", CP.name, EP.name, DP.name)


def scenario_fields(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Name, jobs, model, devices, cluster, stack, layout and batch of a resolved scenario, as far as it says."""
    found = {
        "scenario": word(scenario, "name"),
        "jobs": _names(scenario, "jobs"),
        "stages": _names(scenario, "stages"),
        "model": _called(scenario, "model"),
        "devices": _devices(scenario),
        "cluster": word(scenario, "cluster.name"),
        "stack": _called(scenario, "stack"),
        "layout": _layout(scenario),
        "batch": _batch(scenario),
    }
    return {name: words for name, words in found.items() if words}


def shared(scenarios: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The facts that are the same for all scenarios."""
    every = [scenario_fields(scenario) for scenario in scenarios]
    return {name: words for name, words in every[0].items() if all(one.get(name) == words for one in every)}


def differing(scenarios: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Keys of settings, and facts that are no settings, by the values that they have in turn; `open` where left open.

    Of runs that train and runs that serve only the facts: they have no setting in common.
    """
    mixed = len({kind_of_fields(scenario).name for scenario in scenarios}) > 1
    every = [_named(scenario) if mixed else _settings(scenario) for scenario in scenarios]
    found = {}
    for key in dict.fromkeys(key for one in every for key in one):
        values = list(dict.fromkeys(one.get(key, "open") for one in every))
        if len(values) > 1:
            found[key] = values if len(values) <= _MOST else [*values[:_MOST], f"{len(values) - _MOST} more"]
    return found


def _named(scenario: Mapping[str, Any]) -> dict[str, str]:
    known = ("model", "devices", "cluster", "stack")
    return {
        key: words.partition(" (")[0] if key in ("model", "stack") else words
        for key, words in scenario_fields(scenario).items()
        if key in known
    }


def _settings(scenario: Mapping[str, Any]) -> dict[str, str]:
    return _named(scenario) | settings(scenario)


def settings(scenario: Mapping[str, Any]) -> dict[str, str]:
    """What a resolved scenario says of the run itself, as text by dotted paths."""
    return {path: text for section in _SETTINGS for path, text in _leaves(section, scenario.get(section)).items()}


def _leaves(path: str, value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {inner: text for key, item in value.items() for inner, text in _leaves(f"{path}.{key}", item).items()}
    if value is None or value == [] or value == ():
        return {}
    if isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value):
        items = ((f"{path}.{index}", _without_machine(item)) for index, item in enumerate(value))
        return {inner: text for at, item in items for inner, text in _leaves(at, item).items()}
    return {path: _text(path, value)}


def _without_machine(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of a list, with the cluster, model and stack that it may have by their names alone."""
    return {**item, **{key: word(item, f"{key}.name") or None for key in _NAMED if key in item}}


_NAMED = ("cluster", "model", "stack")


def _text(path: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _spelled(value)[:_LONGEST]
    named = dimension_at(_kind_at(path), path)
    return units.format(value, named) if named not in (None, "count") else units.plain(value, 6)


def _kind_at(path: str) -> "type[AnyRun]":
    """Which kind of scenario has a section."""
    if path.startswith(_OF_WORKFLOWS):
        return WORKFLOW.spec
    return (JOBS if path.startswith(_OF_JOBS) else SERVING if path.startswith(_OF_SERVING) else TRAINING).spec


def _spelled(value: Any) -> str:
    """A value as YAML has it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(scenario: Mapping[str, Any], section: str) -> str:
    """The names of several jobs or stages."""
    return ", ".join(word(part, "name") for part in parts_of(scenario, section))


def _called(scenario: Mapping[str, Any], section: str) -> str:
    """The name of a model or stack, of several jobs or stages those that they have."""
    several = [part for kind in ("jobs", "stages") for part in parts_of(scenario, kind)]
    named = dict.fromkeys(word(part, f"{section}.name").partition(" (")[0] for part in several)
    return word(scenario, f"{section}.name") or ", ".join(filter(None, named))


def _devices(scenario: Mapping[str, Any]) -> str:
    """Those of a training run are all of its cluster, those of a service the ones that its replicas take."""
    number = devices(scenario) or 0
    found = {word(scenario, "cluster.node.accelerator.name"): number}
    if number and "serving" in scenario:
        pools = at(scenario, "serving.pools")
        found = {}
        for pool in pools if isinstance(pools, list | tuple) and pools else [at(scenario, "serving")]:
            device = _accelerator(scenario, pool)
            found[device] = found.get(device, 0) + _replicas(scenario, pool)
    return " + ".join(f"{number:,} x {device}" for device, number in found.items() if number and device)


def _accelerator(scenario: Mapping[str, Any], pool: Any) -> str:
    """The device of a pool's replicas."""
    own = {"of": at({"pool": pool}, "pool.cluster") or scenario.get("cluster")}
    called = word({"pool": pool}, "pool.partition") or word(scenario, "serving.partition")
    more = at(own, "of.more_nodes")
    named = [kind for kind in more if word(kind, "name") == called] if isinstance(more, list | tuple) else []
    return word({"of": [*named, own["of"]][0]}, "of.node.accelerator.name")


def _replicas(scenario: Mapping[str, Any], pool: Any) -> int:
    """Devices of a pool's replicas."""
    layout = at({"pool": pool}, "pool.parallel") or at(scenario, "serving.parallel")
    sizes = [whole({"of": layout}, f"of.{axis}", 0) or 1 for axis in (TP.name, PP.name)]
    return (whole({"of": pool}, "of.replicas", 0) or 1) * prod(sizes)


def _layout(scenario: Mapping[str, Any]) -> str:
    """The parallel axes that cut something; `dp` also where it follows from the number of devices."""
    path = kind_of_fields(scenario).layout
    sizes = {axis: size for axis in _AXES if (size := whole(scenario, f"{path}.{axis}", None)) is not None}
    if DP.name not in sizes and path.startswith("training"):
        number = whole(scenario, "cluster.nodes", 0) * whole(scenario, "cluster.node.devices", 0)
        sizes[DP.name] = number // prod(sizes.get(axis) or 1 for axis in (TP.name, PP.name, CP.name))
    cut = [f"{axis} {size:,}" for axis, size in sizes.items() if size > 1]
    replicas = whole(scenario, "serving.replicas", None)
    return ", ".join([*cut, *([f"{replicas} replicas"] if replicas and replicas > 1 else [])])


def _batch(scenario: Mapping[str, Any]) -> str:
    batch, length = (whole(scenario, f"training.{key}", None) for key in ("global_batch", "sequence_length"))
    if batch and length:
        return f"batch {batch:,} of {length:,} tokens"
    count = whole(scenario, "requests.count", None)
    return f"{count:,} requests" if count else ""
