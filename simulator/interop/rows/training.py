"""Published training measurements as scenarios.

A row states what its authors state. What it leaves open is filled in by the rules of this module, the same for every
row, and listed as an assumption; a row that needs what is not built is refused with the reason. No rule looks at the
measured value. What the memory decides, or a run has to be timed for, is said to be open (`Open`):
`simulator.run.measured` chooses it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simulator.errors import InputError
from simulator.interop.rows import accelerators, experts, machines, recipes, schedules, slices, submissions
from simulator.interop.rows import training_names as names
from simulator.interop.rows.accelerators import plain
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving_names import model as served_model
from simulator.interop.rows.stated import hybrids, stacks
from simulator.interop.rows.stated.sharding import Sharding, Zero, reduced_in, sharding
from simulator.interop.rows.suspicious import check_training
from simulator.interop.rows.words import vocabulary
from simulator.specs import load_spec
from simulator.specs.base import Figure
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import Parallel, Recompute, Stack, Training

PositiveInt = Field(default=None, ge=1, le=1_000_000)


class _Part(BaseModel):
    """Some keys of a row; unknown ones are kept aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class _Machine(_Part):
    """The devices of a row and what joins them."""

    device: str
    devices: int = Field(ge=1, le=10_000_000)
    devices_per_node: int | None = PositiveInt
    intra_node: str | None = None
    inter_node_gbps_per_device: float | None = Field(default=None, ge=0, le=1e6)
    peak_flops_bf16: float | None = Field(default=None, gt=0)


class _Shape(_Part):
    """The model of a row."""

    model: str
    params_b: float | None = None
    hidden: int = Field(ge=1, le=10_000_000)
    layers: int = Field(ge=1, le=100_000)
    heads: int = Field(ge=1, le=1_000_000)
    kv_heads: int | None = PositiveInt
    head_dim: int | None = PositiveInt
    ffn: int | None = Field(default=None, ge=1, le=10_000_000)
    gated_ffn: bool | None = None
    vocab: int | None = Field(default=None, ge=1, le=100_000_000)
    seq_len: int = Field(ge=1, le=100_000_000)
    experts: int | None = None
    topk: int | None = PositiveInt
    moe_ffn: int | None = PositiveInt
    shared_experts: int | None = None
    dense_layers: int | None = None
    moe_every: int | None = PositiveInt
    attention: str | None = None


class _Layout(_Part):
    """How the run of a row was laid out."""

    global_batch: int = Field(default=0, ge=1, le=100_000_000)
    """Sequences of a step; 0 where the row leaves them open."""
    micro_batch: int | None = PositiveInt
    tp: int | None = PositiveInt
    pp: int | None = PositiveInt
    vpp: int | None = PositiveInt
    cp: int | None = PositiveInt
    dp: int | None = PositiveInt
    ep: int | None = PositiveInt
    etp: int | None = PositiveInt
    shard: str | None = None
    sequence_parallel: bool | None = None
    recompute: str | None = None
    schedule: str | None = None


class _Figures(_Part):
    """What was measured."""

    primary_metric: Literal["step_s", "tokens_per_s_per_device", "samples_per_s", "flops_per_s_per_device", "mfu"]
    step_s: float | None = Field(default=None, gt=0)
    tokens_per_s_per_device: float | None = Field(default=None, gt=0)
    samples_per_s: float | None = Field(default=None, gt=0)
    flops_per_s_per_device: float | None = Field(default=None, gt=0)
    mfu: float | None = Field(default=None, gt=0)
    mem_bytes: float | None = Field(default=None, gt=0)
    flops_convention: str | None = None


class Row(_Figures, _Layout, _Shape, _Machine):
    """One published measurement; keys as in the measurement files."""

    id: str
    source: str
    table: str | None = None
    url: Any = None
    task: str = "pretrain"
    tier: int = 1
    precision: str
    framework: str | None = None
    flags: str | None = None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """What a row leaves to the memory and to the clock."""

    micro_batch: bool
    """Whether the micro batch is to be chosen."""
    least_chunks: int | None
    """Model chunks of a pipeline rank at least where their number is to be chosen; None where it is settled."""
    gives_way: bool
    """Whether recomputation and offloading may make room for a run that does not fit."""
    modules: bool = False
    """Whether it says that parts of layers with experts are recomputed, and not which."""
    layout: bool = False
    """Whether it says nothing of how many devices hold a model."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A row as a scenario, as far as it says."""

    row: Row
    scenario: Scenario
    stack: str
    """Name of the stack's profile."""
    open: Open
    assumed: tuple[str, ...]
    """What the row leaves open and how it was filled in."""


