"""Why the best point of a frontier is the best, and what the next one lacks."""

from simulator import units
from simulator.study.frontier.search import Found, Point

NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "end to end"}


def why(found: Found) -> list[str]:
    """Sentences about the winner and the runner-up."""
    best, second = found.winner, found.runner_up
    if best is None:
        return []
    said = [
        f"{best.structure.name} wins: {best.per_device:,.0f} tokens/s on a device, for {best.decodes_per_device:.1f}"
        f" requests decode on a device at once and each gets {best.per_user:.1f} tokens/s"
    ]
    said += [_end(found, best)]
    if second is None:
        return [*said, "no other layout meets the objectives at any rate tried"]
    less = 1.0 - second.per_device / best.per_device
    far = f"{100 * less:.0f} % less" if less >= 0.005 else "as much"
    said.append(
        f"{second.structure.name} is next: {second.per_device:,.0f} tokens/s on a device, {far}, with"
        f" {second.decodes_per_device:.1f} requests at once and {second.per_user:.1f} tokens/s for each"
    )
    return [*said, _lacks(found, best, second)]


def _lacks(found: Found, best: Point, second: Point) -> str:
    """What keeps the runner-up from the winner's rate."""
    if second.rate >= best.rate * (1.0 - 1e-9):
        slower = best.per_user / second.per_user
        waits = f"{abs(100 * (slower - 1)):.0f} % {'longer' if slower >= 1 else 'less long'}"
        return f"it carries the same rate, and its users wait {waits} for a token"
    idle = found.devices - second.structure.copies * second.structure.devices
    own = f"; {idle} of {found.devices} devices stay idle" if idle else ""
    return f"what it lacks: {_end(found, second)}{own}"


def _end(found: Found, point: Point) -> str:
    """What ends the rates of a point's system."""
    higher = [one for one in found.points if one.rate > point.rate and one.structure == point.structure]
    missed = min((one for one in higher if not one.outcome.meets), key=lambda one: one.rate, default=None)
    if missed is None:
        alike = [one for one in found.points if one.rate > point.rate and one.kind == point.kind]
        missed = min((one for one in alike if not one.outcome.meets), key=lambda one: one.rate, default=None)
    if missed is None:
        rate = units.plain(point.rate, 4)
        return f"no higher rate than {rate} requests/s was tried with it: bounds or guesses rule that out"
    return f"at {units.plain(missed.rate, 4)} requests/s {reached(missed)}"


def reached(point: Point) -> str:
    """What a point that misses falls short of."""
    if point.outcome.state == "grows":
        return "its queue grows as long as requests come"
    if not point.outcome.objectives:
        return f"it is {point.outcome.state}: {point.outcome.reason}"
    name, limit, share, kept = min(point.outcome.objectives, key=lambda goal: goal[2])
    far = "never" if kept is None else units.format(kept, "time")
    return (
        f"only {100 * share:.0f} % of requests are within {NAMES[name]} {units.format(limit, 'time')}"
        f" (the wanted share within {far})"
    )
