"""The loader: references, inheritance, foreign names, all problems at once, and where each value comes from."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.specs import dump, load_file, load_scenario, load_spec, resolve, scenario_hash
from simulator.specs.text.yaml_text import read
from tests.effort import examples
from tests.unit.specs.garage import Car, Motor, Seats


def refusal(kind: type = Car, path: str = "cars/small.yaml", *changes: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_file(kind, path, changes)
    return str(caught.value).splitlines()


def test_a_file_refers_to_another(garage) -> None:
    loaded = load_file(Car, "cars/small.yaml")
    assert loaded.spec.motor.name == "diesel"
    assert loaded.spec.motor.delay == 1.0
    assert loaded.sources == ("cars/small.yaml", "parts/motors/diesel.yaml")
    assert load_spec(Car, "small") == load_spec(Car, "cars/small") == loaded.spec


def test_extends_merges_mappings_and_replaces_lists(garage) -> None:
    garage(
        "cars/base.yaml",
        "name: base\nmotor: diesel\nmotors: [diesel, electric]\nsizes: {a: 1, b: 2}\nseats: {rows: 2}\n",
    )
    garage(
        "cars/top.yaml",
        "extends: base\nname: top\nmotor: {delay: 3 s}\nmotors: [electric]\nsizes: {b: 3}\nseats: {heated: true}\n",
    )
    car = load_spec(Car, "top")
    assert (car.name, car.motor.name, car.motor.delay) == ("top", "diesel", 3.0)
    assert [motor.name for motor in car.motors] == ["electric"]
    assert car.sizes == {"a": 1, "b": 3}
    assert (car.seats.rows, car.seats.heated) == (2, True)


def test_a_reference_replaces_what_it_is_merged_over(garage) -> None:
    garage("cars/top.yaml", "extends: small\nmotor: electric\n")
    assert load_spec(Car, "top").motor.load is None
    garage("cars/top.yaml", "extends: small\nmotor: {extends: electric, name: e2}\n")
    motor = load_spec(Car, "top").motor
    assert (motor.name, motor.delay, motor.load) == ("e2", 2e-3, None)


def test_extends_may_be_a_path_beside_the_file(garage) -> None:
    garage("deep/down/base.yaml", "name: base\nmotor: ../up/m.yaml\n")
    garage("deep/up/m.yaml", "name: m\ndelay: 0\n")
    garage("top.yaml", "extends: ./deep/down/base.yaml\nname: top\n")
    assert load_file(Car, "top.yaml").spec.motor.name == "m"


def test_circles_are_refused(garage) -> None:
    garage("cars/a.yaml", "extends: b\n")
    garage("cars/b.yaml", "extends: cars/a\nname: b\n")
    assert refusal(Car, "a") == [
        "cars/b.yaml:1:10: files refer to each other in a circle: cars/a.yaml -> cars/b.yaml -> cars/a.yaml"
    ]
    garage("cars/self.yaml", "extends: self\n")
    assert refusal(Car, "cars/self.yaml") == [
        "cars/self.yaml:1:10: files refer to each other in a circle: cars/self.yaml -> cars/self.yaml"
    ]


def test_long_chains_are_refused(garage) -> None:
    for number in range(100):
        garage(f"cars/c{number}.yaml", f"extends: c{number + 1}\n")
    assert len(refusal(Car, "c0")) == 1
    assert "more than 32 files refer to each other in a row" in refusal(Car, "c0")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: x\nmotor: diesel\nseats: {extends: y}\n",
            "3:18: seats.extends: nothing can be extended here; write the keys out",
        ),
        ("extends: [small]\n", "1:10: extends: takes one name; write `extends: NAME`"),
        ("extends: smal\n", "1:10: there is no car `smal`; did you mean `small`?"),
        ("name: x\nmotor: deisel\n", "2:8: motor: there is no motor `deisel`; did you mean `diesel`?"),
    ],
)
def test_a_bad_reference_gives_one_problem(garage, text: str, message: str) -> None:
    garage("x.yaml", text)
    assert refusal(Car, "x.yaml") == [f"x.yaml:{message}"]


def test_a_fault_in_a_referenced_file_is_reported_there(garage) -> None:
    garage("parts/motors/diesel.yaml", "name: diesel\n\ndelay: 3\nload: {value: 2, status: guess, source: x}\n")
    assert refusal() == [
        "parts/motors/diesel.yaml:3:8: motor.delay: `3` has no unit: write a unit, for example `3 ms`",
        "parts/motors/diesel.yaml:4:15: motor.load.value: `2` is out of range; write 1 or less",
        "parts/motors/diesel.yaml:4:26: motor.load.status: `guess` is not accepted; "
        "write `measured`, `datasheet` or `estimate`",
    ]
    garage("parts/motors/diesel.yaml", "")
    assert refusal() == ["parts/motors/diesel.yaml: motor: is empty; write `key: value` lines"]
    garage("parts/motors/diesel.yaml", "name: [")
    assert refusal()[0].startswith("parts/motors/diesel.yaml:2:1: motor: no YAML: ")


def test_foreign_names_stand_for_fields(garage) -> None:
    garage("x.yaml", "name: x\nengine: diesel\nseats: {chairs: 3}\n")
    car = load_file(Car, "x.yaml").spec
    assert (car.motor.name, car.seats.rows) == ("diesel", 3)


def test_a_field_given_under_two_names_is_refused(garage) -> None:
    garage("x.yaml", "name: x\nmotor: diesel\nseats:\n  chairs: 3\n  rows: 2\n  benches: 1\n")
    assert refusal(Car, "x.yaml") == [
        "x.yaml:5:3: seats.rows: `rows` and `chairs` (x.yaml:4) are names of the same field; keep one of them",
        "x.yaml:6:3: seats.benches: `benches` and `chairs` (x.yaml:4) are names of the same field; keep one of them",
    ]


def test_a_foreign_name_merges_with_ours(garage) -> None:
    garage("cars/top.yaml", "extends: small\nseats: {chairs: 7}\n")
    assert load_spec(Car, "top").seats.rows == 7


BAD = """\
nmae: x
motor: {name: 5, delay: 3 GB, load: 1}
seats: {rows: "2", heated: yes}
spare: [1]
motors: {a: 1}
sizes: {a: 1.5, b: true}
pair: [1]
colour: blu
price: {}
doors:
"""


def test_all_problems_of_a_file_come_at_once(garage) -> None:
    garage("bad.yaml", BAD)
    assert refusal(Car, "bad.yaml") == [
        "bad.yaml:1:1: name: `name` is missing; write `name: ...` (What it is called)",
        "bad.yaml:1:1: nmae: unknown key `nmae`; did you mean `name`?",
        'bad.yaml:2:15: motor.name: `5` is not text; write it in quotes: `"5"`',
        "bad.yaml:2:25: motor.delay: `GB` is a unit of bytes, not of time: write, for example, `5 ms`",
        "bad.yaml:2:37: motor.load: `1` stands where keys are needed; "
        "write `{value: 1, status: estimate, source: why}`; the status is `measured`, `datasheet` or `estimate`",
        "bad.yaml:3:15: seats.rows: `2` is not a whole number; write a whole number without quotes",
        "bad.yaml:3:28: seats.heated: `yes` is not `true` or `false`; write `true` or `false`",
        "bad.yaml:4:8: spare: a list stands where keys are needed; "
        "write `name:` and `delay:` or the name of a file in parts/motors/",
        "bad.yaml:5:9: motors: a mapping stands where a list is needed; write `[first, second]`",
        "bad.yaml:6:12: sizes.a: `1.5` is not a whole number; write a whole number",
        "bad.yaml:6:20: sizes.b: `true` is not a whole number; write a whole number",
        "bad.yaml:7:7: pair.1: an item is missing",
        "bad.yaml:8:9: colour: `blu` is not accepted; write `red` or `green`",
        "bad.yaml:9:8: price: a mapping is not text, or a mapping is not a number",
        "bad.yaml:10:7: doors: has no value; write one, or leave the key out",
    ]


def test_problems_of_the_text_and_of_the_types_come_together(garage) -> None:
    garage("bad.yaml", "name: x\nname: y\nmotor: deisel\nseats: {rows: 0}\n")
    assert [line.split(": ")[0] for line in refusal(Car, "bad.yaml")] == [
        "bad.yaml:2:1",
        "bad.yaml:3:8",
        "bad.yaml:4:15",
    ]


def test_checks_of_a_spec_become_readable(garage) -> None:
    garage("x.yaml", "name: x\nmotor: diesel\npair: [2, 1]\n")
    assert refusal(Car, "x.yaml") == ["x.yaml:1:1: `pair` must rise"]


@pytest.mark.parametrize("value", ["true", "'2'", "2.5", "[2]", "{}", "2 s"])
def test_numbers_are_never_guessed(garage, value: str) -> None:
    garage("x.yaml", f"name: x\nmotor: diesel\nseats: {{rows: {value}}}\n")
    assert len(refusal(Car, "x.yaml")) == 1


def test_a_whole_number_may_be_written_as_a_float(garage) -> None:
    garage("x.yaml", "name: x\nmotor: diesel\nseats: {rows: 1e1}\n")
    assert load_file(Car, "x.yaml").spec.seats.rows == 10


def test_each_value_has_its_origin(garage) -> None:
    loaded = load_file(Car, "cars/small.yaml", ["motor.delay=3 s", "+motors.0=electric"])
    assert loaded.origins == {
        "name": "cars/small.yaml:1",
        "motor.name": "parts/motors/diesel.yaml:1",
        "motor.delay": "override `motor.delay=3 s`",
        "motor.load.value": "parts/motors/diesel.yaml:3",
        "motor.load.status": "parts/motors/diesel.yaml:3",
        "motor.load.source": "parts/motors/diesel.yaml:3",
        "motor.memory": "default",
        "seats.rows": "cars/small.yaml:3",
        "seats.heated": "default",
        "spare": "default",
        "motors.0.name": "parts/motors/electric.yaml:1",
        "motors.0.delay": "parts/motors/electric.yaml:2",
        "motors.0.load": "default",
        "motors.0.memory": "default",
        "sizes.a": "cars/small.yaml:4",
        "sizes.b": "cars/small.yaml:4",
        "pair.0": "default",
        "pair.1": "default",
        "colour": "default",
        "price": "default",
        "doors": "derived",
    }


def test_every_value_of_the_dump_has_an_origin(garage) -> None:
    loaded = load_file(Car, "small", ["+motors.0=electric"])

    def leaves(value: object, path: str) -> list[str]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        inner = [leaf for key, item in items for leaf in leaves(item, f"{path}.{key}" if path else str(key))]
        return inner or [path]

    assert leaves(dump(loaded.spec), "") == list(loaded.origins)


def test_the_dump_is_plain_data_and_its_hash_is_stable(garage) -> None:
    spec = load_spec(Car, "small")
    assert json.loads(json.dumps(dump(spec))) == dump(spec)
    assert scenario_hash(spec) == scenario_hash(load_spec(Car, "cars/small.yaml"))
    assert scenario_hash(spec) != scenario_hash(load_file(Car, "small", ["motor.delay=2 s"]).spec)
    assert len(scenario_hash(spec)) == 16


def test_kinds_without_files_of_their_own_load_by_path(garage) -> None:
    garage("seats.yaml", "chairs: 3\n")
    assert load_file(Seats, "seats.yaml").spec.rows == 3
    assert refusal(Seats, "none.yaml") == ["none.yaml: cannot be read: No such file or directory"]


def test_what_is_no_file_gives_one_line(garage, tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\x00\x01\x02")
    (tmp_path / "empty.yaml").touch()
    for path, message in (
        ("none.yaml", "there is no motor `none.yaml`"),
        ("parts", "parts: is a directory; name a YAML file in it"),
        ("binary.yaml", "binary.yaml: is no text in UTF-8; name a YAML file"),
        ("empty.yaml", "empty.yaml: is empty; write `key: value` lines"),
        ("x\0y", "there is no motor `x"),
        ("x" * 5000, "there is no motor `x"),
    ):
        lines = refusal(Motor, path)
        assert len(lines) == 1
        assert lines[0].startswith(message)
        assert len(lines[0]) < 200


WORDS = ("null", "yes", "true", "0", "-1", "1e3", "'x'", "diesel", "motors/none", "5 GB", "2 ms", "red", "car: x")
KEYS = ("extends", "name", "motor", "engine", "seats", "rows", "chairs", "motors", "sizes", "delay", "value", "zzz")
VALUES = st.recursive(
    st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
        )
    ),
    max_leaves=8,
)


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(entries=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), changes=st.lists(VALUES, max_size=2))
def test_whatever_is_written_is_loaded_or_refused(garage, entries: dict[str, str], changes: list[str]) -> None:
    garage("any.yaml", "\n".join(f"{key}: {value}" for key, value in {"name": "x", **entries}.items()))
    try:
        load_file(Car, "any.yaml", [f"motors={change}" for change in changes])
    except InputError as error:
        assert error.problems
        assert all(problem.file is not None for problem in error.problems)


SCENARIO = """\
version: 1
name: one node
cluster: {extends: clusters/selene, nodes: 1}
model: {name: tiny, num_layers: 4, hidden_size: 64, num_attention_heads: 4, vocab_size: 1000}
stack: megatron-lm-2021
training: {global_batch_size: 8, seq_length: 128, parallel: {tensor_model_parallel_size: 2}}
"""


def test_a_scenario_in_megatron_words(write) -> None:
    write("s.yaml", SCENARIO)
    loaded = load_scenario("s.yaml", ["training.parallel.pp=4"])
    scenario = loaded.scenario
    assert (scenario.cluster.nodes, scenario.model.layers, scenario.model.ffn) == (1, 4, 256)
    assert (scenario.training.global_batch, scenario.training.parallel.tp, scenario.training.parallel.pp) == (8, 2, 4)
    assert loaded.origins["model.layers"] == "s.yaml:4"
    assert loaded.origins["model.ffn"] == "derived"
    assert loaded.origins["training.parallel.pp"] == "override `training.parallel.pp=4`"
    assert loaded.origins["training.micro_batch"] == "default"
    assert loaded.origins["cluster.node.accelerator.vendor"].startswith("hardware_profiles/accelerators/")


def test_a_scenario_extends_another(write) -> None:
    write("s.yaml", SCENARIO)
    write("family/t.yaml", "extends: ../s.yaml\nname: two nodes\ncluster: {nodes: 2}\ntraining: {global_batch: 16}\n")
    scenario = load_scenario("family/t.yaml").scenario
    assert (scenario.name, scenario.cluster.nodes, scenario.training.global_batch) == ("two nodes", 2, 16)
    assert scenario.training.parallel.tp == 2


def test_misspelt_layout_keys_name_the_nearest(write) -> None:
    write("s.yaml", SCENARIO.replace("tensor_model_parallel_size", "tensor_model_paralel_size"))
    with pytest.raises(InputError) as caught:
        load_scenario("s.yaml")
    assert str(caught.value) == (
        "s.yaml:6:62: training.parallel.tensor_model_paralel_size: unknown key `tensor_model_paralel_size`; "
        "did you mean `tensor_model_parallel_size`?"
    )


def test_a_file_that_others_refer_to_is_read_once_and_again_when_it_or_another_is_meant(garage, monkeypatch) -> None:
    read_files = []
    monkeypatch.setattr(resolve, "read", lambda path, *more: read_files.append(path.name) or read(path, *more))
    old = time.time() - 60

    def aged(path: str, text: str) -> None:
        os.utime(garage(path, text), (old, old))

    def loaded() -> str:
        read_files.clear()
        found = load_file(Car, "cars/small.yaml")
        assert found.sources == load_file(Car, "cars/small.yaml").sources
        return found.spec.motor.name

    os.utime("parts/motors/diesel.yaml", (old, old))
    assert loaded() == "diesel" and read_files.count("diesel.yaml") == 1
    assert loaded() == "diesel" and read_files == ["small.yaml", "small.yaml"]
    garage("parts/motors/diesel.yaml", "name: newer\ndelay: 1 s\n")
    assert loaded() == "newer" and read_files.count("diesel.yaml") == 2  # so young that it may change and look the same
    aged("parts/motors/diesel.yaml", "name: older\ndelay: 1 s\n")
    assert loaded() == "older"
    aged("cars/motors/diesel.yaml", "name: beside\ndelay: 1 s\n")
    assert loaded() == "beside"
    os.remove("cars/motors/diesel.yaml")
    assert loaded() == "older"


def test_what_files_that_were_read_before_refer_to_is_followed(garage) -> None:
    old = time.time() - 60
    for name, text in (("a", "extends: b\nname: a\n"), ("b", "extends: small\nname: b\n")):
        os.utime(garage(f"cars/{name}.yaml", text), (old, old))
    for file in ("cars/small.yaml", "parts/motors/diesel.yaml"):
        os.utime(file, (old, old))
    whole = ("cars/a.yaml", "cars/b.yaml", "cars/small.yaml", "parts/motors/diesel.yaml")
    assert [load_file(Car, "cars/a.yaml").sources for _ in range(2)] == [whole, whole]
    os.utime(garage("cars/small.yaml", "extends: a\nname: small\n"), (old, old))
    assert "files refer to each other in a circle" in refusal(Car, "cars/a.yaml")[0]


def test_a_spec_is_made_once_and_again_when_a_file_of_it_changes(garage) -> None:
    old = time.time() - 60
    for file in ("cars/small.yaml", "parts/motors/diesel.yaml"):
        os.utime(file, (old, old))
    first = load_spec(Car, "small")
    assert load_spec(Car, "small") is first
    garage("parts/motors/diesel.yaml", Path("parts/motors/diesel.yaml").read_text() + "\n# changed\n")
    again = load_spec(Car, "small")
    assert again is not first
    assert again == first
    assert load_spec(Car, "small") is not again  # the file is so young that another change could hide in its time
    Path("parts/motors/diesel.yaml").unlink()
    with pytest.raises(InputError, match="diesel"):
        load_spec(Car, "small")