def draft(row: Row) -> Draft:
    """The scenario of a row as far as it says; raises Refused with the reason where it cannot be simulated."""
    assumed: list[str] = []
    row = _with_batch(row, assumed)
    check_training(row)
    row = schedules.stated(row)
    _check_supported(row)
    row = hybrids.stated(row)
    row, submitted = submissions.stated(row, assumed)
    row = _divisible(slices.stated(row, _cluster_name(row, []), assumed), assumed)
    try:
        scenario = _scenario(row, submitted, assumed)
    except InputError as error:
        raise Refused(" ".join(str(error).split())) from None
    except ValidationError as error:
        raise Refused("; ".join(found["msg"].removeprefix("Value error, ") for found in error.errors())) from None
    return Draft(_with_peak(row, scenario, assumed), scenario, stacks.stack_name(row), _open(row), tuple(assumed))


def _with_batch(row: Row, assumed: list[str]) -> Row:
    """The row with the batch of a step where it says that of a pass alone: one pass a rank, or as many as it says that
    a rank accumulates. A rate hardly depends on it; for a step's time, or a pipeline that fills and drains, the row is
    refused."""
    if row.global_batch:
        return row
    others = prod(size for size in (row.tp, row.pp, row.cp) if size)
    ranks = row.devices // others
    if row.micro_batch is None or row.primary_metric == "step_s" or (row.pp or 1) > 1 or row.devices % others:
        raise Refused("without key `global_batch`")
    passes = names.accumulated(row.flags, row.notes) or 1
    batch = row.micro_batch * (row.dp or ranks) * passes
    assumed.append(f"global_batch {batch:,}: {passes} pass{'es' * (passes > 1)} of each of {row.dp or ranks:,} ranks")
    return row.model_copy(update={"global_batch": batch})


ROUNDED, ROUNDED_STEP = 0.05, 0.01
"""How far a batch is rounded to one that its ranks can share: of figures a token or a sample, and of a step's time."""


def _divisible(row: Row, assumed: list[str]) -> Row:
    """The row with a batch that data-parallel ranks can share where the one it states is nearly that: publications
    round (2 million tokens) or let the last microbatch be smaller."""
    others = [_axis(row, axis, []) for axis in ("tp", "pp", "cp")]
    ranks = row.devices // prod(others)
    unit = ranks * (row.micro_batch or 1)
    if (
        not unit
        or row.devices % prod(others)
        or row.global_batch % unit == 0
        or names.accumulated(row.flags, row.notes)
    ):
        return row
    batch = max(round(row.global_batch / unit), 1) * unit
    if abs(batch / row.global_batch - 1) > (ROUNDED_STEP if row.primary_metric == "step_s" else ROUNDED):
        return row
    assumed.append(f"global_batch {batch:,} for {row.global_batch:,}, which {ranks:,} ranks cannot share")
    return row.model_copy(update={"global_batch": batch})


def _with_peak(row: Row, scenario: Scenario, assumed: list[str]) -> Row:
    """The row with the peak that its MFU is a share of."""
    if row.primary_metric != "mfu" or row.peak_flops_bf16 is not None:
        return row
    precision = names.numbers(row.precision).precision
    known = scenario.cluster.node.accelerator.peak.get(precision)  # type: ignore[arg-type]
    if known is None:
        raise Refused(f"mfu of {precision}, which {row.device} has no peak of, without the peak that it is a share of")
    peak = known.value
    assumed.append(f"mfu of the dense peak of the data sheet, {peak / 1e12:,.0f} TFLOP/s")
    return row.model_copy(update={"peak_flops_bf16": peak})


