"""Published training measurements as scenarios.

A row states what its authors state. What it leaves open is filled in by the rules of this module, the same for every
row, and listed as an assumption; a row that needs what is not built is refused with the reason. No rule looks at the
measured value.
"""

import re
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simulator.errors import InputError
from simulator.specs import load_spec
from simulator.specs.base import Figure
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import Parallel, Stack, Training
from simulator.study.lines import Refused
from simulator.study.room import choose_micro_batch, made_to_fit
from simulator.training.job import Job, build_job

PositiveInt = Field(default=None, ge=1, le=1_000_000)


class Row(BaseModel):
    """One published measurement; keys as in the measurement files, unknown ones are kept aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    id: str
    source: str
    task: str = "pretrain"
    tier: int = 1
    device: str
    devices: int = Field(ge=1, le=10_000_000)
    devices_per_node: int | None = PositiveInt
    intra_node: str | None = None
    inter_node_gbps_per_device: float | None = Field(default=None, ge=1e-3, le=1e6)
    peak_flops_bf16: float | None = Field(default=None, gt=0)
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
    attention: str | None = None
    precision: str
    global_batch: int = Field(ge=1, le=100_000_000)
    micro_batch: int | None = PositiveInt
    tp: int | None = PositiveInt
    pp: int | None = PositiveInt
    vpp: int | None = PositiveInt
    cp: int | None = PositiveInt
    ep: int | None = PositiveInt
    shard: str | None = None
    sequence_parallel: bool | None = None
    recompute: str | None = None
    schedule: str | None = None
    framework: str | None = None
    flags: str | None = None
    primary_metric: Literal["step_s", "tokens_per_s_per_device", "samples_per_s", "flops_per_s_per_device", "mfu"]
    step_s: float | None = Field(default=None, gt=0)
    tokens_per_s_per_device: float | None = Field(default=None, gt=0)
    samples_per_s: float | None = Field(default=None, gt=0)
    flops_per_s_per_device: float | None = Field(default=None, gt=0)
    mfu: float | None = Field(default=None, gt=0)
    mem_bytes: float | None = Field(default=None, gt=0)
    flops_convention: str | None = None


@dataclass(frozen=True, slots=True)
class Mapped:
    """A row as a scenario."""

    row: Row
    scenario: Scenario
    job: Job
    stack: str
    """Name of the stack's profile."""
    assumed: tuple[str, ...]
    """What the row leaves open and how it was filled in."""


CLUSTERS = {
    "A100-80GB": "generic-a100",
    "A100-40GB": "generic-a100-40gb",
    "H100-80GB": "generic-h100",
    "H200-141GB": "dgx-h200",
    "A800-80GB": "a800-cluster",
    "B200": "dgx-b200",
    "B300": "dgx-b300",
    "GB200": "gb200-nvl64",
    "MI300X": "mi300x-cluster",
    "MI250X-GCD": "frontier",
    "TPU-v4": "tpu-v4-pod",
    "TPU-v5e": "tpu-v5e-pod",
    "TPU-v5p": "tpu-v5p-pod",
    "TPU-v6e": "tpu-v6e-pod",
    "L40S": "l40s-cluster",
}
"""Cluster profile by the device of a row."""

NODES = (("4 inter-GPU connects", "bloom-jean-zay"),)
"""Clusters for rows whose `intra_node` says that they are not as usual, by words of it."""

BLOCKING = {"bloom-jean-zay": 320}
"""Devices from which runs on a cluster hang unless launches block (bigscience-workshop/bigscience
train/tr11-176B-ml/chronicles-prequel.md, "dealing with JZ hanging on the large model")."""

RACK = re.compile(r"NVL\d+ domain")
"""Words of `intra_node` that say that trays are joined to a rack: the profile's node, whatever `devices_per_node`."""

PRECISIONS = {"fp16": "fp16", "bf16": "bf16", "amp_bf16": "bf16"}
FP8 = re.compile(r"fp8")


def map_row(row: Row) -> Mapped:
    """The scenario of a row; raises Refused with the reason where it cannot be simulated."""
    _check_supported(row)
    assumed: list[str] = []
    try:
        scenario = _scenario(row, assumed)
        job = build_job(scenario)
    except (InputError, ValidationError) as error:
        raise Refused(" ".join(str(error).split())) from None
    return Mapped(row, scenario, job, stack_name(row), tuple(assumed))


