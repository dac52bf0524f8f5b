"""Which layouts there are: values of each choice, and the rules of divisibility that leave out what cannot be.

A choice has the values that the user lists, else the one that the scenario states, else those below. Sizes of axes are
divisors: tensor parallelism of the heads, stages of the layers, experts of the experts, all together of the devices;
what is left is data parallelism, which divides the batch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from simulator.axes import CP, DP, EP, ETP, PP, TP
from simulator.errors import InputError, Problem, nearest
from simulator.specs.scenario import Scenario
from simulator.study.layouts.layout import AXES, NAMES, Layout
from simulator.training.schedules import SCHEDULES, own_name

MOST_CHUNKS = 8
"""Chunks of a device that are tried where the search does not list them."""
MOST_MICRO = 64
"""Sequences of a microbatch that are tried where the search does not list them."""
CUT = 8192
"""Tokens of a sequence that a context-parallel rank keeps at least where the search does not list sizes."""
ONE_CHUNK = frozenset(("1f1b", "zb-h1", "zb-h2", "pipedream-2bw"))
"""Schedules of one chunk a rank."""
TWO_CHUNKS = frozenset(("zb-v", "v-half", "v-min", "dualpipev"))
"""Schedules of two chunks a rank."""
MOST = 2_000_000
"""Candidates of one search."""
_SHARDING = {"bucket": (0, 1), "layer": (0, 2, 3), "tensor": (0, 1, 2, 3)}
"""ZeRO stages of a family of software, by what one of its data-parallel collectives carries."""

Value = int | str
T = TypeVar("T")


@dataclass(frozen=True)
class Space:
    """Values of the choices of one scenario."""

    scenario: Scenario
    listed: Mapping[str, tuple[Value, ...]]
    """Values that are given, by choice; of the others all are tried."""
    stated: tuple[str, ...] = ()
    """Choices of `listed` that the scenario states."""

    def values(self, name: str, usual: Sequence[Value]) -> tuple[Value, ...]:
        """The values of a choice: the given ones, or the usual ones."""
        return self.listed.get(name) or tuple(usual)

    def sizes(self, name: str, usual: Sequence[int]) -> list[int]:
        """The same for whole numbers."""
        return [value for value in self.values(name, usual) if isinstance(value, int)]


def space(scenario: Scenario, only: Sequence[str] = (), free: Sequence[str] = ()) -> Space:
    """The space of a scenario: `only` texts such as `tp=1,2,4`, `free` names of choices that the scenario states.

    InputError for a name that is no choice and for a value that its choice does not take.
    """
    listed = dict(map(_listed, only))
    for name in free:
        _check(name, (*NAMES, "all"))
    stated = {} if "all" in free else {n: v for n, v in _stated(scenario).items() if n not in free and n not in listed}
    return Space(scenario, {**{name: (value,) for name, value in stated.items()}, **listed}, tuple(stated))


def _listed(text: str) -> tuple[str, tuple[Value, ...]]:
    name, equals, values = text.partition("=")
    name = name.strip()
    _check(name, NAMES)
    if not equals or not values.strip():
        raise InputError(Problem("lists no values", file=f"`{text[:100]}`", hint=f"write `{name}=1,2,4`"))
    return name, tuple(dict.fromkeys(_value(name, word.strip()) for word in values.split(",")))


def _check(name: str, known: Sequence[str]) -> None:
    if name not in known:
        hint = nearest(name, known) or f"one of {', '.join(known)}"
        raise InputError(Problem(f"`{name[:40]}` is no choice of a layout", hint=hint))


def _value(name: str, word: str) -> Value:
    if name == "schedule":
        SCHEDULES.get(own_name(word), "schedule")
        return own_name(word)
    if name == "recompute":
        if word not in _RECOMPUTE:
            raise InputError(Problem(f"recompute `{word[:40]}` is not known", hint=nearest(word, _RECOMPUTE)))
        return word
    low, high = _RANGES.get(name, (1, 1_000_000))
    if not (word.isascii() and word.isdigit()) or not low <= int(word[:9]) <= high:
        hint = f"write a whole number from {low} to {high:,}"
        raise InputError(Problem(f"{name} `{word[:40]}` is no size", hint=hint))
    return int(word)


_RECOMPUTE = ("none", "selective", "full")
_RANGES = {"zero": (0, 3), "offload": (0, 1_000_000)}


def _stated(scenario: Scenario) -> dict[str, Value]:
    """The choices that a scenario states."""
    training, parallel = scenario.training, scenario.training.parallel
    found: dict[str, Value | None] = {
        name: getattr(parallel, name) for name in AXES if name in parallel.model_fields_set
    }
    for name, field in (("schedule", "schedule"), ("micro_batch", "micro_batch"), ("recompute", "recompute")):
        if field in training.model_fields_set:
            found[name] = getattr(training, field)
    found["offload"] = training.offload_layers
    if isinstance(found.get("schedule"), str):
        found["schedule"] = own_name(str(found["schedule"]))
    return {name: value for name, value in found.items() if value is not None}


def layouts(space: Space) -> Iterator[Layout]:
    """All layouts of the space, in a fixed order."""
    scenario = space.scenario
    devices, model, training = scenario.cluster.devices, scenario.model, scenario.training
    for tp in space.sizes(TP.name, _divisors(model.heads)):
        if devices % tp or model.heads % tp:
            continue
        for cp in space.sizes(CP.name, _cuts(training.sequence_length)):
            for pp in space.sizes(PP.name, _divisors(devices)):
                dp, rest = divmod(devices, tp * cp * pp)
                if rest or dp not in space.sizes(DP.name, (dp,)) or training.global_batch % dp:
                    continue
                yield from _inside(space, tp, cp, pp, dp)


Pick = Callable[[str, Sequence[T]], T]
"""Chooses one of the values of a choice, of which there is at least one."""


def picked(space: Space, pick: Pick[Any]) -> Layout | None:
    """The layout of the space that follows from choosing value by value; None where a choice is left without any."""
    scenario = space.scenario
    devices, training = scenario.cluster.devices, scenario.training
    heads = [tp for tp in space.sizes(TP.name, _divisors(scenario.model.heads)) if scenario.model.heads % tp == 0]
    flat = [
        (tp, cp, pp, devices // (tp * cp * pp))
        for tp in heads
        for cp in space.sizes(CP.name, _cuts(training.sequence_length))
        for pp in space.sizes(PP.name, _divisors(devices))
        if devices % (tp * cp * pp) == 0 and training.global_batch % (devices // (tp * cp * pp)) == 0
    ]
    flat = [one for one in flat if one[3] in space.sizes(DP.name, (one[3],))]
    for place, name in enumerate((TP.name, CP.name, PP.name)):
        if not flat:
            return None
        value = pick(name, list(dict.fromkeys(one[place] for one in flat)))
        flat = [one for one in flat if one[place] == value]
    inside = list(_inside(space, *flat[0]))
    for name in ("vpp", "schedule", "micro_batch", "recompute", "offload", EP.name, ETP.name, "zero"):
        if not inside:
            return None
        value = pick(name, list(dict.fromkeys(getattr(one, name) for one in inside)))
        inside = [one for one in inside if getattr(one, name) == value]
    return inside[0]


def _inside(space: Space, tp: int, cp: int, pp: int, dp: int) -> Iterator[Layout]:
    """Layouts of the given sizes of the attention's mesh."""
    experts, each = list(_experts(space, tp, cp, dp)), space.scenario.training.global_batch // dp
    for vpp, schedule in _orders(space, pp):
        for micro in space.sizes("micro_batch", [m for m in _powers(MOST_MICRO) if each % m == 0]):
            if each % micro or (schedule == "interleaved-1f1b" and each // micro % pp):
                continue
            for recompute in space.values("recompute", _recomputes(space.scenario)):
                for offload in space.sizes("offload", (0,)):
                    if offload * pp * vpp > space.scenario.model.layers:
                        continue
                    for ep, etp in experts:
                        for zero in space.sizes("zero", _sharding(space.scenario)) if dp * cp > 1 else (0,):
                            yield Layout(tp, pp, vpp, cp, ep, etp, dp, zero, schedule, micro, str(recompute), offload)


def _experts(space: Space, tp: int, cp: int, dp: int) -> Iterator[tuple[int, int]]:
    """(ep, etp) of a mixture of experts; of other models both as if there were none."""
    number = space.scenario.model.experts
    if not number:
        yield 1, tp
        return
    flat = tp * cp * dp
    for ep in space.sizes(EP.name, _divisors(number)):
        for etp in space.sizes(ETP.name, sorted({1, tp})):
            if number % ep == 0 and flat % (ep * etp) == 0:
                yield ep, etp


def _orders(space: Space, pp: int) -> Iterator[tuple[int, str]]:
    """(chunks of a rank, schedule): one where there is no pipeline."""
    layers, stages = space.scenario.model.layers, space.scenario.training.stages
    if pp == 1:
        if stages is None or len(stages) == 1:
            yield from ((vpp, "1f1b") for vpp in space.sizes("vpp", (1,)) if vpp == 1)
        return
    for vpp in space.sizes("vpp", range(1, MOST_CHUNKS + 1)):
        if len(stages) != pp * vpp if stages is not None else layers % (pp * vpp):
            continue
        for schedule in space.values("schedule", ("1f1b", "interleaved-1f1b")):
            if _fits(str(schedule), vpp):
                yield vpp, str(schedule)


def _fits(schedule: str, vpp: int) -> bool:
    """Whether a schedule runs so many chunks a rank."""
    if schedule in ONE_CHUNK:
        return vpp == 1
    return vpp == 2 if schedule in TWO_CHUNKS else vpp > 1 or schedule != "interleaved-1f1b"


def _recomputes(scenario: Scenario) -> tuple[str, ...]:
    """Kinds of recomputation: a fused attention keeps no scores that a selective one could drop."""
    fused = (scenario.training.attention or scenario.stack.attention) == "fused"
    return ("none", "full") if fused and not scenario.training.recompute_modules else _RECOMPUTE


def _sharding(scenario: Scenario) -> tuple[int, ...]:
    """ZeRO stages that software of the stack's kind has."""
    return _SHARDING[scenario.stack.unit]


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _powers(most: int) -> list[int]:
    return [1 << n for n in range(most.bit_length())]


def _cuts(sequence: int) -> list[int]:
    """Ranks over which a sequence is worth cutting."""
    return [n for n in _powers(max(sequence // CUT, 1)) if sequence % (2 * n) == 0 or n == 1]
