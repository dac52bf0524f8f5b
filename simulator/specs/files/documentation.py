"""The documentation of specs: the text under each field, and the JSON schema for editors.

The text is read from the source on demand, because reading it whenever a spec class is made would double the time that
the command line takes to start.
"""

import ast
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from simulator.specs.base import Spec


@cache
def describe(kind: type[Spec]) -> dict[str, str]:
    """What the text under each field of a spec says, by field; inherited ones included, undocumented ones left out."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Spec):
            found |= _texts(base.__module__).get(base.__qualname__, {})
    return {name: found[name] for name in kind.model_fields if name in found}


@cache
def _texts(module: str) -> dict[str, dict[str, str]]:
    """For each class of a module, the strings that follow its annotated names."""
    source = Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return {node.name: dict(_documented(node.body)) for node in classes}


def _documented(body: list[ast.stmt]) -> list[tuple[str, str]]:
    found = []
    for field, text in pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr)):
            continue
        if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            found.append((field.target.id, " ".join(text.value.value.split())))
    return found


class FileSchema(GenerateJsonSchema):
    """Describes what a person may write: references by name, `extends`, foreign names, quantities as text.

    No key is required, since any may come from a file that is extended; the loader says what is missing.
    """

    def generate(self, schema: core_schema.CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """The schema of a whole file, which is a mapping and never only a name."""
        generated: dict[str, Any] = super().generate(schema, mode)
        mapping = generated.pop("anyOf")[1] if "anyOf" in generated else {}
        return {**generated, **mapping}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The mapping of one spec; also a name, where specs of its kind have files of their own."""
        kind: type[Spec] = schema["cls"]
        mapping: dict[str, Any] = super().model_schema(schema)
        mapping.pop("required", None)
        properties = mapping.setdefault("properties", {})
        for name, text in describe(kind).items():
            properties[name]["description"] = text
        properties |= self._registered(kind)
        for name in kind.unwritten:
            del properties[name]
        for alias, name in kind.aliases.items():
            properties.setdefault(alias, {**properties[name], "description": f"Another name of `{name}`."})
        if kind.folder is None:
            return mapping
        properties["extends"] = {"type": "string", "description": f"File of {kind.folder}/ that the other keys change."}
        reference = {"type": "string", "description": f"Name in {kind.folder}/, or path of a file."}
        return {"title": mapping.pop("title", kind.__name__), "anyOf": [reference, mapping]}

    def _registered(self, kind: type[Spec]) -> dict[str, Any]:
        """The keys that plug-ins add."""
        added = kind.registered()
        return {name: self.generate_inner(TypeAdapter(added[name]).core_schema) for name in added}
