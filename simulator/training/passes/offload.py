"""What travels between a device and the tiers beside its memory, as operations on lanes of their own.

Copies out and copies in have a lane each (links to the host carry both ways at once), so have the drives of the node
for reading and for writing, and the host's cores. A layer of a pass waits for what it needs, and each buffer is filled
again when it is free. Devices of a node share its links to the host and its drives: where others than those of its own
class could use them at the same time these are shared resources, else a closed form.

ZeRO-Offload (arXiv:2101.06840), ZeRO-Infinity (arXiv:2104.07857, section 6), Twin-Flow of ZeRO-Offload++, Deep
Optimizer States (arXiv:2410.21316), MEMO (arXiv:2407.12117), SSDTrain (arXiv:2408.10013). Left out: contention of
copies and updates on the host's memory channels, what an allocation of pinned memory takes, metadata of files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.engine.tape import Activity, Use
from simulator.program import codes as d
from simulator.program.content import Content
from simulator.program.piece import single
from simulator.training import memory
from simulator.training.optimizers.base import OPTIMIZERS
from simulator.training.optimizers.elementwise import Elementwise
from simulator.training.passes.chain import Chain
from simulator.training.tiers.host import HostRates
from simulator.training.tiers.nodes import Nodes
from simulator.training.tiers.plan import Turns, moves_of
from simulator.training.tiers.split import BUFFERS, SUBGROUPS

Ints = NDArray[np.int64]

OUT, IN, CPU, READ, WRITE = "copy out", "copy in", "host cores", "NVMe read", "NVMe write"
TIER_LANES = (OUT, IN, CPU, READ, WRITE)
"""Lanes of a device for what is beside its memory."""
WIDE, CAST = 4.0, 6.0
"""Bytes of an element of 32 bits, and what reading one of 16 and writing one of 32 moves."""


@dataclass(slots=True)
class Tiers:
    """Rates of the hosts, whose devices share what, and what was sent."""

    host: HostRates
    nodes: Nodes
    resources: dict[tuple[int, str], int] = field(default_factory=dict)
    """Shared resources by node and lane."""
    moved: dict[tuple[int, int, str, str], float] = field(default_factory=dict)
    """Bytes of a step by chain, rank, lane and name of the operations."""

    def rate(self, lane: str) -> tuple[float, float]:
        """(bytes/s of one device, bytes/s of all devices of a node) on a lane."""
        if lane in (OUT, IN):
            return self.host.link, self.host.links
        whole = self.host.read if lane == READ else self.host.write
        return whole, whole


class Mover:
    """Appends what one rank of a chain moves."""

    def __init__(self, chain: Chain, rank: int, tiers: Tiers) -> None:
        self.chain, self.rank, self.tiers = chain, rank, tiers
        self.beside = int(tiers.nodes.beside[chain.number, rank])

    def ticks(self, lane: str, size: float) -> int:
        """Ticks of a transfer while the equal devices of the node do the same."""
        own, together = self.tiers.rate(lane)
        return units.to_ticks(max(size / own, self.beside * size / together))

    def transfer(
        self,
        lane: str,
        kind: int,
        turn: Ints | int,
        size: float,
        after: Sequence[Ints | int] = (),
        **columns: Ints | int,
    ) -> Ints:
        """Append transfers of `size` bytes each at some turns, after others."""
        many = np.atleast_1d(np.asarray(turn, np.int64))
        key = (self.chain.number, self.rank, lane, d.KINDS[kind])
        self.tiers.moved[key] = self.tiers.moved.get(key, 0.0) + size * len(many)
        ticks = self.ticks(lane, size)
        return self.append(lane, kind, many, ticks, after, activity=self._activity(lane, size, ticks), **columns)

    def append(
        self, lane: str, kind: int, turn: Ints, ticks: int, after: Sequence[Ints | int] = (), **columns: Ints | int
    ) -> Ints:
        """Append operations that last `ticks` each."""
        builder = self.chain.builder
        content = builder.piece(single(Content(offload=ticks)))
        found = builder.append(self.chain.lane(self.rank, lane), turn, content, kind=kind, **columns)
        for earlier in after:
            if np.size(earlier):
                builder.after(found, earlier)
        return found

    def _activity(self, lane: str, size: float, ticks: int) -> int:
        """What a transfer takes of what devices of other classes of the node may use besides; -1 where none may."""
        own, together = self.tiers.rate(lane)
        node = int(self.tiers.nodes.number[self.chain.number, self.rank])
        if not ticks or not self.tiers.nodes.mixed[self.chain.number, self.rank]:
            return -1
        if own * self.tiers.host.devices <= together:
            return -1
        key = (node, lane)
        if key not in self.tiers.resources:
            self.tiers.resources[key] = self.chain.builder.resource()
        rate = min(self.beside * size / together / units.to_seconds(ticks), 1.0)
        use = Use(self.tiers.resources[key], rate, float(self.beside))
        return self.chain.builder.activity(Activity(0, ticks, (use,)))


# ---- activations and parameters beside passes --------------------------------------------------------------------


def move_beside_passes(chain: Chain, tiers: Tiers) -> None:
    """Append what travels beside the passes of all ranks."""
    assert chain.job.offload is not None
    for rank in range(chain.job.pp):
        mover, own = Mover(chain, rank, tiers), chain.turns[rank]
        lengths = np.array([max(one.layers, 1) for one in memory.all_chunks(chain.job)])[own.stage]
        backward = own.kind == d.BACKWARD
        turns = Turns(backward, own.stage, np.where(backward, lengths - 1 - own.piece, own.piece), own.microbatch)
        if chain.job.offload.parameters is not None:
            _parameters(mover, turns)
        if chain.job.offload.activations is not None:
            _activations(mover, turns)


def _parameters(mover: Mover, turns: Turns) -> None:
    """Fetch the parameters of each layer ahead of its passes; what the pass before used is still there."""
    chain, offload = mover.chain, mover.chain.job.offload
    assert offload is not None and offload.parameters is not None
    own, ahead = chain.turns[mover.rank], offload.parameters.ahead
    sizes = {
        c: [
            memory.piece_bytes(chain.job, piece)["parameters"]
            for piece in memory.pieces_of(memory.all_chunks(chain.job)[c])
        ]
        for c in chain.chunks(mover.rank)
    }
    key = turns.chunk * (1 << 20) + turns.layer
    needed = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    gathers = chain.gathered.get(mover.rank)
    drive = offload.parameters.to == "nvme"
    for turn in needed.tolist():
        size = sizes[int(turns.chunk[turn])][int(turns.layer[turn])]
        columns = {name: int(getattr(own, name)[turn]) for name in ("stage", "microbatch", "piece")}
        first: list[Ints | int] = []
        if drive:
            free = turn - 2 - ahead
            first = [mover.transfer(READ, d.NVME_READ, turn, size, [own.exit[free]] if free >= 0 else (), **columns)]
        free = turn - 1 - ahead
        first += [own.exit[free]] if free >= 0 else []
        fetched = mover.transfer(IN, d.FETCH_PARAMETERS, turn, size, first, **columns)
        chain.builder.after(own.entry[turn] if gathers is None else gathers[turn], fetched)
        if chain.job.zeroth is not None:  # what was updated leaves again
            sent = mover.transfer(OUT, d.STORE_PARAMETERS, turn, size, [own.exit[turn]], **columns)
            if drive:
                mover.transfer(WRITE, d.NVME_WRITE, turn, size, [sent], **columns)


def _activations(mover: Mover, turns: Turns) -> None:
    """Send what layers keep away after their forward passes and fetch it before their backward passes."""
    chain, offload = mover.chain, mover.chain.job.offload
    assert offload is not None and offload.activations is not None
    own, drive = chain.turns[mover.rank], offload.activations.to == "nvme"
    moves = moves_of(chain.job, mover.rank, turns)
    sent = np.full(len(moves.leaves), -1, np.int64)
    for size in dict.fromkeys(moves.size.tolist()):
        which = np.flatnonzero(moves.size == size)
        out, back = moves.leaves[which], moves.returns[which]

        def columns(turn: Ints) -> dict[str, Ints | int]:
            return {name: getattr(own, name)[turn] for name in ("stage", "microbatch", "piece")}

        gone = mover.transfer(OUT, d.STORE_ACTIVATIONS, out, size, [own.exit[out]], **columns(out))
        if drive:
            gone = mover.transfer(WRITE, d.NVME_WRITE, out, size, [gone], **columns(out))
        sent[which] = gone
        first: list[Ints | int] = [gone]
        free = _freed(turns, back)
        if drive:
            first = [mover.transfer(READ, d.NVME_READ, back, size, [gone], **columns(back))]
            _after_turns(mover, first[0], own.exit, free - 1)
        fetched = mover.transfer(IN, d.FETCH_ACTIVATIONS, back, size, first, **columns(back))
        _after_turns(mover, fetched, own.exit, free)
        chain.builder.after(own.entry[back], fetched)
    _buffers(mover, turns, moves.leaves, sent)


def _freed(turns: Turns, back: Ints) -> Ints:
    """The turn whose end frees the buffer that what returns at some turns is fetched into: of the backward turns
    before, the last but one."""
    backward = np.flatnonzero(turns.backward)
    place = np.searchsorted(backward, back) - BUFFERS
    return np.where(place >= 0, backward[np.maximum(place, 0)], back - BUFFERS)


def _after_turns(mover: Mover, later: Ints | int, exits: Ints, turn: Ints) -> None:
    """Let operations wait for the ends of turns, where there are such."""
    there = turn >= 0
    mover.chain.builder.after(np.asarray(later)[there], exits[turn[there]])


def _buffers(mover: Mover, turns: Turns, leaves: Ints, sent: Ints) -> None:
    """A forward pass fills the buffer of the layer before the last, which must have left."""
    own = mover.chain.turns[mover.rank]
    forward = np.flatnonzero(~turns.backward)
    place = np.searchsorted(forward, leaves) + BUFFERS
    there = place < len(forward)
    mover.chain.builder.after(own.entry[forward[place[there]]], sent[there])


# ---- gradients and updates ---------------------------------------------------------------------------------------


def update_elsewhere(chain: Chain, rank: int, tiers: Tiers, updated: Ints) -> None:
    """Append the way of the gradients of a rank, the update of what lives elsewhere, and the end of its step; `updated`
    is what the device does of it by itself."""
    job, mover, turn = chain.job, Mover(chain, rank, tiers), len(chain.turns[rank])
    assert job.offload is not None
    last = _Update(mover).run() if job.offload.optimizer is not None else []
    if job.offload.parameters is not None and job.host_share < 1.0 and job.zeroth is None:
        last.append(_stored_parameters(mover, updated))
    content = chain.builder.piece(single(Content()))
    end = chain.builder.append(chain.lane(rank, "compute"), turn, content, kind=d.OPTIMIZER)
    for numbers in last:
        chain.builder.after(end, numbers)


def _stored_parameters(mover: Mover, updated: Ints) -> Ints:
    """Send the parameters that the device updated to where they live."""
    job, turn = mover.chain.job, len(mover.chain.turns[mover.rank])
    assert job.offload is not None and job.offload.parameters is not None
    size = (1.0 - job.host_share) * memory.updated(job, mover.rank) * job.element
    sent = mover.transfer(OUT, d.STORE_PARAMETERS, turn, size, [updated])
    if job.offload.parameters.to == "nvme":
        sent = mover.transfer(WRITE, d.NVME_WRITE, turn, size, [sent])
    return sent


class _Update:
    """The end of a step of a rank whose optimizer's states live elsewhere."""

    def __init__(self, mover: Mover) -> None:
        job = mover.chain.job
        assert job.offload is not None and job.offload.optimizer is not None
        self.mover, self.chain, self.job, self.part = mover, mover.chain, job, job.offload.optimizer
        self.turn = len(self.chain.turns[mover.rank])
        self.elements = memory.updated(job, mover.rank) * self.part.share
        rule = OPTIMIZERS.get(job.optimizer.name)
        assert isinstance(rule, Elementwise)
        self.kept = rule.kept(job) + job.master
        self.work = rule.moved(job)
        self.drive, self.parameters = self.part.to == "nvme", job.offload.parameters
        self.last: dict[str, Ints] = {}

    def run(self) -> list[Ints]:
        """Append everything; returns what the step ends with."""
        arrived, layers = self._gradients()
        if self.part.during == "backward":
            for turn, number, elements in layers:
                self._on_host(elements, [number], turn)
        else:
            groups = max(-(-int(self.elements) // self.part.subgroup), 1)
            for group in range(groups):
                device = self.part.update == "device" or (
                    self.part.update == "interleaved" and group % self.part.every == self.part.every - 1
                )
                update = self._on_device if device else self._on_host
                update(self.elements / groups, arrived, self.turn)
        return list(self.last.values())

    def _gradients(self) -> tuple[list[Ints | int], list[tuple[int, Ints, float]]]:
        """Send the gradients of each layer when they are there; returns what the update waits for, and (turn,
        operation, elements) of each transfer of the last microbatch."""
        own, chain, rank = self.chain.turns[self.mover.rank], self.chain, self.mover.rank
        back = np.flatnonzero(own.kind == d.BACKWARD)
        if self.job.accumulates:
            back = np.concatenate([own.whole(own.of(c, d.BACKWARD), -1) for c in chain.chunks(rank)])
        last, found = set(back[-sum(map(len, self._elements().values())) :].tolist()), []
        arrived: list[Ints | int] = []
        for turn in np.sort(back).tolist():
            elements = self._elements()[int(own.stage[turn])][int(own.piece[turn])] * self.part.share
            number = self._flushed(turn, elements)
            arrived = [number]
            if turn in last or self.job.accumulates:
                found.append((self._place(turn), number, elements))
        return [*arrived, *chain.ended(rank)], found

    def _elements(self) -> dict[int, list[float]]:
        """Trained elements that a rank owns of each piece of each of its chunks, in the order of the backward pass."""
        chunks = memory.all_chunks(self.job)
        return {
            c: [memory.piece_bytes(self.job, piece)["elements"] for piece in reversed(memory.pieces_of(chunks[c]))]
            for c in self.chain.chunks(self.mover.rank)
        }

    def _place(self, turn: int) -> int:
        """Where the update of a layer stands on its lanes: behind the cast of its gradients, which the host does."""
        return turn + 1 if self.job.copied and self.part.flush == "blocking" else turn

    def _flushed(self, turn: int, elements: float) -> Ints:
        """Send the gradients of a layer; where the backward pass waits for it, in 16 bits that the host widens."""
        own, rank = self.chain.turns[self.mover.rank], self.mover.rank
        after = [self.chain.summed(rank, turn), own.exit[turn]]
        at = turn + 1 if self.job.copied else turn
        columns = {name: int(getattr(own, name)[turn]) for name in ("stage", "microbatch", "piece")}
        if self.part.flush == "async":
            size = elements * self.job.gradient_bytes
            return self.mover.transfer(OUT, d.STORE_GRADIENTS, at, size, after, **columns)
        sent = self.mover.transfer(OUT, d.STORE_GRADIENTS, at, elements * self.job.element, after, **columns)
        ticks = self._cores(elements * CAST)
        cast = self.mover.append(CPU, d.CAST_GRADIENTS, np.array([at]), ticks, [sent], **columns)
        if turn + 1 < len(own):
            self.chain.builder.after(own.entry[turn + 1], cast)
        return cast

    def _cores(self, size: float) -> int:
        """Ticks in which the cores that a device has for itself read and write so many bytes."""
        host = self.mover.tiers.host
        return units.to_ticks(size * min(host.devices, self.job.mesh.world) / host.update)

    def _on_host(self, elements: float, after: list[Ints | int], turn: int) -> None:
        """Update some parameters where they are, and send them to the device unless they live here."""
        size, first = elements * self.kept, list(after)
        back = elements * self.job.stored
        if self.drive:
            first.append(self.mover.transfer(READ, d.NVME_READ, turn, size, after))
        done = self.mover.append(CPU, d.HOST_UPDATE, np.array([turn]), self._cores(elements * self.work), first)
        self.last["update"] = done
        if self.drive:
            self.last["write"] = self.mover.transfer(WRITE, d.NVME_WRITE, turn, size, [done])
        if self.parameters is None:
            self.last["back"] = self.mover.transfer(IN, d.FETCH_PARAMETERS, turn, back, [done])
        elif self.parameters.to == "nvme":
            self.last["write"] = self.mover.transfer(WRITE, d.NVME_WRITE, turn, back, [done])

    def _on_device(self, elements: float, after: list[Ints | int], turn: int) -> None:
        """Bring the states of some parameters to the device, update them there and send them back."""
        mover, size, first = self.mover, elements * self.kept, list(after)
        if self.drive:
            first.append(mover.transfer(READ, d.NVME_READ, turn, size, after))
        fetched = mover.transfer(IN, d.FETCH_STATES, turn, size, first)
        stored: list[Ints] = self.chain.stored.setdefault(mover.rank, [])
        if len(stored) >= SUBGROUPS:
            self.chain.builder.after(fetched, stored[-SUBGROUPS])
        content = self.chain.builder.pieces([self.chain.costs.subgroup[mover.rank]])
        lane = self.chain.lane(mover.rank, "compute")
        done = self.chain.builder.append(lane, turn, content, kind=d.OPTIMIZER)
        self.chain.builder.after(done, fetched)
        back = mover.transfer(OUT, d.STORE_STATES, turn, size, [done])
        if self.parameters is not None:
            back = mover.transfer(OUT, d.STORE_PARAMETERS, turn, elements * self.job.element, [done])
        stored.append(back)
        self.last["out"] = back
        if self.drive:
            self.last["write"] = mover.transfer(WRITE, d.NVME_WRITE, turn, size, [back])
