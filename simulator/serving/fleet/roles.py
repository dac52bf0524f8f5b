"""Replicas that change their role between prefill and decode as the load does.

At regular times waiting requests are counted: prompts in the queues of prefill replicas, and finished prompts whose
cache no decode replica has room for, each for a group of its side (a replica, or those that share experts). Where one
side has more than `above` and the other less than `below`, a group of the other takes no more work, finishes what it
has, and joins the first side after `delay`. One group of each role always stays, and one group changes at a time.
Requests in the queue of a replica stay there.

Sources: "role switching" of DistServe's and Dynamo's planners; what a change takes is stated by the scenario.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.engine.agenda import Agenda
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.replica.replica import Replica
from simulator.specs.serving import Switching
from simulator.units import to_ticks

Group = Sequence[Replica]


@dataclass(slots=True)
class RoleSwitch:
    """The two sides, and the group on its way from one to the other."""

    agenda: Agenda
    rules: Switching
    sides: dict[str, list[Group]]
    """Groups of each role that take work."""
    transfer: KvTransfer
    entrances: list[Replica]
    """Where new requests come in; the list is changed in place."""
    busy: Callable[[], bool]
    """Whether there are requests that are not done."""
    leaving: tuple[Group, str] | None = None
    """A group that takes no more work, and its next role."""
    changes: list[tuple[int, str, str]] = field(default_factory=list)
    """(tick, first replica of the group, new role)."""

    def watch(self) -> None:
        """Begin to look."""
        self.agenda.at(self.agenda.now + to_ticks(self.rules.check), self._look)

    def _look(self, _: Any) -> None:
        if not self.busy():
            return
        if self.leaving is None:
            self._part()
        elif all(replica.empty for replica in self.leaving[0]):
            group, role = self.leaving
            self.agenda.at(self.agenda.now + to_ticks(self.rules.delay), lambda _: self._join(group, role))
        self.watch()

    def waiting(self) -> dict[str, float]:
        """Requests that wait on each side, for each of its groups."""
        prompts = sum(len(replica.waiting) for group in self.sides["prefill"] for replica in group)
        caches = len(self.transfer.queue)
        return {"prefill": prompts / len(self.sides["prefill"]), "decode": caches / len(self.sides["decode"])}

    def _part(self) -> None:
        """Take a group off the side that has time, if the other has not."""
        waiting = self.waiting()
        for role, other in (("prefill", "decode"), ("decode", "prefill")):
            groups = self.sides[other]
            if waiting[role] > self.rules.above and waiting[other] < self.rules.below and len(groups) > 1:
                group = min(groups, key=lambda one: sum(replica.outstanding for replica in one))
                groups.remove(group)
                self.leaving = group, role
                self._tell()
                return

    def _join(self, group: Group, role: str) -> None:
        if self.leaving is None or self.leaving[0] is not group:
            return
        self.leaving = None
        for replica in group:
            replica.become(role)
        self.sides[role].append(group)
        self.changes.append((self.agenda.now, group[0].name, role))
        self._tell()
        self.transfer.room()

    def _tell(self) -> None:
        """Give the router the replicas that prefill, and the transfer those that decode."""
        self.entrances[:] = [replica for group in self.sides["prefill"] for replica in group]
        self.transfer.decoders = [replica for group in self.sides["decode"] for replica in group]
