"""What a figure of a collective profile is likely to be before any row of it is seen, from profiles of other devices.

A library is the same program on every device, so its launches, hops and protocols' shares of a link are alike; links
themselves are the cluster's. The prior of a figure is the median of the logarithms that its nearest kin have measured,
and its spread how much these differ, no less than `SPREADS`. Nearest kin: inside a node the profile that this one
extends, then profiles of the same library, then all; between nodes those on the same network first. What others took
over from this profile is no measurement of theirs and is left out, as are their estimates. What a farther one measured
comes before what a nearer one read in its library: lines of LL128 are expected to move 0.9 of a card, and move 0.2. A
figure that no kin has measured is that of a sibling protocol (`SIBLINGS`), which runs the same loop, else the middle of
what is searched.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from simulator.calibration.collectives.figures import BOUNDS, counted, figures_of, kind_of
from simulator.specs.catalog import names
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

SPREADS: Mapping[str, float] = {
    "launch": 0.4,
    "latency": 0.4,
    "efficiency": 0.15,
    "fraction": 0.7,
    "bytes": 0.7,
    "wait": 0.7,
    "piece_bytes": 0.7,
    "own_piece": 0.4,
}
"""Least standard deviation of the logarithm of a figure between devices: how far the measured ones of
`nccl-a100`, `nccl-h100` and `nccl-b200` lie apart (launches 0.3 to 0.5, efficiencies 0.06 to 0.2)."""
ALONE = 2
"""How much wider the spread of a figure is that one other profile has."""
READ = 0.7
"""Least standard deviation of one that is read in a library's source: its tables are of what it expects, not of what it
reaches (0.12 of a card under LL, where 0.01 to 0.02 are measured)."""
UNKNOWN = 1.5
"""That of a figure that nothing is known of."""
NETWORKS = ("-efa", "-omnipath", "-slingshot", "-tcpxo")
"""How the names of profiles end that are of a network of its own kind."""
SIBLINGS: Mapping[str, tuple[str, ...]] = {
    "LL128.trees": ("LL128",),
    "Simple": ("Simple tree",),
    "Simple tree": ("Simple",),
    "NVLS tree": ("NVLS", "Simple"),
    "copy": ("Simple",),
    "copy LL": ("LL",),
    "send": ("copy", "Simple"),
    "send and receive": ("send", "copy", "Simple"),
}
"""Protocols by what is most like them: trees and rings differ in their ways, sends and all-to-alls in their peers."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Means and standard deviations of the logarithms of figures, by path."""

    middle: Mapping[str, float]
    spread: Mapping[str, float]

    def values(self) -> dict[str, float]:
        """The figures themselves."""
        return {path: float(np.exp(log)) for path, log in self.middle.items()}


def prior(name: str, profile: CollectiveProfile) -> Prior:
    """What each measured figure of a profile is likely to be, by the other profiles that ship."""
    own, wanted = figures_of(profile)
    middle, spread = {}, {}
    for path in wanted:
        logs, seen = _known(name, path, own)
        kind = kind_of(path)
        if logs:
            middle[path] = float(np.median(logs))
            spread[path] = max(
                SPREADS[kind] * (1 if len(logs) > 1 else ALONE), float(np.std(logs)), 0 if seen else READ
            )
        else:
            middle[path], spread[path] = float(np.log(BOUNDS[kind]).mean()), UNKNOWN
        middle[path] = float(np.clip(middle[path], *np.log(BOUNDS[kind])))
    return Prior(middle, spread)


def held(profile: CollectiveProfile) -> Prior:
    """The figures that a profile has, each as well known as it is from one device to another."""
    own, wanted = figures_of(profile)
    logs = {path: float(np.clip(np.log(own[path]), *np.log(BOUNDS[kind_of(path)]))) for path in wanted}
    return Prior(logs, {path: SPREADS[kind_of(path)] for path in wanted})


def _known(name: str, path: str, own: Mapping[str, float]) -> tuple[list[float], bool]:
    """Logarithms of what the nearest kin have that measured a figure or read it in a library, or else a sibling's; and
    whether it was measured."""
    for like, figures, kin in product(_alike(path), (_measured, _counted), _kin(name, "scale_out" in path)):
        taken_over = set() if kin == [_without_network(name)] else {own.get(path), own.get(like)}
        found = {value for other in kin if (value := figures(other).get(like, 0.0)) > 0.0} - taken_over
        if found:
            return [float(np.log(value)) for value in sorted(found)], figures is _measured
    return [], False


def _alike(path: str) -> Iterator[str]:
    """A figure, and those of the protocols most like its own, the nearest first."""
    yield path
    protocol, dot, figure = path.partition(".scale_")
    for like in SIBLINGS.get(protocol, ()) if dot else ():
        yield f"{like}{dot}{figure}"


def _kin(name: str, between: bool) -> Iterator[list[str]]:
    """Other profiles, the nearest first."""
    others = [other for other in names(CollectiveProfile) if other != name and _measured(other)]
    same = [other for other in others if other.partition("-")[0] == name.partition("-")[0]]
    plain = _without_network(name)
    if between:
        network = name.removeprefix(plain)
        yield [other for other in same if other.removeprefix(_without_network(other)) == network]
    elif plain != name:
        yield [plain]
    yield same
    yield others


def _without_network(name: str) -> str:
    """The profile of the same devices on the usual network."""
    return next((name.removesuffix(word) for word in NETWORKS if name.endswith(word)), name)


@cache
def _measured(name: str) -> Mapping[str, float]:
    """The measured figures of a shipped profile, without those that stand for nothing."""
    values, measured = figures_of(load_spec(CollectiveProfile, name))
    return {path: values[path] for path in measured if values[path] > 1e-12}


@cache
def _counted(name: str) -> Mapping[str, float]:
    """The figures that a shipped profile has from a library's source."""
    return counted(load_spec(CollectiveProfile, name))
