"""From a YAML file to a validated spec that knows where each of its values comes from.

References and `extends` are followed and merged while everything is still nodes with their places; the whole is
validated once, and what is wrong is reported all at once, each problem where the offending value stands, in whichever
file that is.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

from pydantic import ValidationError

from simulator.errors import InputError, Problem
from simulator.specs import catalog
from simulator.specs.base import Spec
from simulator.specs.files import foreign, roots
from simulator.specs.files.reading import Reading, Reference, reading
from simulator.specs.files.roots import RUNS, SCENARIOS, Root
from simulator.specs.files.shape import Kind, aliases, below, canonical, folders, specs
from simulator.specs.text.messages import from_pydantic, mistyped
from simulator.specs.text.overrides import apply, parse
from simulator.specs.text.yaml_text import Node, Place, plain, read

if TYPE_CHECKING:
    from simulator.specs.scenario import AnyRun, AnyScenario

S = TypeVar("S", bound=Spec)
K = TypeVar("K")
V = TypeVar("V")

MAX_CHAIN = 32
"""Most files that refer to each other in a row."""


@dataclass(frozen=True)
class Loaded(Generic[S]):
    """A spec and where it comes from."""

    spec: S
    """The validated spec."""
    root: Node
    """What its files say, references followed and merged."""
    sources: tuple[str, ...]
    """Files that were read, in the order of reading."""

    @cached_property
    def origins(self) -> dict[str, str]:
        """For each value, by its path such as `training.parallel.tp`: `file:line`, ``override `text` ``, `default` (of
        the spec), or `derived` (computed from other values)."""
        found: dict[str, str] = {}
        _origins(self.spec, self.root, "", "default", found)
        return found

    @property
    def scenario(self) -> S:
        """The spec, by the name that it has when it is a scenario."""
        return self.spec

    def placed(self) -> AbstractContextManager[None]:
        """`placed` with its own origins."""
        return placed(self)


class _Placing(Protocol):
    """What knows where values stand: `Loaded`, and the `Scenario` of the Python interface."""

    @property
    def origins(self) -> dict[str, str]:
        """As those of `Loaded`."""

    @property
    def sources(self) -> tuple[str, ...]:
        """As those of `Loaded`."""


@contextmanager
def placed(known: _Placing) -> Iterator[None]:
    """Gives problems of later work, which knows paths only, the file and line in which the value stands."""
    try:
        yield
    except InputError as error:
        found = (_placed(problem, known.origins, known.sources) for problem in error.problems)
        raise type(error)(*found) from error


@contextmanager
def placed_below(prefix: str) -> Iterator[None]:
    """Gives problems of work on a part of a scenario the path in the whole; `cluster` is the whole's."""
    try:
        yield
    except InputError as error:
        paths = [problem.path.startswith("cluster") for problem in error.problems]
        moved = (
            problem if whole else replace(problem, path=f"{prefix}.{problem.path}".rstrip("."))
            for problem, whole in zip(error.problems, paths, strict=True)
        )
        raise type(error)(*moved) from error


def _placed(problem: Problem, origins: Mapping[str, str], sources: Sequence[str]) -> Problem:
    """The problem where its path stands: at the value itself or the first one below it, of one of several jobs where
    the job begins; of a value that is left out at the first one beside it in a file, else in the file."""
    if problem.file is not None:
        return problem
    job = ".".join(problem.path.split(".")[:2]) if problem.path.startswith("jobs.") else ""
    paths = [f"{job}.name"] if problem.path == job else [problem.path, f"{job}.name"]
    found = chain((at for path in paths for at in _below(path, origins)), _beside(problem.path, origins))
    at = next(found, next(iter(sources), ""))
    file, _, line = at.rpartition(":")
    known = line.isdigit() and not at.startswith("override ")
    return replace(problem, file=file, line=int(line)) if known else replace(problem, file=at or None)


def _below(path: str, origins: Mapping[str, str]) -> Iterator[str]:
    """Where what is written at a path, or below it, stands."""
    below_it = (at for other, at in origins.items() if path and f"{other}.".startswith(f"{path}."))
    return (at for at in below_it if at not in ("default", "derived"))


def _beside(path: str, origins: Mapping[str, str]) -> Iterator[str]:
    """Where in files something stands beside a path, or beside what it would stand in."""
    while path := path.rpartition(".")[0]:
        yield from (at for at in _below(path, origins) if not at.startswith("override "))


