"""YAML text: scalars of YAML 1.2, what is refused, and bounds on what hostile input can cost."""

import os
import stat
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError, Problem
from simulator.specs.text.yaml_text import MAX_BYTES, MAX_DEPTH, Place, compose, plain, read, scalar


def load(text: str) -> Any:
    return plain(compose(text, "f.yaml"))


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        load(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("+5", 5),
        ("-5", -5),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e", "1e"),
        ("2001-01-01", "2001-01-01"),
        ("80 GB", "80 GB"),
        ("0b11", "0b11"),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    found = load(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


def test_quoted_scalars_are_text() -> None:
    assert load("a: '5'\nb: \"true\"\nc: ''\nd: |\n  5\n") == {"a": "5", "b": "true", "c": "", "d": "5\n"}


@given(st.text(alphabet="0123456789+-.eExoabcdfinNIF_:", max_size=12))
def test_no_plain_scalar_breaks_the_reader(text: str) -> None:
    try:
        assert isinstance(scalar(text), (str, int, float, bool, type(None)))
    except ValueError as error:
        assert "not a finite number" in str(error)


def test_nodes_know_their_places() -> None:
    root = compose("a: 1\nb:\n  - x\n  - {c: y}\n", "f.yaml")
    assert root.place == Place("f.yaml", 1, 1)
    items = root.children()["b"].children()
    assert root.keys["b"] == Place("f.yaml", 2, 1)
    assert items["0"].place == Place("f.yaml", 3, 5)
    assert items["1"].keys["c"] == Place("f.yaml", 4, 6)
    assert items["1"].children()["c"].place == Place("f.yaml", 4, 9)


def test_anchors_and_aliases_work() -> None:
    assert load("a: &x [1, {b: 2}]\nc: *x\nd: &y 5\ne: *y") == {"a": [1, {"b": 2}], "c": [1, {"b": 2}], "d": 5, "e": 5}


def test_all_duplicate_keys_are_reported_at_once() -> None:
    assert refusal("a: 1\nb: {c: 1, c: 2}\na: {c: 3}").splitlines() == [
        "f.yaml:2:11: duplicate key `c` (first on line 2); keep one of them",
        "f.yaml:3:1: duplicate key `a` (first on line 1); keep one of them",
    ]


def test_faults_that_leave_the_rest_readable_can_be_collected() -> None:
    problems: list[Problem] = []
    root = compose("a: 1\na: 2\nb: !!int 3\n", "f.yaml", problems)
    assert plain(root) == {"a": 1, "b": "3"}
    assert [problem.line for problem in problems] == [2, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: b: c",
            "f.yaml:1:5: no YAML: mapping values are not allowed in this context; quote text that contains `: `",
        ),
        ("a:\n\tb: 1", "f.yaml:2:1: no YAML: found character that cannot start any token; indent with spaces"),
        ("a: @x", "f.yaml:1:4: no YAML: found character that cannot start any token; "),
        ("a: [1, 2", "f.yaml:2:1: no YAML: did not find expected ',' or ']'; close the bracket"),
        ("a: 'x", "f.yaml:1:6: no YAML: found unexpected end of stream"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: a second document starts here; write one document a file"),
        ("<<: {a: 1}", "f.yaml:1:1: merge keys are not accepted; write `extends: NAME`"),
        ("? [a]\n: b", "f.yaml:1:3: a key must be plain text"),
        ("a: &x k\n*x : 1", "a key must be plain text"),
        ("'': 1", "f.yaml:1:1: a key is empty; write `key: value`"),
        ("a: *x", "f.yaml:1:4: `*x` refers to nothing above it, or to itself"),
        ("a: &a [*a]", "f.yaml:1:8: `*a` refers to nothing above it, or to itself"),
        ("a: .inf", "f.yaml:1:4: `.inf` is not a finite number"),
        ("a: -.INF", "f.yaml:1:4: `-.INF` is not a finite number"),
        ("a: .nan", "f.yaml:1:4: `.nan` is not a finite number"),
        ("a: 1e999", "f.yaml:1:4: `1e999` is not a finite number"),
        ("a: " + "9" * 5000, "f.yaml:1:4: a number of 5000 digits is too long"),
        ("a: 1\nb: \x07", "f.yaml:2:4: a control character; remove it, or name a text file"),
        ("!!python/object/apply:os.system ['true']", "f.yaml:1:1: tag `tag:yaml.org,2002:python/object/apply..."),
        ("a: !secret x", "f.yaml:1:4: tag `!secret` is not accepted; write the value alone"),
    ],
)
def test_refuses_with_place_and_advice(text: str, message: str) -> None:
    assert message in refusal(text)
    assert "\n" not in refusal(text)


@pytest.mark.parametrize(
    "text",
    ["[" * 20_000, "[\n" * 20_000, "{a: " * 20_000, "- " * 20_000, "\n".join(" " * i + "a:" for i in range(2000))],
    ids=["brackets", "lines", "braces", "dashes", "indentation"],
)
def test_deep_nesting_gives_one_quick_error(text: str) -> None:
    begin = time.process_time()
    message = refusal(text)
    assert message.endswith(f"values are nested more than {MAX_DEPTH} deep")
    assert message.count("\n") == 0
    assert time.process_time() - begin < 10


def test_an_alias_bomb_is_refused_within_little_memory() -> None:
    levels = (f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12))
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(levels)
    tracemalloc.start()
    try:
        assert "more than 100,000 values, aliases expanded" in refusal(text)
        assert tracemalloc.get_traced_memory()[1] < 2e6
    finally:
        tracemalloc.stop()


