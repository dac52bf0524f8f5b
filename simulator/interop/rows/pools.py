"""Rows of prefill and decode apart, as pools: workers of a kind with a layout and limits of their own.

A worker is an engine. With attention in data parallel it is as many replicas as it has ranks, which share its experts
and run in step. What the benchmark's recipe says in its name (`batch128`: the most sequences of a decode rank) is
taken, and so is what the recipe's own file says where it is published (`serving-settings.yaml`). What is left follows
the engine's own example for such a deployment (`examples/disaggregated/slurm` of TensorRT-LLM: prompts of 1,024 tokens
four at a time, 4,480 tokens an iteration). The first token reaches the client through the decode side, as the proxies
of Dynamo, SGLang and TensorRT-LLM have it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.machines import joined
from simulator.interop.rows.serving_settings import Told
from simulator.interop.rows.words import vocabulary
from simulator.specs.hardware import Cluster
from simulator.specs.serving import Batching, ExpertTraffic, KvCache, Layout, Pool

if TYPE_CHECKING:
    from simulator.interop.rows.serving import ServingRow

APART = "pd_disaggregated"
"""Kind of these rows."""
ROLES: tuple[Literal["prefill", "decode"], ...] = ("prefill", "decode")
NODE = 8
"""Cards that workers share evenly where a row does not say how many each has: those of the one node of dstack's
benchmark (comparison/pd_ratio/README.md, 06c957ab), which all of its other deployments fill."""
EXAMPLE_TOKENS = 4480
"""Most tokens of an iteration of a prefill worker in TensorRT-LLM's example."""
SPARE = 256
"""Tokens beyond one prompt that a prefill worker is built for where a prompt is longer than that."""
LARGE_MEMORY_GB = 160
WHOLE_CHUNK = {False: 8192, True: 16_384}
"""SGLang's default of `chunked_prefill_size` below and from that memory on (server_args.py), which attention ranks
share."""
ROUTED = 8
"""Experts of a row of the models that these rows are about (DeepSeek-V3, R1)."""
ANY_RANKS = "2026"
"""Year since which releases of TensorRT-LLM (1.2) send rows to experts of however many ranks."""
AXES = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep")


def pools(row: "ServingRow", prompt: int, told: Mapping[str, Told], assumed: list[str]) -> tuple[Pool, ...]:
    """The pools of a row, whose longest prompt has so many tokens; raises Refused for a layout that is not stated.

    `told` is what the benchmark's scripts say to workers of each role.
    """
    return tuple(_pool(row, role, _workers(row, role, assumed), prompt, told[role], assumed) for role in ROLES)


def router(row: "ServingRow", found: Sequence[Pool], told: Told, assumed: list[str]) -> dict[str, str]:
    """How prompts find their attention rank, where that is not by turns.

    SGLang with prefill and decode apart takes the rank from a number that the proxy draws for each request
    (managers/data_parallel_controller.py: `bootstrap_room` modulo the number of ranks), unless told otherwise.
    """
    ranks = sum(pool.replicas for pool in found if pool.role == "prefill")
    if told.router is not None:
        return {"router": told.router}
    if "sglang" not in row.engine.lower() or ranks == _count(row, "prefill"):
        return {}
    assumed.append("prompts reach attention ranks at random, as the engine deals them by a drawn number")
    return {"router": "random"}


def _count(row: "ServingRow", role: str) -> int:
    """Workers of a role."""
    return int(_workers(row, role, []).get("workers") or 1)