def _check_supported(row: Row) -> None:
    """Refuse what no operator, schedule or device profile of ours stands for."""
    reasons = {
        f"task `{row.task}` is not a pretraining step": row.task not in ("pretrain", "sft"),
        "mixture of experts": (row.experts or 0) > 1,
        f"context parallelism {row.cp}": (row.cp or 1) > 1,
        f"attention `{row.attention}`": row.attention is not None,
        f"precision `{row.precision}`": row.precision not in PRECISIONS and not FP8.match(row.precision),
        f"schedule `{row.schedule}`": not re.fullmatch(
            r"(interleaved-)?1f1b|flexible interleaved 1f1b", row.schedule or "1f1b"
        ),
        f"device `{row.device}`": row.device not in CLUSTERS,
        f"no {row.primary_metric} in the row": getattr(row, row.primary_metric) is None,
        "mfu without the peak that it is a share of": row.primary_metric == "mfu" and row.peak_flops_bf16 is None,
        "activations offloaded to the host": "activation_cpu_offload=True" in (row.flags or ""),
    }
    found = [reason for reason, applies in reasons.items() if applies]
    if found:
        raise Refused("; ".join(found))


# ---- parts of the scenario ---------------------------------------------------------------------------------------


def _scenario(row: Row, assumed: list[str]) -> Scenario:
    stack = load_spec(Stack, stack_name(row))
    cluster, model = _cluster(row, assumed), _model(row, assumed)
    training = _training(row, stack, assumed)
    scenario = Scenario(version=1, name=row.id, cluster=cluster, model=model, stack=stack, training=training)
    if row.micro_batch is None:
        scenario = choose_micro_batch(scenario, assumed)
    return scenario if _states_recompute(row) else made_to_fit(scenario, assumed)