def _check_supported(row: Row) -> None:
    """Refuse what no operator, schedule or device profile of ours stands for."""
    spread = (row.pp or 1) > 1
    reasons = {
        f"task `{row.task}` is not a pretraining step": not names.TASKS.fullmatch(plain(row.task)),
        **dict.fromkeys(names.unbuilt(row.flags, row.shard, row.framework), True),
        f"no {row.primary_metric} in the row": getattr(row, row.primary_metric) is None,
        "mfu of fewer than 16 bits without the peak that it is a share of": _peak_is_open(row),
    }
    words: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
        (names.attention, (row.attention, row.framework, row.flags)),
        (names.numbers, (row.precision,)),
        (schedules.schedule, (row.schedule, 2 if spread else 1)),
        (sharding, (row.shard,)),
        (names.recomputation, (row.recompute,)),
        (hybrids.shipped, (row,)),
        (_cluster_name, (row, [])),
    )
    unknown = [reason for reader, said in words if (reason := _refusal(reader, *said))]
    found = [reason for reason, applies in reasons.items() if applies] + unknown
    if found:
        raise Refused("; ".join(found))


def _peak_is_open(row: Row) -> bool:
    """Whether nobody can tell what the row's MFU is a share of: there are two customs below 16 bits."""
    if row.primary_metric != "mfu" or row.peak_flops_bf16 is not None or _refusal(names.numbers, row.precision):
        return False
    return names.numbers(row.precision).precision not in ("bf16", "fp16")


def _refusal(reader: Callable[..., Any], *said: Any) -> str:
    """Why a reader does not take some words; empty where it does."""
    try:
        reader(*said)
    except Refused as refused:
        return str(refused)
    return ""


# ---- parts of the scenario ---------------------------------------------------------------------------------------


def _scenario(row: Row, submitted: dict[str, Any], assumed: list[str]) -> Scenario:
    stack = stacks.stack(row, names.numbers(row.precision).precision, assumed)
    cluster, model = _cluster(row, assumed), _model(row, assumed)
    training = _training(row, stack, submitted, assumed)
    return Scenario(version=1, name=row.id, cluster=cluster, model=model, stack=stack, training=training)


def _open(row: Row) -> Open:
    least = None
    if row.vpp is None and stacks.may_interleave(row):
        least = 2 if schedules.schedule(row.schedule, row.pp or 1) == "interleaved-1f1b" else 1
    said = names.recomputation(row.recompute)
    parts = said.what == "selective" and not said.modules and (row.experts or 0) > 1
    silent = all(size is None for size in (row.tp, row.pp, row.dp)) and _accumulating(row, []) is None
    return Open(row.micro_batch is None, least, not _states_recompute(row), parts, silent)


