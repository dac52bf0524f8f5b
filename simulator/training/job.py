"""A training job with nothing left open: what a scenario says, with the stack's defaults filled in."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.axes import CP, DP, EP, ETP, PP, TP
from simulator.model.backward import EXPERT_EXCHANGES
from simulator.model.cut import SENT, Cut
from simulator.model.held import ATTENTION
from simulator.model.layers import layer
from simulator.model.ops import Op
from simulator.model.tensors import Tensor
from simulator.parallel import Mesh
from simulator.program.schedule import Schedule
from simulator.specs.model import LayerKind, Model
from simulator.specs.tiers.offload import Offload
from simulator.specs.tiers.sharding import Sharding
from simulator.specs.tiers.zeroth_order import ZerothOrder
from simulator.specs.training import Algorithms, Lora, Optimizer, Stack, UserBuffers
from simulator.training import context
from simulator.training.batches.base import Batch, Shape
from simulator.training.batches.documents import Packing
from simulator.training.checks import (
    sharded_per_pass,
)
from simulator.training.experts.routing import LOAD, Exchange
from simulator.training.recipes import RECIPES, Recipe
from simulator.training.tiers.host import HostRates

BYTES = {"fp32": 4, "tf32": 4}
"""Bytes of an activation or weight element by precision where they are not 2; recipes below 16 bits keep 16 beside."""
WIRE = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
"""Bytes of an element that is sent, scales left out."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Ranks that copy the same parameters, and over how many of them what is sharded is spread."""

    experts: bool
    """Whether the parameters are those of experts on a mesh of their own."""
    count: int
    shard: int


