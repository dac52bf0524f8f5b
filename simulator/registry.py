"""Names to things: a schedule, an algorithm or a report is added by one file and one line that names it.

Third parties add theirs through the entry-point group `simulator.plugins`: each entry point names a module, and
importing it registers what it brings. Plugins are looked for only when a name is not found among our own, or when
all names are asked for.
"""

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

from simulator.errors import InputError, Problem, nearest

T = TypeVar("T")

PLUGIN_GROUP = "simulator.plugins"
"""Entry-point group of third parties."""
_LONGEST = 60  # letters of a name in a message


class Registry(Generic[T]):
    """Things of one kind by name.

    `kind` is the word for messages, for example `pipeline schedule`.
    """

    def __init__(self, kind: str) -> None:
        """Start empty."""
        self.kind = kind
        self._things: dict[str, T] = {}

    def add(self, name: str) -> Callable[[T], T]:
        """Decorator that registers a thing under a name; ValueError where the name is taken by another thing."""

        def register(thing: T) -> T:
            if self._things.setdefault(name, thing) is not thing:
                raise ValueError(f"two things are registered as {self.kind} {name!r}")
            return thing

        return register

    def get(self, name: str, path: str = "") -> T:
        """The thing of that name; InputError with the nearest one, or with all where none is near, and the `path` where
        it stands, if there is none."""
        if name not in self._things:
            load_plugins()
        if name not in self._things:
            shown = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
            hint = nearest(name, self._things) or "known: " + ", ".join(f"`{one}`" for one in self.names())
            raise InputError(Problem(f"unknown {self.kind} `{shown}`", path=path, hint=hint))
        return self._things[name]

    def has(self, name: object) -> bool:
        """Whether there is a thing of that name, those of plugins included."""
        if name not in self._things:
            load_plugins()
        return name in self._things

    def names(self) -> tuple[str, ...]:
        """All names, sorted, those of plugins included."""
        load_plugins()
        return tuple(sorted(self._things))


@cache
def load_plugins() -> None:
    """Import every module of the entry-point group, once; InputError naming a plugin that cannot be imported."""
    from importlib.metadata import entry_points

    for point in entry_points(group=PLUGIN_GROUP):
        try:
            point.load()
        except Exception as error:  # whatever a third party's module raises, the user must hear which one it was
            raise InputError(Problem(f"plugin `{point.name}` ({point.value}) cannot be loaded: {error}")) from error
