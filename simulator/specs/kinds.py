"""Kinds of things that plug-ins add to: a name of a registry, and the keys that come with it.

A spec with a `kind` takes the built-in names and those of plug-ins. The keys that a plug-in's kind needs stand beside
the others and are checked by a spec of the plug-in's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, InstanceOf, SerializeAsAny, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from simulator.registry import Registry
from simulator.specs.base import Spec, annotated

T = TypeVar("T")

Keys = Registry[type[Spec]]
"""By kind, the spec of the keys that only it has; `Spec` itself where there are none."""


def built_in(what: str, names: tuple[str, ...]) -> Keys:
    """The keys of kinds that have all theirs in the spec itself; `what` is the word for messages."""
    found: Keys = Registry(what)
    for name in names:
        found.add(name)(Spec)
    return found


class Builders(Registry[T]):
    """What makes things of each kind. A kind that is added here may be named in files."""

    def __init__(self, keys: Keys) -> None:
        """`keys` is where the spec looks up its kinds."""
        super().__init__(keys.kind)
        self._keys = keys

    def add(self, name: str, keys: type[Spec] = Spec) -> Callable[[T], T]:
        """Decorator that registers what builds a kind; `keys` are those that files of this kind have besides."""
        self._keys.add(name)(keys)
        return super().add(name)


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks text that is a name of a registry."""

    keys: Keys

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._known, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "enum": list(self.keys.names())}

    def _known(self, name: str) -> str:
        if not self.keys.has(name):
            raise PydanticCustomError("literal_error", "Input should be a known name")
        return name


class Extensible(Spec):
    """A spec with a `kind` that may be a plug-in's."""

    kinds: ClassVar[Keys]
    """Its kinds and the keys that only they have."""
    unwritten: ClassVar[tuple[str, ...]] = ("more",)

    more: SerializeAsAny[InstanceOf[Spec]] | None = Field(default=None, exclude_if=lambda more: more is None)
    """Keys of a plug-in's kind; written beside the others."""

    @classmethod
    def registered(cls) -> dict[str, Any]:
        """The keys of all plug-ins' kinds."""
        specs = (cls.kinds.get(name) for name in cls.kinds.names())
        return {name: annotated(info) for keys in specs for name, info in keys.model_fields.items()}

    @model_validator(mode="before")
    @classmethod
    def _keys_of_plugins(cls, given: Any) -> Any:
        """Keys of the plug-in that registered the kind go into `more`, checked by its spec."""
        kind = given.get("kind") if isinstance(given, dict) else None
        if not isinstance(kind, str) or not cls.kinds.has(kind):
            return given
        keys = cls.kinds.get(kind)
        other = [key for key in given if key not in keys.model_fields and key not in cls.model_fields]
        if foreign := [key for key in other if key in cls.registered()]:
            own = ", ".join(f"`{key}`" for key in keys.model_fields)
            raise ValueError(f"`{foreign[0]}` is no key of kind `{kind}`" + (f", which has {own}" if own else ""))
        if not keys.model_fields:
            return given
        more = {key: value for key, value in given.items() if key in keys.model_fields}
        return {key: value for key, value in given.items() if key not in more} | {"more": keys.model_validate(more)}
