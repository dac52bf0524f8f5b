"""From what pydantic says to what a person needs: the place in the file, the path, and what to write instead."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BeforeValidator, PlainValidator, ValidationError, WrapValidator

from simulator.errors import Problem, nearest
from simulator.specs.base import Figure, Status
from simulator.specs.files.shape import Kind, below, fields, folders, members, specs, suggestion
from simulator.specs.kinds import OneOf
from simulator.specs.text.yaml_text import Node, Place
from simulator.units import plain
from simulator.unmodelled import unmodelled

EXPLAINED = 100
"""Problems of one file that come with what to write instead."""
_BOUNDS = {
    "greater_than_equal": ("ge", "write {} or more"),
    "greater_than": ("gt", "write more than {}"),
    "less_than_equal": ("le", "write {} or less"),
    "less_than": ("lt", "write less than {}"),
}
_NUMBERS = {
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 1,000,000,000",
    "int_type": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "`true` or `false`",
    "bool_type": "`true` or `false`",
}
_LENGTHS = {"too_short": ("min_length", "at least"), "too_long": ("max_length", "at most")}
_SEQUENCES = ("tuple_type", "list_type")
_MAPPINGS = ("model_type", "model_attributes_type", "dict_type")
_CHECKED: tuple[type, ...] = (BeforeValidator, PlainValidator, WrapValidator)


def from_pydantic(error: ValidationError, root: Node, kind: Kind) -> list[Problem]:
    """The problems of one validation, one per place; `root` is what was validated as `kind`.

    Of more than `EXPLAINED` the later ones only say where: looking for the nearest name takes milliseconds each.
    """
    found: dict[tuple[Place, str], Problem] = {}
    details = [detail for detail in error.errors(include_url=False) if _of_its_own(detail)]
    details = [detail for detail in details if not _of_a_kind(detail["type"], detail["loc"], root, kind)] or details
    for number, detail in enumerate(details):
        problem = _problem(dict(detail), root, kind) if number < EXPLAINED else _placed(dict(detail), root, kind)
        key = (Place(problem.file or "", problem.line, problem.column), problem.path)
        earlier = found.get(key)
        found[key] = problem if earlier is None else _either(earlier, problem)
    return list(found.values())


def _of_its_own(detail: Mapping[str, Any]) -> bool:
    """Whether an error says something that no other does: a list is counted without the items that are wrong."""
    return detail["type"] != "too_short" or bool(len(detail["input"]) <= detail["ctx"]["actual_length"])


def _of_a_kind(error: str, loc: tuple[str | int, ...], root: Node, kind: Kind) -> bool:
    """Whether a key was refused that its place knows: of a network whose `kind` is misspelt, which is told already."""
    return error == "extra_forbidden" and str(loc[-1]) in fields(_walk(loc, _Step("", root, kind))[-2].kind)


def plainly(detail: Mapping[str, Any]) -> str:
    """One error of pydantic in data that is no spec (a row of measurements), in our words."""
    key = f"key `{detail['loc'][0]}`" if detail["loc"] else "the object"
    if detail["type"] == "literal_error":
        return f"{key}: {excerpt(detail['input'])} is not {detail['ctx']['expected']}"
    message, _, hint = _message(dict(detail), None, "")
    return f"{key}: {message}" + (f"; {hint}" if hint else "")


def mistyped(root: Node, kind: Kind) -> list[Problem]:
    """Scalars that pydantic would quietly turn into something else: `yes` or 1 for true, true for 1, quoted numbers."""
    found: list[Problem] = []
    _mistyped(root, kind, "", found)
    return found


def _mistyped(node: Node, kind: Kind, path: str, found: list[Problem]) -> None:
    """Add those at a path and below it."""
    for key, child in node.children().items():
        inner = below(kind, key)
        if isinstance(child.value, (dict, list)):
            _mistyped(child, inner, _join(path, key), found)
        elif child.value is not None and (wanted := _unparsed(inner)) and not _fits(child.value, wanted):
            name = "`true` or `false`" if wanted == {bool} else "a number" if float in wanted else "a whole number"
            message, hint = f"{excerpt(child.value)} is not {name}", f"write {name}{_unquoted(child.value)}"
            found.append(child.place.problem(message, _join(path, key), hint))


@cache
def _unparsed(kind: Kind) -> frozenset[Kind]:
    """The kinds of numbers and truths of which a value must be one; empty where others may stand or text is read."""
    wanted = frozenset(member for member in members(kind) if member is not type(None))
    return wanted if wanted <= {bool, int, float} and not _is_parsed(kind) else frozenset()


def _fits(value: object, wanted: frozenset[Kind]) -> bool:
    return bool in wanted if isinstance(value, bool) else isinstance(value, (int, float)) and wanted != {bool}


def _unquoted(value: object) -> str:
    return " without quotes" if isinstance(value, str) and value.strip().replace(".", "", 1).isdigit() else ""


def _is_parsed(kind: Kind) -> bool:
    """Whether the spec reads the text itself, as it does with quantities."""
    metadata = getattr(kind, "__metadata__", ())
    return any(isinstance(item, _CHECKED) for item in metadata) or any(map(_is_parsed, get_args(kind)))


def _placed(detail: dict[str, Any], root: Node, kind: Kind) -> Problem:
    """One error of pydantic at its place, in its own words."""
    steps = _walk(detail["loc"], _Step("", root, kind))
    place = steps[-1].node.place
    if detail["type"] == "extra_forbidden":
        place = steps[-2].node.keys[str(detail["loc"][-1])]
    return place.problem(str(detail["msg"]), ".".join(step.key for step in steps[1:]))


class _Step(NamedTuple):
    """A node on the way from the root to an error."""

    key: str
    node: Node
    kind: Kind


def _problem(detail: dict[str, Any], root: Node, kind: Kind) -> Problem:
    """One error of pydantic at the node that it speaks of."""
    steps = _walk(detail["loc"], _Step("", root, kind))
    path = ".".join(step.key for step in steps[1:])
    last, name = steps[-1], str(detail["loc"][-1]) if detail["loc"] else ""
    place = last.node.place
    if detail["type"] == "missing" and not fields(last.kind):
        return place.problem("an item is missing", _join(path, name))
    if detail["type"] == "missing":
        hint = _hint_for_replaced(last.node, path) or _hint_for_missing(last.kind, name)
        return place.problem(f"`{name}` is missing", _join(path, name), hint)
    if detail["type"] == "extra_forbidden":
        return steps[-2].node.keys[name].problem(f"unknown key `{name}`", path, suggestion(steps[-2].kind, name))
    if name == "[key]":
        place = steps[-2].node.keys[last.key]
    return place.problem(*_message(detail, last.kind, path))


def _walk(loc: tuple[str | int, ...], root: _Step) -> list[_Step]:
    """The nodes along a location; parts that name no node (members of unions, missing keys) are passed over."""
    steps = [root]
    for part in loc:
        key = str(part)
        child = steps[-1].node.child(key)
        if child is None and (key := _other_key(steps[-1].kind, key)):
            child = steps[-1].node.child(key)
        if child is not None:
            steps.append(_Step(key, child, below(steps[-1].kind, str(part))))
    return steps


def _other_key(kind: Kind, key: str) -> str:
    """The key under which a field may be written besides; empty where there is none."""
    return next((spec.under[key] for spec in specs(kind) if key in spec.under), "")


def _message(detail: dict[str, Any], kind: Kind, path: str) -> tuple[str, str, str]:
    """(what is wrong, path, what to write)."""
    error, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if error == "value_error":
        return str(context["error"]), path, ""
    if error in _MAPPINGS and (fitting := _as_mapping(value, kind)):
        return f"{excerpt(value)} stands where keys are needed", path, fitting
    if error in _MAPPINGS:
        return "has no value" if value is None else f"{excerpt(value)} stands where keys are needed", path, _keys(kind)
    if value is None:
        return "has no value", path, "write one, or leave the key out"
    if error == "literal_error":
        return f"{excerpt(value)} is not accepted", path, _choice(str(value), kind)
    if error in _NUMBERS:
        return f"{excerpt(value)} is not {_NUMBERS[error]}", path, f"write {_NUMBERS[error]}"
    if error in _SEQUENCES:
        return f"{excerpt(value)} stands where a list is needed", path, "write `[first, second]`"
    if error in _LENGTHS:
        bound, word = _LENGTHS[error]
        number = context[bound]
        has = "is an empty list" if not context["actual_length"] else f"has {context['actual_length']} values"
        return has, path, f"write {word} {'one' if number == 1 else number}"
    if error == "string_type":
        return (
            f"{excerpt(value)} is not text",
            path,
            f'write it in quotes: `"{value}"`' if isinstance(value, (int, float)) else "",
        )
    if error in _BOUNDS:
        bound, hint = _BOUNDS[error]
        return f"{excerpt(value)} is out of range", path, hint.format(plain(context[bound], 6))
    return detail["msg"].replace("Input should be", f"{excerpt(value)} should be", 1), path, ""


def _either(first: Problem, second: Problem) -> Problem:
    """Two failures of one value, which may be of either type."""
    if first.message == second.message and second.hint and second.hint != first.hint:
        hint = f"{first.hint}, or {second.hint}" if first.hint else second.hint
        return replace(first, hint=hint)
    return first if second.message in first.message else replace(first, message=f"{first.message}, or {second.message}")


def _hint_for_replaced(node: Node, path: str) -> str:
    """How to change one key where an override replaces the whole mapping that holds it."""
    key = next(iter(node.children()), None)
    if key is None or not node.place.file.startswith(f"override `{path}="):
        return ""
    return f"this replaces all of `{path}`: write `{path}.{key}` to change that alone"


def _hint_for_missing(kind: Kind, name: str) -> str:
    choices = _choices(below(kind, name))
    described = _description(kind, name)
    return f"write `{name}: {'|'.join(choices) or '...'}`" + (f" ({described})" if described else "")


def _description(kind: Kind, name: str) -> str:
    from simulator.specs.files.documentation import describe  # late: only messages and schemas need it

    text = next((describe(spec)[name] for spec in specs(kind) if name in describe(spec)), "")
    return text.split(";")[0].rstrip(".")


def _keys(kind: Kind) -> str:
    required = [name for spec in specs(kind) for name, info in spec.model_fields.items() if info.is_required()]
    every = [f"{name}:" for name in required or fields(kind)]
    join = "and" if required else "or"
    keys = f"write {_listing(every[:8], join)}" if every else "write `key: value` lines"
    return " or ".join([keys, *(f"the name of a file in {room}/" for room in folders(kind))])


def _as_mapping(value: object, kind: Kind) -> str:
    """How a value that stands for a whole spec is most likely meant; empty where unknown."""
    if isinstance(value, (str, int, float)) and any(issubclass(spec, Figure) for spec in specs(kind)):
        known = _listing([str(one) for one in get_args(Status)], "or")
        return f"write `{{value: {value}, status: estimate, source: why}}`; the status is {known}"
    named = next((spec.bare for spec in specs(kind) if spec.bare), "")
    if not named or isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    others = [name for name in fields(kind) if name != named]
    return f"write `{{{named}: {value}}}`, or another of {_listing(others, 'and')}"


def _choice(value: str, kind: Kind) -> str:
    hint = nearest(value, _choices(kind))
    return (
        hint if hint.startswith("did") or hint == unmodelled(value) != "" else f"write {_listing(_choices(kind), 'or')}"
    )


def _choices(kind: Kind) -> list[str]:
    registered = [item.keys.names() for item in getattr(kind, "__metadata__", ()) if isinstance(item, OneOf)]
    return [str(choice) for member in members(kind) if _is_literal(member) for choice in get_args(member)] + [
        name for names in registered for name in names
    ]


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _listing(words: list[str], conjunction: str) -> str:
    quoted = [f"`{word}`" for word in words]
    return f" {conjunction} ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def excerpt(value: object) -> str:
    """A value as messages show it: never long."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list, tuple)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:57]}...`"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
