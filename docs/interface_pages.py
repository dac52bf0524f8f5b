"""Reference of the Python interface, from its signatures and docstrings."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from markdown_tables import table

import simulator
from simulator.api import calls, scenario, schedule
from simulator.report.notebook.plotting import ComparisonPlots, Plots, SweepPlots

FUNCTIONS = {
    "run": calls.run,
    "load": scenario.load,
    "compare": calls.compare,
    "sweep": calls.sweep,
    "read": calls.read,
    "validate": calls.validate,
    "schedule": schedule.schedule,
}
"""The functions in the order of the page."""
_WIDEST = 88


def python_functions() -> str:
    """Signature and text of every function."""
    return "\n".join(_function(name, function) for name, function in FUNCTIONS.items())


def python_types() -> str:
    """Text, fields and methods of every type."""
    return "\n".join(
        _type(getattr(simulator, name)) for name in ("Scenario", "Result", "Comparison", "Sweep", "PipelineSchedule")
    )


def python_plots() -> str:
    """The plots of a result, of a comparison and of a sweep."""
    found = [
        (f"`{name}.plot.{method}{_call(vars(kind)[method])}`", text)
        for name, kind in (("result", Plots), ("comparison", ComparisonPlots), ("sweep", SweepPlots))
        for method, text in _methods(kind)
    ]
    return table(("plot", "what it draws"), found)


def _function(name: str, function: Any) -> str:
    text = inspect.getdoc(function) or ""
    return f"### sim.{name}\n\n```text\n{_lines(f'sim.{name}', _signature(function))}\n```\n\n{text}\n"


def _lines(name: str, signature: str) -> str:
    """A call on one line, or on as many as it has arguments where it is too wide for the page."""
    if len(name + signature) <= _WIDEST:
        return name + signature
    arguments = re.split(r", (?![^(]*\))", signature[1:-1])
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"


def _signature(function: Any) -> str:
    """Names and defaults; types are in the source."""
    return str(
        inspect.signature(function).replace(
            parameters=[
                parameter.replace(annotation=inspect.Parameter.empty)
                for parameter in inspect.signature(function).parameters.values()
                if parameter.name not in ("self", "cls")
            ],
            return_annotation=inspect.Signature.empty,
        )
    )


def _type(kind: type) -> str:
    rows = [(f"`{name}`", text) for name, text in _fields(kind)]
    rows += [(f"`{name}{_call(vars(kind)[name])}`", text) for name, text in _methods(kind)]
    return f"### sim.{kind.__name__}\n\n{inspect.getdoc(kind)}\n\n{table(('name', 'meaning'), rows)}"


def _call(method: Any) -> str:
    return "" if isinstance(method, property) else _signature(method)


def _methods(kind: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties that a class has itself, but alternative constructors."""
    for name, method in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(method) or isinstance(method, property)):
            yield name, (inspect.getdoc(method) or "").split("\n\n")[0]


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """Fields with the text under each, those of its base included."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        source = Path(str(sys.modules[base.__module__].__file__)).read_text(encoding="utf-8")
        (body,) = (n.body for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == base.__name__)
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = re.sub(r"\s+", " ", str(text.value.value))
    yield from ((field.name, found.get(field.name, "")) for field in fields(kind))  # type: ignore[arg-type]
