"""What a scenario stands on: the statuses of the profiles that it uses, and the shipped validation of runs like it.

The weakest input decides. Of a profile only figures count that decide times: an accelerator's peak and bandwidth, the
kernels that run, the links' bandwidths, the rate that is fitted of a stack. Of a collective profile one measured
bandwidth is enough, for none has all of its protocols measured. `workloads/measurements/validated.json` says how many
published rows were simulated under which conditions and how wrong they were; benchmarks/validation.py writes it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.cost.device import WIDER, kernels_named
from simulator.results.ground import MEASURABLE, Ground, Validation, weakest_of
from simulator.run.extent import Extent, beyond, changed, extent, together
from simulator.run.kinds import kind_of
from simulator.specs import data_root, load_spec
from simulator.specs.base import Figure
from simulator.specs.hardware import Accelerator, Cluster
from simulator.specs.kernels import ANY_FAMILY, KernelProfile
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.scenario import has_jobs, is_workflow, serves
from simulator.specs.training import Stack
from simulator.training.recipes import dispatched

if TYPE_CHECKING:
    from simulator.specs.scenario import AnyRun, OneScenario
    from simulator.specs.serving import ServingStack

FEWEST = 3
"""Published runs of the same conditions from which on a run counts as validated."""
SIXTEEN = frozenset({"bf16", "fp16"})
_DECIDE_TIME = ("compute_efficiency", "kernel_efficiency")  # what rows do not tell of the other numbers moves no time
_ORDER = ("measured", "datasheet", "estimate")


class Conditions(NamedTuple):
    """What validated runs must share with a run to speak for it."""

    kind: str
    """`training` or `serving`."""
    device: str
    """Name of the accelerator."""
    stack: str
    """Name of the stack."""
    format: str
    """`16 bits` or the number format of products (training) or weights (serving)."""
    model: str
    """`dense` or `experts`."""
    network: str
    """Name of the collective profile; empty on one device."""


class Shipped(NamedTuple):
    """Published runs that were simulated under the same conditions."""

    conditions: Conditions
    """What they share."""
    rows: int
    """How many they are."""
    mean_error: float
    """Mean size of their errors, a fraction."""
    extent: Extent
    """How far they reach."""


def conditions(scenario: "OneScenario", cluster: Cluster | None = None) -> Conditions:
    """The conditions of a scenario, on another cluster where one is given."""
    cluster = cluster or scenario.cluster
    number = kind_of(scenario).precision(scenario)
    return Conditions(
        kind_of(scenario).name,
        cluster.node.accelerator.name,
        scenario.stack.name,
        "16 bits" if number in SIXTEEN else number,
        "experts" if scenario.model.experts else "encoder" if scenario.model.encoder_layers else "dense",
        cluster.collectives if kind_of(scenario).group(scenario, cluster) > 1 else "",
    )


def ground(scenario: "AnyRun") -> Ground:
    """What a scenario stands on; with pools on several machines, several jobs or stages, the weakest of them."""
    if has_jobs(scenario):
        from simulator.run.jobs.parts import parts

        return weakest_of([ground(part) for part in parts(scenario)])
    if is_workflow(scenario):
        from simulator.run.workflow.stages import scenarios

        return weakest_of([ground(stage) for stage in scenarios(scenario)])
    homes = [scenario.cluster]
    if serves(scenario):
        serving = scenario.serving
        placed = sorted(serving.all_pools, key=lambda pool: pool.cluster is not None)
        homes = [cluster.only(kind) for cluster, kind in (serving.home(pool, scenario.cluster) for pool in placed)]
    clusters = {cluster.node.accelerator.name: cluster for cluster in homes}
    return weakest_of([_on(scenario, cluster) for cluster in clusters.values()])


def validated(found: Iterable[tuple[Conditions, Extent, float]]) -> list[dict[str, Any]]:
    """Errors of simulated rows by their conditions, and how far the rows reach, as they are shipped."""
    runs: dict[Conditions, list[tuple[Extent, float]]] = {}
    for known, reach, error in found:
        runs.setdefault(known, []).append((reach, abs(error)))
    return [
        {
            **known._asdict(),
            "rows": len(some),
            "mean_error": round(sum(error for _, error in some) / len(some), 4),
            **together(reach for reach, _ in some)._asdict(),
        }
        for known, some in sorted(runs.items())
    ]


@cache
def _shipped() -> dict[str, Any]:
    path = data_root() / "workloads" / "measurements" / "validated.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


@cache
def shipped() -> tuple[Shipped, ...]:
    """The shipped validation."""
    return tuple(
        Shipped(
            Conditions(*(row[name] for name in Conditions._fields)),
            row["rows"],
            row["mean_error"],
            Extent(row["devices"], tuple(row["features"])),
        )
        for row in _shipped()["rows"]
    )


def memory_error() -> tuple[float, int]:
    """(mean size of the error of simulated peak memory, published runs that it is over) of the shipped validation."""
    known = _shipped()["memory"]
    return float(known["mean_error"]), int(known["rows"])


def of_accelerator(spec: Accelerator) -> str:
    """How the 16-bit kernels of an accelerator are known, and the runs on it that were held against published ones."""
    profile = kernels_named(spec.kernels)
    number = next((name for name in ("bf16", "fp16") if name in profile.gemm), next(iter(profile.gemm)))
    tables = (profile.gemm[number], profile.attention[profile.best_attention], profile.stream)
    rows = [row for row in shipped() if row.conditions.device == spec.name]
    return _briefly(_weakest([str(table.status) for table in tables]), rows)


def of_stack(spec: "Stack | ServingStack") -> str:
    """The same of what is fitted of a stack."""
    return _briefly(_weakest(_fitted(spec)), [row for row in shipped() if row.conditions.stack == spec.name])


def _on(scenario: "OneScenario", cluster: Cluster) -> Ground:
    named = dict(_inputs(scenario, cluster))
    statuses = {name: status for name, (status, _) in named.items()}
    weakest = max(statuses, key=lambda name: _ORDER.index(statuses[name]))
    known = _held(conditions(scenario, cluster), extent(scenario, cluster), changed(scenario, cluster))
    kind = "measured"
    if statuses[weakest] == "estimate":
        kind = "estimate"
    elif any(statuses.get(name) == "datasheet" for name in MEASURABLE):
        kind = "datasheet"
    elif known.rows >= FEWEST and not known.beyond:
        kind = "measured and validated"
    return Ground(kind, statuses, f"{weakest} ({named[weakest][1]}, {statuses[weakest]})", known)


def _inputs(scenario: "OneScenario", cluster: Cluster) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each input with its status and what it is."""
    accelerator, stack = cluster.node.accelerator, scenario.stack
    kernels = kernels_named(accelerator.kernels)
    number = kind_of(scenario).precision(scenario)
    native = next((name for name in (number, *WIDER.get(number, ())) if name in accelerator.peak), "")
    peaks = [figure for name, figure in accelerator.peak.items() if name == native]
    yield "accelerator", (_weakest([f.status for f in (*peaks, accelerator.memory.bandwidth)]), accelerator.name)
    yield "kernels", (_weakest(_kernels(scenario, kernels, native)), kernels.name)
    if kind_of(scenario).group(scenario, cluster) > 1:
        profile = load_spec(CollectiveProfile, cluster.collectives)
        yield "network", (_weakest([figure.status for figure in _links(cluster)]), cluster.name)
        yield "collectives", (_best([figure.status for figure in _rates(profile, cluster)]), profile.name)
    yield "stack", (_weakest(_fitted(stack)), _brief(stack.name))


