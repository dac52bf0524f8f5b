"""Random jobs on one cluster that make sense, and what must hold of every answer to them."""

import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tests.fuzz import semantics
from tests.fuzz.harness import Answer, Input, answered
from tests.fuzz.semantics import TINY

PER_NODE = 8
"""Devices of a node of all clusters here."""
CLUSTERS = ("dgx-h100", "dgx-a100", "generic-h100", "dgx-b200", "mi300x-cluster")
EXCESS = 1.02
"""Times a capacity that changes no answer."""
FULL = 1e-6
"""Relative excess over a capacity that is rounding."""


def jobs(random: Random) -> Input:
    """Jobs that somebody could want beside each other."""
    listed = [_job(random, f"job {i}") for i in range(random.choice((1, 2, 2, 2, 2, 2, 2, 3)))]
    taken = sum(job.get("nodes", 1) for job in listed)
    nodes = taken + random.choice((0, 0, 1, 2))
    cluster: dict[str, Any] = {"extends": f"clusters/{random.choice(CLUSTERS)}", "nodes": nodes}
    if random.random() < 0.9:
        cluster["network"] = _tree(random, nodes)
    if random.random() < 0.5:
        _name_nodes(random, listed, nodes)
    document = {"version": 1, "name": "fuzz", "cluster": cluster, "jobs": listed, "seed": random.randrange(5)}
    if random.random() < 0.3:
        document["perturbations"] = [_slow(random, nodes)]
    text, again = json.dumps(document).encode(), random.random() < 0.1
    words = ["run", "s.yaml", "--json", "-"]

    def check(answer: Answer) -> str | None:
        if answer.code == 2:
            return "said something on standard output" if answer.out else None
        told = next(_faults(json.loads(answer.out), document), None)
        return "is not the same the second time" if told is None and again and answered(words) != answer else told

    return Input(words, {"s.yaml": text}, check)


def _job(random: Random, name: str) -> dict[str, Any]:
    """A job as a scenario of its own would say it, short."""
    train = random.random() < 0.6
    document = semantics.scenario_of((semantics.training if train else semantics.serving)(random))
    keys = ("model", "stack", "training") if train else ("model", "stack", "serving", "requests", "slo")
    job = {"name": name} | {key: document[key] for key in keys}
    if not train:
        job["requests"] = job["requests"] | {"count": min(job["requests"]["count"], 8)}
    if train:
        job["nodes"] = nodes = random.choice((1, 1, 2, 2, 2, 3))
        _fit(job, nodes * PER_NODE)
        job["repeat"] = random.random() < 0.7
    elif random.random() < 0.5:
        job |= {"nodes": 2, "model": "models/llama-3-8b"}
        pools = [("prompts", "prefill"), ("answers", "decode")]
        job["serving"] = {"pools": [{"name": a, "role": b, "parallel": {"tp": PER_NODE}} for a, b in pools]}
    if random.random() < 0.4:
        job["start"] = random.choice(("1 ms", "100 ms", "300 ms"))
    job["placement"] = random.choice(("packed", "spread", "random", "random"))
    return job


def _fit(job: dict[str, Any], devices: int) -> None:
    """Whatever it was drawn for, something that so many devices train."""
    training = job["training"]
    parallel = training["parallel"]
    parallel["tp"] = min(parallel["tp"], 4)
    parallel["pp"] = min(parallel.get("pp", 1), devices // parallel["tp"])
    each = training["micro_batch"] * devices // (parallel["tp"] * parallel["pp"])
    training["global_batch"] = each * min(max(training["global_batch"] // each, 1), 4)
    training.pop("tokens", None)
    if training.get("schedule") == "zb-h1":
        del training["schedule"]
    if "mixtral-8x7b" in str(job["model"]):
        job["model"] = {"extends": "models/llama-3-8b", "layers": 8}


def _tree(random: Random, nodes: int) -> dict[str, Any]:
    """Leaves that pass a part of what comes from below."""
    leaf, over = random.choice((1, 2, 2, 2, 4)), random.choice((1, 2, 4, 8, 8))
    latency = {"value": "600 ns", "status": "estimate", "source": "fuzz"}
    levels = [
        {"name": "leaf", "nodes": leaf, "oversubscription": over, "latency": latency},
        {"name": "spine", "nodes": max(nodes, leaf), "latency": latency},
    ]
    return {"kind": "tree", "levels": levels, "rail_optimised": random.random() < 0.3}


def _name_nodes(random: Random, listed: list[dict[str, Any]], nodes: int) -> None:
    """Let all say where they lie, in any order."""
    free = random.sample(range(nodes), nodes)
    for job in listed:
        count = job.pop("nodes", 1)
        job["placement"] = {"nodes": [free.pop() for _ in range(count)]}


def _slow(random: Random, nodes: int) -> dict[str, Any]:
    """Links that are slow, or down, for some time."""
    link = random.choice(("NIC up 0", "NIC down 1", "leaf up 0", f"NIC {nodes * PER_NODE - 1}", "node 0: 1 > switch"))
    slow = {"kind": "slow-links", "links": [link], "factor": random.choice((0, 0.1, 0.5, 0.9))}
    slow |= {"start": random.choice(("0 s", "10 ms", "1 s")), "lasts": random.choice(("1 ms", "300 ms", "20 s"))}
    return slow


def _faults(told: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an answer."""
    for job, said in zip(told["jobs"], document["jobs"], strict=True):
        faults = semantics.training_faults if "training" in said else semantics.serving_faults
        if job["feasible"] and (wrong := faults(job, said)):
            yield f"{said['name']}: {wrong}"
        if job["slowdown"] is not None and not job["slowdown"] >= 1 - 1e-6 and not _chaotic(said):
            yield f"{said['name']} is {job['slowdown']} times as slow beside others"
        if job["end_s"] < job["start_s"] or job["end_s"] > told["metrics"]["makespan_s"] * (1 + TINY):
            yield f"{said['name']} lasts from {job['start_s']} to {job['end_s']} s"
        lumps = any("do not share links" in warning for warning in job["warnings"])
        over = [load for load in job["links"] if load["peak_bytes_per_s"] > EXCESS * load["capacity_bytes_per_s"]]
        if over and not lumps:
            yield f"{said['name']} asks too much of {over[0]}"
    for meeting in told["meetings"]:
        if meeting["full_s"] > meeting["together_s"] * (1 + TINY):
            yield f"full for longer than together: {meeting}"
        over = sum(meeting["bytes_together"].values()) - meeting["capacity_bytes_per_s"] * meeting["together_s"]
        if over > FULL * meeting["capacity_bytes_per_s"] * meeting["together_s"]:
            yield f"carries more than it has: {meeting}"
        if any(part > meeting["bytes"][name] * (1 + TINY) for name, part in meeting["bytes_together"].items()):
            yield f"sends more beside others than in all: {meeting}"


def _chaotic(said: Mapping[str, Any]) -> bool:
    """Whether somebody who is held up for a moment may come out ahead: batches of a service are put together anew."""
    return "serving" in said
