"""The generators by name, and how many of their inputs come in a turn."""

from tests.fuzz import (
    commands,
    files,
    fleets,
    jobs,
    mutations,
    operations,
    runs,
    semantics,
    served,
    shipped,
    spelling,
    tiers,
)
from tests.fuzz.harness import Generator

KINDS: dict[str, tuple[Generator, int]] = {
    "text": (mutations.text, 1),
    "tree": (mutations.tree, 5),
    "training": (semantics.training, 2),
    "serving": (semantics.serving, 2),
    "shipped": (shipped.shipped, 3),
    "spelling": (spelling.spelling, 2),
    "jobs": (jobs.jobs, 1),
    "tiers": (tiers.tiers, 2),
    "fleets": (fleets.fleets, 3),
    "runs": (runs.runs, 1),
    "loads": (runs.loads, 1),
    "encoders": (served.encoders, 1),
    "helix": (served.helix, 1),
    "arrays": (served.arrays, 1),
    "commands": (commands.commands, 3),
    "baseline": (files.baseline, 1),
    "cache": (files.cache_, 1),
    "result": (files.result, 4),
    "trace": (files.trace, 4),
    "rows": (files.rows, 1),
    "foreign": (files.foreign, 4),
    "line": (operations.line, 5),
}
"""(generator, weight) of each kind."""
