"""Random trainings with states on hosts and drives, local steps, sharding in few bits, and runs that fail."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from tests.fuzz import semantics
from tests.fuzz.drawing import shallow, some
from tests.fuzz.harness import Answer, Input, answered
from tests.fuzz.semantics import ROUNDING, TINY

FASTER = ("cluster.node.host_links={value: 1000 TB/s, status: estimate, source: fuzz}",)
"""Links of hosts that bound nothing."""
SLOWER = 1e-6
"""Relative excess of a step with faster links that is rounding."""
MEETING = 0.01
"""Share of a step by which it may be longer where more communication is exposed."""


def tiers(random: Random) -> Input:
    """A training with one or more of the keys of memory tiers and of long runs."""
    document = semantics.scenario_of(semantics.training(random)) if random.random() < 0.4 else plain(random)
    job, cluster = document["training"], document["cluster"]
    drawn = random.choices(
        ("offload", "sharding", "local_steps", "fragmentation", "run", "zeroth_order"), (5, 2, 3, 1, 5, 2), k=2
    )
    for key in drawn if random.random() < 0.4 else drawn[:1]:
        job[key] = _MADE[key](random)
    if "zeroth_order" in job and random.random() < 0.8:
        job.pop("recompute", None)
        job["parallel"]["zero"] = random.choice((0, 3))
    files = {}
    if "run" in job and random.random() < 0.3:
        files["failures.csv"] = _trace(random).encode()
        job["run"]["trace"] = "failures.csv"
    if "sharding" in job or random.random() < 0.3:
        job["parallel"]["zero"] = 3
    if "run" in job:
        job.pop("tokens", None)
        if random.random() < 0.7:
            cluster["storage"] = storage(random)
    if random.random() < 0.4:
        cluster["node"] = _node(random)
    return checked(document, files, random)


def plain(random: Random) -> dict[str, Any]:
    """A small step that leaves most open."""
    nodes = random.choice((1, 1, 1, 2))
    tp, pp = random.choice(((1, 1), (1, 1), (2, 1), (1, 2), (4, 2)))
    micro = random.choice((1, 1, 2))
    each = micro * 8 * nodes // (tp * pp)
    return {
        "version": 1,
        "name": "fuzz",
        "cluster": {"extends": f"clusters/{random.choice(_CLUSTERS)}", "nodes": nodes},
        "model": shallow(random, f"models/{random.choice(('llama-3.2-1b', 'gpt3-1.3b', 'llama-2-13b', 'llama-3-8b'))}"),
        "stack": random.choice(("fsdp", "deepspeed", "megatron-core", "fsdp2")),
        "training": {
            "global_batch": each * random.choice((1, 2, 4)),
            "micro_batch": micro,
            "sequence_length": random.choice((512, 2048, 4096)),
            "parallel": {"tp": tp, "pp": pp, "zero": random.choice((0, 1, 2, 3, 3))},
            **({"recompute": "full"} if random.random() < 0.3 else {}),
        },
        "seed": random.randrange(5),
    }


_CLUSTERS = ("dgx-h100", "dgx-a100", "dgx-a100-40gb", "generic-h100", "dgx-1-v100", "dgx-2")


def figure(value: Any) -> dict[str, Any]:
    return {"value": value, "status": "estimate", "source": "fuzz"}


def _node(random: Random) -> dict[str, Any]:
    """What a node has beside its devices."""
    links = random.choice(("8 GB/s", "64 GB/s", "400 GB/s"))
    node: dict[str, Any] = {"host_links": figure(links), "host_memory": figure(random.choice(("100 GB", "2 TB")))}
    if random.random() < 0.6:
        read, write = (random.choice(("1 GB/s", "6 GB/s", "50 GB/s")) for _ in range(2))
        capacity = random.choice(("20 GB", "30 TB"))
        node["nvme"] = {"capacity": figure(capacity), "read": figure(read), "write": figure(write)}
    if random.random() < 0.6:
        node["cpu"] = {"name": "fuzz", "cores": figure(random.choice((1, 96)))}
        node["cpu"] |= {"memory_bandwidth": figure("300 GB/s")} if random.random() < 0.8 else {}
    return {key: value for key, value in node.items() if random.random() < 0.8}


def _offload(random: Random) -> dict[str, Any]:
    parts = random.sample(("activations", "optimizer", "parameters"), random.choice((1, 1, 2, 3)))
    found: dict[str, Any] = {part: some(random, _PARTS[part]) for part in parts}
    if "activations" in found and random.random() < 0.6:
        found["activations"] |= random.choice(_OF_A_LAYER)
    return found


_TO = ("host", "host", "nvme")
_PARTS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "activations": {
        "to": _TO,
    },
    "optimizer": {
        "to": _TO,
        "update": ("cpu", "device", "interleaved"),
        "share": (0.3, 0.999),
        "every": (2, 3, 1000),
        "subgroup": (10**6, 10**8, 10**9),
        "flush": ("blocking",),
        "during": ("backward",),
    },
    "parameters": {"to": _TO, "ahead": (1, 3, 1000)},
}


_OF_A_LAYER: tuple[dict[str, Any], ...] = (
    {"layers": 1},
    {"layers": 4, "share": 0.25},
    {"share": 1.0},
    {"tensors": ["mlp in"]},
    {"tensors": ["attention out", "mlp in"]},
    {"tokens": 0},
    {"tokens": 0.41},
    {"tokens": 1},
    {"layers": 1000},
)
"""What of a layer's activations goes elsewhere."""


