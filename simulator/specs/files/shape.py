"""What the types of the specs say about a place in a file: which spec stands there, and what lies below a key."""

import types
from functools import cache, lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

from simulator.errors import nearest
from simulator.specs.base import Spec, annotated

Kind = Any
"""An annotation: a spec class, a container of specs, a union, a scalar type."""

_DEEPEST = 3
_LISTS = (list, tuple, set, frozenset)


@cache
def members(annotation: Kind) -> tuple[Kind, ...]:
    """The alternatives of a union, `Annotated` and type aliases looked through; the annotation itself if it is none."""
    origin = _origin(annotation)
    if origin is Annotated:
        return members(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        return tuple(member for part in get_args(annotation) for member in members(part))
    if hasattr(annotation, "__value__"):  # `type X = ...`
        return members(annotation.__value__)
    return (annotation,)


@cache
def specs(annotation: Kind) -> tuple[type[Spec], ...]:
    """The spec classes that a value of this type may be."""
    return tuple(member for member in members(annotation) if isinstance(member, type) and issubclass(member, Spec))


@cache
def folders(annotation: Kind) -> tuple[str, ...]:
    """Data rooms in which a reference of this type is looked up; empty where a name is no reference."""
    if str in members(annotation):
        return ()
    return tuple(dict.fromkeys(kind.folder for kind in specs(annotation) if kind.folder is not None))


@cache
def fields(annotation: Kind) -> dict[str, Kind]:
    """The keys of the specs at this place and the type of each."""
    found: dict[str, Kind] = {}
    for kind in specs(annotation):
        for name, info in kind.model_fields.items():
            if name in kind.unwritten:
                continue
            full = annotated(info)
            found[name] = full if name not in found else found[name] | full
        found |= kind.registered()
    return found


@cache
def aliases(annotation: Kind) -> dict[str, str]:
    """Foreign key names that are accepted at this place and the field that each stands for."""
    return {
        alias: name
        for kind in specs(annotation)
        for alias, name in kind.aliases.items()
        if alias not in fields(annotation)
    }


def canonical(annotation: Kind, key: str) -> str:
    """The field that a key stands for."""
    return aliases(annotation).get(key, key)


@cache
def below(annotation: Kind, key: str) -> Kind | None:
    """The type of what a canonical key or a list index leads to; None where the schema knows nothing of it."""
    known = fields(annotation).get(key)
    return known if known is not None else next(iter(_items(annotation, key)), None)


@lru_cache(maxsize=1024)
def suggestion(annotation: Kind, key: str) -> str:
    """What to write instead of a key that is not known at this place: where it belongs, or the nearest name."""
    for kind in specs(annotation):
        if key in kind.elsewhere:
            return kind.elsewhere[key]
    name, colon, value = key.partition(":")
    if colon and canonical(annotation, name) in fields(annotation):
        return f"write a space after the colon: `{name}: {value}`"
    if _leads(annotation, key):
        return f"write it nested: `{': {'.join(key.split('.'))}: ...{'}' * key.count('.')}`"
    inner = _named(annotation, key) or _deeper(annotation, key)
    return f"did you mean `{inner}`?" if inner else nearest(key, (*fields(annotation), *aliases(annotation)))


def _leads(annotation: Kind, key: str) -> bool:
    """Whether a key with dots in it is the path of a field."""
    at: Kind | None = annotation
    for part in key.split("."):
        at = None if at is None else below(at, canonical(at, part))
    return "." in key and at is not None


def _named(annotation: Kind, key: str) -> str:
    """The field that a key names but for the ways in which words are joined: `globalBatch`, `global-batch`."""
    fused = _fused(key)
    return next(
        (canonical(annotation, name) for name in (*fields(annotation), *aliases(annotation)) if _fused(name) == fused),
        "",
    )


def _fused(key: str) -> str:
    return key.replace("_", "").replace("-", "").casefold()


def _deeper(annotation: Kind, key: str) -> str:
    """Dotted path of a field of this name further down, the nearest first; empty where there is none."""
    level = {"": annotation}
    while level:
        level = {
            f"{path}{name}.": kind for path, at in level.items() for name, kind in fields(at).items() if specs(kind)
        }
        for path, kind in level.items():
            if name := _named(kind, key):
                return path + name
        if any(path.count(".") >= _DEEPEST for path in level):
            break
    return ""


def fixed_keys(annotation: Kind) -> bool:
    """Whether the schema, and not the file, says which keys there are."""
    return bool(specs(annotation))


def is_list(annotation: Kind) -> bool:
    """Whether a list stands here."""
    return any(_origin(member) in _LISTS or member in _LISTS for member in members(annotation))


def _items(annotation: Kind, key: str) -> list[Kind]:
    found: list[Kind] = []
    for member in members(annotation):
        origin, arguments = _origin(member), get_args(member)
        if origin is dict:
            found.append(arguments[1])
        elif origin in _LISTS and key.isdigit():
            fixed = origin is tuple and Ellipsis not in arguments
            found.extend(arguments[int(key) : int(key) + 1] if fixed else arguments[:1])
    return found


def _origin(annotation: Kind) -> Any:
    return get_origin(annotation)