def load_scenario(path: str | Path, overrides: Sequence[str] = ()) -> "Loaded[AnyScenario]":
    """Read a scenario and apply overrides such as `training.parallel.tp=8`.

    `path` is a file, or a name that is searched as in `catalog.find`; what it says tells training from serving. Raises
    InputError with every problem found.
    """
    return _load(SCENARIOS, path, overrides, _scenario)


def load_run(path: str | Path, overrides: Sequence[str] = ()) -> "Loaded[AnyRun]":
    """Read a scenario or a workflow, as `load_scenario` does."""
    return _load(RUNS, path, overrides, _chosen)


@dataclass(frozen=True, slots=True)
class Template:
    """A scenario or a workflow that is read once and changed many times, as a sweep does; its files are not read
    again."""

    root: Node
    """What its files say, references followed and merged."""
    sources: tuple[str, ...] = ()
    """Files that were read."""

    def changed(self, overrides: Sequence[str]) -> "Template":
        """The same with overrides; InputError for those that cannot be applied, an unknown key for example."""
        tree, root = _Tree(), self.root
        for text in overrides:
            root = tree.change(root, text, RUNS)
        if tree.problems:
            raise InputError(*tree.problems)
        return Template(root, self.sources)

    def filled(self) -> "tuple[AnyRun, dict[str, Any]]":
        """The validated scenario or workflow, and the plain data (text, numbers, lists, mappings) from which `restored`
        makes it again where its files are not at hand. Raises InputError with every problem."""
        tree = _Tree()
        tree.sources.extend(self.sources)
        run: AnyRun = _finished(self.root, _chosen(self.root, tree), tree)  # type: ignore[assignment]
        return run, plain(self.root)


def read_template(path: str | Path, overrides: Sequence[str] = ()) -> Template:
    """Read the file of a scenario or of a workflow, or the one of a name, to be changed many times; InputError for what
    cannot be read."""
    tree = _Tree()
    root = tree.start(path, RUNS)
    if tree.problems:
        raise InputError(*sorted(tree.problems, key=tree.reading_order))
    return Template(root, tuple(tree.sources)).changed(overrides)


def restored(document: Mapping[str, Any]) -> "AnyRun":
    """The scenario or workflow of the plain data that `Template.filled` gave; InputError where another version gave
    it."""
    kind = roots.chosen(document)
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise InputError(f"the scenario is none of this version: {error.errors()[0]['msg']}") from error


def load_spec(kind: type[S], reference: str) -> S:
    """The spec that a reference such as `clusters/selene` or `selene` means; InputError as in `load_file`.

    It is made once, and again where one of the files that it came from has changed.
    """
    key: tuple[type[Spec], Path, Path] = kind, catalog.entrance(reference, folders(kind)), Path.cwd()
    known = _known.get(key)
    if known is not None and known.reading.holds():
        return cast("S", known.spec)
    tree = _Tree()
    root = tree.start(reference, kind)
    read_again = reading(tree.files, tree.references)
    spec = _finished(root, kind, tree)
    if read_again is not None:
        _keep(_known, key, _Known(spec, read_again))
    return spec


MOST_KNOWN = 256
"""Specs that `load_spec` keeps, and files that are kept with references followed."""


class _Known(NamedTuple):
    """A spec that was made, and what of."""

    spec: Spec
    reading: Reading


_known: dict[tuple[type[Spec], Path, Path], _Known] = {}


def _keep(known: dict[K, V], key: K, value: V) -> None:
    """Know one more, of a bounded number."""
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = value


def load_file(kind: type[S], path: str | Path, overrides: Sequence[str] = ()) -> Loaded[S]:
    """Read a file of any kind of spec, given by its path or by its name in the data room of the kind.

    Raises InputError with every problem of the file, of those that it refers to, and of the overrides.
    """
    return _load(kind, path, overrides, lambda root, tree: kind)


def _load(
    kind: Kind | Root, path: str | Path, overrides: Sequence[str], choose: "Callable[[Node, _Tree], type[S] | None]"
) -> Loaded[S]:
    """Read a file that may be of several kinds; `choose` says which one it is, or reports why it cannot tell."""
    tree = _Tree()
    root = tree.start(path, kind)
    for text in overrides:
        root = tree.change(root, text, kind)
    spec = _finished(root, choose(root, tree), tree)
    return Loaded(spec, root, tuple(tree.sources))


