"""How many rows the experts of a device work on, how many of these experts have any, and which ranks send them.

Of R rows of all ranks, each with k experts, expert e is chosen by a share p_e of them; of its copies each takes as many
rows. A device that holds m_e-th parts of experts works on the sum of R p_e / m_e copies, and an expert's copy has work
with probability 1 - (1 - p_e)^(R / m_e), rows choosing independently of each other. All wait for the device with most
to do: the one with most rows, or the one that reads most experts.

With `random` all experts are alike and the noise of sampling decides: the mean over draws, for powers of two of rows.
With `uneven` the popularity of experts is drawn as well (a Dirichlet distribution), unless a balancer packs heavy
experts with light ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import log2

import numpy as np
from numpy.typing import NDArray

from simulator import collectives
from simulator.cost.device import Device
from simulator.cost.experts import experts_hit
from simulator.errors import InputError, Problem
from simulator.parallel.experts import copies_of, places_of, replicas_of, shares_of, travels
from simulator.random import stream
from simulator.serving.costs.formats import Formats
from simulator.specs.model import Model
from simulator.specs.serving import ServingStack
from simulator.specs.training import RouterLoad

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PATH = "serving.experts.routing"
DRAWS = 32
"""Draws of which the mean is taken where rows choose at random."""
FUSED = (256, 1)
"""Experts and shared experts of the mixtures whose shared ones join the others: `determine_num_fused_shared_experts` of
SGLang's deepseek_v2.py has no others."""
DRAWN = ("random", "uneven")
"""Loads of which draws are taken."""


def shared_among(model: Model, formats: Formats, stack: ServingStack, device: Device, devices: int) -> int:
    """Shared experts that a stack runs in the kernels of the others: those of `FUSED`, of their size and format, none
    of them spread over devices."""
    alike = (model.experts, model.shared_experts) == FUSED and not model.shared_ffn and formats.experts is None
    family = device.mixture_family(stack.expert_kernels, formats.of_experts.mixture)
    return model.shared_experts if devices == 1 and alike and family in stack.fused_shared else 0


