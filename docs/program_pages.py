"""Reference of the command line, the metrics and what is registered by name."""

from collections.abc import Iterable
from typing import Any

from markdown_tables import table

from simulator.cli.commands import COMMANDS, command
from simulator.cli.parser import parser_of
from simulator.collectives.algorithms import ALGORITHMS
from simulator.metrics import JOBS, METRICS, SERVING, WORKFLOWS, Metric
from simulator.training.schedules import SCHEDULES

SENSES = {"time": "less is faster", "rate": "more is faster", "size": ""}
UNITS = {"time": "s", "rate": "1/s", "flop_rate": "FLOP/s", "bytes": "B", "energy": "J", "money": "USD"}


def commands() -> str:
    """The help of every command."""
    return "\n".join(_command(name) for name in COMMANDS)


def _command(name: str) -> str:
    chosen = command(name)
    summary = chosen.SUMMARY[0].upper() + chosen.SUMMARY[1:]
    text = parser_of("clustersim", name, chosen).format_help().rstrip()
    return f"## clustersim {name}\n\n{summary}.\n\n```text\n{text}\n```\n"


def metrics() -> str:
    """The metrics of a training step, and those that training and serving both have."""
    return _metrics(name for name in METRICS if not any(name in known for known in (SERVING, JOBS, WORKFLOWS)))


def job_metrics() -> str:
    """The metrics that only runs of several jobs have."""
    return _metrics(JOBS)


def workflow_metrics() -> str:
    """The metrics that only workflows have."""
    return _metrics(WORKFLOWS)


def serving_metrics() -> str:
    """The metrics that only serving runs have."""
    return _metrics(SERVING)


def _metrics(names: Iterable[str]) -> str:
    rows = [(f"`{name}`", m.label, _unit(m), SENSES[m.sense]) for name in names if (m := METRICS[name])]
    return table(("name", "meaning", "unit", ""), rows)


def _unit(metric: Metric) -> str:
    return "ms" if metric.scale == 1e-3 else UNITS.get(metric.dimension, metric.dimension)


def schedules() -> str:
    """The pipeline schedules that a scenario may name."""
    return _registered((name, SCHEDULES.get(name)) for name in SCHEDULES.names())


def algorithms() -> str:
    """The collective algorithms."""
    return _registered((name, ALGORITHMS.get(name)) for name in ALGORITHMS.names())


def _registered(things: Iterable[tuple[str, Any]]) -> str:
    rows = [(f"`{name}`", (thing.__doc__ or "").split("\n\n")[0]) for name, thing in things]
    return table(("name", "what it does"), rows)
