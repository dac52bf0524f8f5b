"""A perturbation as a plug-in: copies that leave over some links again and again, as traffic that shares them."""

from collections.abc import Mapping

from simulator.run.jobs.perturbations import PERTURBATIONS, Disturbance
from simulator.specs.base import Bandwidth, Bytes, Seconds, Spec


class BackupKeys(Spec):
    """What files say of backups."""

    size: Bytes
    """Of each copy."""
    rate: Bandwidth
    """At which it leaves where nobody is in its way."""
    pause: Seconds
    """From the end of a copy to the beginning of the next one."""


@PERTURBATIONS.add("backups", BackupKeys)
class Backups(Disturbance):
    """One copy after the other over each link."""

    @property
    def keys(self) -> BackupKeys:
        assert isinstance(self.spec.more, BackupKeys)
        return self.spec.more

    @property
    def takes(self) -> Mapping[int, float]:
        return {link: min(self.keys.rate, self.whole(link)) for link in self.links}

    def begin(self) -> None:
        for link in self.links:
            self.copy(link)

    def copy(self, link: int) -> None:
        self.send(link, self.keys.size, self.takes[link], lambda: self.after(self.keys.pause, lambda: self.copy(link)))