def spanning(cluster: Cluster, found: Sequence[Pool], assumed: list[str]) -> Cluster:
    """The cluster with as many nodes as pools take: a worker lies on whole nodes, or with others on one."""
    per_node = cluster.node.devices
    nodes, free = 0, 0
    for pool in found:
        assert pool.parallel is not None
        each = pool.parallel.devices * pool.parallel.sharers
        for _ in range(pool.replicas // pool.parallel.sharers):
            if each > free:
                nodes += -(-each // per_node)
                free = -each % per_node
            else:
                free -= each
    needed = cluster.model_copy(update={"nodes": nodes})
    return joined(needed, assumed) if nodes > 1 else needed


def _workers(row: "ServingRow", role: str, assumed: list[str]) -> Mapping[str, Any]:
    """Number and layout of the workers of a role."""
    said = row.parallelism or {}
    if isinstance(said.get(role), dict):
        return dict(said[role])
    count = said.get(f"{role}_workers")
    if count is None:
        raise Refused("how many workers there are, and how they are laid out, is not stated")
    if said.get("tp_per_worker") is None:
        each = max((row.num_accelerators or NODE) // max(sum(_sizes(said)), 1), 1)
        assumed.append(f"{each} cards a worker: the node's shared evenly, as in the other rows of the benchmark")
        return {"workers": count, "tp": each}
    return {"workers": count, "tp": said["tp_per_worker"]}


def _sizes(said: Mapping[str, Any]) -> list[int]:
    """Workers of both roles as far as they are whole numbers."""
    found = (said.get(f"{role}_workers") for role in ROLES)
    return [count for count in found if isinstance(count, int) and not isinstance(count, bool) and count > 0]


def _pool(
    row: "ServingRow",
    role: Literal["prefill", "decode"],
    worker: Mapping[str, Any],
    prompt: int,
    told: Told,
    assumed: list[str],
) -> Pool:
    worker = _renamed(worker)
    sizes = {key: 1 if worker.get(key) is None else worker[key] for key in (*AXES, "workers")}
    if wrong := [key for key, size in sizes.items() if isinstance(size, bool) or not isinstance(size, int) or size < 1]:
        raise Refused(f"key `parallelism.{role}.{wrong[0]}`: write a whole number")
    tp, pp, among, cut, ep = (sizes[key] for key in AXES)
    if "attention_dp" not in worker and "moe_tp" not in worker and ep > tp and not ep % tp:
        among = ep // tp  # attention holds whole requests where experts lie on more ranks than cut it
    if "moe_tp" not in worker and not tp * among % ep:
        cut = tp * among // ep
    if tp * among != cut * ep:
        raise Refused(f"{role}: attention tp {tp} x dp {among}, experts tp {cut} x ep {ep}: not the same devices")
    stated = worker.get("gpus_per_worker")
    if stated is not None and stated != tp * pp * among:
        raise Refused(f"{role}: tp {tp} x pp {pp} x attention dp {among} is not {stated} accelerators of a worker")
    traffic = _traffic(row, among, ep, assumed)
    alike = cut == (tp if ep == 1 else 1)
    return Pool(
        name=role,
        role=role,
        replicas=sizes["workers"] * among,
        parallel=Layout(tp=tp, pp=pp, ep=ep, etp=None if alike else cut),
        batching=_told(role, among, told, assumed) or _limits(row, role, among, prompt, assumed),
        kv_cache=None if told.memory_share is None else KvCache(prefix_caching="none", memory_share=told.memory_share),
        experts=traffic,
    )


def _renamed(worker: Mapping[str, Any]) -> Mapping[str, Any]:
    """A worker's sizes by our names of axes, `moe_ep` for experts."""
    axes, found = vocabulary().serving.axes, dict[str, Any]()
    for key, size in worker.items():
        plain = re.sub(r"[- ]", "_", key.lower())
        for name in axes.get(plain, (plain,)):
            found["moe_ep" if name == "ep" else name] = size
    return found


def _traffic(row: "ServingRow", among: int, ep: int, assumed: list[str]) -> ExpertTraffic | None:
    """How rows reach experts: where a network of NVLink joins nodes, TensorRT-LLM sends those of ranks that hold whole
    requests to their experts alone, rows of nvfp4 as they are multiplied. Until 2025 it did from more ranks on than
    each row has experts (fused_moe_wide_ep.py, `select_alltoall_method_type`), since then from two on
    (fused_moe/communication/communication_factory.py). None: as the stack has it."""
    fewest = ROUTED if (row.day or "") < ANY_RANKS else 1
    if "tensorrt" not in row.engine.lower() or not re.search(r"NVL\d+", row.accelerator) or among == 1 or ep <= fewest:
        return None
    assumed.append("rows are sent to their experts by kernels over NVLink, priced as DeepEP's for decoding")
    packed = row.number_format == "nvfp4"
    return ExpertTraffic(dispatcher="deepep-low-latency-b200", dispatch_precision="nvfp4" if packed else None)


def _told(role: str, ranks: int, told: Told, assumed: list[str]) -> Batching | None:
    """Limits that the benchmark's scripts state of a worker, which its attention ranks share (SGLang's scheduler: a
    rank has max_running_requests // dp_size and chunked_prefill_size // dp_size)."""
    if told.tokens is None and told.sequences is None:
        return None
    sizes = [None if size is None else max(size // ranks, 1) for size in (told.tokens, told.sequences)]
    assumed.append(f"limits of {role} as in the benchmark's recipe")
    return Batching(token_budget=sizes[0], max_sequences=sizes[1])


def _limits(row: "ServingRow", role: str, ranks: int, prompt: int, assumed: list[str]) -> Batching:
    """Limits of an iteration: tokens where prompts are read, sequences where answers are written."""
    if role == "decode":
        said = re.search(r"batch(\d{1,5})(?!\d)", row.recipe or "")
        return Batching(max_sequences=int(said[1]) if said else None)
    if "sglang" in row.engine.lower():
        memory = re.search(r"(\d+)GB", row.accelerator)
        tokens = WHOLE_CHUNK[memory is not None and int(memory[1]) >= LARGE_MEMORY_GB] // ranks
        assumed.append(f"pieces of {tokens:,} tokens of prompts, the engine's default")
        return Batching(token_budget=tokens)
    if "tensorrt" not in row.engine.lower():
        return Batching()
    tokens = max(EXAMPLE_TOKENS, prompt + SPARE)
    assumed.append(f"at most {tokens:,} tokens of prompts in an iteration, as in the engine's example")
    return Batching(token_budget=tokens, max_sequences=max(tokens // prompt, 1))
