"""A fleet: replicas that start, come and go with the load, fail, are replaced; what stands before and after them."""

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from simulator.specs.base import Bandwidth, Count, Interval, Percentage, Seconds, Spec
from simulator.specs.distribution import Distribution

LEAST_APART = 1e-3
"""Seconds that many events are apart at least in a scenario: each is simulated."""
MOST_RETRIES = 1000
"""Times that a request is tried again at most."""


class StartUp(Spec):
    """What a replica goes through before it takes requests: a machine, its weights, then compiling and capturing."""

    provisioning: Seconds = 0.0
    """Until there is a machine with the software on it: a node from a pool, a container pulled and begun."""
    storage: Bandwidth | None = None
    """Rate at which one replica reads its weights (all its devices together); no time where left out."""
    storage_together: Bandwidth | None = None
    """Rate of the storage for all replicas that read at one time, which they share; as much as they ask where left
    out."""
    warm_up: Seconds = 0.0
    """After the weights: kernels compiled, memory profiled, graphs captured."""
    at_start: Literal["warm", "cold"] = "warm"
    """Whether the replicas of the start take requests from the beginning, or go through all this first."""


class ScheduledCount(Spec):
    """So many replicas from a time on."""

    at: Seconds
    """From when."""
    replicas: Annotated[int, Field(ge=0, le=1_000_000)]
    """How many are wanted."""


class Autoscaling(Spec):
    """Replicas come and go by a rule."""

    rule: str = "concurrency"
    """`concurrency` (requests that a replica has, as Knative and Ray Serve count), `queue` (requests that wait for each
    replica), `utilisation` (share of the time in which replicas work), `rate` (requests/s that come for each), or
    `schedule`."""
    target: Annotated[float, Field(gt=0)] | None = None
    """What a replica should have of it: as many replicas are wanted as give each this much. Needed for all rules but
    `schedule`."""
    min: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """Fewest replicas; with 0 all leave when nothing is asked, and requests wait at the gateway for the first."""
    max: Count
    """Most replicas; the cluster needs room for them."""
    start: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Replicas at the start; `serving.replicas` where left out."""
    check: Interval = 15.0
    """Time between two looks. Rates and utilisation are those since the last one."""
    up_cooldown: Seconds = 0.0
    """Replicas are added this long after the last change at the earliest."""
    cooldown: Seconds = 300.0
    """Replicas are taken away this long after the last change at the earliest."""
    tolerance: Percentage = 0.1
    """Nothing changes while the figure is within this of its target (10 % in Kubernetes)."""
    step: Count | None = None
    """Most replicas that are added or taken away at one look; no limit where left out."""
    schedule: tuple[ScheduledCount, ...] = ()
    """For `schedule`: replicas wanted over time, rising in time."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"`min` {self.min} is above `max` {self.max}")
        if self.start is not None and self.start > self.max:
            raise ValueError(f"`start` {self.start} is above `max` {self.max}")
        planned = self.rule == "schedule"
        if planned != bool(self.schedule):
            raise ValueError("write `rule: schedule` with `schedule: [{at, replicas}]`, or neither of them")
        if not planned and self.target is None:
            raise ValueError(f"`rule: {self.rule}` needs a `target`: what each replica should have of it")
        if self.rule == "utilisation" and self.target is not None and self.target > 1:
            raise ValueError(f"a utilisation is at most 1, not {self.target:g}: write 0.7 for 70 %")
        times = [entry.at for entry in self.schedule]
        if times != sorted(set(times)):
            raise ValueError("the times of `schedule` rise")
        return self


class LinkFailures(Spec):
    """Links of the cluster that fail by chance: nothing passes them until they are repaired."""

    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=100_000)]
    """Which: `NIC 3` (both directions of a card), `NIC up 3`, `leaf 2`, as `clustersim network` and reports name them.
    Each fails for itself."""
    mtbf: Interval
    """Mean time between failures of one of them, counted while it works; exponential."""
    repair: Distribution = Distribution.model_construct(fixed=60.0)
    """Seconds until it works again."""

    @field_validator("names")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"`{twice}` is listed twice")
        return names


