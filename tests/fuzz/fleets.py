"""Random services with tiers of the cache, fleets, tenants, speculation, pools, experts and shortened records."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from tests.fuzz import beside, semantics
from tests.fuzz.drawing import some
from tests.fuzz.harness import Answer, Input, answered
from tests.fuzz.semantics import ROUNDING

SKETCHED = 0.0021
"""Relative error of a percentile from a sketch."""
UNLEAPED = 1e-9
"""Relative difference of times that were summed in one go."""


_LOOSER = {"energy": 1e-4, "std": ROUNDING}
"""Relative differences of figures that a stretch of iterations is reckoned as a whole for (`energy_j`: power is a root
of how busy arithmetic is, taken in the middle of a stretch), or whose terms cancel."""


def fleets(random: Random) -> Input:
    """A service with one or more of the keys of fleets."""
    document = plain(random)
    files = dict[str, bytes]()
    drawn = random.choices(tuple(_MADE), _WEIGHTS, k=3)
    for key in dict.fromkeys(drawn[: random.choice((1, 1, 2, 3))]):
        _MADE[key](document, random)
    if random.random() < 0.15 and "fleet" in document["serving"]:
        files["failures.csv"] = _trace(random).encode()
        failures = document["serving"]["fleet"].setdefault("failures", {})
        failures |= {"trace": "failures.csv", "requests": random.choice(_FATES)}
    return checked(document, files, random)


def plain(random: Random) -> dict[str, Any]:
    """Few requests on a small model."""
    if random.random() < 0.25:
        return semantics.scenario_of(semantics.serving(random))
    lengths = {"prompt": {"lognormal": [300, 0.8], "high": 2000}, "output": {"uniform": [1, random.choice((3, 60))]}}
    return {
        "version": 1,
        "name": "fuzz",
        "cluster": {"extends": f"clusters/{random.choice(('dgx-h100', 'dgx-a100', 'generic-h100'))}", "nodes": 1},
        "model": f"models/{random.choice(('llama-3.2-1b', 'llama-3-8b', 'qwen2.5-1.5b'))}",
        "stack": random.choice(("vllm", "vllm", "sglang", "tensorrt-llm", "vllm-v0")),
        "serving": {"replicas": random.choice((1, 2, 4)), "parallel": {"tp": random.choice((1, 1, 2))}},
        "requests": {
            "arrivals": random.choice(
                (
                    {"poisson": "3 /s"},
                    {"poisson": "60 /s"},
                    {"closed_loop": {"clients": 6}},
                    {"closed_loop": {"clients": 5, "rate": "30 /s"}},
                    {"at_once": True},
                )
            ),
            "lengths": lengths,
            "count": random.choice((1, 10, 30, 60)),
        },
        "slo": {"ttft": "1 s", "tpot": "50 ms"},
        "seed": random.randrange(5),
    }


def _tiers(document: dict[str, Any], random: Random) -> None:
    """Tiers of the cache, and something that fills them."""
    system, asked = document["serving"], document["requests"]
    rest = {
        "eviction": ("lru", "lfu", "fifo", "nonsense"),
        "write": ("through", "back"),
        "latency": ("0 s", "1 ms", "1 s"),
        "write_bandwidth": ("100 MB/s", "20 GB/s"),
    }
    named: dict[str, dict[str, Any]] = {
        "host": {},
        "ssd": {"bandwidth": "6 GB/s"},
        "store": {"shared": True, "bandwidth": "10 GB/s"},
    }
    drawn = random.sample(sorted(named), random.choice((1, 1, 2, 3)))
    tiers = []
    for name in drawn:
        capacity = random.choice(("1 B", "50 MB", "2 GB", "1 TB"))
        tier = {"name": name, "capacity": capacity, **named[name], **some(random, rest, 0.25)}
        if "bandwidth" not in tier:
            tier.pop("write_bandwidth", None)
        tiers.append(tier)
    cache: dict[str, Any] = {"prefix_caching": random.choice(("block", "radix")), "tiers": tiers}
    cache |= some(random, {"blocks": (100, 300, 2000), "preemption": ("swap",), "block_size": (16, 64)}, 0.5)
    if random.random() < 0.4:
        cache["loads"] = some(random, {"when": ("faster",), "layered": (True,), "least": (1, 256)}, 0.6)
    system["kv_cache"] = cache
    _sessions(document, random)
    if "sessions" not in asked and random.random() < 0.6:
        asked["shared_prefix"] = {"tokens": {"fixed": random.choice((64, 300, 1500))}, "groups": 3, "zipf": 1.0}


def _sessions(document: dict[str, Any], random: Random) -> None:
    asked = document["requests"]
    asked["sessions"] = {"turns": {"uniform": [1, 5]}, "think": random.choice(({"fixed": 0}, {"exponential": 2}))}
    if random.random() < 0.4:
        share = random.choice((0.0, 0.5, "100 %"))
        asked["sessions"]["tools"] = {"share": share, "wait": {"exponential": 0.5}}
    if "closed_loop" in asked["arrivals"]:
        asked["arrivals"] = {"poisson": "2 /s"}


def _fleet(document: dict[str, Any], random: Random) -> None:
    """Replicas that come, go, fail and are replaced; doors and stations."""
    parts: dict[str, tuple[Any, ...]] = {
        "start_up": (
            {"provisioning": "3 s", "storage": "2 GB/s", "warm_up": "1 s"},
            {"storage": "10 GB/s", "storage_together": "10 GB/s", "at_start": "cold"},
            {"at_start": "cold"},
        ),
        "autoscaling": (
            {"rule": "concurrency", "target": 4, "max": 4, "check": "1 s", "cooldown": "2 s"},
            {"rule": "queue", "target": 1, "min": 0, "max": 8, "start": 0, "check": "100 ms", "cooldown": "0 s"},
            {"rule": "utilisation", "target": 0.5, "max": 4, "start": 1, "check": "500 ms", "step": 1},
            {"rule": "rate", "target": 2.0, "max": 8, "check": "1 s", "up_cooldown": "5 s", "tolerance": 0},
            {"rule": "schedule", "max": 4, "schedule": [{"at": "0 s", "replicas": 4}, {"at": "1 s", "replicas": 0}]},
            {"rule": "schedule", "max": 4, "schedule": [{"at": "0 s", "replicas": 0}, {"at": "2 s", "replicas": 2}]},
        ),
        "failures": tuple(
            {"mtbf": mtbf, "repair": repair, "requests": fate}
            for mtbf, repair in (("2 s", {"fixed": 1}), ("20 s", {"exponential": 3.0}), ("500 ms", {"fixed": 0}))
            for fate in _FATES
        ),
        "rolling_update": ({"at": "500 ms"}, {"at": "0 s", "at_once": 8}, {"at": "1 h", "at_once": 2}),
        "admission": ({"queue": 1}, {"outstanding": 3}, {"gateway": 1}, {"queue": 50, "outstanding": 200}),
        "before": (
            [{"name": "gateway", "servers": 2, "time": {"exponential": 0.01}}],
            [{"name": "encoder", "servers": 2, "time": {"fixed": 0.02}, "mtbf": "300 ms", "repair": {"fixed": 0.2}}],
            [{"name": "a", "time": {"fixed": 0.1}}, {"name": "b", "servers": 1, "per_token": "10 us"}],
        ),
        "after": ([{"name": "detokeniser", "servers": 1, "per_token": "1 ms"}],),
    }
    rules = some(random, parts, 0.35) or {"admission": {"outstanding": 2}}
    if "failures" in rules:
        more = {"of": ("node", "replica"), "detection": ("300 ms", "0 s"), "retries": (0, 1, 50)}
        rules["failures"] = rules["failures"] | some(random, more, 0.3)
    document["serving"]["fleet"] = document["serving"].get("fleet", {}) | rules
    if random.random() < 0.4:
        document["serving"]["router"] = random.choice(_ROUTERS)


_FATES = ("retry", "migrate", "fail", "resume")
_ROUTERS = (
    "round-robin",
    "random",
    "least-outstanding",
    "shortest-queue",
    "power-of-two",
    "prefix-aware",
    "session",
    "consistent-hash",
    "cache-aware",
)


def _trace(random: Random) -> str:
    """Rows of failures of replicas and nodes, most of them sound."""
    rows = ["time,what,until"]
    for _ in range(random.choice((1, 3))):
        begin, what = random.choice((0, 0.5, 2)), random.choice(("replica 1", "replica 2", "node 0", "replica 99"))
        rows.append(f"{begin},{what},{begin + random.choice((0.2, 3, 3600))}")
    return "\n".join(rows) + "\n"


def _tenants(document: dict[str, Any], random: Random) -> None:
    """Two or three tenants with promises and limits."""
    asked = document["requests"]
    asked.pop("priorities", None)
    tenants = []
    for number, share in enumerate(random.choice(((0.5, 0.5), (0.2, 0.3, 0.5), (1.0,)))):
        rest = {
            "priority": (0, 1, 5),
            "weight": (0.1, 2.0),
            "slo": ({"ttft": "200 ms"}, {"e2e": "2 s", "attainment": "99 %"}),
            "limit": (
                {"rate": "1 /s", "burst": 2},
                {"rate": "100 /s", "burst": 500, "by": "tokens", "over": "wait"},
                {"rate": "5 /s", "burst": 1, "over": "wait"},
            ),
        }
        tenants.append({"name": f"tenant {number}", "share": share} | some(random, rest))
    asked["tenants"] = tenants
    if random.random() < 0.5:
        policy = random.choice(("fair", "priority", "fcfs", "deadline"))
        document["serving"]["batching"] = document["serving"].get("batching", {}) | {"policy": policy}


def _speculation(document: dict[str, Any], random: Random) -> None:
    """Drafts of any kind."""
    document["serving"]["speculation"] = _drafts(random)


def _drafts(random: Random) -> dict[str, Any]:
    length = random.choice((0, 1, 3, 7))
    drafts: dict[str, Any] = {
        "kind": random.choice(("eagle", "n-gram", "parallel", "medusa", "draft-model", "mtp")),
        "draft_length": length,
        "yields": random.choice(("random", "expected")),
    }
    if random.random() < 0.7:
        drafts["acceptance"] = random.choice((0.0, 0.6, 1.0, [0.8 * 0.9**n for n in range(length)]))
    else:
        drafts["tokens_per_step"] = 1 + random.choice((0.0, 0.5, 0.7, 1.0)) * length
    if drafts["kind"] == "draft-model":
        drafts["model"] = "models/llama-3.2-1b"
    if random.random() < 0.25 and length:
        drafts |= {"tree": length + random.choice((0, 20)), "width": random.choice((1, 4))}
    if random.random() < 0.25:
        drafts["by_load"] = [{"sequences": 2, "draft_length": 5}, {"sequences": 8, "draft_length": 0}]
        if isinstance(drafts.get("acceptance"), list):
            drafts["acceptance"] = 0.5
    return drafts


def _pools(document: dict[str, Any], random: Random) -> None:
    """Prefill and decode apart, or pools that differ."""
    system = document["serving"]
    tp = system["parallel"].get("tp", 1)
    roles = random.choice((("prefill", "decode"), ("prefill", "decode"), ("both", "both")))
    rest = {
        "replicas": (1, 2),
        "batching": ({"max_sequences": 4}, {"token_budget": 256}),
        "kv_cache": ({"blocks": 500}, {"prefix_caching": "block"}),
        "speculation": (_drafts(random),),
        "parallel": ({"tp": tp}, {"tp": 1}, {"tp": 2, "pp": 2}),
    }
    pools = [{"name": f"pool {n}", "role": role} | some(random, rest, 0.3) for n, role in enumerate(roles)]
    system["pools"] = pools
    if roles[0] == "prefill":
        apart = {
            "first_token": ("decode",),
            "decode_router": ("round-robin", "shortest-queue", "session"),
            "local_prompts": ({"tokens": 100}, {"queue": 2}),
            "switching": ({"check": "100 ms", "above": 1, "below": 1, "delay": "50 ms"},),
            "transfer": ("layer",),
        }
        system |= some(random, apart, 0.3)


def _experts(document: dict[str, Any], random: Random) -> None:
    """A mixture of experts, its ranks and loads."""
    small = {"extends": "models/deepseek-v3", "layers": 4, "hidden": 1024, "experts": 16, "expert_groups": 4}
    document["model"] = random.choice(("models/olmoe-1b-7b", "models/qwen1.5-moe-a2.7b", small))
    if document["model"] == small and "speculation" not in document["serving"] and random.random() < 0.5:
        document["serving"]["speculation"] = {"kind": "mtp", "draft_length": 2, "acceptance": 0.8}
    document["serving"]["parallel"] = random.choice(
        ({"tp": 2, "ep": 2}, {"tp": 1, "ep": 4}, {"tp": 1, "dp": 4, "ep": 4}, {"tp": 2, "dp": 2, "ep": 4}, {"tp": 2})
    )
    document["serving"]["replicas"] = random.choice((1, 2, 4))
    rest = {
        "dispatcher": ("allgather", "alltoall", "deepep", "deepep-low-latency", "nonsense"),
        "dispatch_precision": ("fp8", "bf16", "nvfp4"),
        "routing": (
            {"load": "zipf"},
            {"load": "random"},
            {"load": "degenerate"},
            {"load": "zipf", "replicas": 2, "placement": "packed"},
            {"load": "counts", "counts": [1.0] * 15 + [30.0]},
            {"load": "random", "capacity": 1.25},
        ),
        "local_share": (0.0, 0.3, 1.0),
    }
    document["serving"]["experts"] = some(random, rest, 0.6)


def _records(document: dict[str, Any], random: Random) -> None:
    document["records"] = random.choice(("sample", "none"))


_MADE: Mapping[str, Any] = {
    "tiers": _tiers,
    "sessions": _sessions,
    "fleet": _fleet,
    "tenants": _tenants,
    "speculation": _speculation,
    "pools": _pools,
    "experts": _experts,
    "records": _records,
    "adapters": beside.adapters,
    "batches": beside.batches,
    "links": beside.links,
    "models": beside.models,
    "chunks": beside.chunks,
    "expert_loads": beside.expert_loads,
}
_WEIGHTS = (4, 1, 6, 3, 4, 3, 3, 2, 4, 3, 2, 4, 3, 3)


def checked(document: dict[str, Any], files: dict[str, bytes], random: Random) -> Input:
    """The scenario with what must hold of its answer; some run again, some without leaps, some with all records."""
    text = json.dumps(document).encode()
    again, stepwise, kept = random.random() < 0.15, random.random() < 0.4, "records" in document
    words = ["run", "s.yaml", "--json", "-"]

    def check(answer: Answer) -> str | None:
        if answer.code == 2:
            return "said something on standard output" if answer.out else None
        told = json.loads(answer.out)
        if not told.get("metrics") or "completed" not in told["metrics"]:
            return None
        wrong = semantics.serving_faults(told, document) or parts_faults(told)
        if wrong is None and again and answered(words) != answer:
            wrong = "is not the same the second time"
        if wrong is None and stepwise:
            wrong = _differs(told, answered([*words, "--no-leap"]), "without leaps", UNLEAPED)
        if wrong is None and kept:
            wrong = _differs(told, answered([*words, "records=all"]), "with all records", SKETCHED)
        return wrong

    return Input(words, {"s.yaml": text, **files}, check)


def _differs(told: Mapping[str, Any], answer: Answer, how: str, within: float) -> str | None:
    """Where figures differ from those of another way to the same."""
    if answer.code not in (0, 4):
        return f"ends {how} with {answer.code}: {answer.err[-300:]}"
    one, other = told["metrics"], json.loads(answer.out)["metrics"]
    unequal = {}
    for name in sorted({*one, *other}):
        left, right = one.get(name), other.get(name)
        if left == right or (left is None and within >= SKETCHED):
            continue
        wide = max(within, _LOOSER.get(name.partition("_")[0], 0.0))
        if left is None or right is None or abs(left - right) > wide * max(abs(left), abs(right), 1e-3):
            unequal[name] = (left, right)
    return f"differs {how}: {unequal}" if unequal else None


def parts_faults(told: Mapping[str, Any]) -> str | None:
    """What is wrong with tenants, tiers and phases of an answer."""
    figures, service = told["metrics"], told.get("service") or {}
    if models := service.get("models"):
        answers, completed = sum(one["answers"] for one in models), figures["completed"]
        if answers != completed:
            return f"models gave {answers} answers to {completed} requests"
    if tenants := service.get("tenants"):
        done = sum(tenant["completed"] for tenant in tenants)
        lost = sum(tenant["rejected"] + tenant["lost"] for tenant in tenants)
        if (done, lost) != (figures["completed"], figures["failed"]):
            return f"tenants have {done} finished and {lost} failed, all {figures['completed']}, {figures['failed']}"
    away = service.get("turned_away")
    if away and sum(away.values()) != figures["failed"]:
        return f"{figures['failed']} failed, by reason {away}"
    for tier in service.get("cache_tiers") or ():
        if tier["most_bytes"] > tier["capacity_bytes"] * (1 + ROUNDING) or tier["hit_tokens"] > tier["asked_tokens"]:
            return f"a tier holds or gives more than it can: {tier}"
    phases = service.get("phases") or ()
    if torn := [one for one in phases if not 0 <= one["start_s"] <= one["end_s"]]:
        return f"phases that end before they begin: {torn[:3]}"
    return None
