"""The JSON schema of what people write: scenarios, profiles and models, for editors that complete and check YAML.

`FileSchema` draws what a file may say beyond what a loaded spec is; here come the form of quantities, the keys that
a whole file needs unless it extends another, and names for the definitions that a reader can bear.
"""

import json
from typing import Any

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from simulator.errors import InputError, Problem, nearest
from simulator.report.catalogue.quantities import EXAMPLES, dimension_of_function
from simulator.specs.base import Spec
from simulator.specs.files.documentation import FileSchema
from simulator.specs.grid import Grid
from simulator.specs.hardware import Accelerator, Cluster, Node
from simulator.specs.kernels import KernelProfile
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.model import Model
from simulator.specs.scenario import JobsScenario, Scenario, ServingScenario
from simulator.specs.training import Stack

KINDS: dict[str, type[Spec]] = {
    "scenario": Scenario,
    "serving": ServingScenario,
    "jobs": JobsScenario,
    "accelerator": Accelerator,
    "node": Node,
    "cluster": Cluster,
    "model": Model,
    "stack": Stack,
    "kernels": KernelProfile,
    "collectives": CollectiveProfile,
    "grid": Grid,
}
"""Kinds of file that have a schema."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"


def schema(kind: str) -> str:
    """The schema of one of `KINDS` as text; InputError for any other word."""
    if kind not in KINDS:
        raise InputError(Problem(f"there is no kind of file `{kind}`", hint=nearest(kind, KINDS)))
    drawn = KINDS[kind].model_json_schema(schema_generator=_Generator)
    required = [name for name, field in KINDS[kind].model_fields.items() if field.is_required()]
    drawn["anyOf"] = [{"required": ["extends"]}, _needed(KINDS[kind], required)]
    return json.dumps(_renamed({"$schema": _DIALECT} | drawn), indent=2, ensure_ascii=False) + "\n"


class _Generator(FileSchema):
    """Adds what a quantity looks like in a file."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """Quantities are text with a unit, or 0 (fractions any number); the rest is drawn as it is after validation."""
        dimension = dimension_of_function(schema["function"]["function"])
        if dimension is None:
            return super().function_before_schema(schema)
        text = {"type": "string", "pattern": _NUMBER + r"[A-Za-z%/µμ]", "examples": [EXAMPLES[dimension]]}
        bare = {"type": "number"} if dimension == "fraction" else {"const": 0}
        return {"title": dimension.replace("_", " "), "anyOf": [text, bare]}


def _renamed(drawn: dict[str, Any]) -> dict[str, Any]:
    """The schema with short names for the figures, whose own spell out Python's types."""
    names: dict[str, str] = {}
    for name, found in drawn.get("$defs", {}).items():
        if "Figure" in name:
            value = found["properties"]["value"]
            names[name] = "FigureOf" + str(value.get("type") or value["title"]).title().replace(" ", "")
            found["title"] = "Figure"
    text = json.dumps(drawn)
    for name, short in names.items():
        text = text.replace(json.dumps(f"#/$defs/{name}"), json.dumps(f"#/$defs/{short}"))
    renamed: dict[str, Any] = json.loads(text)
    if names:
        renamed["$defs"] = {names.get(name, name): found for name, found in renamed["$defs"].items()}
    return renamed


def _needed(kind: type[Spec], required: list[str]) -> dict[str, Any]:
    """The keys that must be there, each under one of its names."""
    names = {field: [field, *(alias for alias, meant in kind.aliases.items() if meant == field)] for field in required}
    plain = [field for field, known in names.items() if len(known) == 1]
    choices = [{"anyOf": [{"required": [name]} for name in known]} for known in names.values() if len(known) > 1]
    return ({"required": plain} if plain else {}) | ({"allOf": choices} if choices else {})