def _cluster(row: Row, assumed: list[str]) -> Cluster:
    cluster = load_spec(Cluster, _cluster_name(row))
    node = cluster.node
    rack = bool(RACK.search(row.intra_node or "")) and (row.devices_per_node or 0) < node.devices
    per_node = node.devices if rack else row.devices_per_node or node.devices
    if row.devices < per_node:
        per_node = row.devices
    if row.devices % per_node:
        raise Refused(f"{row.devices} devices are no multiple of {per_node} a node")
    if cluster.network.kind == "torus":
        return _torus(cluster, row)
    changes: dict[str, Any] = {"devices": per_node}
    if node.nics is not None and row.devices > per_node:
        changes["nics"] = _nics(row, cluster, per_node, assumed)
    return cluster.model_copy(update={"node": node.model_copy(update=changes), "nodes": row.devices // per_node})


def _cluster_name(row: Row) -> str:
    special = next((name for words, name in NODES if words in (row.intra_node or "")), None)
    return special or CLUSTERS[row.device]


def _blocking(row: Row, assumed: list[str]) -> bool:
    """Whether the machine makes launches block in a run of this size."""
    blocking = row.devices >= BLOCKING.get(_cluster_name(row), row.devices + 1)
    if blocking:
        assumed.append("launches block, as on this machine in runs of this size")
    return blocking


def _torus(cluster: Cluster, row: Row) -> Cluster:
    """A slice of a torus: as near to a cube (or square) as the number of devices allows."""
    if row.devices % cluster.node.devices:
        raise Refused(f"{row.devices} devices are no multiple of {cluster.node.devices} a host")
    if row.devices > prod(cluster.network.shape):
        raise Refused(f"{row.devices} devices are more than one pod of {prod(cluster.network.shape)}")
    sides, left = [], row.devices
    for open_sides in range(len(cluster.network.shape), 0, -1):
        root = round(left ** (1 / open_sides))
        side = next(s for s in range(max(root, 1), 0, -1) if left % s == 0) if open_sides > 1 else left
        sides.append(side)
        left //= side
    network = cluster.network.model_copy(update={"shape": tuple(sides)})
    return cluster.model_copy(update={"network": network, "nodes": row.devices // cluster.node.devices})


def _nics(row: Row, cluster: Cluster, per_node: int, assumed: list[str]) -> Any:
    nics = cluster.node.nics
    assert nics is not None
    if row.inter_node_gbps_per_device is None:
        assumed.append("network as usual for the device")
        return nics
    total = row.inter_node_gbps_per_device * 1e9 / 8 * per_node
    rate = Figure[float](value=total / nics.count, status="estimate", source=f"row {row.id}")
    return nics.model_copy(update={"bandwidth": rate})


def _model(row: Row, assumed: list[str]) -> Model:
    gpt = not row.gated_ffn
    if row.vocab is None:
        assumed.append("vocabulary 51,200")
    data: dict[str, Any] = {
        "name": row.model,
        "layers": row.layers,
        "hidden": row.hidden,
        "heads": row.heads,
        "vocabulary": row.vocab or 51200,
        "gated_ffn": bool(row.gated_ffn),
        "biases": gpt,
        "norm": "layernorm" if gpt else "rmsnorm",
        "position": "learned" if gpt else "rotary",
        "tied_embeddings": gpt,
        "max_sequence": row.seq_len,
    }
    optional = {"kv_heads": row.kv_heads, "head_dim": row.head_dim, "ffn": row.ffn}
    return Model.model_validate(data | {key: value for key, value in optional.items() if value is not None})


STACKS = (
    (r"composer|fsdp2?\b|automodel", "fsdp"),
    (r"megatron-deepspeed|gpt-neox", "megatron-deepspeed"),
    (r"deepspeed", "deepspeed"),
    (r"maxtext|jax|pax", "maxtext"),
    (r"internevo", "internevo"),
    (r"flash-attention", "pytorch-ddp"),
    (r"nemo|megatron-bridge", "nemo"),
    (r"megatron-lm fork|megatron-core|primus|meta internal|llmboost", "megatron-core"),
    (r"megatron-lm", "megatron-lm-2021"),
)
"""Stack by words of a row's `framework`, first match."""


def stack_name(row: Row) -> str:
    """The profile of the stack that a row's framework belongs to; raises Refused where there is none."""
    framework = (row.framework or "").lower()
    name = next((stack for words, stack in STACKS if re.search(words, framework)), None)
    if name is None:
        raise Refused(f"framework `{row.framework}`")
    if name == "megatron-lm-2021":
        year = re.search(r"20[12]\d", row.source)
        later = int(year.group()) > 2021 if year else bool(row.sequence_parallel) or row.recompute == "selective"
        return "megatron-lm-2022" if later else name
    return name


def _training(row: Row, stack: Stack, assumed: list[str]) -> Training:
    pp, vpp = row.pp or 1, _chunks_per_rank(row, assumed)
    zero, shard, reduce = _sharding(row, stack)
    recompute, layers = _recompute(row, stack, assumed)
    parallel = Parallel(
        tp=row.tp or 1,
        pp=pp,
        vpp=vpp,
        sequence_parallel=row.sequence_parallel,
        zero=zero,
        shard_size=shard,
    )
    return Training(
        global_batch=row.global_batch,
        micro_batch=row.micro_batch or 1,
        sequence_length=row.seq_len,
        parallel=parallel,
        stages=_stages(row.layers, pp * vpp, assumed),
        recompute=recompute,
        recompute_layers=layers,
        precision="fp8" if FP8.match(row.precision) else PRECISIONS[row.precision],  # type: ignore[arg-type]
        reduce_precision=reduce,
        blocking_launches=_blocking(row, assumed),
    )


def _chunks_per_rank(row: Row, assumed: list[str]) -> int:
    """Model chunks on a rank; a chunk is one layer where a row says "interleaved" and not how far."""
    if row.vpp is None and (row.pp or 1) > 1 and "interleaved" in (row.schedule or ""):
        chunks = -(-row.layers // (row.pp or 1))
        assumed.append(f"vpp {chunks}")
        return chunks
    return row.vpp or 1


def _stages(layers: int, chunks: int, assumed: list[str]) -> tuple[int, ...] | None:
    """Even stages; a remainder goes to chunks after the first, so that first and last (embedding, head) hold fewer."""
    short = layers % chunks
    if not short:
        return None
    assumed.append(f"{layers} layers over {chunks} chunks: the remainder in the middle")
    first = (chunks - short) // 2 + (chunks - short) % 2
    return tuple(layers // chunks + (first <= i < first + short) for i in range(chunks))


def _sharding(row: Row, stack: Stack) -> tuple[Any, int | None, Any]:
    """(ZeRO stage, ranks of a shard set, format of reduced gradients) from the words of a row; None for the stack's."""
    text = (row.shard or "").lower()
    dp = row.devices // ((row.tp or 1) * (row.pp or 1) * (row.cp or 1))
    group = re.search(r"within (\d+)|group[= ](\d+)|fsdp=(\d+)", text)
    size = next((int(g) for g in group.groups() if g), None) if group else None
    reduce = {"pure": "bf16", "default": "fp32"}.get(text.rpartition("mixed_precision=")[2])
    stages = (
        ("zero3", 3),
        ("zero-2", 2),
        ("zero2", 2),
        ("fsdp", 3),
        ("zero1", 1),
        ("distributed optimizer", 1),
        ("zero0", 0),
        ("none", 0),
    )
    zero = next((stage for words, stage in stages if words in text), None)
    if size is not None and (size >= dp or dp % size):
        size = None
    return zero, size if (stack.zero if zero is None else zero) else None, reduce


def _states_recompute(row: Row) -> bool:
    """Whether a row says what is recomputed in words that are known."""
    return (row.recompute or "").lower().startswith(("full", "selective", "none"))


def _recompute(row: Row, stack: Stack, assumed: list[str]) -> tuple[Any, int | None]:
    text = (row.recompute or "").lower()
    block = re.search(r"full, (\d+) layers", text)
    if block:
        return "full", max(int(block.group(1)) // ((row.pp or 1) * (row.vpp or 1)), 1)
    for word in ("full", "selective", "none"):
        if text.startswith(word):
            return word, None
    if text:
        assumed.append(f"recompute `{row.recompute}` as none")
        return "none", None
    assumed.append(f"recompute {stack.recompute} (the stack's default)")
    return None, None
