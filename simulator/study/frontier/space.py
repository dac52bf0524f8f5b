"""What a serving system may be built of: layouts and batch limits of workers, alone or as prefill and decode pools.

A worker is a replica: attention on tp x dp x pp devices, experts on etp x ep of the same. Sizes are powers of two.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from simulator.axes import DP, EP, ETP, PP, TP
from simulator.specs.model import Model
from simulator.specs.scenario import ServingScenario

MOST_STAGES = 8
"""Pipeline stages of a worker, at most."""


@dataclass(frozen=True)
class Worker:
    """A replica and the limits of its batches."""

    tp: int
    dp: int
    pp: int
    etp: int
    ep: int
    sequences: int
    """Most sequences of an attention rank that run at once."""
    chunk: int
    """Most tokens of a step of an attention rank."""

    @property
    def devices(self) -> int:
        """Devices of a worker."""
        return self.tp * self.dp * self.pp

    @property
    def mesh(self) -> tuple[int, int, int, int, int]:
        """All but the limits."""
        return self.tp, self.dp, self.pp, self.etp, self.ep

    @cached_property
    def parallel(self) -> str:
        """The layout as YAML of `serving.parallel`."""
        if self.dp > 1:
            return f"{{tp: {self.tp}, dp: {self.dp}, pp: {self.pp}, ep: {self.ep}, etp: {self.etp}}}"
        experts = f", ep: {self.ep}, etp: {self.etp}" if self.ep > 1 else ""
        return f"{{tp: {self.tp}, pp: {self.pp}{experts}}}"

    @property
    def layout(self) -> str:
        """The layout in words: axes of size 1 left out."""
        axes = (TP, self.tp), (DP, self.dp), (PP, self.pp), (EP, self.ep), (ETP, self.etp if self.ep > 1 else 1)
        return " ".join(f"{axis.name} {size}" for axis, size in axes if size > 1) or f"{TP.name} 1"

    @property
    def limits(self) -> str:
        """The limits in words."""
        return f"{self.sequences} sequences, chunks of {self.chunk}"


@dataclass(frozen=True)
class Structure:
    """A system: copies of one worker, or of a group of prefill workers beside decode workers."""

    decode: Worker
    """What decodes; of aggregated systems what does all."""
    decodes: int
    """How many in a copy."""
    copies: int
    """Groups that the devices have room for, each with an equal share of the requests."""
    prefill: Worker | None = None
    prefills: int = 0

    @property
    def devices(self) -> int:
        """Devices of a copy."""
        return self.decodes * self.decode.devices + (self.prefills * self.prefill.devices if self.prefill else 0)

    @property
    def mode(self) -> str:
        """`aggregated` or `disaggregated`."""
        return "disaggregated" if self.prefill else "aggregated"

    @property
    def name(self) -> str:
        """What it is, in words."""
        own = self.decode
        if self.prefill is None:
            return f"{self.copies} x ({own.layout}), {own.limits}"
        first = f"{self.prefills} prefill ({self.prefill.layout}), chunks of {self.prefill.chunk}"
        said = f"{first} : {self.decodes} decode ({own.layout}), {own.sequences} sequences"
        return f"{self.copies} x [{said}]" if self.copies > 1 else said

    def overrides(self, base: ServingScenario, copies: int = 1) -> tuple[str, ...]:
        """Changes of the scenario that make it so many copies of this."""
        policy = base.serving.batching.policy
        if self.prefill is None:
            return (
                "serving.pools=[]",
                f"serving.replicas={self.decodes * copies}",
                f"serving.parallel={self.decode.parallel}",
                f"serving.batching={_batching(self.decode, policy)}",
            )
        pools = [
            _pool("prefill", self.prefill, self.prefills * copies, policy),
            _pool("decode", self.decode, self.decodes * copies, policy),
        ]
        return "serving.replicas=1", "serving.batching={}", f"serving.pools=[{', '.join(pools)}]"


def _batching(worker: Worker, policy: str | None) -> str:
    named = f"policy: {policy}, " if policy else ""
    return f"{{{named}token_budget: {worker.chunk}, max_sequences: {worker.sequences}}}"


def _pool(role: str, worker: Worker, replicas: int, policy: str | None) -> str:
    batching = _batching(worker, policy)
    return f"{{name: {role}, role: {role}, replicas: {replicas}, parallel: {worker.parallel}, batching: {batching}}}"


def meshes(model: Model, node: int, devices: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(tp, dp, pp, etp, ep) of workers on at most `devices` devices, tensor parallelism within a node of `node`.

    Attention ranks and stages are not combined, since batches of stages are not in step. Experts are cut by no more
    devices than attention is.
    """
    for tp in powers(min(node, devices)):
        for pp in powers(min(MOST_STAGES, devices // tp, model.layers)):
            yield tp, 1, pp, tp, 1
            if model.experts is not None and tp > 1:
                yield from ((tp, 1, pp, tp // ep, ep) for ep in powers(tp) if ep > 1 and model.experts % ep == 0)
        for dp in powers(devices // tp) if model.experts is not None else ():
            if dp > 1:
                yield from _shared(tp, dp, model.experts or 1)


def _shared(tp: int, dp: int, experts: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Meshes of experts over the attention ranks of a worker."""
    for etp in powers(tp):
        if experts % (tp * dp // etp) == 0:
            yield tp, dp, 1, etp, tp * dp // etp


def powers(largest: int) -> list[int]:
    """1, 2, 4 and so on up to `largest`."""
    return [1 << exponent for exponent in range(largest.bit_length())] if largest > 0 else []


def aggregated(worker: Worker, devices: int) -> Structure:
    """As many copies of a worker as there is room for."""
    return Structure(worker, 1, devices // worker.devices)


def ratios(prefill: Worker, decode: Worker, devices: int) -> Iterator[tuple[int, int, int]]:
    """(prefill workers, decode workers, copies) that fill `devices` as far as whole workers do."""
    for first in range(1, (devices - decode.devices) // prefill.devices + 1):
        rest = (devices - first * prefill.devices) // decode.devices
        copies = gcd(first, rest)
        yield first // copies, rest // copies, copies
