"""What is said about fields, and the JSON schema made of it."""

from simulator.specs.base import Bytes, Figure
from simulator.specs.files.documentation import describe
from simulator.specs.scenario import Scenario
from tests.unit.specs.garage import Car, Motor, Seats


def test_the_text_under_a_field_is_its_documentation() -> None:
    assert describe(Seats) == {"rows": "Rows of seats.", "heated": "Whether they are warm."}
    assert describe(Figure[Bytes])["value"] == "The number, in SI units once loaded."


def test_a_schema_allows_what_the_loader_accepts() -> None:
    schema = Car.model_json_schema()
    assert schema["type"] == "object"
    assert "required" not in schema
    assert schema["properties"]["extends"]["type"] == "string"
    assert schema["properties"]["engine"]["description"] == "Another name of `motor`."
    assert schema["properties"]["doors"]["description"] == "Doors; two a row where left out."
    by_name, inline = schema["$defs"][Motor.__name__]["anyOf"]
    assert by_name["type"] == "string"
    assert inline["properties"]["delay"]["description"] == "From key to noise."
    assert schema["$defs"][Seats.__name__]["properties"]["chairs"]["minimum"] == 1


def test_the_schema_of_scenarios_documents_each_key() -> None:
    schema = Scenario.model_json_schema()
    assert all(field["description"] for field in schema["properties"].values())
    assert "tensor_model_parallel_size" in schema["$defs"]["Parallel"]["properties"]
