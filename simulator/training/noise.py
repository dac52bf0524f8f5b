"""What makes steps and devices differ, as factors by device and step and as links with less bandwidth.

A device's factor multiplies what its kernels take: the slowdown of a straggler, for the whole run, times a jitter that
is drawn for each device and step. The jitter is log-normal with mean 1 and the given standard deviation: never
negative, and a device's mean step computes as long as without it. Steps, and devices in one step, are drawn apart.
What is left out: noise that lasts (a device that is warm for minutes), slowness that nodes share, noise of the network.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.random import stream
from simulator.specs.noise import Noise, SlowLinks, Stragglers

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PATH = "training.noise"
MOST_FACTORS = 50_000_000
"""Devices x steps above which jitter is refused rather than run out of memory."""
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Perturbation:
    """What a scenario's noise does to one machine."""

    fabric: Fabric
    """With its slow links."""
    factors: Floats | None
    """How many times as long kernels take; shape (steps, devices), one row where all steps are equal, None where
    nothing is slowed."""
    slow: Ints
    """Links with less than their bandwidth."""
    assumptions: tuple[str, ...]
    """What the seed decided."""


def perturb(
    noise: Noise, fabric: Fabric, steps: int, seed: int, devices: int | None = None, paces: Floats | None = None
) -> Perturbation:
    """Draw what a scenario leaves to the seed, of so many devices, all of the fabric where left out; InputError for
    devices and links that are not there.

    `paces`, shape (devices,), are how many times as long each device takes over its kernels anyway.
    """
    said: list[str] = []
    slow = np.zeros(0, np.int64)
    if noise.slow_links is not None:
        slow = _links(noise.slow_links, fabric, seed, said)
        fabric = fabric.slowed(slow.tolist(), noise.slow_links.factor)
    factors = _factors(noise, fabric.devices if devices is None else devices, steps, seed, said)
    if paces is not None:
        factors = paces[None, :] if factors is None else factors * paces
    return Perturbation(fabric, factors, slow, tuple(said))


def slowdowns(meeting: Collection[Ints], chains: Ints, factors: Floats) -> Floats:
    """Factors of each place of each chain by step: (steps, devices) to (chains, pp, steps).

    Devices of a group that meets in every layer go at the pace of its slowest; `meeting` has the groups of every kind
    (groups, devices of a group), which may overlap.
    """
    by_rank, before = factors.copy(), np.zeros(0)
    while not np.array_equal(by_rank, before):
        before = by_rank.copy()
        for groups in meeting:
            by_rank[:, groups] = by_rank[:, groups].max(axis=2, keepdims=True)
    return np.ascontiguousarray(np.moveaxis(by_rank[:, chains], 0, -1))


def fold_keys(pace: Floats) -> Ints:
    """Numbers of chains, equal where they are perturbed alike in every step; (chains, pp, steps) to (chains,)."""
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(chain.tobytes(), len(known)) for chain in pace], np.int64)


def joined(*keys: Ints) -> Ints:
    """Numbers of chains, equal where all of some numbers are; (chains,) each."""
    found: Ints = np.unique(np.stack(keys), axis=1, return_inverse=True)[1].reshape(-1)
    return found


def _factors(noise: Noise, devices: int, steps: int, seed: int, said: list[str]) -> Floats | None:
    if noise.stragglers is None and not noise.jitter:
        return None
    factors = np.ones((1, devices))
    if noise.stragglers is not None:
        factors[:, _stragglers(noise.stragglers, devices, seed, said)] = noise.stragglers.slowdown
    return factors * _jitter(noise.jitter, devices, steps, seed) if noise.jitter else factors


def _jitter(spread: float, devices: int, steps: int, seed: int) -> Floats:
    """Log-normal factors of mean 1 and standard deviation `spread`; shape (steps, devices).

    Drawn step by step, so that more steps leave the first ones as they are.
    """
    if devices * steps > MOST_FACTORS:
        message = f"jitter of {devices:,} devices over {steps:,} steps needs more than {MOST_FACTORS:,} draws"
        raise InputError(Problem(message, path="training.steps", hint=f"at most {MOST_FACTORS // devices:,} steps"))
    variance = np.log1p(spread**2)
    normal = stream(seed, f"{PATH}.jitter").standard_normal((steps, devices))
    factors: Floats = np.exp(np.sqrt(variance) * normal - variance / 2)
    return factors


def _stragglers(spec: Stragglers, devices: int, seed: int, said: list[str]) -> Ints:
    """Indices of the slow devices."""
    path = f"{PATH}.stragglers"
    if spec.devices:
        wrong = [device for device in spec.devices if device >= devices]
        if wrong:
            message = f"there is no device {_listed(wrong)}: the cluster has {devices:,}, from 0 on"
            raise InputError(Problem(message, path=f"{path}.devices", hint=f"at most {devices - 1}"))
        return np.unique(np.array(spec.devices, np.int64))
    chosen = _drawn(devices, spec.count or 0, seed, path, "devices")
    said.append(f"stragglers are not named: devices {_listed(chosen.tolist())} (seed {seed})")
    return chosen


def _links(spec: SlowLinks, fabric: Fabric, seed: int, said: list[str]) -> Ints:
    """The slow links."""
    path = f"{PATH}.slow_links"
    if spec.links:
        return np.unique(np.concatenate([_named(name, fabric, f"{path}.links") for name in spec.links]))
    cards = fabric.kinds.index("NIC up") if "NIC up" in fabric.kinds else None
    if cards is None:
        chosen = _drawn(len(fabric.capacity), spec.count or 0, seed, path, "links")
        said.append(f"slow_links are not named: {_listed([fabric.links[i] for i in chosen.tolist()])} (seed {seed})")
        return chosen
    up, down = fabric.block_start[cards], fabric.block_start[cards + 1]
    chosen = _drawn(down - up, spec.count or 0, seed, path, "network cards")
    said.append(f"slow_links are not named: network cards (NIC) {_listed(chosen.tolist())} (seed {seed})")
    return np.concatenate([up + chosen, down + chosen])


def _named(name: str, fabric: Fabric, path: str) -> Ints:
    found = fabric.find(name)
    if not found:
        ends = zip(fabric.kinds, fabric.block_start, [*fabric.block_start[1:], len(fabric.capacity)], strict=True)
        examples = [f"`{fabric.links[stop - 1]}`" for _, start, stop in ends if stop > start]
        hint = f"the last of each kind: {', '.join(examples)}" if examples else ""
        raise InputError(Problem(f"the cluster has no link `{name}`", path=path, hint=hint))
    return np.array(found, np.int64)


def _drawn(among: int, count: int, seed: int, path: str, what: str) -> Ints:
    if count > among:
        message = f"{count:,} {what} are to be slow, and the cluster has {among:,}"
        raise InputError(Problem(message, path=f"{path}.count", hint=f"at most {among}"))
    # A permutation, so that one more keeps those that were drawn before.
    return np.sort(stream(seed, path).permutation(among)[:count]).astype(np.int64)


def _listed(things: Sequence[object]) -> str:
    more = f" and {len(things) - _SHOWN} more" if len(things) > _SHOWN else ""
    return ", ".join(map(str, things[:_SHOWN])) + more
