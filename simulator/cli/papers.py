"""Simulate what published systems claim, and put every figure beside ours.

NAME is a system or a paper (without one, all are run); few are printed figure by figure. The claims and the scenarios
are shipped. A figure is reproduced within 10 % or the spread of its source; a bound that is met from further away
holds; a ratio on the right side of 1 has the right direction. Figures are kept in a file and found again only if
a scenario or the program changed.
"""

from argparse import ArgumentParser, Namespace

from simulator.cli import console
from simulator.cli.options import offer_quiet, whole

SUMMARY = "published systems: their figures beside ours"
EXAMPLES = (
    "",
    "sarathi --no-cache",
    "zero_infinity megatron_ptdp --json papers.json",
    "--jobs 2 --html papers.html",
    "--markdown papers.md",
)
CACHE = ".clustersim/papers.json"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `papers`."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="systems or papers (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write figures, systems and totals; `-` prints them only")
    parser.add_argument("--html", metavar="FILE", help="write a report as one file that any browser shows")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables as Markdown")
    parser.add_argument("--jobs", metavar="N", type=whole(), default=1, help="processes to simulate with")
    parser.add_argument("--cache", metavar="FILE", help=f"where figures are kept (default {CACHE})")
    parser.add_argument("--no-cache", action="store_true", help="keep nothing and look nothing up")
    offer_quiet(parser)


def execute(arguments: Namespace) -> int:
    """Run, compare, report."""
    from simulator.cli import outputs
    from simulator.cli.progress import counting
    from simulator.study.executors import cores
    from simulator.study.papers.reproduce import reproduce

    named = {"--json": arguments.json, "--html": arguments.html, "--markdown": arguments.markdown}
    outputs.check(named, inputs=())
    cache = outputs.cache_file(arguments.cache, arguments.no_cache, CACHE)
    with counting("published systems", arguments.quiet) as tell:
        found = reproduce(arguments.names, min(arguments.jobs, cores()), cache, tell)
    if arguments.markdown:
        from simulator.report.papers import markdown
        from simulator.results.writing import write

        write(arguments.markdown, markdown.page(found))
    if arguments.html:
        from simulator.report.papers import html
        from simulator.results.writing import write

        write(arguments.html, html.page(found))
    if not outputs.as_json(found, arguments.json) and not arguments.quiet:
        from simulator.report.papers.page import page

        console.write(page(found, width=console.width(), colour=console.coloured()))
    return 0
