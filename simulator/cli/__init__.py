"""The command line `clustersim`: arguments into one call below, results into output and exit code."""

from simulator.cli.entry import main

__all__ = ["main"]