def _fitted(stack: "Stack | ServingStack") -> list[str]:
    """Statuses of what is fitted of a stack."""
    figures = (getattr(stack, name, None) for name in _DECIDE_TIME)
    return [figure.status for figure in figures if figure is not None]


def _kernels(scenario: "OneScenario", profile: KernelProfile, number: str) -> Iterator[str]:
    """Statuses of the kernels that run."""
    yield _of_format(profile.gemm, number)
    asked = getattr(scenario.stack, "attention_kernel", None)
    chosen = dispatched(asked, scenario.cluster.node.accelerator) or profile.best_attention
    yield profile.attention.get(chosen, profile.attention[profile.best_attention]).status
    yield profile.stream.status
    yield from _scans(scenario, profile)
    if serves(scenario):
        yield profile.decode.status
        if scenario.model.experts:
            wanted = scenario.stack.expert_kernels
            family = next((name for name in (*wanted, ANY_FAMILY) if name in profile.experts), "")
            yield _of_format(profile.experts.get(family, {}), number)


def _scans(scenario: "OneScenario", profile: KernelProfile) -> Iterator[str]:
    """Statuses of the kernels of layers with a state; backward passes are estimates everywhere."""
    for kind in dict.fromkeys(kind.attention for kind in scenario.model.kinds if kind.stateful):
        families = scenario.stack.scan_kernels if serves(scenario) else ()
        known = (profile.scans.get(family, {}).get(kind) for family in families)
        yield next((str(kernels.status) for kernels in known if kernels is not None), "estimate")