def test_aliases_cannot_nest_deeper_than_text() -> None:
    chain = "a0: &a0 [x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 100))
    assert "deep, aliases expanded" in refusal(chain)


def test_the_number_of_values_is_bounded() -> None:
    assert "more than 100,000 values" in refusal("a: [" + "1," * 110_000 + "]")
    unclosed = "[" + "1," * 45_000
    assert "more than 100,000 values" in refusal("a: " + unclosed * 3)


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: caf\xc3\xa9\r\nb: 1\r\n")
    root = read(path, "shown.yaml")
    assert plain(root) == {"a": "caf\u00e9", "b": 1}
    assert root.children()["b"].place == Place("shown.yaml", 2, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f.yaml: is empty; write `key: value` lines"),
        (b" \n\n", "f.yaml: is empty; write `key: value` lines"),
        (b"# only a comment\n", "f.yaml:1:1: the file holds no mapping; write `key: value` lines"),
        (b"- 1\n", "f.yaml:1:1: the file holds no mapping; write `key: value` lines"),
        (b"just text", "f.yaml:1:1: the file holds no mapping; write `key: value` lines"),
        (b"\x7fELF\x02\x01\x00\x00", "f.yaml: is no text in UTF-8; name a YAML file"),
        (b"\x89PNG\r\n\xff\xfe", "f.yaml:1:1: byte 0x89 is no text in UTF-8; save it as UTF-8, or name a YAML file"),
        (
            b"name: a\nnote: caf\xe9\n",
            "f.yaml:2:10: byte 0xe9 is no text in UTF-8; save it as UTF-8, or name a YAML file",
        ),
        ("a: 1".encode("utf-16"), "f.yaml: is no text in UTF-8; name a YAML file"),
        (b"a" * (MAX_BYTES + 1), "f.yaml: is larger than 4 MiB; is it a YAML file?"),
    ],
)
def test_unusable_files_give_one_message(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(path, "f.yaml")
    assert str(caught.value) == message


def test_what_is_no_file_gives_one_message(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, "is a directory; name a YAML file in it"),
        (tmp_path / "none.yaml", "cannot be read: No such file or directory"),
        (Path("/dev/zero"), "is not a regular file; name a YAML file"),
        (Path("a\0b"), "cannot be read: "),
        (Path("n" * 5000), "cannot be read: File name too long"),
    ):
        with pytest.raises(InputError, match=message):
            read(path, "f")


@pytest.mark.parametrize("call", ["stat", "open", "read"])
def test_an_unreadable_file_gives_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: 1")

    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    if call == "read":
        monkeypatch.setattr(Path, "open", lambda *_: _Unreadable())
    else:
        monkeypatch.setattr(Path, call, fail)
    with pytest.raises(InputError) as caught:
        read(path, "f.yaml")
    assert str(caught.value) == "f.yaml: cannot be read: Permission denied"


class _Unreadable:
    """A file that opens and then fails."""

    def __enter__(self) -> "_Unreadable":
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self, size: int) -> bytes:
        raise PermissionError(13, "Permission denied", str(size))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(InputError, match="is not a regular file"):
        read(pipe)


@given(st.text(alphabet=st.sampled_from("ab1 :-?[]{}#&*!|>'\"%@`,\n\t\\xUu~.="), max_size=40))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    try:
        plain(compose(text, "f.yaml"))
    except InputError as error:
        assert all(problem.file == "f.yaml" for problem in error.problems)