def _finished(root: Node, chosen: type[S] | None, tree: "_Tree") -> S:
    """The spec that a tree says, of the kind that was `chosen`; InputError with every problem found."""
    spec = None if chosen is None else _validate(root, chosen, tree)
    if spec is None or tree.problems:
        raise InputError(*sorted(tree.problems, key=tree.reading_order))
    return spec


def _scenario(root: Node, tree: "_Tree") -> "type[AnyScenario] | None":
    """Which kind of scenario a file is; None, and problems, for a workflow and where its software is for the other
    kind."""
    if "stages" not in root.children():
        return cast("type[AnyScenario] | None", _chosen(root, tree))
    hint = "`clustersim run FILE` runs it; scenarios have one `model` and train, serve or have `jobs`"
    tree.report([root.keys["stages"].problem("is a workflow, which has `stages`", "stages", hint)])
    return None


def _chosen(root: Node, tree: "_Tree") -> "type[AnyRun] | None":
    """Which kind of scenario a file is, or whether it is a workflow; None, and problems, where its software is for the
    other kind."""
    entries = root.value if isinstance(root.value, dict) else {}
    problems: list[Problem] = []
    if "stages" in entries:
        pass
    elif "jobs" in entries:
        problems = list(_misplaced_jobs(entries["jobs"]))
    else:
        problems = list(_misplaced(root, ""))
    tree.report(problems)
    return None if problems else roots.chosen(entries)


def _misplaced_jobs(jobs: Node) -> Iterator[Problem]:
    """The same of each of several jobs."""
    for i, job in enumerate(jobs.value if isinstance(jobs.value, list) else ()):
        yield from _misplaced(job, f"jobs.{i}.")


def _misplaced(root: Node, path: str) -> Iterator[Problem]:
    """Sections of both kinds in one run, or a stack that is for the other kind."""
    entries = root.value if isinstance(root.value, dict) else {}
    what = "job" if path else "scenario"
    second = next((key for key in ("serving", "requests") if "training" in entries and key in entries), None)
    if second is not None:
        message = f"`training` and `{second}` are both there, and a {what} either trains or serves"
        hint = f"take one of them away, or make two {'jobs' if path else 'files'}"
        yield root.keys[second].problem(message, path + second, hint)
        return
    serves, stack = roots.serves(entries), entries.get("stack")
    kind = stack.value.get("kind") if stack is not None and isinstance(stack.value, dict) else None
    if stack is not None and isinstance(stack.value, dict) and (kind is not None and kind.value == "serving") != serves:
        here, there = ("serving", "training") if serves else ("training", "serving")
        hint = f"write a {here} stack (`clustersim profiles stacks` lists them), or a `{there}` section"
        yield stack.place.problem(f"this software is for {there}, and the {what} is for {here}", f"{path}stack", hint)


def dump(spec: Spec) -> dict[str, Any]:
    """The spec as plain data (mappings, lists, numbers in SI units, text), defaults and derived values included."""
    return spec.model_dump(mode="json")


