import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.report.catalogue.schema import KINDS, schema


def drawn(kind: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(schema(kind))
    return document


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_complete(kind: str) -> None:
    document = drawn(kind)
    assert document["$schema"].startswith("https://json-schema.org/")
    assert document["type"] == "object"
    assert document["additionalProperties"] is False
    assert set(references(document)) <= {f"#/$defs/{name}" for name in document.get("$defs", {})}


def test_scenario_needs_its_parts_or_extends() -> None:
    document = drawn("scenario")
    assert document["anyOf"][0] == {"required": ["extends"]}
    assert {"version", "cluster", "model", "stack", "training"} <= set(document["anyOf"][1]["required"])
    assert document["properties"]["version"]["const"] == 1


def test_profiles_may_be_named_and_extended() -> None:
    name, mapping = drawn("scenario")["$defs"]["Cluster"]["anyOf"]
    assert name["type"] == "string"
    assert "extends" in mapping["properties"]
    assert "required" not in mapping


def test_quantities_are_text_with_a_unit() -> None:
    text, bare = drawn("scenario")["$defs"]["FigureOfBandwidth"]["properties"]["value"]["anyOf"]
    assert (text["type"], text["examples"]) == ("string", ["200 Gbit/s"])
    assert re.match(text["pattern"], "200 Gbit/s")
    assert not re.match(text["pattern"], "200")
    assert bare == {"const": 0}


def test_foreign_names_are_known_and_described() -> None:
    parallel = drawn("scenario")["$defs"]["Parallel"]["properties"]
    assert parallel["tensor_model_parallel_size"]["description"] == "Another name of `tp`."
    assert parallel["tp"]["description"].startswith("Tensor parallelism")


def test_unknown_kind() -> None:
    with pytest.raises(InputError, match="did you mean `cluster`"):
        schema("clusters")
