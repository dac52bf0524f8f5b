"""What the Python interface makes of its arguments: checked, and in the form of the command line."""

import json
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from simulator.errors import InputError, Problem, nearest

Values = Mapping[str, Iterable[Any] | str] | Sequence[str] | str
"""Values of keys: `{"training.micro_batch": [1, 2]}`, or `["training.micro_batch=1,2"]` as on the command line."""
_LONGEST = 100
_MOST = 1_000_000
_TYPED = re.compile(r"[\w.+/-]+( [\w.+/-]+)*")  # text that YAML reads as it stands
_EXAMPLE = 'write {"training.micro_batch": [1, 2]} or ["training.micro_batch=1,2"]'


def shown(value: object) -> str:
    """A value and its type in a message."""
    return f"`{repr(value)[:_LONGEST]}` ({type(value).__name__})"


def choice(name: str, value: object, choices: Sequence[str]) -> None:
    """InputError for a value that is neither None nor one of the choices."""
    if value is None or (isinstance(value, str) and value in choices):
        return
    known = "one of " + ", ".join(f"`{one}`" for one in choices)
    near = nearest(value, choices) if isinstance(value, str) else ""
    hint = near if near.startswith("did") else f"write {known}"
    raise InputError(Problem(f"{shown(value)} is none of its values", path=name, hint=hint))


def flag(name: str, value: object) -> None:
    """InputError for a value that is neither None nor true or false."""
    if value is not None and not isinstance(value, bool):
        raise InputError(Problem(f"{shown(value)} is neither true nor false", path=name, hint="write True or False"))


def whole(name: str, value: Any) -> int:
    """A whole number from 1 on, of numpy as well; InputError for anything else."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if not 1 <= number <= _MOST:
        message = f"{shown(value)} is no whole number from 1 to {_MOST:,}"
        raise InputError(Problem(message, path=name, hint=f"write, for example, {name}=2"))
    return number


def strings(name: str, value: object, example: str) -> tuple[str, ...]:
    """A text, or several of them, as a tuple; InputError for anything else."""
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (None,)
    if isinstance(value, Mapping) or not all(isinstance(one, str) for one in found):
        raise InputError(Problem(f"{shown(value)} is no list of texts", path=name, hint=f"write {example}"))
    return tuple(one for one in found if isinstance(one, str))


def path_of(name: str, value: object) -> str:
    """A path as text; InputError for anything else."""
    if not isinstance(value, (str, PathLike)):
        raise InputError(Problem(f"{shown(value)} is no path", path=name, hint="write the name of a file"))
    return str(fspath(value))


def listed(name: str, values: Values) -> tuple[str, ...]:
    """Values of keys in the form of the command line, `key.path=value,value`; InputError for what is no list."""
    if not isinstance(values, Mapping):
        return strings(name, values, _EXAMPLE[len("write ") :])
    return tuple(f"{_key(name, key)}={_row(name, key, row)}" for key, row in values.items())


def _key(name: str, key: object) -> str:
    if not isinstance(key, str):
        raise InputError(Problem(f"{shown(key)} is no key", path=name, hint=_EXAMPLE))
    return key


def _row(name: str, key: str, row: object) -> str:
    """The values of one key; text is taken as the command line takes it."""
    if isinstance(row, str):
        return row
    if isinstance(row, (Mapping, bytes)) or not isinstance(row, Iterable) or getattr(row, "ndim", 1) == 0:
        hint = "put it into a list: " + json.dumps({key: [row]}, default=repr)
        raise InputError(Problem(f"{shown(row)} is no list of values of `{key}`", path=name, hint=hint))
    found = [_typed(key, value) for value in row]
    if not found:
        raise InputError(Problem(f"lists no values of `{key}`", path=name, hint=f'write {{"{key}": [1, 2]}}'))
    return ",".join(found)


def _typed(key: str, value: Any) -> str:
    """A value as it is typed on the command line, quoted where it would be read as something else."""
    return value if isinstance(value, str) and _TYPED.fullmatch(value) else as_yaml(key, value)


def as_yaml(key: str, value: Any) -> str:
    """A value of a key as YAML that stands on a line; InputError for one that YAML does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError) as error:
        message = f"{shown(value)} cannot be written in a scenario"
        hint = "write numbers, text, lists, mappings"
        raise InputError(Problem(message, file=key[:_LONGEST], hint=hint)) from error


def _plain(value: Any) -> Any:
    """Paths as text and numbers of numpy as Python's."""
    if isinstance(value, PathLike):
        return fspath(value)
    item = getattr(value, "item", None)
    if callable(item):
        return item()
    raise TypeError(type(value).__name__)
