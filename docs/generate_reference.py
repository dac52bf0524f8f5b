"""Parts of pages that are drawn from the program, by the names under which pages ask for them.

`<!-- generated: NAME -->` on a page is replaced by what the function NAME returns, a piece of Markdown.
"""

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import catalogue_pages  # noqa: E402 - only found after the path is set
import interface_pages  # noqa: E402
import network_pages  # noqa: E402
import program_pages  # noqa: E402
import schedule_pages  # noqa: E402
import spec_pages  # noqa: E402

PARTS: dict[str, Callable[[], str]] = {
    name: cache(function)
    for module in (catalogue_pages, interface_pages, network_pages, program_pages, schedule_pages, spec_pages)
    for name, function in vars(module).items()
    if getattr(function, "__module__", "") == module.__name__ and callable(function) and not name.startswith("_")
}
"""Every part by its name."""
_MARKER = re.compile(r"<!-- generated: (\w+) -->")


def filled(text: str) -> str:
    """The text of a page with its generated parts."""
    return _MARKER.sub(lambda match: PARTS[match[1]](), text)
