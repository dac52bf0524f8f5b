"""Any key that a scenario may have, with a value of its kind, as the schema of files lists them.

A scenario that makes sense gets a few keys more. Most that do not load are drawn again, so that what is left reaches
the simulation: keys that were added since the other generators were written are reached the day they are there.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, get_args

from simulator.axes import AXES
from simulator.collectives.algorithms.base import ALGORITHMS, EXCHANGES
from simulator.errors import InputError
from simulator.model.blocks.base import ATTENTIONS, MLPS
from simulator.report.catalogue.schema import KINDS, schema
from simulator.serving.fleet.router import ROUTERS
from simulator.serving.fleet.scaling import SCALING_RULES
from simulator.serving.policies.base import POLICIES
from simulator.serving.tiers.eviction import EVICTIONS
from simulator.specs import load_scenario
from simulator.specs.base import Spec
from simulator.training.context.base import SCHEMES
from simulator.training.optimizers.base import OPTIMIZERS
from simulator.training.schedules.base import SCHEDULES
from tests.fuzz import fleets, mutations, semantics, tiers
from tests.fuzz.harness import Input, empty_folder

TRIES = 12
"""Draws of a key after which a scenario stays without it."""
ODD = 0.1
"""Share of keys that are kept though they do not load."""
_DEEP = 5
"""Mappings within mappings below which only required keys are drawn."""
_TRAINED = {"training": 10, "model": 4, "stack": 5, "cluster": 4}
_SERVED = {"serving": 10, "requests": 5, "slo": 1, "model": 4, "stack": 5, "cluster": 4}
_FACTORS = (0.0, 0.001, 0.1, 0.5, 1.0, 1.0, 3.0, 100.0)
_WHOLE = (0, 1, 1, 2, 2, 3, 4, 5, 8, 16, 50, 64, 128, 1000, 4096)
_REAL = (0.0, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0, 1.5, 2.0, 7.0, 100.0)
_NAMES = {
    "schedule": SCHEDULES,
    "router": ROUTERS,
    "decode_router": ROUTERS,
    "policy": POLICIES,
    "eviction": EVICTIONS,
    "rule": SCALING_RULES,
    "dispatcher": EXCHANGES,
    "cp_kind": SCHEMES,
    "optimizer": OPTIMIZERS,
    "attention": ATTENTIONS,
    "mlp": MLPS,
    "tp": ALGORITHMS,
    "dp": ALGORITHMS,
    "ep": ALGORITHMS,
    "cp": ALGORITHMS,
    "order": AXES,
}
"""Names of a registry, by the key that has one of them."""
_FOLDERS = {"collectives": "collectives", "kernels": "kernels"}
"""Folders of the profiles of which a key names one."""
_KEPT = ("extends", "notes", "description", "source", "published", "name", "nodes", "count", "layers", "trace")
"""Keys that stay as they are: they say nothing, or how long a run takes."""
_SHAPES = ("Distribution", "Arrivals")
"""What has exactly one of its keys: drawn as a whole."""


def keys(random: Random) -> Input:
    """A scenario with one to four more keys."""
    train = random.random() < 0.5
    if train:
        made = semantics.scenario_of(semantics.training(random)) if random.random() < 0.5 else tiers.plain(random)
    else:
        made = fleets.plain(random)
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        made = _with_one(made, random, train)
    return (tiers.checked if train else fleets.checked)(made, {}, random)


def _with_one(document: dict[str, Any], random: Random, train: bool) -> dict[str, Any]:
    """The scenario with one more key that loads, or that does not, now and then."""
    drawn = _drawer("scenario" if train else "serving")
    weights, changed = _TRAINED if train else _SERVED, document
    for _ in range(TRIES):
        changed = json.loads(json.dumps(document))
        section = random.choices(tuple(weights), tuple(weights.values()))[0]
        place = changed.setdefault(section, {})
        if isinstance(place, str):
            place = changed[section] = {"extends": place}
        drawn.change(place, drawn.kind(section), random)
        mutations.bound(changed)
        if _loads(changed) or random.random() < ODD:
            return changed
    return document


def _loads(document: Mapping[str, Any]) -> bool:
    """Whether the loader takes a scenario, or ends otherwise than it should."""
    with empty_folder() as folder:
        path = Path(folder) / "s.yaml"
        path.write_text(json.dumps(document), encoding="utf-8")
        try:
            load_scenario(path)
        except InputError:
            return False
        except Exception:  # the command will say it
            return True
    return True


class _Drawer:
    """Draws values by the schema of one kind of file."""

    def __init__(self, kind: str) -> None:
        found = json.loads(schema(kind))
        self._top: dict[str, Any] = found["properties"]
        self._defs: dict[str, Any] = found["$defs"]
        self._required = _required(KINDS[kind])

    def kind(self, section: str) -> dict[str, Any]:
        """What a section of the file is."""
        return self._mapping(self._top[section])

    def change(self, at: dict[str, Any], kind: Mapping[str, Any], random: Random) -> None:
        """Give a mapping one more key, or another value of one, or change what is below one."""
        names = [name for name in kind.get("properties", {}) if name not in _KEPT]
        if not names:
            return
        name = random.choice(names)
        inner = self._mapping(kind["properties"][name])
        below = at.get(name)
        if inner.get("properties") and isinstance(below, dict) and random.random() < 0.7:
            self.change(below, inner, random)
        elif inner.get("properties") and name in ("node", "network", "accelerator", "memory") and below is None:
            self.change(at.setdefault(name, {}), inner, random)
        else:
            at[name] = self.value(kind["properties"][name], name, random)

    def _mapping(self, kind: Mapping[str, Any]) -> dict[str, Any]:
        """The form of a kind that is a mapping, where it has one; else the kind."""
        if "$ref" in kind:
            return self._mapping(self._defs[kind["$ref"].rpartition("/")[2]])
        for one in kind.get("anyOf", ()):
            if (found := self._mapping(one)).get("properties"):
                return found
        return dict(kind)

    def value(self, kind: Mapping[str, Any], name: str, random: Random, depth: int = 0) -> Any:
        """A value of a kind that a key has."""
        if "$ref" in kind:
            title = kind["$ref"].rpartition("/")[2]
            return _shape(title, random) if title in _SHAPES else self.value(self._defs[title], name, random, depth)
        if "anyOf" in kind:
            some = [one for one in kind["anyOf"] if one.get("type") != "null"] or [{"type": "null"}]
            said = {"description": kind.get("description", "")}
            return self.value(said | random.choice(some), name, random, depth)
        for key in ("const", "enum"):
            if key in kind:
                return kind[key] if key == "const" else random.choice(kind[key])
        drawn = {
            "boolean": lambda: random.random() < 0.5,
            "integer": lambda: _within(kind, _WHOLE, random),
            "number": lambda: _within(kind, _REAL, random),
            "string": lambda: _word(kind, name, random),
            "array": lambda: self._list(kind, name, random, depth),
            "object": lambda: self._whole(kind, name, random, depth),
        }
        made = drawn.get(str(kind.get("type")))
        return made() if made else None

    def _list(self, kind: Mapping[str, Any], name: str, random: Random, depth: int) -> list[Any]:
        if "prefixItems" in kind:
            return [self.value(one, name, random, depth) for one in kind["prefixItems"]]
        count = max(kind.get("minItems", 0), random.choice((0, 1, 1, 2, 3)))
        return [self.value(kind.get("items", {}), name, random, depth) for _ in range(count)]

    def _whole(self, kind: Mapping[str, Any], name: str, random: Random, depth: int) -> dict[str, Any]:
        """A mapping with the keys that it needs and some others."""
        if "properties" not in kind:
            names = kind.get("propertyNames", {}).get("enum", ("x",))
            inner = kind.get("additionalProperties", {})
            return {random.choice(names): self.value(inner, "", random, depth + 1)} if isinstance(inner, dict) else {}
        if kind.get("title") == "Figure":
            return tiers.figure(self.value(kind["properties"]["value"], name, random, depth))
        needed = self._required.get(kind.get("title", ""), ())
        more = [name for name in kind["properties"] if name not in needed and name not in _KEPT]
        often = 0.0 if depth > _DEEP else min(0.5, 2 / (len(more) or 1))
        names = [*needed, *(name for name in more if random.random() < often)]
        if not names and more:
            names = [random.choice(more)]
        made = {name: self.value(kind["properties"][name], name, random, depth + 1) for name in names}
        return {name: value for name, value in made.items() if value is not None}


_drawer = cache(_Drawer)


def _shape(title: str, random: Random) -> dict[str, Any]:
    if title == "Arrivals":
        return random.choice(semantics.ARRIVALS)
    scale = random.choice((0.01, 1.0, 100.0))
    return random.choice(
        (
            {"fixed": scale},
            {"uniform": [scale, 3 * scale]},
            {"lognormal": [scale, 0.7], "high": 10 * scale},
            {"exponential": scale, "high": 10 * scale},
            {"normal": [scale, scale / 4], "low": scale / 10},
            {"cdf": [[scale, 0.4], [4 * scale, 1.0]]},
            {"zipf": 1.2, "low": 1, "high": 50},
        )
    )


def _within(kind: Mapping[str, Any], choices: tuple[Any, ...], random: Random) -> Any:
    """One of the numbers that lie within the bounds of a kind."""
    low, high = kind.get("minimum", float("-inf")), kind.get("maximum", float("inf"))
    above, below = kind.get("exclusiveMinimum", float("-inf")), kind.get("exclusiveMaximum", float("inf"))
    fit = [one for one in choices if low <= one <= high and above < one < below]
    return random.choice(fit or [low if low > float("-inf") else choices[1]])


def _word(kind: Mapping[str, Any], name: str, random: Random) -> str:
    """A quantity, a name of a registry, or a word that the description quotes."""
    if examples := kind.get("examples"):
        number, unit = examples[0].split(" ", 1)
        return f"{float(number) * random.choice(_FACTORS):g} {unit}"
    quoted = [one for one in re.findall(r"`([^`]+)`", kind.get("description", "")) if not set(one) & set("/.: ")]
    names = list(_NAMES[name].names()) if name in _NAMES else []
    if name in _FOLDERS:
        names = [path.stem for path in (mutations.ROOT / "hardware_profiles" / _FOLDERS[name]).glob("*.yaml")]
    return random.choice([*names, *quoted] or ["host", "x", "attention out", "mlp in", "NIC 0"])


def _required(kind: type[Spec]) -> dict[str, tuple[str, ...]]:
    """Keys that a spec needs, by the title of the spec: of a kind of file and all that it contains."""
    found: dict[str, tuple[str, ...]] = {}
    left: list[Any] = [kind]
    while left:
        one = left.pop()
        left += get_args(one)
        if not (isinstance(one, type) and issubclass(one, Spec)) or one.__name__ in found:
            continue
        found[one.__name__] = tuple(name for name, field in one.model_fields.items() if field.is_required())
        left += [field.annotation for field in one.model_fields.values()]
    return found