def _sharding(random: Random) -> dict[str, Any]:
    formats = {"gather_format": ("bf16", "fp8", "int8"), "reduce_format": ("fp32", "int8", "int4")}
    if random.random() < 0.3:
        levels = {"parameters": random.choice((1, 2, 8)), "gradients": random.choice((2, 8, 16, None))}
        return some(random, formats, 0.6) | {"levels": levels}
    return some(random, formats | {"secondary": (1, 2, 8, 16)}, 0.6) or {"secondary": 2}


def _zeroth(random: Random) -> dict[str, Any]:
    choices = {"passes": (1, 2, 3), "over_ranks": (True,), "directions": ("sample",), "scalar_bytes": (1, 8)}
    return some(random, choices)


def _local(random: Random) -> dict[str, Any]:
    rest = {
        "workers": (2, 2, 4, 3),
        "fragments": (1, 3, 24),
        "overlap": (0, 1, 1, 10),
        "outer_format": ("bf16", "int8", "fp4"),
        "step_time": ("1 s", "1 ms"),
    }
    return {"inner": random.choice((1, 30, 500))} | some(random, rest)


def run_of(random: Random) -> dict[str, Any]:
    rest = {
        "failures": (
            "failures/llama-3-h100",
            "failures/rsc-2-a100",
            {"causes": [{"name": "all", "of": "node", "mtbf": "2 d"}]},
            {"causes": [{"name": "a", "of": "device", "mtbf": "5 d"}, {"name": "b", "of": "run", "mtbf": "9 h"}]},
            {"causes": [{"name": "slow", "of": "device", "mtbf": "3 d", "left": 0.5, "detection": "1 h"}]},
            {"causes": [{"name": "slow", "of": "link", "mtbf": "3 d", "left": "10 %"}]},
            {"causes": [{"name": "late", "of": "run", "mtbf": "1 d", "planned": True}]},
        ),
        "checkpoints": (
            {"kind": "synchronous"},
            {"kind": "asynchronous", "interval": "10 min"},
            {"kind": "memory", "steps": 50, "persist": 4},
            {"kind": "synchronous", "interval": "1 h", "size": "500 GB", "writers": "first", "load": "each"},
            {"steps": 7, "files": 4, "keep": 1, "reshard": "offline"},
        ),
        "recovery": (
            {"spares": 0},
            {"spares": 0, "elastic": True, "repair": "6 h"},
            {"spares": 1, "swap": "5 min", "repair": "1 d", "detection": "0 s"},
            {"restart": "0 s", "detection": "0 s"},
        ),
    }
    length = random.choice(({"days": 1}, {"days": 0.01}, {"steps": 1}, {"steps": 5_000}, {"tokens": 10**8}))
    return {**length, "samples": random.choice((1, 1, 2))} | some(random, rest, 0.6)


_MADE: Mapping[str, Any] = {
    "offload": _offload,
    "sharding": _sharding,
    "local_steps": _local,
    "fragmentation": lambda random: random.choice((0.02, 0.3, 0.9)),
    "run": run_of,
    "zeroth_order": _zeroth,
}


