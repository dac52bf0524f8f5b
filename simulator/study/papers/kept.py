"""Figures that were found before, in a file: a figure is found again only if its scenarios or the program changed."""

import json
from hashlib import sha256
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.results.writing import write
from simulator.study import fingerprint
from simulator.study.papers.claims import Figure, any_scenario, scenarios_of


def key(figure: Figure) -> str:
    """A hash of what a figure asks, of its scenarios with all that they name, and of the program."""
    scenarios = [fingerprint.key(any_scenario(name, changes)) for name, changes in sorted(set(scenarios_of(figure)))]
    parts = [fingerprint.program(), figure.model_dump(mode="json", exclude_defaults=True), scenarios]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def read(path: str | Path | None) -> dict[str, float]:
    """Figures by key; none where there is no file. InputError for a file of another kind."""
    if path is None or not Path(path).exists():
        return {}
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in found["figures"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "name another file with `--cache FILE`, or write `--no-cache`"
        raise InputError(Problem("is no cache of figures", file=str(path), hint=hint)) from error


def keep(path: str | Path | None, figures: dict[str, float]) -> None:
    """Write figures, whole or not at all."""
    if path is not None:
        write(str(path), json.dumps({"figures": figures}, indent=0, sort_keys=True))
