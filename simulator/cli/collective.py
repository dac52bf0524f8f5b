"""Price one collective on a cluster, with nothing else on its links.

With `--sizes 1K:8G` it prints the columns of nccl-tests and what bounds each size; `--log` sets the times of a log of
nccl-tests beside them, `--all-algorithms` every algorithm under every protocol. Operations are those of nccl-tests with
`--size` as these count it, and `dispatch` and `combine` of a mixture of experts (also moe_dispatch, moe_combine) with
tokens, width, top-k and experts. Their libraries: alltoall, hierarchical, allgather, deepep, deepep-low-latency,
uccl-ep, mori, cann and what else docs/models/expert-exchange.md lists. An all_reduce with `--library vllm`, `sglang` or
`trtllm` is that of the serving engine's own kernels (docs/models/serving-cost.md).
"""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.options import offer_quiet, whole

if TYPE_CHECKING:
    from simulator.collectives import Routing

SUMMARY = "price one collective, dispatch or combine on a cluster"
EXAMPLES = (
    "dgx-h100 --op all_reduce --size 64MB --ranks 16",
    "dgx-h100 --op all_reduce --sizes 1K:8G --ranks 16 --all-algorithms --plots .",
    "dgx-h100 --op all_gather --group 0-7/8-15 --sizes 1M:1G:4 --algo Ring --proto Simple",
    "dgx-h100 --op all_reduce --size 256KB --ranks 8 --library vllm",
    "h800-cluster --op dispatch --library deepep --ranks 64 --tokens 4096 --hidden 7168 --top-k 8 --experts 256",
    "dgx-h100 --op combine --ranks 8 --tokens 512 --hidden 4096 --top-k 2 --experts 8 --load 3,1,1,1,1,1,1,1",
)
_EXCHANGES = {"dispatch": "fp8", "combine": "bf16"}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_NEEDED = ("tokens", "hidden", "top_k", "experts")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `collective`."""
    parser.add_argument("cluster", metavar="CLUSTER", help="cluster profile: a name or a file")
    parser.add_argument(
        "--op", metavar="NAME", required=True, help="all_reduce, all_to_all, dispatch, ...; nccl-tests' names too"
    )
    parser.add_argument("--size", metavar="SIZE", help="bytes as nccl-tests count them, for example 64MB")
    parser.add_argument("--sizes", metavar="LOW:HIGH", type=_sizes, help="every power of two from 1K to 8G, as 1K:8G")
    parser.add_argument("--log", metavar="FILE", help="set the times of a log of nccl-tests beside the simulated ones")
    parser.add_argument("--group", metavar="RANKS", type=_groups, help="as 0-7, 0-56:8 or 0,3,5; several as 0-7/8-15")
    parser.add_argument("--ranks", metavar="N", type=whole(2), help="the first N devices (default: all)")
    parser.add_argument("--nodes", metavar="N", type=whole(), help="nodes of the cluster")
    parser.add_argument(
        "--algorithm", metavar="NAME", default="auto", help="for example ring, ring/LL128 or plan.xml (MSCCL)"
    )
    parser.add_argument("--all-algorithms", action="store_true", help="with --sizes: all that can do it")
    parser.add_argument("--algo", metavar="LIST", default="", help="NCCL_ALGO, for example Ring,Tree or ^NVLS")
    parser.add_argument("--proto", metavar="LIST", default="", help="NCCL_PROTO, for example Simple or ^LL128")
    parser.add_argument(
        "--release", metavar="NUMBER", type=_release, help="of NCCL, as 2.26 (default: the log's, or the newest known)"
    )
    parser.add_argument(
        "--library",
        metavar="NAME",
        help="of a dispatch or combine (default: alltoall), or vllm, sglang, trtllm: the engine's own all_reduce",
    )
    parser.add_argument("--tokens", metavar="N", type=whole(high=10**9), help="tokens of a rank")
    parser.add_argument("--hidden", metavar="N", type=whole(), help="width of a token")
    parser.add_argument("--top-k", metavar="N", type=whole(), help="experts of a token")
    parser.add_argument("--experts", metavar="N", type=whole(), help="experts of all ranks")
    parser.add_argument("--groups", metavar="N", type=whole(), default=1, help="groups of experts")
    parser.add_argument("--group-limit", metavar="N", type=whole(0), default=0, help="groups a token may use")
    parser.add_argument("--load", metavar="N,N", type=_loads, default=(), help="load of each rank, in any unit")
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="of tokens (default: fp8 out, bf16 back), or of elements on their way with --sizes",
    )
    parser.add_argument("--plots", metavar="FOLDER", help="with --sizes: write plots as PNG and SVG into a folder")
    parser.add_argument("--json", metavar="FILE", help="write the figures; `-` prints them and nothing else")
    offer_quiet(parser)


def _loads(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"{text[:40]!r} is no list of numbers") from None


def _sizes(text: str) -> tuple[float, ...]:
    """Sizes of LOW:HIGH or LOW:HIGH:FACTOR; K, M and G count in powers of 1,024, as in nccl-tests."""
    from simulator.study.collective_sizes import powers

    low, _, rest = text.partition(":")
    high, _, factor = rest.partition(":")
    try:
        ends, step = (_binary(low), _binary(high or low)), float(factor or 2)
    except ValueError as error:
        raise ArgumentTypeError(f"{text[:40]!r} {error}") from None
    if not 1 <= ends[0] <= ends[1] <= 1 << 50 or not 1.01 <= step <= 1 << 20:
        raise ArgumentTypeError(f"{text[:40]!r} is no range of sizes such as 1K:8G, or 1K:8G:4 for every second one")
    return powers(*ends, step)


def _release(text: str) -> str:
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,3}", text, re.ASCII):
        raise ArgumentTypeError(f"{text[:40]!r} is no release such as 2.26 or 2.26.2")
    return text


def _binary(text: str) -> float:
    from simulator import units

    number, unit = text[:-1], text[-1:].upper()
    if unit in _BINARY and number.isascii() and number.replace(".", "", 1).isdigit():
        return float(number) * _BINARY[unit]
    return float(text) if text.isascii() and text.isdigit() else units.parse(text, "bytes")


def _groups(text: str) -> tuple[tuple[int, ...], ...]:
    from simulator.study.collective_sizes import parse_groups

    try:
        return parse_groups(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def execute(arguments: Namespace) -> int:
    """Price and show."""
    from simulator.cli import outputs
    from simulator.collectives import operation_of
    from simulator.study.collective import AskedCollective, price

    inputs = (arguments.log,) if arguments.log else ()
    outputs.check({"--json": arguments.json}, inputs=inputs, folders={"--plots": arguments.plots})
    if arguments.sizes or arguments.log:
        return _over_sizes(arguments)
    _check_single(arguments)
    operation = operation_of(arguments.op)
    size, routing = _exchanged(arguments, operation) if operation in _EXCHANGES else (_size(arguments), None)
    library = arguments.library or ("alltoall" if routing and arguments.algorithm == "auto" else None)
    found = price(
        AskedCollective(
            arguments.cluster,
            operation,
            size,
            arguments.ranks,
            arguments.nodes,
            library,
            arguments.algorithm,
            routing,
        )
    )
    if not outputs.as_json(found, arguments.json) and not arguments.quiet:
        from simulator.report.collective.page import page

        console.write(page(found) + _remark(arguments, "  "))
    return 0


def _check_single(arguments: Namespace) -> None:
    """InputError for an option that is of tables over sizes."""
    from simulator.errors import InputError, Problem

    for name in ("group", "all_algorithms", "algo", "proto", "release", "plots"):
        if getattr(arguments, name):
            hint = "for example --sizes 1K:8G, or --sizes 64M for one size"
            raise InputError(Problem(f"`--{name.replace('_', '-')}` needs `--sizes`", hint=hint))


def _over_sizes(arguments: Namespace) -> int:
    """The table over sizes; InputError for options that it does not take."""
    from simulator.cli import outputs
    from simulator.errors import InputError, Problem
    from simulator.interop.nccl_tests import read_log
    from simulator.specs.libraries.collectives import Environment
    from simulator.study.collective_sizes import AskedSizes, sweep

    engine = _engine(arguments)
    others = () if engine else ("library",)
    misplaced = [name for name in (*_NEEDED, *others, "size", "load") if getattr(arguments, name)]
    if misplaced:
        flag = misplaced[0].replace("_", "-")
        raise InputError(Problem(f"`--{flag}` has no meaning beside `--sizes` or `--log`"))
    if arguments.group and arguments.ranks:
        raise InputError(Problem("`--group` and `--ranks` both say which ranks take part", hint="leave one out"))
    log = read_log(arguments.log) if arguments.log else None
    ranks = arguments.ranks or (log.ranks if log and not arguments.group else None)
    logged = tuple(dict.fromkeys(one.size_bytes for one in log.sizes)) if log else ()
    release = arguments.release or (log.release if log else "")
    told = {"NCCL_ALGO": arguments.algo, "NCCL_PROTO": arguments.proto, "release": release}
    found = sweep(
        AskedSizes(
            arguments.cluster,
            arguments.op,
            arguments.sizes or logged,
            arguments.group or (),
            ranks,
            arguments.nodes,
            arguments.algorithm,
            arguments.all_algorithms,
            Environment.model_validate(told) if any(told.values()) else None,
            (log.sizes[0].dtype if log else "") or "float",
            (arguments.log, log) if log else None,
            arguments.format,
            engine,
        )
    )
    if arguments.plots:
        from simulator.report.collective.plots import save_plots

        save_plots(found, arguments.plots)
    if not outputs.as_json(found, arguments.json) and not arguments.quiet:
        from simulator.report.collective.sizes import page

        console.write(page(found, width=console.width()) + _remark(arguments, "# "))
    return 0


def _remark(arguments: Namespace, before: str) -> str:
    """A line on what a name of another program stands for, where that is no mere spelling."""
    from simulator.collectives import remark_on

    remark = remark_on(arguments.op)
    return f"{before}{remark}\n" if remark else ""


def _engine(arguments: Namespace) -> str:
    """The serving engine whose own all-reduce is asked for; empty where none is."""
    from simulator.collectives import operation_of
    from simulator.collectives.custom_all_reduce import ENGINES

    library = arguments.library or ""
    return library if library in ENGINES and operation_of(arguments.op) == "all_reduce" else ""


def _size(arguments: Namespace) -> float:
    """Bytes of a collective that is no exchange; InputError where they are missing or none."""
    from simulator import units
    from simulator.collectives.custom_all_reduce import ENGINES
    from simulator.errors import InputError, Problem

    others = () if _engine(arguments) else ("library",)
    misplaced = [name for name in (*_NEEDED, *others, "format") if getattr(arguments, name) is not None]
    if misplaced or arguments.load:
        flag = (misplaced or ["load"])[0].replace("_", "-")
        engines = f", or {', '.join(ENGINES)} for all_reduce" if flag == "library" else ""
        hint = f"it is for dispatch and combine{engines}"
        raise InputError(Problem(f"`--{flag}` has no meaning for {arguments.op}", hint=hint))
    if arguments.size is None:
        raise InputError(Problem(f"{arguments.op} needs `--size`", hint="for example --size 64MB"))
    try:
        return units.parse(arguments.size, "bytes")
    except ValueError as error:
        raise InputError(Problem(f"`--size`: {error}")) from None


def _exchanged(arguments: Namespace, operation: str) -> tuple[float, "Routing"]:
    """(bytes, routing) of a dispatch or combine; InputError where something is missing."""
    from simulator.collectives import Routing, token_bytes
    from simulator.errors import InputError, Problem

    missing = [f"`--{name.replace('_', '-')}`" for name in _NEEDED if getattr(arguments, name) is None]
    if missing:
        raise InputError(Problem(f"{operation} needs {', '.join(missing)}"))
    if arguments.size is not None:
        raise InputError(Problem(f"`--size` has no meaning for {operation}", hint="it follows from the tokens"))
    token = token_bytes(arguments.hidden, arguments.format or _EXCHANGES[operation])
    routing = Routing(arguments.experts, arguments.top_k, arguments.groups, arguments.group_limit, arguments.load)
    return arguments.tokens * arguments.top_k * token, routing
