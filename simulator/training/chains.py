"""From a job on a network to the price lists of its chains, folded.

A chain is one pipeline replica. All chains run the same program; they differ only in what their traffic costs. Chains
with the same costs (and peers with the same costs) fold into one class, which is simulated once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.cost import Device, Stream, price
from simulator.program import draft as d
from simulator.training import memory, operators
from simulator.training.communication import Network, Traffic, fold_chains
from simulator.training.job import Job
from simulator.training.lowering import Prices
from simulator.training.memory import Chunk
from simulator.training.operators import Collective
from simulator.training.pricing import LayerCosts, PassCost, Pricer, chunk_passes, recomputed_layers

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChainClasses:
    """The classes of chains and what each pays."""

    prices: tuple[Prices, ...]
    """One price list a class."""
    members: tuple[Ints, ...]
    """Chains of each class."""
    meetings: Ints
    """For each class, the data-parallel group that it waits in, -1 where all its peers are of its own class."""
    ranks: Ints
    """Ranks of every chain; shape (chains, pp)."""
    traffic: Traffic
    """What the links carry over the step."""
    outside: tuple[str, ...]
    """Kernels priced outside the range of their measurements."""
    spread: float
    """Largest relative difference between the price lists that tiers merged; 0 where folding is exact."""


class Pricing:
    """Prices one job on one device and network."""

    def __init__(self, job: Job, device: Device, network: Network) -> None:
        self.job, self.device, self.network = job, device, network
        self.chunks = memory.all_chunks(job)
        self.traffic = Traffic(len(network.fabric.capacity))
        self.outside: set[str] = set()
        self._known: dict[tuple[tuple[tuple[str, float], int], ...], tuple[LayerCosts, tuple[PassCost, PassCost]]] = {}

    # ---- tensor parallelism --------------------------------------------------------------------------------------

    def _tensor_keys(self) -> dict[tuple[str, float], dict[str, float]]:
        """Tensor-parallel collectives of a step on a stage of mean size, with how often each runs in passes forward and
        backward."""
        job = self.job
        layers = job.model.layers / job.pp
        counts: dict[tuple[str, float], dict[str, float]] = {}
        again = [(n / job.model.layers, steps) for n, steps in self._recomputed()]
        passes: list[tuple[int, float, Iterable[operators.Step]]] = [
            (d.FORWARD, layers, operators.layer_forward(job)),
            (d.BACKWARD, layers, operators.layer_backward(job)),
            *((d.BACKWARD, layers * share, steps) for share, steps in again),
            (d.FORWARD, 1 / job.pp, operators.embedding_forward(job)),
            (d.BACKWARD, 1 / job.pp, operators.embedding_backward(job)),
            (d.FORWARD, 1 / job.pp, operators.head_forward(job)),
            (d.BACKWARD, 1 / job.pp, operators.head_backward(job)),
        ]
        for kind, times, steps in passes:
            for step in steps:
                if isinstance(step, Collective):
                    found = counts.setdefault((step.operation, step.size), {})
                    found[d.KINDS[kind]] = found.get(d.KINDS[kind], 0.0) + times * job.microbatches
        return counts

    def _recomputed(self) -> list[tuple[int, tuple[operators.Step, ...]]]:
        found = [list(operators.recomputed(self.job, chunk.layers)) for chunk in self.chunks]
        return [item for items in found for item in items]

    def tensor_rows(self) -> dict[tuple[str, float], Ints]:
        """Ticks of every tensor-parallel collective by chain and stage, each (chains, pp); counts the traffic."""
        rows = {}
        for (operation, size), passes in self._tensor_keys().items():
            priced = self.network.collective("tp", operation, size)
            for name, times in passes.items():
                self.traffic.add(name, priced, times)
            rows[operation, size] = priced.ticks
        return rows

    # ---- data parallelism ----------------------------------------------------------------------------------------

    def gather(self, size: float) -> Ints:
        """One call that gathers parameters of `size` bytes over their shard set; ticks (chains, pp). ZeRO-3 gathers
        again backward."""
        job = self.job
        if job.stack.owners and not job.per_pass:
            return self._broadcast(size)
        times = (2 if job.zero == 3 else 1) * job.microbatches if job.per_pass else 1
        return self._over_shards(d.GATHER, "all_gather", size, times)

    def _broadcast(self, size: float) -> Ints:
        """Every rank of a shard set in turn broadcasts its part of `size` bytes."""
        shard = self.job.shard
        groups = self.network.data_groups(shard, 1)
        priced = self.network.collective(f"shard {shard}", "broadcast", size / shard, groups)
        self.traffic.add(d.KINDS[d.GATHER], priced, shard / self.job.pp)
        return priced.ticks * shard

    def _over_shards(self, kind: int, operation: str, size: float, times: float) -> Ints:
        """Ticks (chains, pp) of a collective of one piece that runs `times` times a step in operations of a kind.

        It is priced for the groups of all stages and runs on one of them, so 1 / pp of the traffic counts.
        """
        groups = self.network.data_groups(self.job.shard, 1)
        priced = self.network.collective(f"shard {self.job.shard}", operation, size, groups)
        self.traffic.add(d.KINDS[kind], priced, times / self.job.pp)
        return priced.ticks + self._copied(size)

    def _copied(self, size: float) -> int:
        """Ticks of copies, one a rank, between the tensors of a list and the library's buffer."""
        if self.job.stack.list_overhead is None or not size or self.job.shard == 1:
            return 0
        return units.to_ticks(price(Stream(size, size, kernels=self.job.shard), self.device).seconds)

    def reduce(self, size: float) -> Ints:
        """One call that reduces gradients of `size` bytes over all replicas, scattered where the optimizer is sharded;
        ticks (chains, pp)."""
        job = self.job
        times = job.microbatches if job.zero >= 2 else 1
        if job.zero == 0 or (not job.per_pass and job.shard < job.dp):
            priced = self.network.collective("dp", "all_reduce", size)
            self.traffic.add(d.KINDS[d.REDUCE], priced, times / job.pp)
            return priced.ticks
        ticks = self._over_shards(d.REDUCE, "reduce_scatter", size, times)
        if job.shard < job.dp:
            across = self.network.data_groups(job.dp // job.shard, job.shard)
            more = self.network.collective("replicas", "all_reduce", size / job.shard, across)
            self.traffic.add(d.KINDS[d.REDUCE], more, times / job.pp)
            ticks = ticks + more.ticks
        return ticks

    def pieces(self, chunk: Chunk, layer: list[float]) -> list[list[float]]:
        """Parameters of each unit of each piece of a chunk, in forward order, with `layer` the units of a layer;
        embedding and head are units."""
        job = self.job
        pieces = [list(layer) for _ in range(chunk.layers)] or [[]]
        extra = memory.parameters(job, chunk) - chunk.layers * operators.layer_parameters(job)
        ends = [operators.embedding_parameters(job) * chunk.first, operators.head_parameters(job) * chunk.last]
        for piece, end in zip((pieces[0], pieces[-1]), ends, strict=True):
            if end:
                piece.append(extra * end / sum(ends))
        return pieces

    def calls(self, pieces: list[list[float]], element: float, bucket: float) -> list[list[float]]:
        """Bytes of each collective that starts or ends with each piece: its units, or the bucket that it closes."""
        if self.job.per_pass or self.job.stack.unit == "layer":
            return [[unit * element for unit in piece] for piece in pieces]
        return [[size] for size in _bucketed([sum(piece) * element for piece in pieces], bucket)]

    def gather_lists(self) -> list[list[Ints]]:
        """Ticks of the gathers of each piece of each chunk."""
        job = self.job
        if job.zero == 0 or job.dp == 1:
            return [[] for _ in self.chunks]
        bucket = job.bucket * job.element / job.stack.gradient_bytes if job.overlap_parameters else float("inf")
        layer = operators.gathered_units(job)
        # A bucket arrives with the first of its layers, so it is counted there.
        calls = [self.calls(self.pieces(chunk, layer)[::-1], job.element, bucket)[::-1] for chunk in self.chunks]
        return [[self._all(self.gather, sizes) for sizes in pieces] for pieces in calls]

    def regather_lists(self) -> list[list[Ints]]:
        """Ticks of the gathers that the recomputation of each piece of each chunk makes; empty where it makes none."""
        job = self.job
        if not job.synchronous or job.dp == 1 or job.recompute != "full":
            return [[] for _ in self.chunks]
        none = np.zeros(self.network.chains.shape, np.int64)
        sizes = [unit * job.element for unit in operators.gathered_units(job)]
        found = []
        for chunk in self.chunks:
            again = recomputed_layers(job, chunk)
            kept = [none] * (max(chunk.layers, 1) - again)
            found.append(kept + [self._all(self._regather, sizes) for _ in range(again)])
        return found

    def _regather(self, size: float) -> Ints:
        return self._over_shards(d.GATHER, "all_gather", size, self.job.microbatches)

    def _all(self, call: Callable[[float], Ints], sizes: list[float]) -> Ints:
        """Ticks (chains, pp) of calls one after the other."""
        return sum((call(size) for size in sizes), np.zeros(self.network.chains.shape, np.int64))

    def reduce_lists(self) -> list[list[Ints]]:
        """Ticks of the reductions after each piece of each chunk, last layer first."""
        job = self.job
        if job.dp == 1:
            return [[] for _ in self.chunks]
        bucket = job.bucket if job.overlap_gradients else float("inf")
        layer = operators.layer_units(job)
        calls = [self.calls(self.pieces(chunk, layer)[::-1], job.reduce_bytes, bucket) for chunk in self.chunks]
        return [[self._all(self.reduce, sizes) for sizes in pieces] for pieces in calls]

    def embedding(self) -> Ints:
        """Ticks by chain of the sum of a tied embedding's gradients over first and last stage."""
        job, chains = self.job, self.network.chains
        if not job.model.tied_embeddings or job.home[0] == job.home[-1]:
            return np.zeros(len(chains), np.int64)
        size = operators.vocabulary_shard(job) * job.model.hidden * float(job.reduce_bytes)
        pairs = chains[:, [job.home[0], job.home[-1]]]
        priced = self.network.collective("embedding", "all_reduce", size, pairs)
        self.traffic.add(d.KINDS[d.EMBEDDING], priced, 1)
        return priced.ticks[:, job.home[0]]

    # ---- pipeline ------------------------------------------------------------------------------------------------

    def sends(self) -> list[tuple[Ints, Ints]]:
        """Ticks by chain of the sends over each boundary of chunks: (forward, backward)."""
        job = self.job
        hops = list(zip(job.home, job.home[1:], strict=False))
        between = sorted({hop for hop in hops if hop[0] != hop[1]})
        free = np.zeros(len(self.network.chains), np.int64)
        if not between:
            return [(free, free) for _ in hops]
        forward = dict(zip(between, self._sent(d.SEND_FORWARD, between, hops), strict=True))
        backward = dict(zip(between, self._sent(d.SEND_BACKWARD, [(b, a) for a, b in between], hops), strict=True))
        return [(forward.get(hop, free), backward.get(hop, free)) for hop in hops]

    def _sent(self, kind: int, between: Sequence[tuple[int, int]], hops: Sequence[tuple[int, int]]) -> Ints:
        """Ticks by hop and chain; the traffic of hops that several boundaries share counts for each."""
        job = self.job
        size = float(job.tokens * job.model.hidden * job.element)
        cut = job.scatter_gather or job.sequence_parallel
        priced = self.network.sends(size / job.tp if cut else size, between)
        crossed = sum(a != b for a, b in hops)
        self.traffic.add(d.KINDS[kind], priced, job.microbatches * crossed / len(between))
        if job.scatter_gather and not job.sequence_parallel and job.tp > 1:
            gathered = self.network.collective("tp", "all_gather", size)
            self.traffic.add(d.KINDS[kind], gathered, job.microbatches * crossed / job.pp)
            return priced.ticks + gathered.ticks[:, [receiver for _, receiver in between]].T
        return priced.ticks

    # ---- together ------------------------------------------------------------------------------------------------

    def classes(self, fold: str, marks: Ints | None = None) -> ChainClasses:
        """Price everything and fold; `fold` is `exact`, `tiers` or `none`.

        `marks` (chains,) are numbers that chains must share to be folded, whatever they pay.
        """
        tensor, sends = self.tensor_rows(), self.sends()
        gathers, regathers, reduces = self.gather_lists(), self.regather_lists(), self.reduce_lists()
        embedding = self.embedding()
        chains = len(self.network.chains)
        by_stage = [*tensor.values(), *(t for lists in (gathers, regathers, reduces) for ticks in lists for t in ticks)]
        columns = [t.reshape(chains, -1) for t in by_stage]
        columns += [np.stack(pair, axis=1) for pair in sends] + [embedding[:, None]]
        rows = np.concatenate(columns, axis=1)
        spread = 0.0
        if fold == "tiers":
            spread, rows = _spread(rows), np.broadcast_to(rows.max(axis=0), rows.shape)
            tensor = {key: _worst(t) for key, t in tensor.items()}
            gathers, regathers, reduces = (
                [[_worst(t) for t in ticks] for ticks in lists] for lists in (gathers, regathers, reduces)
            )
            sends = [(_worst(a), _worst(b)) for a, b in sends]
            embedding = _worst(embedding)
        if marks is not None:
            rows = np.concatenate([rows, marks[:, None]], axis=1)
        peers = self.network.peers()
        label, examples = (np.arange(chains), np.arange(chains)) if fold == "none" else fold_chains(rows, peers)
        prices = tuple(self._list(int(c), tensor, sends, gathers, regathers, reduces, embedding) for c in examples)
        members = tuple(np.flatnonzero(label == i) for i in range(len(examples)))
        return ChainClasses(
            prices,
            members,
            _meetings(label, examples, peers),
            self.network.chains,
            self.traffic,
            tuple(sorted(self.outside)),
            spread,
        )

    def _list(
        self,
        chain: int,
        tensor: dict[tuple[str, float], Ints],
        sends: list[tuple[Ints, Ints]],
        gathers: list[list[Ints]],
        regathers: list[list[Ints]],
        reduces: list[list[Ints]],
        embedding: Ints,
    ) -> Prices:
        """The price list of one chain."""
        job = self.job
        by_rank = [self._costs({key: int(t[chain, rank]) for key, t in tensor.items()}) for rank in range(job.pp)]
        passes = [chunk_passes(job, chunk, by_rank[home][0]) for chunk, home in zip(self.chunks, job.home, strict=True)]
        halves = [
            _halves(backward, by_rank[home][1], chunk)
            for (_, backward), chunk, home in zip(passes, self.chunks, job.home, strict=True)
        ]
        shard = job.shard if job.zero else 1
        pricer = Pricer(job, self.device, lambda operation, size: 0)
        owned = [sum(memory.parameters(job, c) for c in memory.chunks_of_stage(job, r)) for r in range(job.pp)]
        return Prices(
            forward=[f for f, _ in passes],
            backward=[b for _, b in passes],
            input_gradient=[first for first, _ in halves],
            weight_gradient=[second for _, second in halves],
            send_forward=[int(a[chain]) for a, _ in sends] + [0],
            send_backward=[int(b[chain]) for _, b in sends] + [0],
            gather=[[int(t[chain, home]) for t in ticks] for ticks, home in zip(gathers, job.home, strict=True)],
            regather=[[int(t[chain, home]) for t in ticks] for ticks, home in zip(regathers, job.home, strict=True)],
            reduce=[[int(t[chain, home]) for t in ticks] for ticks, home in zip(reduces, job.home, strict=True)],
            embedding=int(embedding[chain]),
            optimizer=[pricer.optimizer(p / shard) for p in owned],
        )

    def _costs(self, ticks: dict[tuple[str, float], int]) -> tuple[LayerCosts, tuple[PassCost, PassCost]]:
        """Costs of a layer, and of the weight gradients of a layer and of the head, under one group's collectives."""
        key = tuple(sorted(ticks.items()))
        if key not in self._known:
            pricer = Pricer(self.job, self.device, lambda operation, size: ticks[operation, size])
            layer, head = (
                pricer.cost(s for s in steps if not isinstance(s, Collective) and s.weight_gradient)
                for steps in (operators.layer_backward(self.job), operators.head_backward(self.job))
            )
            self._known[key] = pricer.layers(), (layer, head)
            self.outside |= pricer.invalid
        return self._known[key]


def _halves(backward: list[PassCost], weights: tuple[PassCost, PassCost], chunk: Chunk) -> tuple[PassCost, PassCost]:
    """The backward pass of a chunk in two: gradients of inputs with all that goes with them, gradients of weights."""
    second = weights[0].times(chunk.layers) + weights[1].times(int(chunk.last))
    return sum(backward, second.times(-1)), second


def _bucketed(sizes: list[float], bucket: float) -> list[float]:
    """Sizes summed into buckets, each counted at its last member; the others are 0."""
    found, open_bytes = [], 0.0
    for i, size in enumerate(sizes):
        open_bytes += size
        full = open_bytes >= bucket or i == len(sizes) - 1
        found.append(open_bytes if full else 0.0)
        open_bytes = 0.0 if full else open_bytes
    return found


def _worst(ticks: Ints) -> Ints:
    """Every chain pays what the worst one pays."""
    return np.broadcast_to(ticks.max(axis=0), ticks.shape)


def _spread(rows: Ints) -> float:
    """Largest relative difference in a column."""
    high, low = rows.max(axis=0), rows.min(axis=0)
    return float(np.max((high - low) / np.maximum(high, 1), initial=0.0))


def _meetings(label: Ints, examples: Ints, peers: Ints) -> Ints:
    """Data-parallel groups in which chains of different classes wait for each other."""
    found = np.full(len(examples), -1, np.int64)
    for i, chain in enumerate(examples.tolist()):
        group = label[peers == peers[chain]]
        if np.any(group != i):
            found[i] = int(np.min(np.flatnonzero(np.isin(label, group))))
    return found
