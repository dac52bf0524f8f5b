"""Published figures of a scenario are held against the metric that they name when the file is read.

Importing this module is enough.
"""

from simulator.specs.scenario import FIGURES


@FIGURES.add("published")
def check(metric: str, value: str | float) -> None:
    """ValueError for a value without the unit that a known metric needs, or with another; other metrics pass."""
    from simulator import units
    from simulator.results.metrics import METRICS  # late: only scenarios with published figures need it

    if metric in METRICS:
        units.parse(value, METRICS[metric].dimension)
