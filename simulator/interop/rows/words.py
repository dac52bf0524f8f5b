"""The vocabularies of published rows, kept as data beside the rows: `workloads/measurements/words.yaml`."""

import re
from collections.abc import Mapping
from functools import cache

from pydantic import field_validator

from simulator.specs import data_root, load_file
from simulator.specs.base import Spec

FILE = "workloads/measurements/words.yaml"
"""Where they lie."""


class _Words(Spec):
    """An entry with patterns."""

    @field_validator("words", "engine", "version", "chip", "model", check_fields=False)
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return pattern


class Card(_Words):
    """One kind of card that rows name."""

    chip: str
    """Pattern of the chip's name as whole words of the text."""
    forms: tuple[str, ...]
    """Forms that it comes in (`sxm`, `pcie`, `nvl`); the empty one where the name says enough."""
    memory: tuple[int, ...]
    """Sizes in GB that stand for it."""
    name: str
    """Name of its accelerator profile."""
    usual: bool = True
    """Whether it is meant where the row names neither form nor memory."""
    rare: bool = False
    """Whether it is so seldom meant that rows which leave its memory open are not taken as open."""


class Named(_Words):
    """What some words stand for."""

    words: str
    """Pattern."""
    name: str
    """Of a schedule or stack."""
    stands_in: bool = False
    """Whether it is not the software itself but what is most like it: rows list that as assumed."""


class Engine(_Words):
    """The stack that an engine of some versions is."""

    engine: str
    """Pattern that its name contains."""
    version: str
    """Pattern that its version contains; empty for all."""
    name: str | None
    """Of the stack; None: nothing like it is simulated."""
    stands_in: bool = False
    """Whether it is not the engine itself but what is most like it: rows list that as assumed."""
    captures: bool = True
    """Whether it runs captured graphs where the stack does; launches of every kernel by themselves else."""


class NumberFormat(_Words):
    """What words on the precision of weights stand for."""

    words: str
    """Pattern of the whole text, without words that only say how a format is used."""
    format: str
    """Of the weights."""
    bits: float | None = None
    """That a weight takes with its scales, where they are not the format's own."""
    rows: str | None = None
    """Format of the rows that weights multiply, where the words say it; `plain`: 16 bits."""


class Published(_Words):
    """The number format that some models are published in."""

    model: str
    """Pattern of the whole of their names, without what says how they were tuned."""
    weights: str
    """Words on the precision of their weights."""


class Context(_Words):
    """The longest sequence of models that are tuned for another one than their profile has."""

    words: str
    """Pattern of the whole of their names."""
    tokens: int
    """Of it."""


class Workload(_Words):
    """The lengths of requests that the name of a workload stands for."""

    words: str
    """Pattern in the words of workload and source."""
    engine: str = ""
    """Pattern in the engine's name; empty for all."""
    name: str
    """Of the lengths."""


class Machine(Spec):
    """The cluster that collectives were measured on."""

    accelerator: str
    """Start of the accelerator's id."""
    joined: str
    """A word of what joins devices or nodes; empty for any."""
    ranks: int = 0
    """Least ranks of a node; 0 for any."""
    cluster: str
    """Name of its profile."""
    stands_in: bool = False
    """Whether it is not the machine itself but what is most like it: rows list that as assumed."""


class TrainingWords(Spec):
    """Of rows of training."""

    clusters: Mapping[str, str]
    """Cluster by the profile of the accelerator."""
    pipelines: tuple[Named, ...]
    """Pipeline schedules by the whole of a text."""
    releases: tuple[Named, ...]
    """Releases of frameworks by words of a source that does not state them."""
    adapters: tuple[Named, ...]
    """Words of the adapters that programs train unless they are told otherwise, by words of the framework."""
    stacks: tuple[Named, ...]
    """Stacks by words of the framework."""


class ServingWords(Spec):
    """Of rows of serving."""

    clusters: Mapping[str, str]
    """Cluster by the profile of the accelerator."""
    models: Mapping[str, str]
    """Model profile by the name of a model."""
    alike: tuple[Named, ...]
    """Model profile by the whole of a name, without what says how a model was tuned or stored."""
    contexts: tuple[Context, ...]
    """Longest sequences by the whole of a name, where they are not those of the profile."""
    kinds: Mapping[str, str]
    """Kinds of rows by other words for them, joined by underscores."""
    lengths: tuple[Workload, ...]
    """Lengths of requests by the words of a workload; the first that fits counts."""
    axes: Mapping[str, tuple[str, ...]]
    """Axes of ours by the keys of `parallelism`, joined by underscores."""
    formats: tuple[NumberFormat, ...]
    """Number formats by the words of rows."""
    published: tuple[Published, ...]
    """What models of fewer than 16 bits are published in."""
    stacks: tuple[Engine, ...]
    """Stacks by engine and version."""


class Vocabulary(Spec):
    """All of them."""

    cards: tuple[Card, ...]
    """Accelerators."""
    instances: tuple[Named, ...]
    """Words of the card in it, by the name of a cloud's instance."""
    training: TrainingWords
    serving: ServingWords
    network: tuple[Machine, ...]
    """Machines of collectives."""
    operations: tuple[Named, ...]
    """Collectives and kernels by all of an operation's words; what none fits is as it is written."""


def operation(words: str) -> str:
    """An operation by our name where it is written in another way."""
    text = re.sub(r"[^a-z0-9]+", " ", words[:100].lower()).strip()
    known = (one.name for one in vocabulary().operations if re.fullmatch(one.words, text))
    return next(known, words)


@cache
def vocabulary() -> Vocabulary:
    """The shipped words, read once; InputError with file and line where they are not as they must be."""
    return load_file(Vocabulary, data_root() / FILE).spec
