"""How rows reach the experts of other devices and come back, where each is sent to the devices of its experts only.

Engines gather the rows of all ranks and reduce the results, or send each row only where its experts are (DeepEP, MoRI,
an all-to-all). The latter goes by the plans of `simulator.collectives`, which training uses too: from the rank with
most rows, to the device whose experts have most, whichever takes longer.
"""

from dataclasses import dataclass, field, replace

from simulator import collectives
from simulator.cost import Device
from simulator.errors import InputError, Problem
from simulator.serving.costs.formats import Formats
from simulator.serving.costs.spread import Spread, shared_among
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.model import Model
from simulator.specs.serving import ExpertTraffic, Layout, ServingStack

GATHERS = "allgather"
"""The word for ranks that have the rows of all."""


@dataclass(frozen=True)
class Exchange:
    """The library that sends rows to the devices of their experts."""

    word: str
    """Whose kernels send them, as `collectives.library_of` takes it."""
    spread: Spread
    element: float
    """Bytes of an element on its way to experts, with its scales."""
    back: float
    """The same on the way back."""
    _libraries: dict[int, tuple[CollectiveProfile, str]] = field(default_factory=dict, compare=False, repr=False)

    def library(self, machine: CollectiveProfile) -> tuple[CollectiveProfile, str]:
        """(profile, algorithm) of the library, on a machine with these collectives."""
        if id(machine) not in self._libraries:
            self._libraries[id(machine)] = collectives.library_of(self.word, machine)
        return self._libraries[id(machine)]

    def row_bytes(self, operation: str, width: float) -> float:
        """Bytes that a device sends, or gets back, for each row of all ranks together, with a copy for each expert."""
        size = self.element if operation == "dispatch" else self.back
        return width * size * self.spread.leaves / self.spread.devices

    def targets(self, operation: str, size_bytes: float, even: bool) -> collectives.Routing:
        """Where rows go that take so many bytes of a device in the mean; `even`: as if all devices had as many."""
        width = self.spread.top_k * (self.spread.model.expert_hidden or self.spread.model.hidden)
        each = self.row_bytes(operation, width)  # nothing where all rows stay
        return self.spread.targets(None if even or not each else size_bytes / each)


def exchange_of(
    traffic: ExpertTraffic, stack: ServingStack, layout: Layout, spread: Spread, plain: float
) -> Exchange | None:
    """The library that sends rows, those of `plain` bytes an element back; None where ranks gather the rows of all, or
    share no experts. InputError for libraries that are not known or cannot serve the layout."""
    word = traffic.dispatcher or stack.dispatcher
    path = "serving.experts.dispatcher" if traffic.dispatcher else "stack.dispatcher"
    if problem := collectives.unfit(word):
        raise InputError(replace(problem, path=path))
    if layout.sharers == 1 or word == GATHERS:
        return None
    if layout.expert_cut > 1:
        message = f"`{word}` sends rows to whole experts, and etp {layout.expert_cut} cuts each"
        raise InputError(Problem(message, path=path, hint=f"write `etp: 1`, or `dispatcher: {GATHERS}`"))
    size = collectives.TOKEN_FORMATS[traffic.dispatch_precision] if traffic.dispatch_precision else plain
    return Exchange(word, spread, size, plain)


def no_effect(traffic: ExpertTraffic, model: Model, layout: Layout, exchange: Exchange | None) -> tuple[str, ...]:
    """What of it changes nothing."""
    path = "no effect: serving.experts"
    if model.experts is None:
        return (f"{path}: {model.name} has no experts",) if traffic != ExpertTraffic.model_construct() else ()
    sends = [key for key in ("dispatcher", "dispatch_precision", "local_share") if getattr(traffic, key) is not None]
    alone = f"{path}.{sends[0]}: no other rank holds experts" if sends and layout.sharers == 1 else ""
    gathered = f"{path}.dispatch_precision: rows of all ranks are gathered in 16 bits"
    quiet = traffic.dispatch_precision is not None and traffic.dispatcher == GATHERS and layout.sharers > 1
    stays = f"{path}.local_share: rows of all ranks are gathered, wherever their experts are"
    kept = traffic.local_share is not None and exchange is None and layout.sharers > 1
    routing = traffic.routing
    others = [
        f"{path}.routing.{key}: routing.load is {routing.load}"
        for key, load in (("variance", "uneven"), ("exponent", "zipf"))
        if routing.states(key) and routing.load != load
    ]
    return tuple(text for text in (alone, gathered if quiet else "", stays if kept else "", *others) if text)


def experts_of(
    model: Model,
    layout: Layout,
    stack: ServingStack,
    traffic: ExpertTraffic,
    formats: Formats,
    device: Device,
    parts: int,
) -> tuple[Spread | None, Exchange | None]:
    """Where experts lie, in `parts`, and the library that sends rows to them; nothing of a dense model."""
    if model.experts is None:
        return None, None
    shared = shared_among(model, formats, stack, device, parts)
    spread = Spread(model, parts, traffic.routing, traffic.local_share, shared)
    return spread, exchange_of(traffic, stack, layout, spread, formats.plain_size)
