"""How far validated runs reach: their devices and the features of layout that decide times, and what is changed here.

Runs with the same device and stack say nothing of a way to shard, to offload or to attend that none of them used, nor
of a scale far above theirs; and none of a device or stack with other figures than its profile.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simulator.run.kinds import kind_of
from simulator.specs import data_root, load_spec
from simulator.specs.base import Figure, Spec
from simulator.specs.hardware import Accelerator, Cluster
from simulator.specs.scenario import Scenario

if TYPE_CHECKING:
    from simulator.specs.scenario import OneScenario

FAR = 4
"""Times the devices of the largest validated run from which on a run is beyond them."""


class Extent(NamedTuple):
    """What runs have that others may not."""

    devices: int
    """Devices that talk to each other; the most of several runs."""
    features: tuple[str, ...]
    """Features of layout, in words."""


def extent(scenario: "OneScenario", cluster: Cluster | None = None) -> Extent:
    """The extent of one run, on another cluster where one is given."""
    return Extent(kind_of(scenario).group(scenario, cluster or scenario.cluster), tuple(_features(scenario)))


def together(extents: Iterable[Extent]) -> Extent:
    """What some of the runs have."""
    known = list(extents)
    features = sorted({name for one in known for name in one.features})
    return Extent(max((one.devices for one in known), default=0), tuple(features))


def beyond(own: Extent, held: Extent) -> tuple[str, ...]:
    """What a run has that none of the validated ones had."""
    new = [name for name in own.features if name not in held.features]
    large = [f"near {own.devices:,} devices ({held.devices:,} at most)"] if own.devices >= FAR * held.devices else []
    return (*new, *large)


def changed(scenario: "OneScenario", cluster: Cluster) -> tuple[str, ...]:
    """The inputs whose figures are not those of their profiles: `accelerator`, `network`, `stack`."""
    device, stack = cluster.node.accelerator, scenario.stack
    known = [_of_time(spec) for spec in _profiles_of(device.name)]
    found = {
        "accelerator": bool(known) and _of_time(device) not in known,
        "network": any(map(_overridden, (cluster.node.scale_up, cluster.node.nics, cluster.network))),
        "stack": _overridden(stack),
    }
    return tuple(name for name, yes in found.items() if yes)


def _features(scenario: "OneScenario") -> Iterator[str]:
    if not isinstance(scenario, Scenario):
        if any(pool.role != "both" for pool in scenario.serving.pools):
            yield "prefill and decode apart"
        return
    training, stack, layout = scenario.training, scenario.stack, scenario.training.parallel
    zero = stack.zero if layout.zero is None else layout.zero
    if scenario.cluster.devices > layout.tp * layout.pp * layout.cp:
        yield f"ZeRO-{zero}"
    away = {} if training.offload is None else training.offload.tiers
    if training.offload_layers or "activations" in away:
        yield "offloaded activations"
    if "optimizer" in away or "parameters" in away:
        yield "offloaded model states"
    yield f"{training.attention or stack.attention} attention"


def _of_time(spec: Accelerator) -> tuple[object, ...]:
    """What decides times of an accelerator."""
    figures = (
        *(spec.memory.bandwidth, spec.cores, spec.clock, spec.on_chip, spec.host_link),
        *(spec.sustained, spec.variability, spec.power.limit if spec.power else None),
    )
    peaks = {name: figure.value for name, figure in spec.peak.items()}
    return peaks, spec.kernels, *(None if figure is None else figure.value for figure in figures)


def _overridden(spec: Spec | None) -> bool:
    """Whether a figure of a spec was put there by an override."""
    values = [] if spec is None else [getattr(spec, name) for name in type(spec).model_fields]
    return any(isinstance(value, Figure) and value.source.startswith("override ") for value in values)


@cache
def _profiles_of(device: str) -> tuple[Accelerator, ...]:
    """The profiles of accelerators of that name; others are not parsed, which would take longer than many a run."""
    references = (path.stem for path in _files() if _named(path) == device)
    return tuple(load_spec(Accelerator, reference) for reference in references)


def _files() -> Iterator[Path]:
    """All profiles of accelerators."""
    assert Accelerator.folder is not None
    yield from sorted((data_root() / Accelerator.folder).glob("*.yaml"))


def _named(path: Path) -> str:
    """The name in a profile: the value of the line that says it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("name:").strip().strip("\"'") for line in lines if line.startswith("name:")), "")