@dataclass(frozen=True)
class Job:
    """Every choice of a training run, resolved.

    What many formulas ask of it is worked out once; `dataclasses.replace` makes a job that works it out anew.
    """

    model: Model
    stack: Stack
    mesh: Mesh
    experts: Mesh
    """The mesh of the experts over the same devices."""
    chunks: tuple[int, ...]
    """Layers of each model chunk, in the order of the layers and the same in every copy; shape (pp x vpp,)."""
    vpp: int
    schedule: Schedule
    """What each pipeline rank does, in order."""
    home: tuple[int, ...]
    """Pipeline rank of each model chunk, copy after copy; shape (copies x pp x vpp,)."""
    global_batch: int
    micro_batch: int
    sequence: int
    encoder_sequence: int | None
    """Tokens of a sequence of the encoder; None without one."""
    microbatches: int
    """Micro batches that each pipeline runs per step."""
    precision: str
    recipe: Recipe | None
    """How factors of products are cast to 8 or 4 bits; None where they are not."""
    any_order: bool
    """Whether the device multiplies 8-bit factors in either order."""
    turns_weights: bool
    """Whether weights with one scale are kept in one order and turned where the other is wanted."""
    attention_kernel: str | None
    """Generation of the fused attention kernel; None for the best of the device."""
    quantized_attention: bool
    """Whether fused attention multiplies in 8 bits."""
    quantized_parameters: bool
    """Whether the matrices of the layers are kept and gathered in the recipe's format alone."""
    lora: Lora | None
    """Adapters that alone are trained; None where everything is."""
    attention: str
    causal: bool
    packing: Packing | None
    """Documents that sequences are packed of; None where each is one."""
    recompute: str
    recompute_modules: tuple[str, ...]
    """Operations of each layer that `selective` drops and computes again besides scores."""
    recompute_keeps: tuple[str, ...]
    """Results of each layer that `full` keeps, by operation."""
    recompute_layers: int | None
    """Layers of each chunk that are recomputed under `full`; None for `recompute_share` of them."""
    offload_layers: int
    """Layers of each chunk whose activations wait in the host's memory."""
    host_link: float
    """Bytes/s between a device and its host, per direction; 0 where the profile has none."""
    runtime: float | None
    """Bytes of the stack's runtime on the device; None where the stack has no kernels for this kind of device."""
    sequence_parallel: bool
    cp_kind: str
    """How attention sees the whole of a sequence that is cut."""
    by_heads: int
    """Neighbouring context-parallel ranks that share heads where others pass keys around."""
    zero: int
    hooked: bool
    """Whether every module looks for its parameters before it runs, those of one device's as well."""
    replicas: tuple[Replicas, ...]
    """Ranks that hold copies of parameters: those of all but the experts first, then those of experts on a mesh of
    their own."""
    blocking: bool
    """Whether the host waits for every kernel."""
    overlap_gradients: bool
    overlap_parameters: bool
    overlap_pipeline: bool
    scatter_gather: bool
    reduce_bytes: int
    """Bytes of a gradient element on the wire."""
    gradient_bytes: int
    """Bytes of a gradient element as it is summed and kept."""
    optimizer: Optimizer
    """What updates the parameters."""
    algorithms: Algorithms
    """Collective algorithms by axis."""
    exchange: Exchange | None
    """How rows are sent to experts; None without experts."""
    overlap_experts: bool
    """Whether rows travel to experts and back beside the passes of another microbatch."""
    cuda_graphs: tuple[str, ...]
    """What of each layer the host launches as one graph."""
    bucket: float
    """Gradient bytes reduced together; infinite for all of a chunk at once."""
    recompute_share: float = 1.0
    """Share of the layers of each chunk that are recomputed under `full`, where `recompute_layers` counts none."""
    expert_chunks: int = 1
    """Parts in which the rows of an exchange with experts are sent, worked on and returned."""
    overlap_tensor: str | None = None
    """What runs beside products in tensor parallelism; what the stack has where None."""
    one_lane: bool = False
    """Whether all that those parts send travels one after the other."""
    shared_beside: bool = False
    """Whether shared experts work beside the exchanges."""
    part: float = 1.0
    """Share of the rows of a microbatch that operations are evaluated for."""
    batch: Batch | None = None
    """Microbatches that differ; None where all are alike."""
    vocabulary_sums: int = 0
    """How often ranks sum around their parts of the vocabulary; 0 where it is at the ends of the model."""
    grouped: bool = False
    """Whether this is a microbatch that some data-parallel ranks share while others have their own."""
    ping_pong: bool = False
    """Whether what travels for attention on other ranks does so beside another half of the microbatch."""
    logits_in_flight: int = 1
    """Microbatches whose logits wait for their backward pass at once."""
    logit_gradients_in_flight: int = 1
    """Microbatches whose logits or gradients of logits wait for the last of their backward passes at once."""
    cuts: tuple[int, ...] = ()
    """Tokens of each slice of a microbatch along its sequence, which pass one by one; empty where it passes whole."""
    before: int = 0
    """Tokens of a sequence before those of this job, whose keys are there."""
    offload: Offload | None = None
    """What lives beside the device's memory; None for nothing, or for activations by `offload_layers` alone."""
    host: HostRates | None = None
    """What the host gives a device where anything lives there."""
    sharding: Sharding | None = None
    zeroth: ZerothOrder | None = None
    """How sharded parameters and gradients travel where not plainly."""
    workers: int | None = None
    """Workers that take local steps; None where all replicas meet in every step."""
    outer_states: float = 0.0
    """Bytes of a parameter, of those that a rank holds, that local steps keep on the device besides."""
    fragmentation: float = 0.0
    """Memory that the allocator cannot hand out, as a share of activations and working buffers."""
    slowest: float = 1.0
    """How many times as long kernels that arithmetic bounds take on the slowest of the devices that wait for each
    other as on a mean one."""
    tile_tokens: int | None = None
    """Tokens that MLPs and the loss take at once; None for all of a microbatch."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def pp(self) -> int:
        """Pipeline stages (devices along the pipeline)."""
        return self.mesh.sizes[PP.name]

    @property
    def tp(self) -> int:
        """Tensor-parallel devices."""
        return self.mesh.sizes[TP.name]

    @property
    def dp(self) -> int:
        """Data-parallel replicas."""
        return self.mesh.sizes[DP.name]

    @property
    def cp(self) -> int:
        """Devices over which every sequence is cut."""
        return self.mesh.sizes[CP.name]

    @property
    def copies(self) -> int:
        """How often the model lies on the pipeline."""
        return self.schedule.copies

    @property
    def held(self) -> tuple[str, ...]:
        """Results of each layer that full recomputation keeps: those asked for, and those of some schemes of context
        parallelism."""
        attention = self.cp > 1 and context.SCHEMES.get(self.cp_kind).keeps_results
        return (*self.recompute_keeps, *((ATTENTION,) if attention else ()))

    @property
    def ladder(self) -> bool:
        """Whether tensor-parallel collectives run beside the block after theirs."""
        return self.model.ladder_residual and self.tp > 1 and not self.blocking

    @property
    def beside_products(self) -> str:
        """What of tensor parallelism runs beside products."""
        return "none" if self.blocking or self.ladder else self.overlap_tensor or self.stack.overlap_tensor

    @property
    def user_buffers(self) -> UserBuffers | None:
        """Buffers of the stack that tensor-parallel collectives beside products run over; None for the library's."""
        return self.stack.user_buffers if self.beside_products == "all" else None

    @property
    def dense(self) -> Replicas:
        """Ranks that hold copies of the parameters that are not of experts."""
        return self.replicas[0]

    @property
    def copied(self) -> bool:
        """Whether any parameters lie on several ranks, so that gradients are summed."""
        return any(copies.count > 1 for copies in self.replicas)

    @property
    def levels(self) -> bool:
        """Whether parameters and gradients are spread over fewer ranks than states of the optimizer."""
        return self.sharding is not None and self.sharding.levels is not None

    @property
    def sharded(self) -> bool:
        """Whether anything is spread over ranks that would copy it."""
        return any(copies.shard > 1 for copies in self.replicas)

    @cached_property
    def answers(self) -> dict[object, object]:
        """What functions have answered about this job, by the function's name and its arguments (`training.once`)."""
        return {}

    @cached_property
    def layers(self) -> tuple[LayerKind, ...]:
        """The kind of each layer, of each of an encoder before and of each module for multi-token prediction after."""
        return self.model.encoding + self.own_layers + self.model.predicting

    @cached_property
    def own_layers(self) -> tuple[LayerKind, ...]:
        """The kind of each layer of the model, those of an encoder and for multi-token prediction apart."""
        loads = () if self.exchange is None else self.exchange.of_layers
        if not loads:
            return self.model.kinds
        return tuple(kind._replace(load=load) for kind, load in zip(self.model.kinds, loads, strict=True))

    @property
    def parts(self) -> "tuple[Job, ...]":
        """The job as each slice of a microbatch sees it, whose passes are those of more and shorter microbatches."""
        if not self.cuts:
            return (self,)
        ends, many = accumulate(self.cuts), self.microbatches * self.slices
        return tuple(
            replace(self, sequence=length, before=end - length, microbatches=many, cuts=())
            for length, end in zip(self.cuts, ends, strict=True)
        )

    @property
    def slices(self) -> int:
        """Slices of each microbatch, 1 where it passes whole."""
        return max(len(self.cuts), 1)

    @property
    def encoder(self) -> "Job":
        """The job as layers of an encoder see it: other sequences, all of whose tokens see each other."""
        return replace(self, sequence=self.encoder_sequence or self.sequence, causal=False)

    def of(self, kind: LayerKind) -> "Job":
        """The job as a layer of a kind sees it."""
        own = self.encoder if kind.encodes else self
        return replace(own, exchange=own.exchange.at(kind.load)) if kind.load and own.exchange else own

    def load_among(self, operation: str) -> str:
        """Name of the groups among which rows of this job's layers are exchanged, where layers have other loads."""
        sent = self.exchange
        return f"{EP.name}{LOAD}{sent.number}" if sent and sent.number and operation in EXPERT_EXCHANGES else ""

    def shaped(self, shape: Shape) -> "Job":
        """The job as the passes of one microbatch see it."""
        encoder = shape.encoder or self.encoder_sequence
        return replace(
            self,
            micro_batch=shape.sequences,
            sequence=shape.tokens,
            encoder_sequence=encoder,
            packing=shape.packing,
            batch=None,
            **self._over(shape.ranks),
        )

    def _over(self, ranks: int) -> dict[str, Any]:
        """The mesh on which groups of neighbouring data-parallel ranks share sequences, where they do."""
        if ranks == 1:
            return {}
        sizes = self.mesh.sizes | {CP.name: ranks, DP.name: self.dp // ranks}
        mesh = replace(self.mesh, sizes=sizes)
        return {"mesh": mesh, "experts": mesh, "grouped": True}

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The different kinds of layers, in the order of their first."""
        return tuple(dict.fromkeys(self.layers))

    @cached_property
    def _made(self) -> dict[LayerKind, tuple[Op, ...]]:
        """Operations of the kinds of layers that were asked for."""
        return {}

    def operations(self, kind: LayerKind) -> list[Op]:
        """Operations of a layer of a kind, without adapters, in a list of the caller's own."""
        if kind not in self._made:
            self._made[kind] = tuple(layer(self.model, self.of(kind).cut, kind))
        return list(self._made[kind])

    @property
    def copies_embedding(self) -> bool:
        """Whether the last stage has a table of the input embedding besides that of its head, for multi-token
        prediction."""
        apart = self.home[0] != self.home[-1]
        return apart and self.model.mtp_layers > 0 and not self.model.tied_embeddings

    def replicas_of(self, tensor: Tensor) -> Replicas:
        """Ranks that hold copies of a tensor."""
        return self.replicas[-1] if EP in tensor.cut else self.replicas[0]

    def meeting(self) -> dict[str, NDArray[np.int64]]:
        """Groups of more than one rank that meet in every layer, (groups, ranks) by what one is called: those that a
        layer is cut over, and those that experts lie over."""
        called = "a tensor-parallel group" if self.cp == 1 else "a tensor- and context-parallel group"
        found = {called: self.mesh.groups(TP.name, CP.name)}
        if self.exchange is not None:
            found["a group that experts lie over"] = self.experts.groups(ETP.name, EP.name)
        return {name: groups for name, groups in found.items() if groups.shape[1] > 1}

    def grid(self, copies: Replicas) -> NDArray[np.int64]:
        """Groups of ranks that copy the same parameters, in the order in which shards are dealt; (groups, count)."""
        mesh, axes = (self.experts, (DP.name,)) if copies.experts else (self.mesh, (DP.name, CP.name))
        groups = mesh.grid(*axes).reshape(-1, copies.count // self.copies)
        return groups if self.copies == 1 else self._with_mirrored(groups, copies)

    def _with_mirrored(self, groups: NDArray[np.int64], copies: Replicas) -> NDArray[np.int64]:
        """Groups of data parallelism joined with those of the pipeline rank that holds the same layers; each shard set
        with its own."""
        chains = self.mesh.chains()
        mirror, stage = np.empty((2, self.mesh.world), np.int64)
        mirror[chains], stage[chains] = chains[:, ::-1], np.arange(self.pp)
        sets = copies.shard // self.copies or copies.count // self.copies
        own = groups[stage[groups[:, 0]] < self.pp // 2].reshape(-1, copies.count // self.copies // sets, sets)
        return np.concatenate([own, mirror[own]], axis=2).reshape(-1, copies.count)

    @cached_property
    def cut(self) -> Cut:
        """How the axes cut the model on one rank."""
        sizes = {**self.experts.sizes, **self.mesh.sizes}
        encoded = (self.encoder_sequence or self.sequence) / self.sequence
        cut = Cut(
            sizes,
            self.sequence_parallel,
            self.stack.dropout,
            self.causal,
            encoded,
            SENT,
            norms_apart=not self.stack.fused_head_norms,
            fused=self.stack.grouped,
            gathers_each=self.stack.gathers_each,
            whole_logits=self.stack.whole_logits,
        )
        sent = self.exchange
        if sent is None:
            return cut
        rows = self.tokens if sent.masks == "microbatch" else self.sequence // self.cp
        group = rows // (self.tp if cut.rows else 1) if sent.masks else None
        return replace(cut, routing=sent.spread, merged=sent.merged, group=group)

    @property
    def shares(self) -> bool:
        """Whether data-parallel collectives run beside computation and share the multiprocessors with it."""
        gathered = self.gathers_ahead or self.optimizer.layerwise
        return self.copied and (self.per_pass or self.overlap_gradients or gathered)

    @property
    def per_pass(self) -> bool:
        """Whether parameters are gathered and gradients reduced around every pass, piece by piece."""
        return sharded_per_pass(self.zero, self.stack)

    @property
    def reduces_whole(self) -> bool:
        """Whether every rank gets all summed gradients though states are spread: where they are, matrix by matrix."""
        return self.zero == 1 and self.optimizer.whole == "owners"

    @property
    def gathers_ahead(self) -> bool:
        """Whether what the optimizer left in shards is gathered from the start of the step on."""
        return self.overlap_parameters and self.zero > 0 and not self.optimizer.layerwise

    @property
    def synchronous(self) -> bool:
        """Whether parameters are gathered just before every use, recomputation included, with nothing beside it."""
        return self.zero == 3 and self.stack.synchronous

    @property
    def element(self) -> int:
        """Bytes of an activation or weight element."""
        return BYTES.get(self.precision, 2)

    @property
    def wide(self) -> str:
        """Format of the products of attention and head, which recipes of 8 and 4 bits leave in 16."""
        return "bf16" if RECIPES.has(self.precision) else self.precision

    @property
    def attention_format(self) -> str:
        """Format of the factors of fused attention."""
        return "fp8" if self.quantized_attention else self.wide

    @property
    def narrow(self) -> str:
        """Format of the products of the layers' matrices, as the device knows it."""
        return RECIPES.get(self.precision).gemm if RECIPES.has(self.precision) else self.precision

    @property
    def counted(self) -> str:
        """Format whose peak utilisation is counted against."""
        return RECIPES.get(self.precision).peak if RECIPES.has(self.precision) else self.precision

    @property
    def stored(self) -> int:
        """Bytes of a parameter as it is kept."""
        return 4 if self.stack.fp32_parameters else self.element

    @property
    def master(self) -> float:
        """Bytes of the optimizer's own copy of a parameter; none where parameters have 32 bits themselves.

        Remainders need bf16 parameters, which are the upper half of fp32 ones.
        """
        if not self.stack.master_weights or self.stored == 4:
            return 0.0
        return 2.0 if self.stack.master_remainders and self.precision == "bf16" else 4.0

    @property
    def kept_input(self) -> float:
        """Bytes of an element that only a matrix product's weight gradient needs: one order of the recipe's format."""
        return self.recipe.element if self.recipe else self.element

    @property
    def cast_parameter(self) -> float:
        """Bytes of a layer's matrix element in the recipe's format, in all orders that are kept."""
        return self.recipe.weight * self.weight_orders if self.recipe else 0.0

    @property
    def weight_orders(self) -> int:
        """Copies of a layer's matrix in the recipe's format."""
        return self.recipe.orders(self.any_order or self.turns_weights) if self.recipe else 0

    @property
    def offloaded(self) -> float:
        """Share of the layers whose activations wait in the host's memory."""
        return sum(min(self.offload_layers, layers) for layers in self.chunks) / self.model.layers

    @property
    def gathered_bytes(self) -> float:
        """Bytes of a parameter element as it is gathered."""
        found = None if self.sharding is None else self.sharding.gather_format
        return float(self.element) if found is None else WIRE[found]

    @property
    def wire_bytes(self) -> float:
        """Bytes of a gradient element as it travels to its shard."""
        found = None if self.sharding is None else self.sharding.reduce_format
        return float(self.reduce_bytes) if found is None else WIRE[found]

    @property
    def token_wise(self) -> float | None:
        """Share of the tokens of a layer whose activations wait elsewhere while those of the others are computed again;
        None where layers or tensors are offloaded whole."""
        found = None if self.offload is None else self.offload.activations
        return None if found is None else found.tokens

    @property
    def host_share(self) -> float:
        """Share of the optimizer's states that lives beside the device's memory."""
        found = None if self.offload is None else self.offload.optimizer
        return 0.0 if found is None else found.share

    @property
    def accumulates(self) -> bool:
        """Whether gradients are summed over microbatches on the device before they are reduced or travel."""
        return self.microbatches > 1 and not self.per_pass

    def recomputed(self, layers: int) -> int:
        """Layers that are recomputed as a whole in a chunk of `layers`; halves are rounded up."""
        if self.recompute != "full":
            return 0
        if self.recompute_layers is not None:
            return min(self.recompute_layers, layers)
        return floor(layers * self.recompute_share + 0.5)

    @property
    def tokens(self) -> int:
        """Tokens of one microbatch on one rank."""
        return self.micro_batch * self.sequence // self.cp

    @property
    def tile(self) -> float:
        """Share of the tokens of a microbatch that MLPs and the loss have in memory at once; all where it has none."""
        return 1.0 if self.tile_tokens is None else min(self.tile_tokens / max(self.tokens, 1), 1.0)
