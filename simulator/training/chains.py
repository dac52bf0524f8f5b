"""From a job on a network to the price lists of its chains, folded.

A chain is one pipeline replica. All chains run the same program; they differ only in what their traffic costs. Chains
with the same costs (and peers with the same costs) fold into one class, which is simulated once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.axes import CP, DP, PP, TP
from simulator.cost import Device, Stream, kernel_cost
from simulator.program.content import Call, Comm, Content, merged
from simulator.program.piece import Piece, Takes, single
from simulator.specs.model import LayerKind
from simulator.training import memory, operators, vocabulary
from simulator.training.alike_chains import rendezvous, worst
from simulator.training.alike_chains import spread as spread_of
from simulator.training.batches.rows import apart, met, own_rows, shapes_of, sizes_of
from simulator.training.communication import Network, Priced, fold_chains, parts
from simulator.training.job import Job, Replicas
from simulator.training.memory import Chunk
from simulator.training.noise import joined
from simulator.training.optimizers.step import optimizer_step
from simulator.training.overlap.interference import memory_bound, slowed, taken
from simulator.training.pass_costs import ChunkPasses, LayerCosts, PassCosts, called, chunk_passes, recomputed_layers
from simulator.training.step import EXPERTS, SHARD, Step
from simulator.training.tiers.gathered import gathered_units
from simulator.training.tiers.levels import GRADIENTS, PARAMETERS, groups_of

Ints = NDArray[np.int64]
Units = Callable[[Job, LayerKind, Replicas], list[float]]
"""Parameters of the units of a layer."""

REPLICAS, ENDS, SECONDARY = "replicas", "ends", "secondary shard"
"""Parts of the data-parallel groups that hold equal shards; first and last stage of a pipeline; neighbours that hold a
second set of shards."""


NOTHING = single(Content())


@dataclass(frozen=True, slots=True)
class ChainCosts:
    """What every instruction of a chain (one pipeline replica) consists of; lists are by model chunk or by rank."""

    passes: Sequence[Sequence[ChunkPasses]]
    """Of each chunk, beside one of another microbatch where such go on together; by size of microbatch."""
    alone: Sequence[Sequence[ChunkPasses]]
    """Of each chunk, with no other beside them; by size of microbatch."""
    send_forward: Sequence[Sequence[Piece]]
    """From chunk i to chunk i + 1, by size of microbatch."""
    send_backward: Sequence[Sequence[Piece]]
    """From chunk i + 1 to chunk i, by size of microbatch."""
    gather: Sequence[Sequence[Piece]]
    """Gather of the parameters of each piece of each chunk, in forward order."""
    backward_gather: Sequence[Sequence[Piece]]
    """The same ahead of backward passes, where these gather from other shards; empty where they do not."""
    regather: Sequence[Sequence[Piece]]
    """Gather that the recomputation of each piece makes besides, in forward order; empty where it makes none."""
    reduce: Sequence[Sequence[Piece]]
    """Reduction of the gradients of each piece, last layer first; pieces of one bucket are empty but for the last."""
    embedding: Sequence[Piece]
    """Sum of the gradients of an embedding on first and last stage; empty where only one of them has it."""
    optimizer: Sequence[Piece]
    """By rank."""
    subgroup: Sequence[Piece]
    """Update of one subgroup of states that came to the device for it, by rank; nothing where none do."""
    updates: Sequence[Sequence[Piece]]
    """Of each chunk, of each piece of its backward pass; empty where all are updated together."""
    sizes: Ints
    """Number of the size of each microbatch among those of this chain; shape (microbatches,)."""
    meets: Sequence[tuple[int, ...]]
    """Classes of chains that share each microbatch and begin it together; empty where they are all of one."""
    takes: Callable[[Comm], Takes]
    """What a collective takes of a device that runs it."""
    together: Sequence[Sequence[Piece]] = ()
    """What ranks do together around their parts of the vocabulary, of C0, C1 and C2 those that there are, by rank."""


@dataclass(frozen=True, slots=True)
class ChainClasses:
    """The classes of chains and what each pays."""

    costs: tuple[ChainCosts, ...]
    """One price list a class."""
    members: tuple[Ints, ...]
    """Chains of each class."""
    rendezvous: Ints
    """For each class, the data-parallel group that it waits in, -1 where all its peers are of its own class."""
    ranks: Ints
    """Ranks of every chain; shape (chains, pp)."""
    shapes: tuple[Ints, ...]
    """Number of the size of each microbatch among those of the job, (microbatches,) by class."""
    priced: Mapping[Comm, Priced]
    """All collectives of the step."""
    outside: tuple[str, ...]
    """Kernels priced outside the range of their measurements."""
    spread: float
    """Largest relative difference between the price lists that tiers merged, or between what the links carry on which
    their chains meet; 0 where folding is exact."""

    @property
    def number(self) -> Ints:
        """The class of each chain; shape (chains,)."""
        found = np.zeros(len(self.ranks), np.int64)
        for number, members in enumerate(self.members):
            found[members] = number
        return found

    def split(self, keys: Ints) -> Ints | None:
        """Keys (chains,) that keep classes apart, and within them chains of different `keys`; None where no class has
        any such."""
        found = joined(self.number, keys)
        return found if found.max(initial=0) + 1 > len(self.members) else None


@dataclass(frozen=True, slots=True)
class ShardCall:
    """A collective over shards as often as it is called."""

    comm: Comm
    count: int
    more: int
    """Ticks of each call beside the collective: copies between the tensors of a list and the library's buffer."""


