"""Whether an installation works: versions, data, plugins, the working folder, and a tiny simulation by both executors.

The document names no folder of the user and nothing of the environment, so that it can go into a bug report as it is.
"""

import os
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, requires, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, NamedTuple

from simulator import __version__
from simulator.errors import SimulatorError
from simulator.registry import PLUGIN_GROUP
from simulator.specs import data_root, load_scenario, names
from simulator.specs.base import Spec
from simulator.specs.hardware import Accelerator, Cluster, Node
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import Stack

NEEDED = ("matplotlib", "networkx", "numpy", "pydantic", "PyYAML", "rich", "simpy")
"""Packages without which nothing runs."""
OPTIONAL = ("pandas", "pyarrow", "dask", "pytest")
"""Packages that some uses need: frames, Parquet files, sweeps on a cluster, the fixture `simulated`."""
KINDS: dict[str, type[Spec]] = {
    "accelerators": Accelerator,
    "nodes": Node,
    "clusters": Cluster,
    "stacks": Stack,
    "models": Model,
    "scenarios": Scenario,
}
AGREEMENT = 0
"""Picoseconds by which the executors may differ."""
_SELF_TEST = ("training.overlap_gradients=false", "training.overlap_parameters=false", "training.global_batch=16")
Verdict = Literal["fine", "absent", "wrong"]


class Finding(NamedTuple):
    """What was found about one thing."""

    group: str
    """What it belongs to: program, packages, optional, data, folder, plugins, self test."""
    name: str
    verdict: Verdict
    detail: str


def examine() -> tuple[Finding, ...]:
    """Everything that was found; nothing raises."""
    return (
        Finding("program", "clustersim", "fine", __version__),
        _python(),
        *(_package("packages", name, "wrong") for name in _needed()),
        *(_package("optional", name, "absent") for name in OPTIONAL),
        *_data(),
        _guarded("folder", "working folder", _folder),
        *_plugins(),
        _guarded("self test", "executors agree", _self_test),
    )


def places() -> dict[str, str]:
    """Folders by what they are, for the user's own eyes."""
    return {
        "package": str(Path(__file__).resolve().parents[1]),
        "installed data": str(data_root()),
        "working folder": str(Path.cwd()),
    }


def document(findings: tuple[Finding, ...]) -> dict[str, Any]:
    """The findings as plain data."""
    return {"schema": 1, "healthy": healthy(findings), "findings": [finding._asdict() for finding in findings]}


def healthy(findings: tuple[Finding, ...]) -> bool:
    """Whether nothing is wrong."""
    return all(finding.verdict != "wrong" for finding in findings)


def _python() -> Finding:
    words = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    return Finding("program", "Python", "fine", f"{words}, {os.cpu_count() or 1} processors")


def _needed() -> tuple[str, ...]:
    """The packages that the installed distribution requires; those known here where it is not installed."""
    try:
        lines = requires("clustersim") or []
    except PackageNotFoundError:
        return NEEDED
    plain = [line for line in lines if "extra ==" not in line]
    found = {name.lower(): name for name in NEEDED}
    for line in plain:
        name = "".join(c if c.isalnum() or c in "-_." else " " for c in line).split()[0]
        found.setdefault(name.lower(), name)
    return tuple(found.values())


def _package(group: str, name: str, missing: Verdict) -> Finding:
    try:
        return Finding(group, name, "fine", version(name))
    except PackageNotFoundError:
        return Finding(group, name, missing, "not installed")


def _data() -> Iterator[Finding]:
    """Where data comes from, and how much of each kind there is."""
    inside = data_root() != Path(__file__).resolve().parents[2]
    yield Finding("data", "installed data", "fine", "inside the package" if inside else "beside the package (checkout)")
    own = [room for room in ("hardware_profiles", "workloads", "scenarios") if Path(room).is_dir()]
    if own and Path.cwd() != data_root():
        yield Finding("data", "working folder", "fine", f"adds to it: {', '.join(own)}")
    for name, kind in KINDS.items():
        count = len(names(kind))
        yield Finding("data", name, "fine" if count else "wrong", f"{count} found" if count else "none found")


def _folder() -> Finding:
    with TemporaryFile(dir=Path.cwd()):
        return Finding("folder", "working folder", "fine", "writable")


def _plugins() -> Iterator[Finding]:
    points = sorted(entry_points(group=PLUGIN_GROUP), key=lambda point: point.name)
    if not points:
        yield Finding("plugins", "plugins", "fine", "none installed")
    for point in points:
        yield _guarded("plugins", point.name, lambda point=point: _loaded(point))  # type: ignore[misc]


def _loaded(point: EntryPoint) -> Finding:
    point.load()
    return Finding("plugins", point.name, "fine", point.value)


def _self_test() -> Finding:
    """The quickstart, made small enough for the max-plus sweep, by both executors."""
    from simulator.run.simulate import run
    from simulator.units import to_seconds

    scenario = load_scenario(data_root() / "scenarios" / "quickstart.yaml", _SELF_TEST).scenario
    if not isinstance(scenario, Scenario):
        return Finding("self test", "executors agree", "wrong", "the quickstart does not train")
    runs = [run(scenario, executor=executor, share_links=False) for executor in ("simpy", "max-plus")]
    times = [each.timeline.makespan for each in runs]
    if abs(times[0] - times[1]) > AGREEMENT:
        return Finding("self test", "executors agree", "wrong", f"{times[0]:,} ps and {times[1]:,} ps")
    return Finding("self test", "executors agree", "fine", f"a step of {to_seconds(times[0]):.4f} s")


def _guarded(group: str, name: str, look: Callable[[], Finding]) -> Finding:
    """What `look` finds; whatever it raises is a finding too, for that is what is asked."""
    try:
        return look()
    except OSError as error:
        return Finding(group, name, "wrong", error.strerror or type(error).__name__)
    except (SimulatorError, SystemExit) as error:
        return Finding(group, name, "wrong", _plain(str(error)))
    except Exception as error:
        return Finding(group, name, "wrong", f"{type(error).__name__}: {_plain(str(error))}")


def _plain(text: str) -> str:
    """A message without the folders of the user."""
    for folder, sign in ((Path.cwd(), "."), (data_root(), "<data>"), (Path.home(), "~")):
        text = text.replace(str(folder), sign) if len(str(folder)) > 1 else text
    return " ".join(text.split())[:300]