def storage(random: Random) -> dict[str, Any]:
    rest = {
        "read_bandwidth": ("1 GB/s", "100 GB/s"),
        "node_bandwidth": ("500 MB/s", "10 GB/s"),
        "file_bandwidth": ("1 GB/s",),
        "file_time": ("10 ms",),
        "files_per_second": ("100 /s",),
        "capacity": ("1 TB", "2 PB"),
    }
    return {"bandwidth": figure(random.choice(("2 GB/s", "50 GB/s")))} | {
        key: figure(value) for key, value in some(random, rest).items()
    }


def _trace(random: Random) -> str:
    """Rows of failures, most of them sound."""
    rows = ["time,what,until,left"]
    for _ in range(random.choice((1, 3, 10))):
        begin = random.randrange(100_000)
        what = random.choice(("device 3", "node 0", "run", "NIC 1", "node 0", "NIC up 0"))
        until = random.choice((str(begin + random.randrange(1, 9000)), ""))
        rows.append(f"{begin},{what},{until},{'' if what in ('node 0', 'run') else random.choice(('', '0.5', '50 %'))}")
    return "\n".join(rows + random.choice(([], [], [], ["1,node 99,", "x,run,,7"]))) + "\n"


def checked(document: dict[str, Any], files: dict[str, bytes], random: Random) -> Input:
    """The scenario with what must hold of its answer; some run again, unfolded, or with faster host links."""
    text = json.dumps(document).encode()
    again, whole, faster = (random.random() < share for share in (0.15, 0.3, 0.5))
    words = ["run", "s.yaml", "--json", "-"]

    def check(answer: Answer) -> str | None:
        if answer.code == 2 or not answer.out:
            return None if bool(answer.code) and not answer.out else "said the wrong thing on standard output"
        told = json.loads(answer.out)
        if "metrics" not in told or "step_time_s" not in told["metrics"]:
            return None
        local = "local_steps" in document["training"]  # the breakdown is of a worker's own step
        wrong = (None if local else semantics.training_faults(told, document)) or run_faults(told)
        if wrong is None and again and answered(words) != answer:
            wrong = "is not the same the second time"
        if wrong is None and whole and answer.code == 0:
            wrong = semantics.apart(answer, answered([*words, "--no-fold"]))
        return wrong or (_faster(told, answered([*words, *FASTER])) if faster and answer.code == 0 else None)

    return Input(words, {"s.yaml": text, **files}, check)


def _faster(told: Mapping[str, Any], answer: Answer) -> str | None:
    """What is wrong where links of hosts became faster."""
    if answer.code:
        return f"ends with faster links of hosts with {answer.code}: {answer.err[-300:]}"
    other = json.loads(answer.out)
    before, after = (one["metrics"]["step_time_s"] for one in (told, other))
    shared = min(max(_exposed(other) - _exposed(told), 0.0), MEETING * before)
    if after > before * (1 + SLOWER) + shared:
        return f"takes {after} s with faster links of hosts, {before} s without"
    return None


def _exposed(told: Mapping[str, Any]) -> float:
    """Seconds that all classes wait for communication: a transfer that comes sooner may meet another on its links."""
    parts = (part for one in told["breakdown"].values() for part in one.items())
    return sum(seconds for name, seconds in parts if name.startswith("exposed"))


def run_faults(told: Mapping[str, Any]) -> str | None:
    """What is wrong with a long run."""
    run, figures = told.get("run"), told["metrics"]
    if not run:
        return None
    parts = sum(run["seconds"].values())
    if abs(parts / figures["run_time_s"] - 1) > ROUNDING:
        return f"parts of a run of {figures['run_time_s']} s sum to {parts}"
    if abs(sum(run["failures"].values()) - figures["failures"]) > TINY * max(figures["failures"], 1):
        return f"{figures['failures']} failures, by cause {run['failures']}"
    low, high = figures["effective_time_ratio_p10"], figures["effective_time_ratio_p90"]
    if not 0 <= low <= high <= 1 + TINY:
        return f"effective shares {low} to {high}"
    return semantics.shares(figures, [name for name in figures if name.endswith(("_fraction", "_ratio"))])
