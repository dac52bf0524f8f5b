"""The generators by name, and the share of each in all inputs.

Inputs that cost little (damaged files, words, changed texts: 5 to 20 ms) come more often than runs (20 to 140 ms).
"""

from tests.fuzz import (
    commands,
    crossed,
    files,
    fleets,
    imported,
    jobs,
    keys,
    logs,
    mutations,
    operations,
    profiles,
    runs,
    semantics,
    served,
    shipped,
    spelling,
    tiers,
)
from tests.fuzz.harness import Generator

KINDS: dict[str, tuple[Generator, int]] = {
    "text": (mutations.text, 4),
    "tree": (mutations.tree, 8),
    "training": (semantics.training, 2),
    "serving": (semantics.serving, 2),
    "shipped": (shipped.shipped, 4),
    "spelling": (spelling.spelling, 1),
    "jobs": (jobs.jobs, 1),
    "tiers": (tiers.tiers, 2),
    "fleets": (fleets.fleets, 4),
    "keys": (keys.keys, 8),
    "profiles": (profiles.profiles, 4),
    "runs": (runs.runs, 1),
    "loads": (runs.loads, 1),
    "encoders": (served.encoders, 2),
    "helix": (served.helix, 2),
    "arrays": (served.arrays, 1),
    "commands": (commands.commands, 3),
    "baseline": (files.baseline, 2),
    "cache": (files.cache_, 2),
    "result": (files.result, 6),
    "trace": (files.trace, 6),
    "rows": (files.rows, 3),
    "crossed": (crossed.crossed, 8),
    "foreign": (files.foreign, 6),
    "imported": (imported.imported, 6),
    "logs": (logs.logs, 2),
    "fits": (logs.fits, 1),
    "line": (operations.line, 8),
}
"""(generator, weight) of each kind: its inputs are so many of the sum of the weights."""
