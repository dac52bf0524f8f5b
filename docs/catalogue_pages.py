"""The catalogue of shipped data: every profile with the source of each of its numbers."""

from collections.abc import Iterator
from typing import Any

import yaml
from markdown_tables import code, escape, slug, table

from simulator import units
from simulator.report.catalogue.profiles import ROOMS
from simulator.report.catalogue.quantities import dimension_of, exact
from simulator.serving.workload.lengths import lengths
from simulator.specs import data_root, load_scenario, load_spec, names
from simulator.specs.base import Figure, Spec
from simulator.specs.jobs import JobsScenario
from simulator.specs.kernels import KernelProfile
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.long_runs.failures import Cause, FailureRates
from simulator.specs.model import Model
from simulator.specs.requests import Lengths
from simulator.specs.scenario import AnyScenario, Scenario
from simulator.specs.serving import ServingStack
from simulator.specs.training import Stack

REFERENCES = ("accelerator", "node", "kernels", "collectives")
"""Keys by which a file names another one."""


def accelerators() -> str:
    """Every accelerator with the source of each number."""
    return _catalogue("accelerators", "##")


def nodes() -> str:
    """Every node with the source of each number."""
    return _catalogue("nodes", "##")


def clusters() -> str:
    """Every cluster with the source of each number."""
    return _catalogue("clusters", "##")


def stacks() -> str:
    """Every stack for training with its defaults and fitted numbers."""
    return _catalogue("training stacks", "###")


def serving_stacks() -> str:
    """Every stack for serving with its defaults and fitted numbers."""
    return _catalogue("serving stacks", "###")


def kernels() -> str:
    """Every kernel profile in a line."""
    rows = []
    for name in names(KernelProfile):
        spec = load_spec(KernelProfile, name)
        known = ", ".join(f"{dtype} {kernel.status}" for dtype, kernel in spec.gemm.items())
        rows.append((f"`{name}`", spec.name, known, ", ".join(spec.attention), spec.notes))
    return table(("name", "stands for", "matrix products", "fused attention", "notes"), rows)


def collective_profiles() -> str:
    """Every collective profile in a line."""
    profiles = [(name, load_spec(CollectiveProfile, name)) for name in names(CollectiveProfile)]
    rows = [(f"`{name}`", spec.name, ", ".join(spec.protocols), spec.notes) for name, spec in profiles]
    return table(("name", "stands for", "protocols", "notes"), rows)


def request_lengths() -> str:
    """Every shipped length distribution in a line."""
    rows = []
    for name in names(Lengths):
        spec = load_spec(Lengths, name)
        prompt, output = (f"{column.mean():,.0f}" for column in lengths(spec, 100_000, 0))
        rows.append((f"`{name}`", spec.name, prompt, output, spec.source))
    return table(("name", "stands for", "mean prompt", "mean answer", "source"), rows)


def failures() -> str:
    """Every list of failure rates with its causes."""
    rows = []
    for name in names(FailureRates):
        spec = load_spec(FailureRates, name)
        causes = ", ".join(_cause(cause) for cause in spec.causes)
        rows.append((f"`{name}`", spec.name, causes, spec.source, spec.notes))
    return table(("name", "seen on", "causes", "source", "notes"), rows)


def _cause(cause: Cause) -> str:
    """Its name, and how often what fails."""
    often = f"{cause.count:g}" if cause.count is not None else f"every {units.format(cause.mtbf or 0.0, 'time')}"
    return f"{cause.name} ({cause.of}: {often})"


def models() -> str:
    """Every model in a line."""
    room = ROOMS["models"]
    specs = [(name, load_spec(Model, name)) for name in names(Model)]
    rows = [(f"`{name}`", *room.cells(spec), spec.source) for name, spec in specs]
    return table(("name", *room.columns, "source"), rows)


def scenarios() -> str:
    """Every shipped scenario in a line; families, which only others extend, are left out."""
    loaded = [(name, load_scenario(name).scenario) for name in names(Scenario) if "families/" not in name]
    rows = [(f"`{name}`", spec.name, spec.description, _published(spec)) for name, spec in loaded]
    return table(("name", "what", "description", "published"), rows)


def _published(spec: AnyScenario) -> str:
    figures = (
        [figure for job in spec.jobs for figure in job.published] if isinstance(spec, JobsScenario) else spec.published
    )
    return "; ".join(f"{figure.metric} {figure.value} ({figure.source})" for figure in figures)


def _catalogue(name: str, level: str) -> str:
    """A room: an overview, then each file with its figures under a heading of that level."""
    room = ROOMS[name]
    word = room.word
    specs = [(reference, load_spec(room.kind, f"{word}/{reference}")) for reference in room.names()]
    rows = [(f"[`{reference}`](#{word}-{slug(reference)})", *room.cells(spec)) for reference, spec in specs]
    overview = table(("name", *room.columns), rows)
    return "\n".join([overview, *(_profile(word, reference, spec, level) for reference, spec in specs)])


def _profile(room: str, name: str, spec: Any, level: str) -> str:
    """One file: what it refers to, every figure with status and source, what else it says, notes."""
    rows = [(f"`{path}`", _value(figure), figure.status, figure.source) for path, figure in _figures(spec)]
    parts = [f"({room}-{slug(name)})=\n{level} {name}\n", f"{spec.name}.\n", _references(spec, name)]
    parts += [_settings(spec)] if isinstance(spec, Stack | ServingStack) else []
    parts += [table(("figure", "value", "status", "source"), rows)] if rows else []
    parts += [escape(spec.notes) + "\n"] if spec.notes else []
    return "\n".join(part for part in parts if part)


def _references(spec: Spec, name: str) -> str:
    """The files that a file names."""
    written = yaml.safe_load((data_root() / str(spec.folder) / f"{name}.yaml").read_text(encoding="utf-8"))
    named = [f"{key} `{written[key]}`" for key in REFERENCES if isinstance(written.get(key), str)]
    return f"Uses {', '.join(named)}.\n" if named else ""


def _settings(spec: Stack | ServingStack) -> str:
    """The defaults of a stack."""
    values = {name: getattr(spec, name) for name in type(spec).model_fields if name not in ("name", "kind", "notes")}
    rows = [(f"`{name}`", code(value)) for name, value in values.items() if not isinstance(value, (Figure, type(None)))]
    return table(("setting", "value"), rows)


def _figures(spec: Spec, path: str = "") -> Iterator[tuple[str, Figure[Any]]]:
    """Every figure of a file with its path; files that it refers to are left out."""
    for name in type(spec).model_fields:
        for key, item in _items(getattr(spec, name)):
            here = ".".join(part for part in (path, name, str(key)) if part)
            if isinstance(item, Figure):
                yield here, item
            elif isinstance(item, Spec) and item.folder is None:
                yield from _figures(item, here)


def _items(value: Any) -> list[tuple[object, Any]]:
    """What a field holds, with its key or index where it holds several."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, tuple) else [("", value)]


def _value(figure: Figure[Any]) -> str:
    dimension = dimension_of(type(figure).model_fields["value"].metadata)
    return exact(figure.value, dimension) if dimension else f"{figure.value:g}"
