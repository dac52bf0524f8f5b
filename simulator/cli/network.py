"""Draw the network of a cluster and count it: switches, links, longest way, width between halves, oversubscription.

`--parts` counts what it is bought of, with its price and power; `--way` names the links between two ranks; `--op` shows
which links a collective of all devices loads most, and colours them.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from simulator.cli import console
from simulator.cli.options import offer_quiet, whole

SUMMARY = "draw a cluster's network and count its width, price and power"
EXAMPLES = (
    "dgx-h100-superpod --nodes 64 --parts infiniband-ndr --png network.png",
    "frontier --way 0 60000",
    "my-cluster.yaml --op all_reduce --size 1GB --html network.html",
)
_OUTPUTS = ("svg", "png", "html", "json")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `network`."""
    parser.add_argument("cluster", metavar="CLUSTER", help="cluster profile: a name or a file")
    parser.add_argument("--nodes", metavar="N", type=whole(), help="nodes of the cluster")
    parser.add_argument("--parts", metavar="NAME", help="count boxes, optics, price and power: infiniband-ndr, ...")
    parser.add_argument("--way", metavar="RANK", nargs=2, type=_rank, help="name the links from one rank to another")
    parser.add_argument("--op", metavar="NAME", help="a collective of all devices: all_reduce, all_to_all, ...")
    parser.add_argument("--size", metavar="SIZE", help="its bytes as nccl-tests count them, for example 64MB")
    parser.add_argument("--algorithm", metavar="NAME", default="auto", help="for example ring or ring/LL128")
    parser.add_argument("--svg", metavar="FILE", help="write the picture")
    parser.add_argument("--png", metavar="FILE", help="write the picture")
    parser.add_argument("--html", metavar="FILE", help="write a report as one file that any browser shows")
    parser.add_argument("--json", metavar="FILE", help="write the figures; `-` prints them and nothing else")
    offer_quiet(parser)


def _rank(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise ArgumentTypeError(f"{text[:40]!r} is no rank")
    return int(text)


def execute(arguments: Namespace) -> int:
    """Count, show, draw."""
    from simulator.cli import outputs
    from simulator.study.network import AskedNetwork, count

    outputs.check({f"--{name}": getattr(arguments, name) for name in _OUTPUTS}, inputs=(arguments.cluster,))
    size, way = _size(arguments), tuple(arguments.way) if arguments.way else None
    document = count(
        AskedNetwork(arguments.cluster, arguments.nodes, arguments.parts, way, arguments.op, size, arguments.algorithm)
    )
    if arguments.svg or arguments.png:
        from simulator.report.svg.fabric import save_png, save_svg

        if arguments.svg:
            save_svg(document, arguments.svg)
        if arguments.png:
            save_png(document, arguments.png)
    if arguments.html:
        from simulator.report.network import html
        from simulator.results.writing import write

        write(arguments.html, html.page(document))
    if not outputs.as_json(document, arguments.json) and not arguments.quiet:
        from simulator.report.network.page import page

        console.write(page(document, width=console.width(), colour=console.coloured()))
    return 0


def _size(arguments: Namespace) -> float:
    """Bytes of the collective; InputError where they are missing, or have nothing to do."""
    from simulator import units
    from simulator.errors import InputError, Problem

    if (arguments.op is None) != (arguments.size is None):
        raise InputError(Problem("`--op` and `--size` need each other", hint="--op all_reduce --size 64MB"))
    if arguments.op is None:
        return 0.0
    try:
        return units.parse(arguments.size, "bytes")
    except ValueError as error:
        raise InputError(Problem(f"`--size`: {error}")) from None
