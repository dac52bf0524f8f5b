"""Write docs/papers.md: the same as `clustersim papers --markdown docs/papers.md`.

    python -m benchmarks.papers [--only PAPER ...]

With `--only` the page is not written, the figures of those papers are printed.
"""

import argparse
import sys
from pathlib import Path

from simulator.cli import main as clustersim

PAGE = Path(__file__).resolve().parent.parent / "docs" / "papers.md"


def main() -> int:
    """Run all and write the page, or print some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="papers to print")
    only = parser.parse_args().only
    return clustersim(["papers", *(only or ["--markdown", str(PAGE), "--quiet"])])


if __name__ == "__main__":
    sys.exit(main())
