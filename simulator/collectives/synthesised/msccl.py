"""Read plans in the XML of MSCCL, as its compiler and synthesisers write them.

An `algo` has GPUs, these have thread blocks with one peer to send to and one to receive from, and these have steps in
order. The text is that of others: documents with a DOCTYPE (and so with entities) are refused, as is what is too
large. Grammar: microsoft/msccl, src/graph/topo.cc.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from simulator.errors import InputError, Problem, nearest

if TYPE_CHECKING:
    from xml.etree import ElementTree

LARGEST = 32 << 20
"""Bytes of a file."""
MOST_STEPS, MOST_GPUS, MOST_CHUNKS = 1_000_000, 1024, 65_536
Kind = Literal["s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re", "ra", "nop"]
KINDS: tuple[str, ...] = get_args(Kind)
"""Send, receive, receive copy send, receive reduce copy, receive reduce send, receive reduce copy send, copy, reduce
(`re` and `ra`: add the source to the destination), nothing."""
COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
}
"""Words of `coll` and the operations here."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a thread block does next."""

    kind: str
    source: tuple[str, int]
    """(buffer `i`, `o` or `s`, first chunk)."""
    target: tuple[str, int]
    count: int
    """Chunks."""
    after: tuple[int, int]
    """(thread block, step) of the same GPU that must be over; (-1, -1) for none."""


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block of a GPU."""

    id: int
    send: int
    """GPU that it sends to; -1 for none."""
    receive: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """What a rank does."""

    chunks: tuple[int, int, int]
    """Of its input, its output and its scratch buffer."""
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Algo:
    """A plan as its file says it."""

    file: str
    name: str
    operation: str
    protocol: str
    in_place: bool
    sizes: tuple[float, float]
    """Bytes that it is for, from and to."""
    gpus: tuple[Gpu, ...]


def read(path: str) -> Algo:
    """The plan of a file; InputError where it is none, with what is wrong in which GPU, block and step."""
    root = _parsed(path)
    here = _Place(path, root)
    if root.tag != "algo":
        here.refuse(f"is no plan of MSCCL: its first element is `{root.tag[:40]}`, not `algo`")
    word = here.text("coll")
    if word not in COLLECTIVES:
        here.refuse(f"unknown collective `{word[:40]}`", nearest(word, COLLECTIVES) or ", ".join(COLLECTIVES))
    elements = root.findall("gpu")
    count = here.number("ngpus", 2, MOST_GPUS)
    ids = [_Place(path, element).number("id", 0, count - 1) for element in elements]
    if sorted(ids) != list(range(count)):
        here.refuse(f"says {count} GPUs and describes {sorted(ids)[:20]}", "describe each of them once")
    ordered = [element for _, element in sorted(zip(ids, elements, strict=True), key=lambda pair: pair[0])]
    gpus = tuple(_gpu(path, element, f"GPU {number}") for number, element in enumerate(ordered))
    if sum(len(block.steps) for gpu in gpus for block in gpu.blocks) > MOST_STEPS:
        here.refuse(f"more than {MOST_STEPS:,} steps")
    most = here.number("maxBytes", 0, 1 << 60, 0)
    return Algo(
        path,
        root.get("name", Path(path).stem),
        COLLECTIVES[word],
        root.get("proto", "Simple"),
        here.number("inplace", 0, 1, 0) == 1,
        (here.number("minBytes", 0, 1 << 60, 0), most or float("inf")),
        gpus,
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """An element and how to name it."""

    file: str
    element: "ElementTree.Element"
    what: str = "the plan"

    def refuse(self, problem: str, hint: str = "") -> None:
        raise InputError(Problem(f"{self.what}: {problem}", file=self.file, hint=hint))

    def text(self, key: str, default: str | None = None) -> str:
        found = self.element.get(key, default)
        if found is None:
            self.refuse(f"no `{key}`")
        return found or ""

    def number(self, key: str, low: int, high: int, default: int | None = None) -> int:
        text = self.text(key, None if default is None else str(default)).strip()
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or not low <= int(text) <= high:
            self.refuse(f"`{key}` is {text[:40]!r}", f"write a whole number from {low} to {high:,}")
        return int(text)


def _gpu(path: str, element: "ElementTree.Element", what: str) -> Gpu:
    here = _Place(path, element, what)
    i, o, s = (here.number(f"{buffer}_chunks", 0, MOST_CHUNKS, 0) for buffer in "ios")
    blocks = tuple(_block(path, block, what) for block in element.findall("tb"))
    if len({block.id for block in blocks}) < len(blocks):
        here.refuse("two thread blocks have the same id")
    return Gpu((i, o, s), blocks)


def _block(path: str, element: "ElementTree.Element", gpu: str) -> Block:
    here = _Place(path, element, gpu)
    number = here.number("id", 0, MOST_STEPS)
    what = f"{gpu}, block {number}"
    steps = tuple(_step(_Place(path, step, f"{what}, step {i}"), i) for i, step in enumerate(element.findall("step")))
    peers = here.number("send", -1, MOST_GPUS, -1), here.number("recv", -1, MOST_GPUS, -1)
    return Block(number, *peers, here.number("chan", 0, 1024, 0), steps)


def _step(here: _Place, place: int) -> Step:
    kind = here.text("type")
    if kind not in KINDS:
        here.refuse(f"unknown type `{kind[:20]}`", ", ".join(KINDS))
    if here.number("s", 0, MOST_STEPS, place) != place:
        here.refuse(f"`s` is {here.text('s')}", "number the steps of a block from 0 on")
    source, target = here.text("srcbuf", "i"), here.text("dstbuf", "o")
    if source not in "ios" or target not in "ios" or not source or not target:
        here.refuse("buffers are i, o and s")
    block = here.number("depid", -1, MOST_STEPS, -1)
    after = (block, here.number("deps", -1, MOST_STEPS, -1)) if block >= 0 else (-1, -1)
    # What a step does not use is often -1.
    first, second = (max(here.number(key, -1, MOST_CHUNKS, 0), 0) for key in ("srcoff", "dstoff"))
    return Step(kind, (source, first), (target, second), here.number("cnt", 0, MOST_CHUNKS, 1), after)


def _parsed(path: str) -> "ElementTree.Element":
    """The document, without entities; InputError where it cannot be read or is no XML."""
    from xml.etree import ElementTree
    from xml.parsers import expat

    file = Path(path)
    try:
        if file.stat().st_size > LARGEST:
            raise InputError(Problem(f"is larger than {LARGEST >> 20} MiB", file=path))
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file has such a name"
        raise InputError(Problem(f"cannot be read: {reason}", file=path)) from None
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.StartDoctypeDeclHandler = lambda *_: _refuse_doctype(path, parser.CurrentLineNumber)
    try:
        parser.Parse(data, True)
        return builder.close()
    except (expat.ExpatError, AssertionError) as error:
        line = getattr(error, "lineno", None)
        raise InputError(Problem(f"is no XML: {error}", file=path, line=line)) from None


def _refuse_doctype(path: str, line: int) -> None:
    raise InputError(Problem("has a DOCTYPE, which may hold entities", file=path, line=line, hint="take it out"))