def scenario_hash(scenario: Spec) -> str:
    """Sixteen hexadecimal digits that stand for everything that the resolved scenario says."""
    from hashlib import sha256

    text = json.dumps(dump(scenario), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


class _At(NamedTuple):
    """Where the tree is being read."""

    path: str
    """Dotted path from the root of the first file."""
    chain: tuple[Path, ...]
    """Files that lead here, each referring to the next."""

    def below(self, key: str) -> "_At":
        """One key deeper."""
        return _At(f"{self.path}.{key}" if self.path else key, self.chain)

    @property
    def beside(self) -> Path | None:
        """Folder of the file that is being read; None in what was written beside no file."""
        return self.chain[-1].parent if self.chain else None


class _Expanded(NamedTuple):
    """A file with its references followed, all without a problem."""

    root: Node
    sources: tuple[str, ...]
    """Names of the files that were read, in the order of reading."""
    reading: Reading


_expanded: dict[tuple[Path, str, Kind], _Expanded] = {}
"""By the file, its name in messages, and what it is a file of."""


class _Tree:
    """Follows references and merges; collects problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.sources: list[str] = []
        self.files: list[Path] = []
        """Files that were read, with their paths."""
        self.references: list[Reference] = []
        """References that were followed."""
        self.broken: set[str] = set()
        """Paths at which a reference could not be followed; what is wrong below them is a consequence."""

    def start(self, path: str | Path, kind: Kind | Root) -> Node:
        """The expanded root of the first file."""
        rooms = kind.folders if isinstance(kind, Root) else folders(kind)
        return self._file(catalog.entrance(path, rooms), kind, _At("", ()))

    def change(self, root: Node, text: str, kind: Kind | Root) -> Node:
        """The tree with one override; where that fails, a problem and the tree as it was."""
        try:
            override = parse(text)
            known = kind.of((*root.children(), override.keys[0])) if isinstance(kind, Root) else kind
            return apply(root, override, known, lambda node, inner, where: self._expand(node, inner, _At(where, ())))
        except InputError as error:
            self.problems.extend(error.problems)
            return root

    def report(self, problems: Iterable[Problem]) -> None:
        """Add those of the problems that are not consequences of problems reported before."""
        seen = {_place(problem) for problem in self.problems}
        for problem in problems:
            if _place(problem) not in seen and not any(_is_within(problem.path, path) for path in self.broken):
                self.problems.append(problem)

    def reading_order(self, problem: Problem) -> tuple[int, int, int]:
        """Sort key: file by file, from the top; overrides last."""
        position = self.sources.index(problem.file) if problem.file in self.sources else len(self.sources)
        return position, problem.line or 0, problem.column or 0

    def _kept_file(self, path: Path, kind: Kind, at: _At) -> Node:
        """A file that another one refers to, as it was read before where that holds."""
        key = path.absolute(), catalog.shown(path), kind
        known = _expanded.get(key)
        if known is not None and len(at.chain) + len(known.reading.files) <= MAX_CHAIN and known.reading.holds():
            self.files += known.reading.files
            self.references += known.reading.references
            self.sources += [name for name in known.sources if name not in self.sources]
            return known.root
        files, references, wrong = len(self.files), len(self.references), (len(self.problems), len(self.broken))
        root = self._file(path, kind, at)
        sound = wrong == (len(self.problems), len(self.broken))
        if sound and (found := reading(self.files[files:], self.references[references:])) is not None:
            _keep(_expanded, key, _Expanded(root, tuple(dict.fromkeys(map(catalog.shown, found.files))), found))
        return root

    def _file(self, path: Path, kind: Kind | Root, at: _At) -> Node:
        name = catalog.shown(path)
        self.files.append(path.absolute())
        if name not in self.sources:
            self.sources.append(name)
        root = read(path, name, self.problems)
        if isinstance(kind, Root):
            kind = kind.of(root.children())
        if foreign.is_foreign(path, folders(kind)):
            root = foreign.translated(root, folders(kind))
        return self._expand(root, kind, at._replace(chain=(*at.chain, path.absolute())))

    def _expand(self, node: Node, kind: Kind, at: _At) -> Node:
        """The node with its references followed and foreign names translated."""
        if isinstance(node.value, list):
            inner = [(item, below(kind, str(i)), str(i)) for i, item in enumerate(node.value)]
            return Node([self._value(*item, at) for item in inner], node.place, node.keys, node.whole)
        if isinstance(node.value, dict):
            return self._expand_mapping(node, node.value, kind, at)
        if isinstance(node.value, str) and folders(kind):
            return self._follow(node, kind, at)
        return node

    def _value(self, node: Node, kind: Kind, key: str, at: _At) -> Node:
        """What stands under a key, expanded; most is no reference and stays as it is."""
        if isinstance(node.value, (dict, list)) or (isinstance(node.value, str) and folders(kind)):
            return self._expand(node, kind, at.below(key))
        return node

    def _expand_mapping(self, node: Node, entries: dict[str, Node], kind: Kind, at: _At) -> Node:
        value, keys = entries, node.keys
        if not aliases(kind).keys().isdisjoint(entries):
            value, keys = self._canonical(node, entries, kind, at)
        base = value.get("extends") if specs(kind) else None
        if base is not None:
            value = {name: child for name, child in value.items() if name != "extends"}
        expanded = {name: self._value(child, below(kind, name), name, at) for name, child in value.items()}
        top = Node(expanded, node.place, keys, node.whole)
        return top if base is None else self._extend(base, top, kind, at)

    def _canonical(
        self, node: Node, entries: dict[str, Node], kind: Kind, at: _At
    ) -> tuple[dict[str, Node], dict[str, Place]]:
        """The values and the places of the keys of a mapping by the names of its fields."""
        value: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        written: dict[str, str] = {}
        for key, child in entries.items():
            name = canonical(kind, key)
            if name in value:
                message = f"`{key}` and `{written[name]}` ({keys[name]}) are names of the same field"
                self.problems.append(node.keys[key].problem(message, at.below(key).path, "keep one of them"))
            else:
                value[name], keys[name], written[name] = child, node.keys[key], key
        return value, keys

    def _extend(self, reference: Node, top: Node, kind: Kind, at: _At) -> Node:
        """A mapping over the file that it extends."""
        here = at.below("extends").path
        if not folders(kind):
            self._fail(at, reference.place.problem("nothing can be extended here", here, "write the keys out"))
        elif not isinstance(reference.value, str):
            self._fail(at, reference.place.problem("takes one name", here, "write `extends: NAME`"))
        else:
            base = self._follow(reference, kind, at)
            if isinstance(base.value, dict):
                return replace(_merge(base, top), whole=True)
        return top

    def _follow(self, node: Node, kind: Kind, at: _At) -> Node:
        """The content of the file that a scalar names; the scalar, and a problem, where that fails."""
        try:
            path = self._named(node, kind, at)
            self.references.append(Reference(str(node.value), folders(kind), at.beside, path))
            return replace(self._kept_file(path, kind, at), whole=True)
        except InputError as error:
            self._fail(at, *error.problems)
            return node

    def _named(self, node: Node, kind: Kind, at: _At) -> Path:
        reference, rooms = str(node.value), folders(kind)
        beside = at.beside
        path = catalog.find(reference, rooms, beside) or foreign.find(reference, rooms, beside)
        if path is None and (missing := foreign.empty_folder(reference, rooms, beside)):
            hint = f"name a folder that has one, a `{missing}` itself, or a YAML file"
            raise InputError(node.place.problem(f"the folder `{reference[:80]}` has no `{missing}`", at.path, hint))
        if path is None:
            unknown = catalog.unknown(reference, rooms)
            raise InputError(node.place.problem(unknown.message, at.path, unknown.hint))
        if path in at.chain:
            circle = " -> ".join(map(catalog.shown, (*at.chain[at.chain.index(path) :], path)))
            raise InputError(node.place.problem(f"files refer to each other in a circle: {circle}", at.path))
        if len(at.chain) >= MAX_CHAIN:
            raise InputError(node.place.problem(f"more than {MAX_CHAIN} files refer to each other in a row", at.path))
        return path

    def _fail(self, at: _At, *problems: Problem) -> None:
        self.problems.extend(problem if problem.path else replace(problem, path=at.path) for problem in problems)
        self.broken.add(at.path)


def _place(problem: Problem) -> tuple[str | None, int | None, int | str | None]:
    """What tells one wrong value from another: all values of an override stand in the same place."""
    return problem.file, problem.line, problem.path if problem.line is None else problem.column


def _is_within(path: str, root: str) -> bool:
    return not root or path == root or path.startswith(root + ".")


def _merge(base: Node, top: Node) -> Node:
    """Mappings merge key by key; anything else, and what stands for a whole file, replaces what is below it."""
    if top.whole or not isinstance(base.value, dict) or not isinstance(top.value, dict):
        return top
    value = dict(base.value)
    for key, node in top.value.items():
        value[key] = _merge(value[key], node) if key in value else node
    return replace(top, value=value, keys={**base.keys, **top.keys})


def _validate(root: Node, kind: type[S], tree: _Tree) -> S | None:
    """The spec; None, and new problems of the tree, where it is wrong."""
    tree.report(mistyped(root, kind))
    try:
        return kind.model_validate(plain(root))
    except ValidationError as error:
        tree.report(from_pydantic(error, root, kind))
        return None


def _origins(value: Any, node: Node | None, path: str, otherwise: str, found: dict[str, str]) -> None:
    """Add the origin of each value by its path; `otherwise` is that of what has no node."""
    if isinstance(value, Spec):
        known, unwritten = {} if node is None else node.children(), value.unwritten
        for name in type(value).model_fields:
            unset = "derived" if node is not None and name in value.model_fields_set else "default"
            child = node if name in unwritten else known.get(name)
            _origins(getattr(value, name), child, f"{path}.{name}" if path else name, unset, found)
        return
    here = otherwise if node is None else str(node.place)
    if isinstance(value, (dict, list, tuple)) and value:
        known = {} if node is None else node.children()
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _origins(item, known.get(str(key)), f"{path}.{key}", here, found)
    else:
        found[path] = here
