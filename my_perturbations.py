# my_perturbations.py
from simulator.run.jobs.perturbations import PERTURBATIONS, Disturbance
from simulator.specs.base import Seconds, Spec


class FlappingKeys(Spec):
    up: Seconds
    """For how long links work."""
    down: Seconds
    """For how long they then do not."""


@PERTURBATIONS.add("flapping-links", FlappingKeys)
class FlappingLinks(Disturbance):
    """Links that come and go."""

    @property
    def takes(self):
        return {link: self.whole(link) for link in self.links}

    def begin(self):
        for link in self.links:
            self.leave(link, 0)
        self.after(self.spec.more.down, self.back)

    def back(self):
        for link in self.links:
            self.leave(link, 1)
        self.after(self.spec.more.up, self.begin)
