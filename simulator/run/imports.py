"""Foreign files as scenarios that are known to load and to make a job before they are handed over."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from simulator.errors import InputError, Problem, nearest
from simulator.interop.deepspeed import translate as deepspeed
from simulator.interop.draft import Draft, printable
from simulator.interop.engines import translate as engines
from simulator.interop.engines.commands import is_engine
from simulator.interop.huggingface import served
from simulator.interop.machine import MOST_DEVICES, Machine
from simulator.interop.megatron import translate as megatron
from simulator.interop.torchtitan import translate as torchtitan
from simulator.specs import catalog, load_scenario, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.scenario import AnyScenario, Scenario, ServingScenario
from simulator.specs.text.yaml_text import file_text

Format = Literal["megatron", "torchtitan", "deepspeed", "huggingface", "engine"]
_TRAINERS = {"megatron": megatron.draft_of, "torchtitan": torchtitan.draft_of, "deepspeed": deepspeed.draft_of}
MOST_LETTERS = 1 << 20
"""Longest file that is imported."""
_OURS = re.compile(r"^(extends|stack|training|serving): ", re.MULTILINE)
SAMPLE = 100
"""Requests that a layout must serve to be proposed."""


def import_file(path: str, machine: Machine, form: Format | None = None, given: Mapping[str, str] | None = None) -> str:
    """The text of a scenario for a file of another program; `form` is found from the file where it is left out.

    `given` sets variables, arguments or keys of the file. Raises InputError with all problems of the file, or of the
    scenario that it makes.
    """
    place = Path(path) / "config.json" if Path(path).is_dir() and form in (None, "huggingface") else Path(path)
    if form in (None, "engine") and is_engine(path) and not place.exists():
        _check_cluster(machine)
        return _checked(engines.draft_of(path, "the command line", machine, given or {}, Path()))
    name = printable(place.name)
    text = file_text(place, str(place), "script, TOML, YAML or JSON file")
    if len(text) > MOST_LETTERS:
        raise InputError(Problem(f"is longer than {MOST_LETTERS:,} letters", name, hint="give the argument list alone"))
    if form is None and _OURS.search(text) and place.suffix in (".yaml", ".yml"):
        hint = f"run it: `clustersim run {printable(path)}`"
        raise InputError(Problem("is a scenario of clustersim already", name, hint=hint))
    _check_cluster(machine)
    form = form or _told(place, text)
    if form == "engine":
        return _checked(engines.draft_of(text, name, machine, given or {}, place.parent))
    if form == "huggingface":
        return _served(text, name, machine, given or {})
    return _checked(_TRAINERS[form](text, name, machine, given or {}))


def pairs(words: list[str]) -> dict[str, str]:
    """`NAME=VALUE` words as a mapping; InputError for others."""
    parted = [word.partition("=") for word in words]
    wrong = [f"`{printable(name[:60])}` sets nothing" for name, _, value in parted if not name or not value]
    if wrong:
        raise InputError(*(Problem(message, hint="write --set NAME=VALUE") for message in wrong))
    return {name: value for name, _, value in parted}


def _told(path: Path, text: str) -> Format:
    if path.suffix == ".toml":
        return "torchtitan"
    if is_engine(text) and path.suffix not in (".json", ".yaml", ".yml"):
        return "engine"
    if path.suffix == ".json" and '"model_type"' in text:
        return "huggingface"
    return "deepspeed" if path.suffix == ".json" and deepspeed.is_deepspeed(text) else "megatron"


def _check_cluster(machine: Machine) -> None:
    if machine.nodes is not None and not 1 <= machine.nodes <= MOST_DEVICES:
        raise InputError(Problem(f"--nodes {machine.nodes} is not between 1 and {MOST_DEVICES:,}"))
    known = catalog.names(Cluster)
    if catalog.find(machine.cluster, (str(Cluster.folder),)) is None:
        hint = nearest(machine.cluster.removeprefix("clusters/"), known)
        message = f"there is no cluster `{printable(machine.cluster[:80])}`"
        raise InputError(Problem(message, "--cluster", hint=hint or "`clustersim profiles clusters` lists them"))


def _checked(draft: Draft) -> str:
    """The scenario's text, once it is sure that it makes a job; InputError that says what does not fit."""
    text = draft.text()
    scenario = _load(text, draft.file)
    if isinstance(scenario, Scenario):
        from simulator.training.arranged import arranged_job

        try:
            arranged_job(scenario)
        except InputError as error:
            raise InputError(*(replace(problem, file=draft.file) for problem in error.problems)) from None
    return text


def _load(text: str, file: str) -> AnyScenario:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            return load_scenario(path).scenario
        except InputError as error:
            raise InputError(*(replace(p, file=file, line=None, column=None) for p in error.problems)) from None


def _served(text: str, name: str, machine: Machine, given: Mapping[str, str]) -> str:
    """The serving scenario with the fewest tensor-parallel devices that hold the model and turn no request away."""
    from simulator.run.serve import serve

    most = load_spec(Cluster, machine.cluster).node.devices
    sizes = [size for size in (1, 2, 4, 8, 16) if size <= most]
    for tp in sizes:
        made = _checked(served.draft_of(text, name, machine, given, tp))
        scenario = _load(made, name)
        if tp == sizes[-1] or not isinstance(scenario, ServingScenario):
            break
        few = scenario.model_copy(update={"requests": scenario.requests.model_copy(update={"count": SAMPLE})})
        result = serve(few)
        if result.feasible and not result.metrics.get("failed"):
            break
    return made
