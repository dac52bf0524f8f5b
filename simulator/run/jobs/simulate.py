"""Several jobs on one cluster: each alone in its place, then all on one site, and what became of each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.engine.load import Load, Span
from simulator.engine.wires import User, join, meet
from simulator.fabric.alike import marks
from simulator.results.result import Result
from simulator.run.clock_overflow import too_long
from simulator.run.jobs.colours import colours
from simulator.run.jobs.gather import gather
from simulator.run.jobs.meetings import Tally
from simulator.run.jobs.parts import as_serving, as_training
from simulator.run.jobs.perturbations import Disturbance, disturb
from simulator.run.jobs.placing import Devices, place
from simulator.run.jobs.serving import Server
from simulator.run.jobs.training import Trainer
from simulator.run.simulate import Fold, prepare
from simulator.run.site import Seat, Site
from simulator.specs.jobs import AnyJob, JobsScenario, TrainingJob
from simulator.specs.resolve import placed_below

Ints = NDArray[np.int64]

INTERVALS = 1024
"""Of the load of a link that are kept."""


def simulate_jobs(
    scenario: JobsScenario, *, fold: Fold | None = None, progress: Callable[[int], None] | None = None
) -> Result:
    """Simulate several jobs, each alone and all at one time.

    `fold` overrides that of all jobs that train. Raises InputError for what cannot be simulated, placements included.
    """
    try:
        with np.errstate(over="raise", invalid="raise"):
            together = Together(scenario, place(scenario), fold)
    except (OverflowError, FloatingPointError):
        raise too_long() from None
    together.run(progress)
    return gather(together)


@dataclass(slots=True, eq=False)
class Together:
    """Jobs on their site."""

    scenario: JobsScenario
    places: tuple[Devices, ...]
    fold: Fold | None = None
    site: Site = field(init=False)
    jobs: list[Trainer | Server] = field(init=False, default_factory=list)
    ended: dict[str, int] = field(init=False, default_factory=dict)
    """When each had done what counts."""
    disturbances: list[Disturbance] = field(init=False, default_factory=list)
    """Perturbations."""
    load: Load = field(init=False)
    tally: dict[int, Tally] = field(init=False, default_factory=dict)
    """What became of links on which jobs can meet."""
    met: dict[int, list[str]] = field(init=False, default_factory=dict)
    """Jobs that can meet on each link."""
    alike: dict[int, int] = field(init=False, default_factory=dict)
    """Of links that trainings load in the same way, the one that stands for them."""

    def __post_init__(self) -> None:
        """Run each alone."""
        self.site = Site(self.scenario.cluster, self.scenario.seed)
        for i, (job, devices) in enumerate(zip(self.scenario.jobs, self.places, strict=True)):
            with placed_below(f"jobs.{i}"):
                self.jobs.append(self._on_site(job, devices))

    def _on_site(self, job: AnyJob, devices: Devices) -> "Trainer | Server":
        if isinstance(job, TrainingJob):
            seat = Seat(self.site.fabric, np.array(devices, np.int64))
            alone = as_training(job, devices, self.scenario)
            return Trainer(job.name, job, prepare(alone, self.fold, seat=seat), self.site)
        return Server(job.name, job, as_serving(job, devices, self.scenario), devices, self.site)

    @property
    def trainers(self) -> dict[str, Trainer]:
        """Those that train."""
        return {job.name: job for job in self.jobs if isinstance(job, Trainer)}

    def run(self, progress: Callable[[int], None] | None) -> None:
        """Let all run at one time."""
        others: list[User] = []
        for job in self.jobs:
            if isinstance(job, Server):
                job.mount(self._measured(job.name))
                others += job.users
        for i, perturbation in enumerate(self.scenario.perturbations):
            self.disturbances.append(disturb(self.site, perturbation, f"perturbations.{i}"))
        others += [disturbance.schedule() for disturbance in self.disturbances]
        users = [*(trainer.user for trainer in self.trainers.values()), *others]
        meet(users, (self.site.fabric.capacity / units.TICKS_PER_SECOND).tolist())
        join(users)
        for user in users:
            for link in user.met if user.owner else ():
                self.met.setdefault(link, []).append(user.owner)
        self._bind(others)
        for trainer in self.trainers.values():
            trainer.start(self._measured(trainer.name), self._waiting)
        try:
            self.site.run(progress)
        except OverflowError:
            raise too_long() from None
        self.load.finish()

    def _bind(self, others: list[User]) -> None:
        """Tell trainings which links they share; of those that all load alike one stands for all."""
        meeting = {name: trainer for name, trainer in self.trainers.items() if trainer.meets}
        for trainer in meeting.values():
            trainer.prepare()
        while sum(meeting[name].refold(keys) for name, keys in colours(meeting, others).items()):
            pass
        needed = {name: trainer.needed for name, trainer in meeting.items()}
        links = np.unique(np.concatenate([np.zeros(0, np.int64), *needed.values()]))
        self.tally = {link: Tally() for link, names in self.met.items() if len(set(names)) > 1}
        self.load = self.site.clock.record(sorted({*links.tolist(), *self.met}), INTERVALS, self._count)
        if len(links):
            self.alike = self._stand_in(links, meeting.values(), others)
        for name, own in needed.items():
            kept = np.unique(np.array([self.alike[link] for link in own.tolist()], np.int64))
            meeting[name].bind(kept, self.load)

    def _stand_in(self, links: Ints, meeting: Iterable[Trainer], others: list[User]) -> dict[int, int]:
        """For each of some links the first of those that all trainings load alike."""
        touched = np.array([any(link in user.met for user in others) for link in links.tolist()])
        first_rows = [self.site.fabric.capacity[links], np.where(touched, np.arange(1.0, len(links) + 1), 0.0)]
        rows = (row for trainer in meeting for row in trainer.traffic.rows(links))
        _, first, number = np.unique(marks(chain(first_rows, rows), len(links)), return_index=True, return_inverse=True)
        return dict(zip(links.tolist(), links[first[number.reshape(-1)]].tolist(), strict=True))

    def _count(self, link: int, span: Span) -> None:
        """An interval of a link is over."""
        if (tally := self.tally.get(link)) is not None:
            tally.add(span)

    def _measured(self, name: str) -> Callable[[], None]:
        def done() -> None:
            self.ended[name] = self.site.clock.now
            for disturbance in self.disturbances if not self._waiting() else ():
                disturbance.end()

        return done

    def _waiting(self) -> bool:
        """Whether jobs have still to do what counts."""
        return len(self.ended) < len(self.jobs)
