"""The scenarios that a regression check is about: found below paths, loaded, each with the place of its baseline.

A baseline has the path of its scenario, from the working folder, below the folder of baselines; so it is the same
whichever of `scenarios` and `scenarios/x.yaml` is named. A scenario elsewhere has its path from where that folder lies.
A file that does not stand for itself but that others extend is no case, and neither is a YAML file that has no key of a
scenario; but one that has a baseline was a scenario, and one that cannot be parsed may have been.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from simulator.errors import InputError, Problem
from simulator.specs import data_root
from simulator.specs.catalog import entrance, shown
from simulator.specs.resolve import load_run
from simulator.specs.scenario import Common
from simulator.specs.workflow import Workflow
from simulator.study.check.baseline import is_foreign

_SUFFIXES = (".yaml", ".yml")
_UP = "_up"  # stands for the folder above in the path of a baseline
_KEYS = re.compile(r"^(cluster|model|stack|training|serving|requests|stages|extends)\s*:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario to check."""

    file: str
    """As messages name it: from the working folder, if it lies below."""
    path: Path
    """Where it is."""
    baseline: Path
    """Where its baseline is, or would be."""
    name: str | None
    """Name of the scenario; None where it cannot be loaded."""
    problems: tuple[Problem, ...] = ()
    """Why it cannot be loaded."""
    sources: tuple[str, ...] = ()
    """Files that it reads."""
    argument: str | None = None
    """What to name to `check` where it is not the file."""


def find(paths: Sequence[str], folder: Path) -> tuple[list[Case], list[str]]:
    """The scenarios named by paths or below them, in the order of paths and names, and notes on what was left out.

    InputError where a path does not exist, where there is no scenario, or where two would have one baseline.
    """
    cases: dict[str, Case] = {}
    walked: set[str] = set()
    if not all(paths):
        raise InputError(Problem("a path is empty", hint="name a YAML file, or a folder that has some"))
    for path in paths:
        for file, root in _files(path):
            key = os.path.realpath(file)
            if root is not None:
                walked.add(key)
            if key not in cases:
                cases[key] = _loaded(file, folder / _name(file, folder))
    extended = {os.path.realpath(name) for case in cases.values() if case.name for name in case.sources[1:]}
    left_out = {
        key: reason
        for key, case in cases.items()
        if case.name is None and key in walked and (reason := _no_scenario(case, key in extended))
    }
    found = [case for key, case in cases.items() if key not in left_out]
    if not found:
        hint = "name a YAML file, or a folder that has some"
        raise InputError(Problem("there is no scenario", file=", ".join(paths), hint=hint))
    _refuse_shared(found)
    return found, [f"{cases[key].file} is left out: {reason}" for key, reason in left_out.items()]


def orphans(paths: Sequence[str], folder: Path) -> list[Case]:
    """Baselines below `folder` whose scenario is gone from the folders among `paths`, as cases without a name."""
    found: dict[Path, Case] = {}
    for path in paths:
        if os.path.isdir(path):
            below = folder / _relative(Path(path), folder)
            kept = {folder / _name(file, folder) for file, _ in _files(path)}
            gone = [one for one in sorted(below.rglob("*.json")) if one not in kept and not is_foreign(one)]
            for one in gone:
                place = one.relative_to(folder).with_suffix(_SUFFIXES[0])
                found[one] = Case(place.as_posix(), place, one, None, argument=path)
    return list(found.values())


def _files(path: str) -> Iterator[tuple[Path, Path | None]]:
    """(file, folder that was walked) below a path; folder None for what was named itself."""
    if not os.path.isdir(path):
        yield entrance(path, (str(Common.folder), Workflow.folder)), None
        return
    for where, folders, names in os.walk(path, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and not name.startswith("."):
                yield Path(where, name), Path(path)


def _raise(error: OSError) -> None:
    raise error


def _loaded(file: Path, baseline: Path) -> Case:
    try:
        loaded = load_run(file)
    except InputError as error:
        return Case(_shown(file), file, baseline, None, error.problems)
    return Case(_shown(file), file, baseline, loaded.scenario.name, sources=loaded.sources)


def _shown(file: Path) -> str:
    """Its name from the working folder, where tools that read messages look; else as all messages have it."""
    whole = Path(os.path.abspath(file))
    return whole.relative_to(Path.cwd()).as_posix() if whole.is_relative_to(Path.cwd()) else shown(whole)


def _no_scenario(case: Case, extended: bool) -> str | None:
    """Why a file that was found in a folder need not be a scenario; None where it should be one, or was one."""
    if case.baseline.exists() and not is_foreign(case.baseline):
        return None
    if extended:
        return "no scenario by itself, others extend it"
    try:
        text = case.path.read_text(encoding="utf-8")
        for _ in yaml.parse(text, Loader=yaml.SafeLoader):
            pass
    except (OSError, ValueError, yaml.YAMLError):
        return None
    return None if _KEYS.search(text) else "no scenario"


def _name(file: Path, folder: Path) -> Path:
    """The baseline's path below the folder of baselines."""
    return _relative(file, folder).with_suffix(".json")


def _relative(path: Path, folder: Path) -> Path:
    """From the working folder or the installed data, if it lies below one; else from where the baselines' folder lies.

    Whole paths, so that files of one name in different folders never have one place.
    """
    whole = Path(os.path.abspath(path))
    for base in (Path.cwd(), data_root()):
        if whole.is_relative_to(base):
            return whole.relative_to(base)
    parts = Path(os.path.relpath(whole, Path(os.path.abspath(folder)).parent)).parts
    return Path(*(_UP if part == os.pardir else part for part in parts))


def _refuse_shared(cases: Iterable[Case]) -> None:
    seen: dict[Path, str] = {}
    for case in cases:
        if case.baseline in seen:
            message = f"would have the same baseline as {seen[case.baseline]}"
            raise InputError(Problem(message, file=case.file, hint="check them from the folder above both"))
        seen[case.baseline] = case.file