class StepCosts:
    """Costs of one job's step on one device and network."""

    def __init__(self, job: Job, device: Device, network: Network) -> None:
        self.job, self.device, self.network = job, device, network
        self.chunks = memory.all_chunks(job)
        self.outside: set[str] = set()
        self.shapes = shapes_of(job)
        self._known: dict[tuple[int, ...], tuple[LayerCosts, LayerCosts]] = {}
        self._passes: dict[tuple[int, int], ChunkPasses] = {}
        self._updates: dict[tuple[int, ...], list[Piece]] = {}
        self._takes: dict[tuple[Comm, bool], Takes] = {}

    # ---- inside passes -------------------------------------------------------------------------------------------

    def inside(self, job: Job) -> dict[Comm, None]:
        """Collectives inside passes of one size, all priced."""
        found = dict[Comm, None]()
        if not job.micro_batch:
            return found
        passes: list[Iterable[Step]] = [
            *(
                steps(job, kind)
                for kind in job.kinds
                for steps in (operators.layer_forward, operators.layer_backward, operators.recomputed)
            ),
            operators.embedding_forward(job),
            operators.embedding_backward(job),
            operators.head_forward(job),
            operators.head_backward(job),
        ]
        if job.vocabulary_sums:
            passes += operators.part_of_vocabulary(job)
        passes += [operators.copied_experts(job, kind, back) for kind in job.kinds for back in (False, True)]
        for step in (step for steps in passes for step in operators.collectives(steps)):
            comm = called(step, job)
            groups = job.mesh.groups(step.axis) if job.grouped and step.axis == CP.name else None
            if step.part is not None:
                groups = parts(job.mesh.groups(step.axis), *step.part)
            self.network.collective(comm, groups)
            found[comm] = None
        return found

    # ---- data parallelism ----------------------------------------------------------------------------------------

    def gather(self, size: float, copies: Replicas) -> list[ShardCall]:
        """One call that gathers parameters of `size` bytes over their shard set."""
        job = self.job
        if job.stack.owners and not job.per_pass:  # every rank of a shard set in turn broadcasts its part
            return [self._over(SHARD, "broadcast", size / copies.shard, copies, copies.shard)]
        return [self._over(PARAMETERS if job.levels else SHARD, "all_gather", size, copies)]

    def reduce(self, size: float, copies: Replicas) -> list[ShardCall]:
        """One call that reduces gradients of `size` bytes over all replicas, scattered where the optimizer is
        sharded."""
        job = self.job
        if job.zero == 0 or job.reduces_whole or (not job.per_pass and copies.shard < copies.count):
            return [self._over(DP.name, "all_reduce", size, copies)]
        runs = [self._over(GRADIENTS if job.levels else SHARD, "reduce_scatter", size, copies)]
        if copies.shard < copies.count:
            runs.append(self._over(REPLICAS, "all_reduce", size / copies.shard, copies))
        return runs

    def _over(self, among: str, operation: str, size: float, copies: Replicas, count: int = 1) -> ShardCall:
        """A collective of one piece, priced for the groups of all stages."""
        comm = Comm(operation, DP.name, size, among + EXPERTS * copies.experts)
        near = self.job.sharding.secondary if self.job.sharding else None
        parts = {
            SECONDARY: (min(near or 1, copies.shard), 1),
            SHARD: (copies.shard, 1),
            REPLICAS: (copies.count // copies.shard, copies.shard),
            **groups_of(self.job, copies),
        }
        part = parts.get(among, (copies.count, 1))
        if size > 0:
            self.network.collective(comm, self.network.data_groups(copies, *part))
        listed = among in (SHARD, PARAMETERS, GRADIENTS, SECONDARY) and count == 1
        return ShardCall(comm, count, self._copied(size, part[0]) if listed else 0)

    def _copied(self, size: float, ranks: int) -> int:
        """Ticks of copies, one a rank, between the tensors of a list and the library's buffer."""
        if self.job.stack.list_overhead is None or not size or ranks == 1:
            return 0
        return units.to_ticks(kernel_cost(Stream(size, size, kernels=ranks), self.device).seconds)

    def pieces(self, chunk: Chunk, copies: Replicas, units_of: Units) -> list[list[float]]:
        """Parameters of each unit of each piece of a chunk, in forward order, with `units_of` those of a layer;
        embedding and head are units."""
        job = self.job
        pieces = [units_of(job, kind, copies) for kind in chunk.kinds] or [[]]
        if copies.experts:
            return pieces
        layers = memory.over_layers(chunk.kinds, lambda kind: operators.layer_parameters(job, kind, copies))
        extra = memory.parameters(job, chunk, copies) - layers
        if job.lora and not (job.per_pass and units_of is gathered_units):
            return pieces  # embedding and head are frozen
        ends = [operators.embedding_parameters(job) * chunk.first, operators.head_parameters(job) * chunk.last]
        ends[1] += vocabulary.parameters(job) if chunk.part else 0.0
        for piece, end in zip((pieces[0], pieces[-1]), ends, strict=True):
            if end:
                piece.append(extra * end / sum(ends))
        return pieces

    def calls(
        self, pieces: list[list[float]], element: float, bucket: float, by_layer: bool = False
    ) -> list[list[float]]:
        """Bytes of each collective that starts or ends with each piece: its units, or the bucket that it closes."""
        if self.job.per_pass or self.job.stack.unit == "layer" or by_layer:
            return [[unit * element for unit in piece] for piece in pieces]
        return [[size] for size in _bucketed([sum(piece) * element for piece in pieces], bucket)]

    def gathers(self) -> list[list[list[ShardCall]]]:
        """Gathers of each piece of each chunk."""
        job = self.job
        if job.zero == 0 or not job.copied:
            return [[] for _ in self.chunks]
        bucket = job.bucket * job.element / job.gradient_bytes if job.gathers_ahead else float("inf")

        def calls(chunk: Chunk, copies: Replicas) -> list[list[ShardCall]]:
            # A bucket arrives with the first of its layers, so it is counted there.
            pieces = self.pieces(chunk, copies, gathered_units)[::-1]
            sizes = self.calls(pieces, job.gathered_bytes, bucket, job.optimizer.layerwise)
            return _each(sizes[::-1], copies, self.gather)

        return self._of_all(calls)

    def backward_gathers(self) -> list[list[list[ShardCall]]]:
        """Gathers of each piece of each chunk ahead of its backward pass from a second set of shards; empty without."""
        job = self.job
        if job.sharding is None or job.sharding.secondary is None or not job.copied:
            return [[] for _ in self.chunks]

        def near(size: float, copies: Replicas) -> list[ShardCall]:
            return [self._over(SECONDARY, "all_gather", size, copies)]

        def calls(chunk: Chunk, copies: Replicas) -> list[list[ShardCall]]:
            pieces = self.pieces(chunk, copies, gathered_units)
            return _each([[unit * job.element for unit in piece] for piece in pieces], copies, near)

        return self._of_all(calls)

    def regathers(self) -> list[list[list[ShardCall]]]:
        """Gathers that the recomputation of each piece of each chunk makes besides; empty where it makes none."""
        job = self.job
        if not job.synchronous or not job.copied or job.recompute != "full":
            return [[] for _ in self.chunks]

        def calls(chunk: Chunk, copies: Replicas) -> list[list[ShardCall]]:
            again = recomputed_layers(job, chunk.layers)
            units = [gathered_units(job, kind, copies) for kind in chunk.kinds[chunk.layers - again :]]
            pieces = [[unit * job.element for unit in piece] for piece in units]
            return [[]] * (max(chunk.layers, 1) - again) + _each(pieces, copies, self.gather)

        return self._of_all(calls)

    def reductions(self) -> list[list[list[ShardCall]]]:
        """Reductions after each piece of each chunk, last layer first."""
        job = self.job
        if not job.copied or job.zeroth is not None:
            return [[] for _ in self.chunks]
        bucket = job.bucket if job.overlap_gradients else float("inf")

        def calls(chunk: Chunk, copies: Replicas) -> list[list[ShardCall]]:
            pieces = self.pieces(chunk, copies, operators.layer_units)[::-1]
            return _each(self.calls(pieces, job.wire_bytes, bucket), copies, self.reduce)

        return self._of_all(calls)

    def _of_all(self, calls: Callable[[Chunk, Replicas], list[list[ShardCall]]]) -> list[list[list[ShardCall]]]:
        """Calls of each piece of each chunk, those of parameters that fewer ranks copy after the others."""
        copied = [copies for copies in self.job.replicas if copies.count > 1]
        found = []
        for chunk in self.chunks:
            together = zip(*(calls(chunk, copies) for copies in copied), strict=True)
            found.append([[run for runs in piece for run in runs] for piece in together])
        return found

    def embedding(self) -> Comm | None:
        """The sum of the gradients of an embedding that first and last stage both have; None where they do not."""
        job = self.job
        tables = (job.model.tied_embeddings or job.copies_embedding) and job.zeroth is None
        if not tables or job.vocabulary_sums or job.home[0] == job.home[-1]:
            return None
        size = operators.vocabulary_shard(job) * job.model.hidden * float(job.reduce_bytes)
        comm = Comm("all_reduce", PP.name, size, ENDS)
        self.network.collective(comm, self.network.ends(job.home[0], job.home[-1]))
        return comm

    def together(self) -> list[list[Comm]]:
        """What ranks of a chain do together around their parts of the vocabulary."""
        found = vocabulary.together(self.job)
        for comm in dict.fromkeys(comm for calls in found for comm in calls):
            self.network.collective(comm, self.network.chains)
        return found

    @cached_property
    def updating(self) -> tuple[Comm, ...]:
        """Collectives of the optimizers of all stages, all priced."""
        found = dict[Comm, None]()
        for stage in range(self.job.pp):
            for step in operators.collectives(optimizer_step(self.job, stage)):
                copies = self.job.replicas[-1] if step.among.endswith(EXPERTS) else self.job.dense
                part = groups_of(self.job, copies).get(step.among.removesuffix(EXPERTS), (copies.shard, 1))
                groups = self.network.data_groups(copies, *part) if step.among else None
                self.network.collective(called(step, self.job), groups)
                found[called(step, self.job)] = None
        return tuple(found)

    # ---- pipeline ------------------------------------------------------------------------------------------------

    def sends(self, job: Job) -> dict[tuple[int, int], list[tuple[Comm, int]]]:
        """What a send of one size from a rank to another consists of, each collective with its place."""
        hops = sorted({hop for hop in zip(job.home, job.home[1:], strict=False) if hop[0] != hop[1]})
        found: dict[tuple[int, int], list[tuple[Comm, int]]] = {}
        if not job.micro_batch:
            return found
        size = float(job.tokens * job.model.hidden * job.element)
        cut = job.scatter_gather or job.sequence_parallel
        directions = (("forward", hops), ("backward", [(b, a) for a, b in hops])) if hops else ()
        for direction, between in directions:
            comm = Comm("send", PP.name, size / job.tp if cut else size, direction)
            self.network.sends(comm, between)
            found |= {hop: [(comm, place)] for place, hop in enumerate(between)}
        if job.scatter_gather and not job.sequence_parallel and job.tp > 1:
            gathered = Comm("all_gather", TP.name, size, TP.name)
            self.network.collective(gathered)
            for (_, receiver), calls in found.items():
                calls.append((gathered, receiver))
        return found

    # ---- together ------------------------------------------------------------------------------------------------

    def classes(self, fold: str, fold_keys: Ints | None = None) -> ChainClasses:
        """Price everything and fold; `fold` is `exact`, `tiers` or `none`.

        `fold_keys` (chains,) are numbers that chains must share to be folded, whatever they pay.
        """
        lists = self.gathers(), self.backward_gathers(), self.regathers(), self.reductions()
        inside = tuple(tuple(self.inside(shape)) for shape in self.shapes)
        sends = tuple(map(self.sends, self.shapes))
        calls = _Calls(inside, *lists, sends, self.embedding(), self.together(), self.updating)
        known, chains = self.network.priced, len(self.network.chains)
        asked = [known[comm] for comm in dict.fromkeys(calls.all()) if comm in known]
        spread = 0.0
        if fold == "tiers":
            paid = dict[Comm, Ints]()
            for one in asked:  # one after the other: in a large job each is a number for every device
                ticks = one.ticks
                paid[one.comm], spread = worst(ticks), max(spread, spread_of(ticks))
            rows = np.concatenate([*(ticks[0] for ticks in paid.values()), np.zeros(1, np.int64)])
            rows = np.broadcast_to(rows, (chains, len(rows)))
        else:  # those that wait for a slower one take as long, and ask links for less
            paid = {one.comm: one.ticks for one in asked}
            rows = np.concatenate(
                [*paid.values(), np.zeros((chains, 1), np.int64), *(one.moving for one in asked)], axis=1
            )
        own = own_rows(self.job, self.network.chains)
        keys = [found[:, None] for found in (fold_keys, own) if found is not None]
        rows = np.concatenate([rows, *keys], axis=1) if keys else rows
        peers = self.network.peers()
        label, examples = (np.arange(chains), np.arange(chains)) if fold == "none" else fold_chains(rows, peers)
        while (keys_of_groups := apart(self.job, self.network.chains, label)) is not None:
            rows = np.concatenate([rows, keys_of_groups[:, None]], axis=1)
            label, examples = fold_chains(rows, peers)
        around = met(self.job, self.network.chains, label)
        different = [sizes_of(self.job, None if own is None else int(own[c])) for c in examples.tolist()]
        costs = tuple(
            self._chain({comm: ticks[c] for comm, ticks in paid.items()}, calls, sizes, around[c])
            for c, sizes in zip(examples.tolist(), different, strict=True)
        )
        members = tuple(np.flatnonzero(label == i) for i in range(len(examples)))
        return ChainClasses(
            costs,
            members,
            rendezvous(label, examples, peers),
            self.network.chains,
            tuple(different),
            {comm: known[comm] for comm in paid},
            tuple(sorted(self.outside)),
            spread,
        )

    def _chain(
        self, paid: dict[Comm, Ints], calls: "_Calls", own: Ints, around: tuple[tuple[int, ...], ...]
    ) -> ChainCosts:
        """The price list of one chain, which pays so many ticks for a collective at each place and runs microbatches of
        its `own` sizes (microbatches,), each with the classes `around`."""
        job = self.job
        shapes, sizes = np.unique(own, return_inverse=True)
        priced = [self.of_shape(paid, calls.inside[shape], shape) for shape in shapes.tolist()]
        none = [0.0] * len(job.home)
        bound = none if job.synchronous else self._memory_bound([passes for passes, _ in priced])
        hops = list(zip(job.home, job.home[1:], strict=False))
        ends = () if calls.embedding is None else (job.home[0], job.home[-1])
        sends = [calls.sends[shape] for shape in shapes.tolist()]
        return ChainCosts(
            passes=[passes for passes, _ in priced],
            alone=[alone for _, alone in priced],
            send_forward=[[_sent(sent.get(hop, []), paid) for hop in hops] + [NOTHING] for sent in sends],
            send_backward=[[_sent(sent.get(hop[::-1], []), paid) for hop in hops] + [NOTHING] for sent in sends],
            gather=self._pieces(calls.gathers, paid, bound if job.per_pass or job.overlap_parameters else none),
            backward_gather=self._pieces(calls.backward_gathers, paid, bound),
            regather=self._pieces(calls.regathers, paid, bound),
            reduce=self._pieces(calls.reductions, paid, bound if job.per_pass or job.overlap_gradients else none),
            embedding=[_sent([(calls.embedding, rank)], paid) for rank in ends if calls.embedding],
            optimizer=self._optimizers(paid),
            subgroup=self.subgroups,
            takes=self.takes,
            updates=self.updates,
            sizes=sizes.astype(np.int64).reshape(-1),
            meets=around or [()] * len(own),
            together=[
                [_sent([(comm, rank) for comm in one], paid) for rank in range(self.job.pp)] for one in calls.together
            ],
        )

    def _memory_bound(self, sizes: list[list[ChunkPasses]]) -> list[float]:
        """Share of each chunk's time in which the memory bounds its kernels, over microbatches of all sizes."""
        chunks = zip(*sizes, strict=True)
        return [memory_bound(way for one in chunk for way in (one.forward, one.backward)) for chunk in chunks]

    def takes(self, comm: Comm, bulk: bool = False) -> Takes:
        """What a collective takes of a device that runs it; `bulk` beside a product that has nothing to do with it."""
        if (comm, bulk) not in self._takes:
            self._takes[comm, bulk] = taken(self.job, self.network.priced[comm], self.device, bulk)
        return self._takes[comm, bulk]

    def _pieces(
        self, chunks: list[list[list[ShardCall]]], paid: Mapping[Comm, Ints], bound: Sequence[float]
    ) -> list[list[Piece]]:
        """Collectives over shards of each piece of each chunk, at the chunk's home, beside kernels of which the memory
        bounds a share."""
        return [
            [self._runs(piece, paid, place, share) for piece in chunk]
            for chunk, place, share in zip(chunks, self.job.home, bound, strict=True)
        ]

    def _runs(self, runs: Iterable[ShardCall], paid: Mapping[Comm, Ints], place: int, bound: float) -> Piece:
        """Collectives over shards one after the other."""

        def ticks(run: ShardCall) -> int:
            return run.count * (round(int(paid[run.comm][place]) * slowed(self.takes(run.comm), bound)) + run.more)

        return _calling(Call(run.comm, run.count, ticks(run)) for run in runs if run.comm in paid)

    def of_shape(
        self, paid: dict[Comm, Ints], inside: Sequence[Comm], shape: int
    ) -> tuple[list[ChunkPasses], list[ChunkPasses]]:
        """Passes of the chunks for microbatches of one size, beside others and alone."""
        home = self.job.home
        if not self.shapes[shape].micro_batch:
            idle = [self._idle(number) for number in range(len(home))]
            return idle, idle
        by_rank = [self._costs(paid, inside, rank, shape) for rank in range(self.job.pp)]
        return (
            [self._of_chunk(number, by_rank[rank][0]) for number, rank in enumerate(home)],
            [self._of_chunk(number, by_rank[rank][1]) for number, rank in enumerate(home)],
        )

    def _idle(self, number: int) -> ChunkPasses:
        """Passes of a chunk that has nothing to do, in as many pieces as others."""
        chunk = self.chunks[number]
        layers = [NOTHING] * max(chunk.layers, 1)
        weights = [NOTHING] * max(chunk.layers + chunk.last, 1)
        return ChunkPasses(layers, layers, layers, weights, [NOTHING], [NOTHING])

    def _optimizers(self, paid: dict[Comm, Ints]) -> list[Piece]:
        """The optimizer of each rank of a chain, the same for all chains that pay alike."""
        key = tuple(int(ticks) for comm in self.updating for ticks in paid[comm])
        if key not in self._updates:
            self._updates[key] = [self._optimizer(paid, stage) for stage in range(self.job.pp)]
        return self._updates[key]

    def _optimizer(self, paid: dict[Comm, Ints], stage: int) -> Piece:
        costs = PassCosts(self.job, self.device, lambda comm: int(paid[comm][stage]))
        found = costs.optimizer(stage)
        self.outside |= costs.invalid
        return found

    @cached_property
    def subgroups(self) -> list[Piece]:
        """The update of a subgroup on each rank, where states come to the device for it."""
        costs = PassCosts(self.job, self.device, lambda comm: 0)
        return [costs.subgroup(stage) for stage in range(self.job.pp)]

    @cached_property
    def updates(self) -> list[list[Piece]]:
        """The optimizer of each piece of each chunk, where it runs piece by piece."""
        costs = PassCosts(self.job, self.device, lambda comm: 0)
        found = [costs.updates(chunk) for chunk in self.chunks]
        self.outside |= costs.invalid
        return found

    def _of_chunk(self, number: int, costs: LayerCosts) -> ChunkPasses:
        """Passes of a chunk, the same pieces for all chains that pay alike."""
        key = number, id(costs)
        if key not in self._passes:
            self._passes[key] = chunk_passes(self.job, self.chunks[number], costs)
        return self._passes[key]

    def _costs(
        self, paid: dict[Comm, Ints], inside: Sequence[Comm], rank: int, shape: int
    ) -> tuple[LayerCosts, LayerCosts]:
        """Costs of the passes of layers and ends on a rank of the pipeline, with another pass beside them and alone."""
        key = (shape, *(int(paid[comm][rank]) for comm in inside))
        if key not in self._known:
            costs = PassCosts(self.shapes[shape], self.device, lambda comm: int(paid[comm][rank]), self.takes)
            alone = costs.layers()
            self._known[key] = costs.layers(paired=True) if self.job.overlap_experts else alone, alone
            self.outside |= costs.invalid
        return self._known[key]


@dataclass(frozen=True, slots=True)
class _Calls:
    """Everything that a chain sends."""

    inside: tuple[tuple[Comm, ...], ...]
    """By size of microbatch."""
    gathers: list[list[list[ShardCall]]]
    backward_gathers: list[list[list[ShardCall]]]
    regathers: list[list[list[ShardCall]]]
    reductions: list[list[list[ShardCall]]]
    sends: tuple[dict[tuple[int, int], list[tuple[Comm, int]]], ...]
    """By size of microbatch."""
    embedding: Comm | None
    together: list[list[Comm]]
    updating: tuple[Comm, ...]

    def all(self) -> Iterator[Comm]:
        """The different collectives, in the order of first use."""
        yield from (comm for each in self.inside for comm in each)
        for lists in (self.gathers, self.backward_gathers, self.regathers, self.reductions):
            yield from (run.comm for pieces in lists for runs in pieces for run in runs)
        yield from (comm for each in self.sends for calls in each.values() for comm, _ in calls)
        if self.embedding is not None:
            yield self.embedding
        yield from dict.fromkeys(comm for calls in self.together for comm in calls)
        yield from self.updating


def _sent(calls: Iterable[tuple[Comm, int]], paid: Mapping[Comm, Ints]) -> Piece:
    """Collectives one after the other, each once."""
    return _calling(Call(comm, 1, int(paid[comm][place]), place) for comm, place in calls)


def _calling(calls: Iterable[Call]) -> Piece:
    """Collectives one after the other, as one part."""
    return single(Content(calls=merged(calls)))


def _each(
    pieces: list[list[float]], copies: Replicas, calls: Callable[[float, Replicas], list[ShardCall]]
) -> list[list[ShardCall]]:
    """The calls of each piece, of which each unit has a size."""
    return [[run for size in sizes for run in calls(size, copies)] for sizes in pieces]


def _bucketed(sizes: list[float], bucket: float) -> list[float]:
    """Sizes summed into buckets, each counted at its last member; the others are 0."""
    found, open_bytes = [], 0.0
    for i, size in enumerate(sizes):
        open_bytes += size
        full = open_bytes >= bucket or i == len(sizes) - 1
        found.append(open_bytes if full else 0.0)
        open_bytes = 0.0 if full else open_bytes
    return found