class Failures(Spec):
    """Replicas that fail, and what becomes of the requests that they have."""

    mtbf: Interval | None = None
    """Mean time between failures of one thing of `of`, counted while it is up; exponential. None fail by chance where
    left out."""
    of: Literal["replica", "node"] = "replica"
    """What fails by chance: single replicas, or nodes with all replicas that have devices on them."""
    repair: Distribution = Distribution.model_construct(fixed=600.0)
    """Seconds from a failure until a replica may start again."""
    trace: str | None = None
    """CSV file of failures with the columns `time`, `what`, `until` (seconds, or with a unit): `what` is a replica by
    its name in reports, `replica 3`, a node, `node 0`, counted from 0, or a link, `link NIC 3`."""
    links: LinkFailures | None = Field(default=None, exclude_if=lambda links: links is None)
    """Links that fail by chance; none do where left out."""
    traffic: Literal["wait", "reroute"] = Field(default="wait", exclude_if=lambda traffic: traffic == "wait")
    """What becomes of caches between `prefill` and `decode` pools whose way has a link that is down. `wait`: they go on
    when it is repaired; `reroute`: they start again over other devices and cards of both nodes, where all of these are
    down to another decode replica. Collectives wait in either case."""
    detection: Seconds = 0.0
    """From a failure until the router knows; requests that are sent there meanwhile share the fate of the others."""
    requests: Literal["retry", "migrate", "fail", "resume"] = "retry"
    """What becomes of requests in flight. `retry`: asked again from the start, tokens that came out are lost;
    `migrate`: another replica computes their cache again and goes on after the last token; `fail`: the client gets an
    error; `resume`: the replica stands still and goes on after the repair, with its memory (a link that was down, a
    process that was stopped)."""
    retries: Annotated[int, Field(ge=0, le=MOST_RETRIES)] = 3
    """How often a request is tried again before it fails."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.mtbf is None and self.trace is None and self.links is None:
            raise ValueError(
                "write `mtbf`, the mean time between failures, or `trace`, a file of them, or `links` that fail"
            )
        if self.requests == "resume" and self.detection:
            raise ValueError("with `requests: resume` nothing is sent elsewhere: leave `detection` out")
        return self


class RollingUpdate(Spec):
    """All replicas replaced, a few at a time: each takes no more requests, finishes what it has, and starts again."""

    at: Seconds
    """When it begins."""
    at_once: Count = 1
    """Replicas that are away at one time (Kubernetes' `maxUnavailable`)."""


class Admission(Spec):
    """When a request is turned away at the door."""

    queue: Count | None = None
    """A replica with so many requests waiting takes no more: the client gets an error (vLLM's
    `max_num_queued_reqs`)."""
    outstanding: Count | None = None
    """Most requests in the fleet at once."""
    gateway: Count | None = None
    """Most requests that wait at the gateway while no replica is up."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.queue is None and self.outstanding is None and self.gateway is None:
            raise ValueError("write `queue`, `outstanding` or `gateway`: a number of requests")
        return self


MOST_FAILING = 100_000
"""Servers of a station that fail."""
REPAIR = Distribution.model_construct(fixed=60.0)
"""Seconds that the repair of a server takes."""


class Station(Spec):
    """Servers that work on requests before or after the model, each on one at a time, first come first served."""

    aliases: ClassVar[dict[str, str]] = {"workers": "servers"}

    name: str
    """What it is: gateway, tokeniser, vision encoder."""
    servers: Count | None = None
    """How many work beside each other; as many as there are requests where left out, so that it is a delay."""
    time: Distribution = Distribution.model_construct(fixed=0.0)
    """Seconds for a request."""
    per_token: Seconds = 0.0
    """Seconds more for each token: of the prompt before the model, of the answer after it."""
    mtbf: Interval | None = Field(default=None, exclude_if=lambda time: time is None)
    """Mean time between failures of one server, counted while it is up, busy or idle; exponential, at least 1 ms. None
    fail where left out."""
    repair: Distribution = Field(default=REPAIR, exclude_if=lambda repair: repair == REPAIR)
    """Seconds from a failure until the server works again; it then goes on with the request that it had."""

    @model_validator(mode="after")
    def _some_to_fail(self) -> Self:
        if self.mtbf is not None and self.servers is None:
            raise ValueError(f"servers of the station `{self.name}` fail one by one: write how many `servers` it has")
        if self.mtbf is not None and (self.servers or 0) > MOST_FAILING:
            raise ValueError(
                f"of the station `{self.name}` at most {MOST_FAILING:,} `servers` fail, not {self.servers:,}"
            )
        if self.mtbf is None and self.states("repair"):
            raise ValueError(
                f"`repair` of the station `{self.name}` follows failures: write `mtbf` too, or leave it out"
            )
        return self


class Fleet(Spec):
    """What a fleet does beside running its replicas."""

    start_up: StartUp = StartUp.model_construct()
    """What a replica goes through before it takes requests."""
    autoscaling: Autoscaling | None = None
    """A rule by which replicas come and go; they stay where left out."""
    failures: Failures | None = None
    """Replicas that fail; none do where left out."""
    rolling_update: RollingUpdate | None = None
    """Replicas that are replaced while requests come."""
    admission: Admission | None = None
    """When requests are turned away."""
    before: tuple[Station, ...] = ()
    """Stations that a request passes before it is routed to a replica."""
    after: tuple[Station, ...] = ()
    """Stations that an answer passes when it is complete."""

    @property
    def changes(self) -> bool:
        """Whether replicas come, go or fail."""
        moves = self.autoscaling, self.failures, self.rolling_update
        return any(rule is not None for rule in moves) or self.start_up.at_start == "cold"

    @property
    def intervals(self) -> Iterator[tuple[str, float | None]]:
        """Seconds from one of many events to the next, with the keys that state them."""
        if self.autoscaling is not None:
            yield "fleet.autoscaling.check", self.autoscaling.check
        if self.failures is not None:
            yield "fleet.failures.mtbf", self.failures.mtbf
            yield "fleet.failures.links.mtbf", getattr(self.failures.links, "mtbf", None)
        for key, stations in (("before", self.before), ("after", self.after)):
            yield from ((f"fleet.{key}.{place}.mtbf", station.mtbf) for place, station in enumerate(stations))

    @model_validator(mode="after")
    def _stations(self) -> Self:
        names = [station.name for station in (*self.before, *self.after)]
        if len(set(names)) < len(names):
            raise ValueError("stations have different names")
        return self


def check_apart(intervals: Iterable[tuple[str, float | None]]) -> None:
    """Raise ValueError where events by key come more often than they can be simulated."""
    for key, seconds in intervals:
        if seconds is not None and seconds < LEAST_APART:
            raise ValueError(f"each of many events is simulated: `{key}` is 1 ms or more, not {1e3 * seconds:g} ms")