@dataclass(frozen=True)
class Spread:
    """The experts of a layer on the devices of a group; InputError for loads that do not fit."""

    model: Model
    devices: int
    load: RouterLoad = field(default_factory=RouterLoad)
    local: float | None = None
    """Share of the copies of rows whose expert is on the device that has the row, where it is not one over the
    devices."""
    shared: int = 0
    """Shared experts that run in the kernels of the others, as more of them that every row has; not among `hit`."""
    even: bool = field(init=False)
    """Whether every device has as many rows and as many experts, each of them once."""

    def __post_init__(self) -> None:
        load = self.load
        if load.capacity is not None:
            hint = "leave it out; engines drop no rows"
            raise InputError(Problem("a capacity of experts is not served", path=f"{PATH}.capacity", hint=hint))
        if load.moves:
            hint = "write `load: counts` with the rows of each expert"
            raise InputError(Problem(f"`{load.load}` is of the steps of a training", path=f"{PATH}.load", hint=hint))
        alike = load.load == "balanced" or (load.load in DRAWN and self.devices == 1)
        even = alike and not load.replicas and not self.experts % self.devices
        object.__setattr__(self, "even", even)
        if not even:
            _ = self._copies

    @property
    def experts(self) -> int:
        """Experts of a layer."""
        return self.model.experts or 1

    @property
    def top_k(self) -> int:
        """Experts of a row."""
        return self.model.top_k or 1

    @property
    def slots(self) -> int:
        """Experts that a device holds, copies among them."""
        return -(-self.experts // self.devices) + self.load.replicas

    @cached_property
    def _shares(self) -> Floats:
        """Share of all copies of rows of each expert, without the noise of sampling; (experts,)."""
        calm = self.load.model_copy(update={"load": "balanced"}) if self.load.load in DRAWN else self.load
        return shares_of(calm, self.experts, self.top_k, 0.0, 0, PATH)

    @property
    def variance(self) -> float:
        """Relative variance of the popularity of experts, where it is not known of each."""
        return self.load.variance if self.load.load == "uneven" else 0.0

    @property
    def chosen(self) -> Floats:
        """Probability that a row chooses each expert; (experts,)."""
        found: Floats = np.minimum(self._shares * self.top_k, 1.0)
        return found

    @cached_property
    def _copies(self) -> tuple[Ints, Ints, Ints]:
        """(copies of each expert, device and expert of each copy)."""
        if self.experts % self.devices == 0:
            replicas_of(self.load, self.experts, self.devices, PATH)
        more = self.slots * self.devices - self.experts
        copies = copies_of(self._shares, self.devices, more)
        if copies.sum() < self.slots * self.devices or self.slots > self.experts:
            message = f"{self.slots} experts on each of {self.devices} devices are more copies than {self.experts} have"
            raise InputError(Problem(message, path=f"{PATH}.replicas", hint="write fewer"))
        ways = ("in-order", "packed") if self.load.placement == "packed" else ("in-order",)
        tried = [(copies, *places_of(self._shares / copies, copies, self.devices, way)) for way in ways]
        if self.load.placement == "packed" and self.experts % self.devices == 0:
            # A balancer that would make the busiest device busier leaves experts where they are.
            once = np.ones_like(copies)
            tried.append((once, *places_of(self._shares, once, self.devices, "in-order")))
        return min(tried, key=lambda dealt: float(self._per_device(*dealt).max()))

    def _per_device(self, copies: Ints, device: Ints, expert: Ints) -> Floats:
        each = self._shares / copies
        found: Floats = np.bincount(device, each[expert], self.devices).astype(np.float64)
        return found

    @cached_property
    def held(self) -> Floats:
        """Share of all copies of rows that each device works on, without the noise of sampling; (devices,)."""
        return self._per_device(*self._copies)

    # Work -------------------------------------------------------------------------------------------------------------

    def work(self, rows: Ints) -> Iterator[tuple[Floats, Floats]]:
        """(rows, experts that have any) of devices of which one has most to do, for each number of rows of all ranks;
        a row counts for as much as k experts work on."""
        if self.even:
            # At least one expert has work on the device that all wait for.
            hit = np.maximum(experts_hit(rows, self.experts, self.top_k, self.variance) / self.devices, 1.0)
            yield rows / self.devices, hit
        elif self.load.load in DRAWN:
            here = rows * self.hottest(rows) / self.devices
            yield here, np.maximum(experts_hit(here * self.top_k, self.slots, 1, self.variance), 1.0)
        else:
            yield from self._uneven(rows)

    def _uneven(self, rows: Ints) -> Iterator[tuple[Floats, Floats]]:
        hit = np.maximum(self._hit(rows), 1.0)
        columns = np.arange(len(rows))
        for device in (np.full(len(rows), self.held.argmax()), hit.argmax(axis=0)):
            yield rows * self.held[device], hit[device, columns]

    def _hit(self, rows: Ints) -> Floats:
        """Experts of each device that have rows; (devices, rows)."""
        copies, device, expert = self._copies
        kinds, kind = np.unique(np.stack([self.chosen, copies.astype(np.float64)]), axis=1, return_inverse=True)
        counts = np.zeros((self.devices, kinds.shape[1]))
        np.add.at(counts, (device, kind.reshape(-1)[expert]), 1.0)
        missed = (1.0 - kinds[0])[:, None] ** (rows[None, :] / kinds[1][:, None])
        found: Floats = counts @ (1.0 - missed)
        return found

    def hottest(self, rows: Ints) -> Floats:
        """Rows of the busiest device over the mean, for each number of rows of all ranks; at least 1."""
        if self.load.load not in DRAWN or not len(rows):
            return np.full(len(rows), float(self.held.max()) * self.devices)
        exponents = np.log2(np.maximum(rows, 1).astype(np.float64))
        known = range(int(exponents.min()), int(np.ceil(exponents.max())) + 1)
        found: Floats = np.interp(exponents, list(known), [float(self._drawn(2**one)[0]) for one in known])
        return found

    def _drawn(self, rows: int) -> Floats:
        """Loads of devices over the mean, the busiest first: the mean over draws of so many rows; (devices,)."""
        known = self.__dict__.setdefault("_known", {})
        if rows not in known:
            copies, device, expert = self._copies
            random, liked = stream(0, "routing"), self._shares
            if self.variance and self.load.placement != "packed":
                liked = random.dirichlet(np.full(self.experts, 1 / self.variance), DRAWS)
            counts = random.multinomial(rows * self.top_k, liked, DRAWS)
            each = counts / copies
            loads = np.stack([np.bincount(device, one[expert], self.devices) for one in each])
            known[rows] = -np.sort(-loads, axis=1).mean(axis=0) * self.devices / (rows * self.top_k)
        drawn: Floats = known[rows]
        return drawn

    # Ways -------------------------------------------------------------------------------------------------------------

    @cached_property
    def leaves(self) -> float:
        """Copies that leave their device, of those that would without copies of experts."""
        found = 1.0 if self.even else travels(self._shares, self._copies[0], self.devices)
        if self.local is None or self.devices == 1:
            return found
        return found * (1.0 - self.local) / (1.0 - 1.0 / self.devices)

    def targets(self, rows: float | None) -> collectives.Routing:
        """Where so many rows of all ranks go; None: as if all devices had as many."""
        load: tuple[float, ...] = ()
        if rows is not None and not self.even:
            drawn = self.load.load in DRAWN
            found = self._drawn(max(round(2 ** round(log2(max(rows, 1.0)))), 1)) if drawn else self.held
            load = () if np.allclose(found, found[0], rtol=1e-9) else tuple(found.tolist())
        places = self.experts if self.experts % self.devices == 0 else self.slots * self.devices
        groups = self.model.expert_groups if places % self.model.expert_groups == 0 else 1
        limit = self.model.expert_group_limit if groups > 1 else 0
        return collectives.Routing(places, self.top_k, groups, limit, load)
