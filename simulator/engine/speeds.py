"""Solutions of the solver, kept: the speeds of activities that share, by what they use.

Phases that use the same have one number, whatever they last. A component is known by the numbers of its members in the
order of discovery; which of its resources are scarce follows from them, as long as no capacity changes.
"""

from collections.abc import Callable, Mapping, Sequence

from simulator.engine.running import Needs, Phase, Running
from simulator.engine.tape import RESERVED, Activity, Use

Solver = Callable[[Sequence[Sequence[Use]], Mapping[int, float]], Sequence[float]]
"""(uses, capacity) -> speed of each activity in [0, 1].

`uses[i]` are the uses of activity i: it takes `rate` units per tick of a resource at full speed and counts as `flows`
flows there, `RESERVED` where it keeps the rate at any speed. `capacity` is in units per tick, by resource, in the order
in which uses name them. Must be a pure function.
"""

REMEMBERED = 4096
"""Components whose speeds are kept."""


class Speeds:
    """Phases by number, and the speeds of those that met."""

    def __init__(self, solver: Solver | None) -> None:
        """Know nothing."""
        self.solver = solver
        self.needs: dict[tuple[Use, ...], Needs] = {}
        """What phases use; numbered in the order of appearance."""
        self._seen: dict[int, Needs] = {}
        """The same by the identity of what is used, as many uses take long to hash."""
        self.known: dict[tuple[int, ...], Sequence[float]] = {}
        """Speeds by the numbers of the phases of a component; void when a capacity changes."""

    def phases(self, activity: Activity) -> tuple[Phase, ...]:
        """The phases of an activity, with their numbers."""
        if not activity.then:
            return (self._phase(activity),)
        return tuple(self._phase(part) for part in activity.phases)

    def _phase(self, activity: Activity) -> Phase:
        uses = activity.uses
        needs = self._seen.get(id(uses))
        if needs is None or needs.uses is not uses:
            needs = self.needs.get(uses)
            if needs is None:
                needs = self.needs[uses] = self._seen[id(uses)] = _needs(uses, len(self.needs))
        return Phase(int(activity.latency), int(activity.work), needs)

    def of(
        self, component: list[Running], scarce: Callable[[Running], Sequence[Use]], capacity: list[float]
    ) -> Sequence[float]:
        """Speeds of a component, given what each uses of scarce resources: those that are kept, else the solver's."""
        numbers = tuple([member.needs.number for member in component])
        speeds = self.known.get(numbers)
        if speeds is None:
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            speeds = self.known[numbers] = self.ask([scarce(member) for member in component], capacity)
        return speeds

    def ask(self, uses: Sequence[Sequence[Use]], capacity: list[float]) -> Sequence[float]:
        """Call the solver with what the members of a component use of scarce resources."""
        if self.solver is None:
            raise ValueError("resources are shared: the clock needs a solver")
        named = dict.fromkeys([use[0] for mine in uses for use in mine])
        return self.solver(uses, {resource: capacity[resource] for resource in named})


def _needs(uses: tuple[Use, ...], number: int) -> Needs:
    reserved: dict[int, float] = {}
    for resource, rate, flows in uses:
        if flows == RESERVED:
            reserved[resource] = reserved.get(resource, 0.0) + rate
    return Needs(uses, number, tuple(use.resource for use in uses), reserved, len(uses) == 1)