def _cluster(row: Row, assumed: list[str]) -> Cluster:
    cluster = load_spec(Cluster, _cluster_name(row, assumed))
    node = cluster.node
    if row.devices_per_node is None and row.devices > node.devices:
        assumed.append(f"{node.devices} devices a node")
    rack = (
        machines.in_racks(row.intra_node, accelerators.profile(row.device, row.intra_node))
        and (row.devices_per_node or 0) < node.devices
    )
    per_node = node.devices if rack else row.devices_per_node or node.devices
    if row.devices < per_node:
        per_node = row.devices
    if row.devices % per_node:
        raise Refused(f"{row.devices} devices are no multiple of {per_node} a node")
    if cluster.network.kind == "torus":
        shard = sharding(row.shard)
        group = shard.group if isinstance(shard.group, int) else 1
        return slices.slice_of(cluster, row.devices, shard.slices, (row.tp or 1, group))
    if cluster.network.kind == "none" and row.devices > per_node:
        cluster = _joined(cluster, row, assumed)
        node = cluster.node
    cluster = slices.part_of(cluster, row.devices)
    changes = machines.with_devices(node, per_node)
    if node.nics is not None and row.devices > per_node:
        changes["nics"] = _nics(row, cluster, per_node, assumed)
    return cluster.model_copy(update={"node": node.model_copy(update=changes), "nodes": row.devices // per_node})


def _joined(cluster: Cluster, row: Row, assumed: list[str]) -> Cluster:
    """Servers that stand alone in their profile, joined by the rate that a row states."""
    if not row.inter_node_gbps_per_device:
        raise Refused("several nodes of a server that has no network here: state `inter_node_gbps_per_device`")
    return machines.joined(cluster, assumed)


def _cluster_name(row: Row, assumed: list[str]) -> str:
    """The cluster of a row; raises Refused for a device that is not known."""
    card, open_form = accelerators.card(row.device, row.intra_node or "")
    clusters = vocabulary().training.clusters
    if card is None or card not in clusters:
        raise Refused(f"device `{row.device}`" + (f" with `{row.intra_node}`" if row.intra_node else ""))
    if open_form:
        assumed.append(f"device `{row.device}` taken as {card}")
    return machines.named(row.intra_node) or clusters[card]


def _nics(row: Row, cluster: Cluster, per_node: int, assumed: list[str]) -> Any:
    """Cards of a node; where the row says nothing of them as many a device as usual: a server of four has half of those
    of one with eight."""
    nics, usual = cluster.node.nics, cluster.node.devices
    assert nics is not None
    if not row.inter_node_gbps_per_device:
        assumed.append("network as usual for the device")
        return nics.model_copy(update={"count": max(nics.count * per_node // usual, 1)})
    total = row.inter_node_gbps_per_device * 1e9 / 8 * per_node
    rate = Figure[float](value=total / nics.count, status="estimate", source=f"row {row.id}")
    return nics.model_copy(update={"bandwidth": rate})


def _model(row: Row, assumed: list[str]) -> Model:
    if hybrid := hybrids.shipped(row):
        return hybrids.model(row, hybrid, _predicting(row, assumed), assumed)
    known = _known_model(row)
    gated = _stated(row.gated_ffn, known and known.gated_ffn, False, "a gated MLP: {}", assumed)
    vocabulary = _stated(row.vocab, known and known.vocabulary, 51200, "vocabulary {:,}", assumed)
    kv_heads = _stated(row.kv_heads, known and known.kv_heads, row.heads, "{} key and value heads", assumed)
    usual = -(-8 * row.hidden // 3 // 256) * 256 if gated else 4 * row.hidden
    ffn = _stated(row.ffn, known and known.ffn, usual, "MLP of width {:,}", assumed)
    head_dim = row.head_dim or (known.head_dim if known else None)
    data: dict[str, Any] = {
        "name": row.model,
        "layers": row.layers,
        "hidden": row.hidden,
        "heads": row.heads,
        "kv_heads": kv_heads,
        "ffn": ffn,
        "vocabulary": vocabulary,
        "gated_ffn": bool(gated),
        "biases": not gated,
        "norm": "rmsnorm" if gated else "layernorm",
        "position": "rotary" if gated else "learned",
        "tied_embeddings": not gated,
        "max_sequence": row.seq_len,
        "head_norms": bool(known and known.head_norms),
    }
    data |= names.shape_of_attention(row.attention) | ({"head_dim": head_dim} if head_dim else {})
    if names.is_latent(row.attention):
        whole = {"kv_lora_rank", "qk_nope_head_dim", "v_head_dim"} <= set(data)
        stated = {key: size for key, size in data.items() if key in experts.LATENT}
        data |= {"kv_heads": row.heads} | ({} if whole else experts.latent(row, assumed)) | stated
    if modules := _predicting(row, assumed):
        data["mtp_layers"] = modules
    return Model.model_validate(data | experts.shape(row))


def _predicting(row: Row, assumed: list[str]) -> int:
    """Modules for multi-token prediction, which a row names among its flags."""
    modules = names.predicting(row.flags)
    if modules:
        assumed.append("one module for multi-token prediction, on the last stage")
    return modules


def _stated(said: Any, known: Any, usual: Any, words: str, assumed: list[str]) -> Any:
    """What a row says, else what is known of its model, else what is usual; the latter two are listed."""
    if said is not None:
        return said
    found = usual if known is None else known
    assumed.append(words.format(found) + ("" if known is None else ", as the model of this name has"))
    return found


def _known_model(row: Row) -> Model | None:
    """The shipped model of the row's name, where it has the width and the heads that the row states."""
    try:
        known = served_model(row.model)
    except Refused:
        return None
    return known if (known.hidden, known.heads) == (row.hidden, row.heads) and known.experts is None else None


def _training(row: Row, stack: Stack, submitted: dict[str, Any], assumed: list[str]) -> Training:
    tp, pp = _accumulating(row, assumed) or (_axis(row, "tp", assumed), _axis(row, "pp", assumed))
    vpp, cp, said = row.vpp or 1, row.cp or 1, schedules.schedule(row.schedule, pp)
    adapters, open_ones = names.lora(row.task, row.precision, row.flags, row.notes, usual=stacks.adapters(row))
    assumed += open_ones
    formats, shard, cluster = names.numbers(row.precision), sharding(row.shard), _cluster_name(row, [])
    zero, group = _sharding(row, shard, stack, assumed)
    recompute, layers, share = _recompute(row, stack, assumed)
    if formats.assumed:
        assumed.append(formats.assumed)
    if row.dp is not None and (ranks := tp * pp * cp * row.dp) != row.devices:
        assumed.append(f"{row.devices} devices, where tp x pp x cp x dp says {ranks}")
    if tp > 1 and row.sequence_parallel is None and stack.sequence_parallel:
        assumed.append("sequence parallelism (the stack's default)")
    kind = names.context(row.flags, row.notes) if cp > 1 else None
    if cp > 1 and kind is None:
        assumed.append(f"cp_kind {stack.cp_kind} (the stack's default)")
    if pp > 1 and row.vpp is None and stacks.of_library(row):
        assumed.append("vpp 1, as recipes of the framework's library have it")
    if schedules.overlaps_sends(row.schedule):
        assumed.append("what stages send overlaps as the stack has it")
    parallel = Parallel(
        tp=tp,
        pp=pp,
        vpp=vpp,
        cp=cp,
        cp_kind=kind,
        sequence_parallel=row.sequence_parallel,
        zero=zero,
        shard_size=group,
        **experts.layout(row, assumed),
    )
    stated = {
        "global_batch": row.global_batch,
        "micro_batch": row.micro_batch or 1,
        "sequence_length": row.seq_len,
        "parallel": parallel,
        "schedule": None if said in (None, "1f1b", "interleaved-1f1b") else said,
        "stages": schedules.stages(row, pp * vpp, assumed),
        "recompute": recompute,
        "recompute_modules": names.recomputation(row.recompute).modules,
        "recompute_keeps": names.recomputation(row.recompute).keeps,
        "recompute_layers": layers,
        "recompute_share": share,
        "precision": formats.precision,
        "lora": adapters,
        "offload": names.inputs_offloaded(names.offload(zero, row.shard, row.flags, row.framework), row.recompute),
        "optimizer": stacks.moments(row),
        "documents": _packed(row, adapters is not None, assumed),
        "attention": names.attention(row.attention, row.framework, row.flags),
        "causal": names.is_causal(row.attention),
        "reduce_precision": shard.reduced or formats.reduced or reduced_in(plain(row.flags or "")),
        "blocking_launches": machines.blocking(cluster, row.devices, assumed),
        "noise": machines.noise(cluster, row.table, row.devices, assumed),
        "routing": experts.routing(row, assumed),
        "overlap_experts": experts.overlaps(row),
        "quantized_attention": names.quantized_attention(row.flags),
    }
    set_by_recipe = recipes.settings(row, assumed)
    if graphs := names.graphs(row.flags):
        set_by_recipe["cuda_graphs"] = graphs
    if "dispatcher" not in set_by_recipe:
        set_by_recipe["dispatcher"] = experts.dispatcher(row, assumed)
    return Training(**{**stated, **set_by_recipe, **submitted})


PACKED = 256
"""Tokens of a sample of SQuAD: a guess without a source. Attention within so few takes next to nothing of a step."""


def _packed(row: Row, adapters: bool, assumed: list[str]) -> dict[str, Any] | None:
    """Documents of a sequence where the recipe of adapters packs short samples: NeMo's performance recipes fine-tune on
    SQuAD, packed to the sequence length (NVIDIA/NeMo scripts/performance/utils.py, `prepare_squad_dataset`, and
    `performance_mode` of `finetune_recipe`). MLPerf's sequences see each other (`return_cu_seqlen` False)."""
    recipe = re.search(r"(?<!\w)nemo(?!\w)", (row.framework or "").lower())
    if not adapters or not recipe or "mlperf" in row.source or row.seq_len % PACKED:
        return None
    assumed.append(f"samples of SQuAD of {PACKED} tokens packed, as in NVIDIA's recipes")
    return {"listed": (PACKED,) * (row.seq_len // PACKED)}


def _accumulating(row: Row, assumed: list[str]) -> tuple[int, int] | None:
    """(tp, pp) of a row that says none of its sizes but how many microbatches it accumulates: as many devices a model
    as that leaves, tensor-parallel; None for other rows. Refused where those are more than a node."""
    count = names.accumulated(row.flags, row.notes)
    if count is None or any(getattr(row, name) for name in ("tp", "pp", "cp", "dp")):
        return None
    ranks, rest = divmod(row.global_batch, count * (row.micro_batch or 1))
    if rest or not ranks or row.devices % ranks:
        return None
    model = row.devices // ranks
    if model > (row.devices_per_node or 8):
        raise Refused(f"no sizes of parallelism, of which {model} devices a model leave several")
    assumed.append(f"tp {model}: {count} accumulated microbatches leave {model} devices a model")
    return model, 1


def _axis(row: Row, axis: str, assumed: list[str]) -> int:
    """A parallel size; what the row leaves open follows from `dp` where that says it, else it is 1."""
    said = {name: getattr(row, name) for name in ("tp", "pp", "cp", "dp")}
    if said[axis] is not None:
        return int(said[axis])
    others = prod(size for size in said.values() if size)
    size = row.devices // others if said["dp"] and axis == "tp" and row.devices % others == 0 else 1
    if not (said["dp"] and others * size == row.devices):
        assumed.append(f"{axis} {size}")
    return size


def _sharding(row: Row, shard: Sharding, stack: Stack, assumed: list[str]) -> tuple[Zero | None, int | None]:
    """(ZeRO stage, ranks of a shard set); None for the stack's, and for all ranks."""
    if (shard.zero or 1) == 1 and re.search(r"(?<![a-z])fsdp", plain(row.flags or "")):
        shard = shard._replace(zero=3)
    dp = row.devices // ((row.tp or 1) * (row.pp or 1) * (row.cp or 1))
    size = row.devices_per_node if shard.group == "node" else shard.group
    if shard.zero == 2 and (row.pp or 1) > 1 and "fsdp" not in plain(row.shard or ""):
        shard = shard._replace(zero=1)
        assumed.append(
            "gradients reduced once a step: DeepSpeed and Megatron shard none between a pipeline's microbatches"
        )
    if shard.zero == 0 and dp > 1 and stacks.shards_bf16(row):
        shard = shard._replace(zero=1)
        assumed.append("zero 1: DeepSpeed's optimizer of bf16 parameters shards its states at stage 0 too")
    size = dp // shard.slices if shard.slices > 1 and size is None else size
    if shard.zero is None and stack.zero and dp > 1:
        assumed.append(f"zero {stack.zero} (the stack's default)")
    if size is not None and (size >= dp or dp % size):
        size = None
    return shard.zero, size if (stack.zero if shard.zero is None else shard.zero) else None


def _states_recompute(row: Row) -> bool:
    """Whether a row says what is recomputed."""
    return names.recomputation(row.recompute).what is not None


def _recompute(row: Row, stack: Stack, assumed: list[str]) -> tuple[Recompute | None, int | None, float | None]:
    """(what is computed again, of how many layers of a chunk, or of which share of them)."""
    said = names.recomputation(row.recompute)
    if said.what is None and names.checkpoints(row.framework):
        assumed.append("recompute full, as the framework is launched unless told otherwise")
        return "full", None, None
    if said.what is None:
        assumed.append(f"recompute {stack.recompute} (the stack's default)")
    elif said.assumed:
        assumed.append(said.assumed)
    chunks = (row.pp or 1) * (row.vpp or 1)
    return said.what, None if said.layers is None else max(said.layers // chunks, 1), said.share
