"""A chosen layout as a scenario file that extends the one it came from."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem


def scenario_text(file: str, target: str, overrides: Sequence[str]) -> str:
    """The text of a file at `target` that is the scenario of `file` with overrides.

    InputError for an override that takes a key away.
    """
    base = os.path.relpath(file, os.path.dirname(os.path.abspath(target))) if Path(file).is_file() else file
    if not base.startswith((".", "/")) and Path(file).is_file():
        base = f"./{base}"
    tree: dict[str, Any] = {}
    for text in overrides:
        key, _, value = text.partition("=")
        if key.startswith("~"):
            raise InputError(Problem(f"`{text[:80]}` takes a key away", hint="write the file without `--write`"))
        *path, last = key.removeprefix("+").split(".")
        place = tree
        for name in path:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise InputError(Problem(f"`{key}` and another change say different things of `{name}`"))
        place[last] = value
    return "\n".join([f"extends: {base}", *_lines(tree, 0)]) + "\n"


def _lines(tree: dict[str, Any], depth: int) -> list[str]:
    found = []
    for name, value in tree.items():
        if isinstance(value, dict):
            found += [f"{'  ' * depth}{name}:", *_lines(value, depth + 1)]
        else:
            found.append(f"{'  ' * depth}{name}: {value}")
    return found
