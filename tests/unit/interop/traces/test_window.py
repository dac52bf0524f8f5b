"""Long lists of JSON, item by item."""

from io import StringIO

import pytest

from simulator.errors import InputError, Problem
from simulator.interop.traces.window import Window


class Named:
    """A source that names itself."""

    def error(self, message: str, line: int | None = None) -> InputError:
        """The error with the file's name."""
        return InputError(Problem(message, "t.json", line))


def read(text: str) -> list[tuple[int, object]]:
    """Items with their lines."""
    return list(Window(Named(), StringIO(text), 100).items())


def test_items_are_read_with_their_lines() -> None:
    assert read('[1,\n {"a": [2]},\n\n"b"]\n') == [(1, 1), (2, {"a": [2]}), (4, "b")]


@pytest.mark.parametrize("text", ["[1, 22", "[1, 22 ", '[1, {"a": 2}', "[1,\n [2]\n"])
def test_a_list_that_is_cut_ends_where_the_file_does(text: str) -> None:
    with pytest.raises(InputError, match=r"the end of the file where `,` or `\]` should be"):
        read(text)
