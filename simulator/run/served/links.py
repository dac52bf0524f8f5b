"""Links of a cluster that a fleet's rules let fail, found by their names."""

from collections.abc import Sequence
from dataclasses import dataclass

from simulator import units
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.interop.failures import Failure
from simulator.run.site import Site
from simulator.serving.fleet.breakdowns import Planned
from simulator.serving.fleet.links import LinkBreakdowns
from simulator.serving.fleet.operations import Operations
from simulator.specs.fleet import Failures

PATH = "serving.fleet.failures.links.names"
WORD = "link "
"""What stands before the name of a link in a trace."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A row of a trace of failures."""

    failure: Failure
    links: tuple[int, ...]
    """Links that it names; none where it names something else."""


def traced(rows: Sequence[Failure], path: str, fabric: Fabric) -> tuple[Traced, ...]:
    """Rows with the links that they name; InputError, with its line, for one that is not there."""
    found = []
    for row in rows:
        links: tuple[int, ...] = ()
        if row.what.startswith(WORD) and not (links := fabric.find(row.what.removeprefix(WORD))):
            message = f"the cluster has no link `{row.what.removeprefix(WORD)[:40]}`"
            raise InputError(Problem(message, path, row.line, path="what", hint=_known(fabric)))
        found.append(Traced(row, links))
    return tuple(found)


def link_breakdowns(rules: Failures, trace: Sequence[Traced], site: Site, ops: Operations) -> LinkBreakdowns | None:
    """What lets links fail; None where none do. InputError for one that is not there."""
    things = {row.failure.what.removeprefix(WORD): row.links for row in trace if row.links}
    for i, name in enumerate(() if rules.links is None else rules.links.names):
        things[name] = site.fabric.find(name)
        if not things[name]:
            message = f"the cluster has no link `{name[:40]}`"
            raise InputError(Problem(message, path=f"{PATH}.{i}", hint=_known(site.fabric)))
    if not things:
        return None
    planned = [
        Planned(units.to_ticks(row.failure.start_s), name, units.to_ticks(row.failure.until_s))
        for row in trace
        if row.links and (name := row.failure.what.removeprefix(WORD))
    ]
    every = sorted({link for links in things.values() for link in links})
    capacity = {link: float(site.fabric.capacity[link]) / units.TICKS_PER_SECOND for link in every}
    given = things, planned, site.seed, capacity
    by = object()

    def leave(link: int, share: float) -> None:
        site.leave(by, link, share)

    return LinkBreakdowns(ops.agenda, rules.links, *given, leave, ops.goes_on)


def _known(fabric: Fabric) -> str:
    last = [fabric.links[stop - 1] for stop in (*fabric.block_start[1:], len(fabric.capacity)) if stop]
    return f"the last of each kind: {', '.join(f'`{one}`' for one in last)}"
