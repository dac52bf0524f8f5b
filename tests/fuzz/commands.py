"""Command lines that make sense of the commands beside `run`: workflow, replay, plan, collective, network, schedule."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import isfinite
from random import Random
from typing import Any

from tests.fuzz.harness import Answer, Check, Input, answered

CLUSTERS = (
    "dgx-h100",
    "dgx-a100",
    "generic-h100",
    "dgx-h100-superpod",
    "dgx-1-v100",
    "dgx-2",
    "frontier",
    "gb200-nvl72",
    "mi300x-cluster",
    "h800-cluster",
    "cloudmatrix384",
    "tpu-v5e-pod",
    "polaris",
    "wan-12-regions",
    "workstation",
    "piz-daint",
    "efa-p5",
    "mac-studio-m2-ultra",
)
SAME = 1e-9
"""Relative difference that is rounding."""


def commands(random: Random) -> Input:
    """A sensible line of one of these commands."""
    return random.choices(_MADE, _WEIGHTS)[0](random)


def _maybe(random: Random, often: float, *words: str) -> list[str]:
    return list(words) if random.random() < often else []


def _outputs(random: Random, *kinds: str) -> list[str]:
    """Files to write, beside the JSON on standard output."""
    names = {"--plots": ".", "--kineto": ".", "--chakra": "o"}
    written = [word for kind in kinds if random.random() < 0.15 for word in (kind, names.get(kind, f"o.{kind[2:]}"))]
    return [*written, "--json", "-"]


def sound(more: Check | None = None) -> Check:
    """Bad input says nothing on standard output; all else is JSON of finite numbers, the same a second time."""

    def check(answer: Answer) -> str | None:
        if answer.code == 2 or not answer.out:
            return "said something on standard output" if answer.out or not answer.code else None
        told = json.loads(answer.out)
        wrong = next((path for path, value in _numbers(told, "") if not isfinite(value)), None)
        return f"is no number: {wrong}" if wrong else more and more(answer)

    return check


def _numbers(told: Any, path: str) -> Iterator[tuple[str, float]]:
    """(path, value) of all numbers of a document."""
    if isinstance(told, Mapping):
        for key, value in told.items():
            yield from _numbers(value, f"{path}.{key}")
    elif isinstance(told, list):
        for number, value in enumerate(told):
            yield from _numbers(value, f"{path}.{number}")
    elif isinstance(told, float):
        yield path, told


def collective(random: Random) -> Input:
    """A collective, a dispatch or a combine."""
    words = ["collective", random.choice(CLUSTERS)]
    ranks = random.choice((None, "1", "2", "3", "8", "13", "16", "64"))
    if random.random() < 0.75:
        names = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "shift", "sendrecv")
        words += ["--op", random.choice(names)]
        sizes = ["--sizes", random.choice(("1K:1M", "8:8G:16", "1M:1G"))]
        words += sizes if random.random() < 0.3 else ["--size", random.choice(("1 B", "7 B", "64 KB", "1 GB", "1"))]
        named = ("ring", "tree", "ring/LL128", "pat", "bruck", "nvls", "hierarchical", "direct", "custom")
        words += _maybe(random, 0.3, "--algorithm", random.choice(named))
        words += _maybe(random, 0.15, "--algo", random.choice(("Ring,Tree", "^NVLS", "PAT", "Ring")))
        words += _maybe(random, 0.2, "--release", random.choice(("2.26", "2.18.3", "2.28", "2.4", "99", "x", "2")))
        words += _maybe(random, 0.15, "--proto", random.choice(("Simple", "^LL128", "LL,LL128")))
        if sizes[0] in words:
            words += _maybe(random, 0.3, "--all-algorithms")
    else:
        words += ["--op", random.choice(("dispatch", "combine"))]
        libraries = ("alltoall", "hierarchical", "allgather", "deepep", "deepep-low-latency", "uccl-ep", "mori", "cann")
        words += _maybe(random, 0.7, "--library", random.choice(libraries))
        given = {"--tokens": ("1", "128", "4096"), "--hidden": ("128", "7168"), "--top-k": ("1", "8", "300")}
        given |= {"--experts": ("8", "64", "256", "7"), "--groups": ("4", "8"), "--group-limit": ("2", "4", "9")}
        given |= {"--format": ("fp8", "bf16", "nvfp4", "x"), "--load": ("3,1,1,1,1,1,1,1", "1,1")}
        for key, values in given.items():
            words += [key, random.choice(values)] if random.random() < (0.9 if key in _SHAPE else 0.15) else []
    words += (
        ["--ranks", ranks] if ranks else _maybe(random, 0.4, "--group", random.choice(("0-7", "0-7/8-15", "0,3,5")))
    )
    words += _maybe(random, 0.3, "--nodes", random.choice(("1", "2", "8")))
    return Input([*words, *_outputs(random, *(("--plots",) if "--sizes" in words else ()))], check=sound())


_SHAPE = ("--tokens", "--hidden", "--top-k", "--experts")


def network(random: Random) -> Input:
    """The network of a cluster."""
    words = ["network", random.choice(CLUSTERS), "--nodes", random.choice(("1", "2", "3", "16", "40"))]
    words += _maybe(random, 0.3, "--parts", random.choice(("infiniband-ndr", "ethernet-800g", "infiniband-xdr")))
    words += _maybe(random, 0.3, "--way", random.choice("037"), random.choice(("0", "1", "8", "15", "99999")))
    if random.random() < 0.4:
        words += [
            "--op",
            random.choice(("all_reduce", "all_to_all", "all_gather")),
            "--size",
            random.choice(("1 B", "1 GB")),
        ]
        words += _maybe(random, 0.3, "--algorithm", random.choice(("ring", "tree", "ring/LL128", "x")))
    return Input([*words, *_outputs(random, "--svg", "--png", "--html")], check=sound())


def schedule(random: Random) -> Input:
    """A pipeline schedule."""
    names = "1f1b auto breadth-first chimera depth-first dualpipe dualpipev forward-only gpipe hanayo interlaced zb-h1"
    more = "interleaved-1f1b pipedream-2bw seq1f1b skippipe v-half v-min vocab-1 vocab-2 zb-h2 zb-v nonsense"
    stages = random.choice((1, 2, 3, 4, 8))
    words = ["schedule", random.choice(f"{names} {more}".split()), "--stages", str(stages)]
    words += ["--microbatches", str(random.choice((1, 2, 3, stages, 2 * stages, 24)))]
    given = {
        "--chunks": ("1", "2", "3"),
        "--forward": ("0", "0.5", "1e-9", "7"),
        "--input-gradient": ("0", "0.977"),
        "--weight-gradient": ("0", "0.5"),
        "--send": ("0.03", "3"),
        "--scores": ("0", "0.4"),
        "--pair": ("1.5", "0"),
        "--memory-limit": ("1", "3", "8"),
        "--slices": ("2", "4"),
        "--attention": ("0.4", "1"),
        "--cut": ("balanced", "even"),
        "--kept-for-weights": ("0", "0.5"),
        "--layers": (",".join(str(n + 7) for n in range(stages)), "1,2"),
        "--speeds": (",".join(["1"] * (stages - 1) + ["0.5"]), "0"),
    }
    for key, values in given.items():
        words += _maybe(random, 0.12, key, random.choice(values))
    words += _maybe(random, 0.6 if "auto" in words else 0.02, "--no-barrier")
    return Input([*words, *_outputs(random, "--svg", "--png", "--csv")], check=sound(_tiled))


def _tiled(answer: Answer) -> str | None:
    """A schedule whose bubble is no share."""
    told = json.loads(answer.out)
    bubble = told.get("bubble", 0)
    return f"bubble {bubble}" if isinstance(bubble, float) and not 0 <= bubble <= 1 else None


def workflow(random: Random) -> Input:
    """Stages that train, generate, hand over and wait on one or two nodes."""
    apart = random.random() < 0.5
    pools = {"a": {"nodes": 1}, "b": {"nodes": 1}} if apart else {"a": {"nodes": 1}}
    other = "b" if apart else "a"
    model = f"models/{random.choice(('llama-3.2-1b', 'gpt3-1.3b', 'llama-3-8b'))}"
    layout = random.choice(({"tp": 1}, {"tp": 2}, {"tp": 2, "pp": 2}))
    generate: dict[str, Any] = {"name": "rollout", "on": "a", "model": model, "stack": "vllm"}
    generate["serving"] = {"replicas": random.choice((1, 2, 4)), "parallel": {"tp": random.choice((1, 2))}}
    length = {"prompt": {"fixed": 64}, "output": {"lognormal": [40, 0.8], "high": 300}}
    generate["requests"] = {"lengths": length, "count": random.choice((1, 16, 64))}
    if random.random() < 0.4:
        generate["enough"] = random.choice((0.5, "90 %", 1, 0.01))
    if random.random() < 0.5:
        generate["after"] = [{"stage": "hand over", "lag": random.choice((1, 2, 5))}]
    train: dict[str, Any] = {
        "name": "train",
        "after": ["rollout"],
        "on": other,
        "model": model,
        "stack": "megatron-core",
    }
    train["training"] = {"global_batch": 16, "sequence_length": 512, "steps": 2, "micro_batch": 1, "parallel": layout}
    give = {"of": "train", "to": "rollout", "way": random.choice(("pieces", "one-by-one"))}
    hand = {"name": "hand over", "after": ["train"], "on": sorted(pools), "hands_over": give}
    stages: list[dict[str, Any]] = [generate, train, hand]
    if random.random() < 0.5:
        takes: dict[str, Any] = {
            "takes": random.choice(("0 s", "10 ms", "1 s")),
            "items": random.choice((1, 100)),
            "servers": 8,
        }
        stages.insert(1, {"name": "tool", "after": ["rollout"]} | takes)
    if random.random() < 0.1:
        stages[0]["after"] = [random.choice(("train", "nothing", "rollout"))]
    document = {
        "version": 1,
        "name": "fuzz",
        "cluster": {"extends": "clusters/dgx-h100", "nodes": random.choice((2, 2, 1))},
        "pools": pools,
        "stages": stages,
        "iterations": random.choice((1, 2, 5)),
        "seed": random.randrange(3),
    }
    words = ["workflow", "w.yaml", *_maybe(random, 0.1, "stages.0.enough=0.7"), *_outputs(random, "--html")]
    again = random.random() < 0.2

    def check(answer: Answer) -> str | None:
        told = json.loads(answer.out)
        if again and answered(words) != answer:
            return "is not the same the second time"
        return _played(told) if answer.code == 0 else None

    return Input(words, {"w.yaml": json.dumps(document).encode()}, sound(check))


def _played(told: Mapping[str, Any]) -> str | None:
    """What is wrong with the runs of a workflow: two on one pool at a time, or one before what it waits for."""
    taken = {stage["name"]: stage["pools"] for stage in told["stages"]}
    by_pool: dict[str, list[tuple[float, float, str]]] = {}
    for run in told["runs"]:
        if not 0 <= run["ready_s"] <= run["begin_s"] <= run["end_s"]:
            return f"ends before it begins: {run}"
        for pool in taken[run["stage"]]:
            by_pool.setdefault(pool, []).append((run["begin_s"], run["end_s"], run["stage"]))
    for pool, listed in by_pool.items():
        for (_, end, one), (begin, _, other) in pairwise(sorted(listed)):
            if begin < end * (1 - SAME):
                return f"`{one}` and `{other}` have the pool {pool} at one time"
    return None


def replay(random: Random) -> Input:
    """A trace in Chakra's JSON form, or of PyTorch's profiler, some of it wrong."""
    ranks = random.choice((1, 2, 4))
    count = random.choice((1, 3, 8))
    files = {f"t.{rank}.json": json.dumps(_chakra(random, count, ranks)).encode() for rank in range(ranks)}
    words: list[str] = ["replay", *files, "--cluster", random.choice(("dgx-h100", "dgx-a100", "workstation"))]
    words += _maybe(random, 0.3, "--nodes", random.choice(("1", "2")))
    words += _maybe(random, 0.3, "--ranks", random.choice(("1", "2", "16", "7")))
    words += _maybe(random, 0.2, "--network", random.choice(("2", "0.5", "0", "1e9")))
    words += _maybe(random, 0.2, "--measured")
    return Input([*words, *_outputs(random, "--chakra", "--kineto")], files, sound())


def _chakra(random: Random, count: int, ranks: int) -> dict[str, Any]:
    nodes = []
    for number in range(count):
        node: dict[str, Any] = {"id": number + 1, "name": f"node {number}"}
        if random.random() < 0.6:
            node |= {"type": "COMP_NODE", "duration_micros": random.choice((0, 5, 100))}
            node["attr"] = [{"name": "num_ops", "int64Val": str(random.choice((0, 10**12)))}]
        else:
            size, kind = random.choice((0, 1, 2**20)), random.choice((0, 1, 2, 3, 5, 99))
            node |= {"type": "COMM_COLL_NODE"}
            node["attr"] = [{"name": "comm_size", "int64_val": size}, {"name": "comm_type", "int64_val": kind}]
        if number:
            node["dataDeps"] = [random.choice((number, 1, number, 99 if random.random() < 0.1 else number))]
        nodes.append(node)
    return {"metadata": {"version": "0.0.4"}, "nodes": nodes}


def plan(random: Random) -> Input:
    """A small search of layouts, machines or rates."""
    if random.random() < 0.35:
        return _served(random)
    document = {
        "version": 1,
        "name": "fuzz",
        "cluster": {"extends": f"clusters/{random.choice(('dgx-h100', 'dgx-a100'))}", "nodes": random.choice((1, 2))},
        "model": f"models/{random.choice(('llama-3.2-1b', 'llama-3-8b', 'olmoe-1b-7b', 'llama-2-70b'))}",
        "stack": random.choice(("megatron-core", "fsdp", "deepspeed")),
        "training": {"global_batch": random.choice((8, 32, 33)), "sequence_length": random.choice((512, 2048))},
    }
    words = ["plan", "s.yaml", "--jobs", "1", "--no-cache", "--only", f"tp={random.choice(('1', '1,2', '2,8', '3'))}"]
    for only in ("pp=1", "pp=1,2", "zero=0,3", "recompute=none", "micro_batch=1,2", "vpp=1", "ep=1,2", "cp=1", "x=1"):
        words += _maybe(random, 0.35, "--only", only)
    words += _maybe(random, 0.25, "--nodes", random.choice(("1,2", "1:4", "8")))
    words += _maybe(random, 0.25, "--clusters", random.choice(("dgx-h100,dgx-a100", "gb200-nvl72", "nope")))
    if random.random() < 0.5:
        words += ["--tokens", random.choice(("1B", "1T", "0"))]
        words += _maybe(random, 0.5, "--days", random.choice(("1", "30", "1e6")))
        words += _maybe(random, 0.3, "--budget", random.choice(("5 kUSD", "1 USD", "5 MUSD", "7")))
        words += _maybe(random, 0.3, "--by", random.choice(("time", "cost")))
    words += _maybe(random, 0.3, "--grid", random.choice(("france", "poland", "nope")))
    words += _maybe(random, 0.2, "--top", random.choice(("1", "50", "0")))
    written = random.choice(("--write", "--write-flags"))
    if random.random() < 0.2:
        words += [written, "o.yaml" if written == "--write" else random.choice(("megatron", "torchtitan"))]
        return Input(words, {"s.yaml": json.dumps(document).encode()})
    words += _outputs(random, "--html", "--plots")
    return Input(words, {"s.yaml": json.dumps(document).encode()}, sound())


def _served(random: Random) -> Input:
    document = {
        "extends": "serving/prefill-first-a100",
        "name": "fuzz",
        "requests": {"count": random.choice((5, 30)), "arrivals": {"poisson": "2 /s"}},
        "slo": random.choice(({"ttft": "1 s"}, {"ttft": "1 ms"}, {"tpot": "80 ms", "attainment": "50 %"})),
    }
    words = ["plan", "s.yaml", "--jobs", "1", "--tolerance", random.choice(("5 %", "20 %"))]
    words += _maybe(random, 0.3, "--curve", random.choice(("0", "2")))
    words += _maybe(random, 0.3, "--rate", random.choice(("1 /s", "1000 /s", "x")))
    words += _maybe(random, 0.2, "--vary", "serving.batching.max_sequences=2,8")
    words += _maybe(random, 0.3, "+requests.tenants=[{name: a, share: 1, limit: {rate: 1 /s, burst: 1}}]")
    words += _maybe(random, 0.3, "+serving.fleet={admission: {outstanding: 2}}")
    return Input([*words, *_outputs(random, "--html", "--plots")], {"s.yaml": json.dumps(document).encode()}, sound())


def papers(random: Random) -> Input:
    """A published system or two, by names of systems and of papers, or of nothing."""
    names = ("t3", "nope", "", "T3", "distzo2", "lamina", "packet_spraying")
    words = ["papers", random.choice(names), "--no-cache", "--jobs", "1"]
    return Input([*words, *_outputs(random, "--html", "--markdown")], check=sound())


_MADE = (collective, network, schedule, workflow, replay, plan, papers)
_WEIGHTS = (4, 3, 4, 4, 3, 3, 0.3)
