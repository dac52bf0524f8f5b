"""What a scenario stands on, and how far measured runs may lie from it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.results.ground import Ground
from simulator.results.spread import REQUEST, Spread
from simulator.run.ground import ground
from simulator.run.spread import compared
from simulator.run.spread.near import like
from simulator.run.spread.residuals import spreads
from simulator.specs.scenario import has_jobs, is_workflow, serves

if TYPE_CHECKING:
    from simulator.specs.requests import Requests
    from simulator.specs.scenario import AnyRun


def grounded(scenario: "AnyRun") -> Ground:
    """The ground of a scenario with the spreads of its figures; several jobs and stages have theirs each on its own."""
    found = ground(scenario)
    if has_jobs(scenario) or is_workflow(scenario) or not found.kind:
        return found
    own = like(scenario)
    known = dict(spreads(own))
    if serves(scenario) and not _saturating(scenario.requests):
        known.pop(REQUEST, None)  # rates are those of the arrivals
    if found.validation.changed:
        known = {about: _other_figures(spread) for about, spread in known.items()}
    return replace(found, spreads=known, circumstances=compared.stated(own))


def _saturating(requests: "Requests") -> bool:
    """Whether how fast requests are served decides how many come."""
    if requests.arrivals.given:
        return requests.arrivals.closed_loop is not None or requests.arrivals.at_once is not None
    return requests.trace is None


def _other_figures(spread: Spread) -> Spread:
    """The spread of a run with figures of its own, for which no published run speaks."""
    return replace(spread, rows=0, differ="the figures of the profiles")
