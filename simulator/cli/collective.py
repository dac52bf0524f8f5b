"""Price one collective on a cluster, with nothing else on its links.

Operations are those of nccl-tests with `--size` as these count it, and `dispatch` and `combine` of a mixture of experts
(also moe_dispatch, moe_combine) with tokens, width, top-k and experts. Their libraries: alltoall, hierarchical,
allgather, deepep, deepep-low-latency, uccl-ep, mori, cann and what else docs/models/expert-exchange.md lists.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.options import offer_quiet, whole

if TYPE_CHECKING:
    from simulator.collectives import Routing

SUMMARY = "price one collective, dispatch or combine on a cluster"
EXAMPLES = (
    "dgx-h100 --op all_reduce --size 64MB --ranks 16",
    "h800-cluster --op dispatch --library deepep --ranks 64 --tokens 4096 --hidden 7168 --top-k 8 --experts 256",
    "dgx-h100 --op combine --ranks 8 --tokens 512 --hidden 4096 --top-k 2 --experts 8 --load 3,1,1,1,1,1,1,1",
)
_EXCHANGES = {"dispatch": "fp8", "combine": "bf16"}
_NEEDED = ("tokens", "hidden", "top_k", "experts")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `collective`."""
    parser.add_argument("cluster", metavar="CLUSTER", help="cluster profile: a name or a file")
    parser.add_argument("--op", metavar="NAME", required=True, help="all_reduce, all_to_all, dispatch, ...")
    parser.add_argument("--size", metavar="SIZE", help="bytes as nccl-tests count them, for example 64MB")
    parser.add_argument("--ranks", metavar="N", type=whole(2), help="the first N devices (default: all)")
    parser.add_argument("--nodes", metavar="N", type=whole(), help="nodes of the cluster")
    parser.add_argument("--algorithm", metavar="NAME", default="auto", help="for example ring or ring/LL128")
    parser.add_argument("--library", metavar="NAME", help="of a dispatch or combine (default: alltoall)")
    parser.add_argument("--tokens", metavar="N", type=whole(high=10**9), help="tokens of a rank")
    parser.add_argument("--hidden", metavar="N", type=whole(), help="width of a token")
    parser.add_argument("--top-k", metavar="N", type=whole(), help="experts of a token")
    parser.add_argument("--experts", metavar="N", type=whole(), help="experts of all ranks")
    parser.add_argument("--groups", metavar="N", type=whole(), default=1, help="groups of experts")
    parser.add_argument("--group-limit", metavar="N", type=whole(0), default=0, help="groups a token may use")
    parser.add_argument("--load", metavar="N,N", type=_loads, default=(), help="load of each rank, in any unit")
    parser.add_argument("--format", metavar="NAME", help="of tokens (default: fp8 out, bf16 back)")
    parser.add_argument("--json", metavar="FILE", help="write the figures; `-` prints them and nothing else")
    offer_quiet(parser)


def _loads(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"{text[:40]!r} is no list of numbers") from None


def execute(arguments: Namespace) -> int:
    """Price and show."""
    from simulator.cli import outputs
    from simulator.study.collective import AskedCollective, price

    outputs.check({"--json": arguments.json}, inputs=())
    operation = arguments.op.removeprefix("moe_").replace("-", "_")
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

        console.write(page(found))
    return 0


def _size(arguments: Namespace) -> float:
    """Bytes of a collective that is no exchange; InputError where they are missing or none."""
    from simulator import units
    from simulator.errors import InputError, Problem

    misplaced = [name for name in (*_NEEDED, "library", "format") if getattr(arguments, name) is not None]
    if misplaced or arguments.load:
        flag = (misplaced or ["load"])[0].replace("_", "-")
        raise InputError(
            Problem(f"`--{flag}` has no meaning for {arguments.op}", hint="it is for dispatch and combine")
        )
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
