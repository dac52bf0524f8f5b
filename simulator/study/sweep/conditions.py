"""Conditions of a sweep, all of one form: `key < value`.

The key is that of an axis, in full or by its last words, a metric, or any value of the scenario. What the scenario says
is judged before a point is simulated, a metric afterwards.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from simulator import units
from simulator.errors import InputError, Problem, nearest
from simulator.metrics import METRICS
from simulator.results.metrics import WELL_KNOWN
from simulator.specs.base import Figure, Spec
from simulator.specs.files.shape import Kind, below, canonical, suggestion
from simulator.specs.text.written import dimension
from simulator.specs.text.yaml_text import scalar

_FORM = re.compile(r"\s*([\w.-]+)\s*(<=|>=|==|!=|<|>)\s*([^<>=!]+?)\s*")
_EXAMPLE = "write `key < value` with one of < <= > >= == !=, for example `peak_memory_bytes < 80 GB`"
_PREFIXED = ("bytes", "flop_rate")
_SURELY = 1e6  # so many bytes or FLOP/s are not meant to be GB or TFLOP/s
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition."""

    text: str
    """As it was written."""
    of: Literal["axis", "scenario", "metric"]
    """What its key names."""
    key: str
    """Key of an axis, path in the scenario, or name of a metric."""
    sign: str
    """One of < <= > >= == !=."""
    wanted: Any
    """What it is held against: a number of SI units, text, true or false."""
    dimension: str | None = None
    """Of quantities: one of `units.DIMENSIONS`."""

    def holds(self, found: Any) -> bool:
        """Whether a value meets it; a metric that a point does not have meets nothing.

        Raises InputError where the two cannot be compared.
        """
        if found is None and self.of == "metric":
            return False
        if self.dimension is not None and isinstance(found, str):
            found = units.parse(found, self.dimension)
        if _sort(found) != _sort(self.wanted) or (self.sign in ("<", "<=", ">", ">=") and _sort(found) != "a number"):
            hint = "compare numbers, or text with == and !="
            raise InputError(Problem(f"{self.key} is {_sort(found)} here", file=f"condition `{self.text}`", hint=hint))
        return _SIGNS[self.sign](found, self.wanted)


def parse_conditions(texts: Iterable[str], axes: Sequence[str], kind: Kind) -> tuple[Condition, ...]:
    """Read conditions on a scenario of the type `kind` with axes of these keys.

    Raises InputError where the form is another, a key is not known, or a value is none of its key.
    """
    return tuple(_parse(text, axes, kind) for text in texts)


def value_at(scenario: Spec, key: str) -> Any:
    """What a scenario says at a path, of a figure its value; None where there is nothing."""
    found: Any = scenario
    for part in key.split("."):
        if isinstance(found, Spec):
            found = getattr(found, canonical(type(found), part), None)
        elif isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, (list, tuple)) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found.value if isinstance(found, Figure) else found


def axis_named(name: str, axes: Sequence[str]) -> str | None:
    """The key of an axis by its whole or by its last words, where only one has them."""
    found = [key for key in axes if key == name] or [key for key in axes if key.endswith(f".{name}")]
    return found[0] if len(found) == 1 else None


def _parse(text: str, axes: Sequence[str], kind: Kind) -> Condition:
    match = _FORM.fullmatch(text)
    shown = f"condition `{text[:200]}`"
    if match is None:
        raise InputError(Problem("is none", file=shown, hint=_EXAMPLE))
    key, sign, value = match.groups()
    axis = axis_named(key, axes)
    if axis is None and key in METRICS:
        metric = METRICS[key]
        return Condition(text, "metric", key, sign, _quantity(value, metric.dimension, metric.scale, shown))
    path = axis or key
    known = _kind_at(kind, path, shown, axes)
    named = dimension(known)
    wanted = _scalar(value, shown) if named is None else _quantity(value, named, None, shown)
    return Condition(text, "axis" if axis else "scenario", path, sign, wanted, named)


def _kind_at(kind: Kind, path: str, shown: str, axes: Sequence[str]) -> Kind:
    """The type of the values at a path."""
    for part in path.split("."):
        inner = below(kind, canonical(kind, part))
        if inner is None:
            near, field = nearest(path, (*axes, *METRICS)), suggestion(kind, part)
            few = ", ".join(f"`{name}`" for name in (*axes, *WELL_KNOWN))
            meant = next((hint for hint in (near, field) if hint.startswith("did")), "")
            hint = meant or f"name what is varied, a key of the scenario or a metric, for example {few}"
            raise InputError(Problem(f"unknown key `{part}`", file=shown, hint=hint))
        kind = inner
    return kind


def _scalar(text: str, shown: str) -> Any:
    try:
        return scalar(text.strip("\"'") if text[:1] in "\"'" else text)
    except ValueError as error:
        raise InputError(Problem(str(error), file=shown)) from error


def _quantity(text: str, named: str, scale: float | None, shown: str) -> float:
    """A quantity in SI units; with a scale (of a metric) a bare number is taken to be in the metric's own unit.

    Bytes and FLOP/s are printed with prefixes: 60 is meant as 60 GB, and its unit is asked for; 4e10 is clear.
    Shares are printed in per cent: 50 is meant as 50 %, and its sign is asked for.
    """
    try:
        bare = _scalar(text, shown)
        number = isinstance(bare, (int, float)) and not isinstance(bare, bool)
        if scale is not None and number and (named not in _PREFIXED or abs(float(bare)) >= _SURELY):
            if named == "fraction" and float(bare) > 1:
                hint = f"write `{bare} %`" if float(bare) <= 100 else "write a share such as `50 %`"
                raise InputError(Problem(f"`{bare}` would be {100 * float(bare):,.0f} %", file=shown, hint=hint))
            return float(bare)
        return units.parse(text, named) / (scale or 1.0)
    except ValueError as error:
        raise InputError(Problem(str(error), file=shown)) from error


def _sort(value: Any) -> str:
    """What sort of thing a value is, in words."""
    if value is None:
        return "left open"
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, (int, float)) else "text" if isinstance(value, str) else "no single value"
