"""Options that several commands take, and the whole numbers of others."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable

MOST = 1_000_000


def whole(low: int = 1, high: int = MOST) -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`, for `type=` of an argument."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not low <= int(text[:12]) <= high:
            raise ArgumentTypeError(f"{text[:40]!r} is no whole number from {low:,} to {high:,}")
        return int(text)

    return read


def offer(parser: ArgumentParser, json: str) -> None:
    """Add the forms that a document is written in; `json` says what the first one holds."""
    parser.add_argument("--json", metavar="FILE", help=f"write {json}; `-` prints it and nothing else")
    offer_reports(parser)
    offer_quiet(parser)


def offer_reports(parser: ArgumentParser, plots: str = "plots as PNG and SVG into a folder that exists") -> None:
    """Add the HTML file and the plots of a report; `plots` says what these are."""
    parser.add_argument("--html", metavar="FILE", help="write a report as one file that any browser shows")
    parser.add_argument("--plots", metavar="FOLDER", help=f"write {plots}")


def offer_quiet(parser: ArgumentParser) -> None:
    """Add the switch that leaves only what is written."""
    parser.add_argument("--quiet", action="store_true", help="print no page and no progress")