def _of_format(tables: Mapping[Any, Any], number: str) -> str:
    """The status of the table of a format; another one of equal width serves as well, any other is an estimate."""
    near = [number, *(SIXTEEN if number in SIXTEEN else ())]
    return next((str(tables[name].status) for name in near if name in tables), "estimate")


def _links(cluster: Cluster) -> Iterator[Figure[float]]:
    """Bandwidths of the links between the devices of a cluster."""
    known = (cluster.node.scale_up.bandwidth, cluster.network.bandwidth, cluster.network.global_bandwidth)
    yield from (figure for figure in known if figure is not None)
    if cluster.nodes > 1 and cluster.node.nics is not None and cluster.network.bandwidth is None:
        yield cluster.node.nics.bandwidth


def _rates(profile: CollectiveProfile, cluster: Cluster) -> Iterator[Figure[float]]:
    """The shares of the links' rates that collectives reach, where they go."""
    for protocol in profile.protocols.values():
        for scopes in {id(used): used for used in (protocol.of(True), protocol.of(False))}.values():
            yield (scopes.scale_out if cluster.nodes > 1 else scopes.scale_up).efficiency


def _held(wanted: Conditions, own: Extent, differs: tuple[str, ...]) -> Validation:
    """What the shipped validation says of runs in these conditions; on one device the network does not matter.

    Of a device, network or stack with other figures it says nothing.
    """
    if differs:
        return Validation(changed=differs)
    here = [row for row in shipped() if _same(row.conditions, wanted)]
    near = [row for row in shipped() if row.conditions[:3] == wanted[:3]]
    narrow = "" if wanted.format == "16 bits" else f" in {wanted.format}"
    found = _validation(here, f"this device and stack{narrow}")
    return replace(
        found,
        elsewhere=sum(row.rows for row in near) - found.rows,
        beyond=beyond(own, together(row.extent for row in here)) if here else (),
    )


def _same(one: Conditions, wanted: Conditions) -> bool:
    return one[:5] == wanted[:5] and (one.network == wanted.network or not wanted.network)


def _validation(rows: Sequence[Shipped], what: str) -> Validation:
    number = sum(row.rows for row in rows)
    return Validation(number, sum(row.rows * row.mean_error for row in rows) / max(number, 1), what)


def _weakest(statuses: Iterable[str]) -> str:
    return max(statuses, key=_ORDER.index, default="estimate")


def _best(statuses: Iterable[str]) -> str:
    return min(statuses, key=_ORDER.index, default="estimate")


def _briefly(status: str, rows: Sequence[Shipped]) -> str:
    known = _validation(rows, "")
    return f"{status}, {known.rows:,} runs {100 * known.mean_error:.1f} %" if known.rows else status


def _brief(name: str) -> str:
    return name.partition(" (")[0].partition(",")[0]
