"""Inputs that the walks found to break a command, each mended."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.study.header import differing
from tests.fuzz.harness import Answer, Input, answered, fault
from tests.fuzz.operations import FILES
from tests.fuzz.semantics import TINY, apart, shares, training_faults


def _refused(answer: Answer) -> str | None:
    return None if answer.code == 2 else f"exit code {answer.code}"


_TOKENS = ["--tokens", "8", "--hidden", "64", "--top-k", "8"]
FOUND = {
    "a root for a name": Input(["compare", "empty", "/"], FILES, _refused),
    "a folder for a name": Input(["compare", "loop", ".", "clusters/selene"], FILES, _refused),
    "a null byte in an output": Input(["sweep", "small.yaml", "seed=1,2", "--csv", "a\0b"], FILES, _refused),
    "half a surrogate pair in an output": Input(["validate", "--json", "\ud800", "--sample", "1"], FILES, _refused),
    "an empty path": Input(["check", "", "--baseline", "b", "--update"], FILES, _refused),
    "dashes for a value": Input(["compare", "small.yaml", "--vary=--"], FILES, _refused),
    "dashes for an output": Input(["run", "small.yaml", "--json=--"], FILES, _refused),
    "half a surrogate pair in a file of rows": Input(["validate", "\ud800"], FILES, _refused),
    "half a surrogate pair in a file to import": Input(["import", "\ud800", "--cluster", "1"], FILES, _refused),
    "a null byte in a file of rows": Input(["validate", "a\0b"], FILES, _refused),
    "half a surrogate pair in a row": Input(
        ["validate", "rows.jsonl", "--kind", "training", "--quiet", "--json", "out.json"],
        {"rows.jsonl": b'{"id": "\\ud800", "source": "\\ud800", "primary_metric": "mfu"}\n'},
    ),
    "workers of local steps that would share experts": Input(
        ["run", "s.yaml", "--quiet"],
        {
            "s.yaml": b"{version: 1, name: few, cluster: {extends: clusters/dgx-h100, nodes: 1}, stack: deepspeed, "
            b"model: {extends: models/olmoe-1b-7b, layers: 2}, training: {global_batch: 8, sequence_length: 512, "
            b"parallel: {ep: 4}, local_steps: {inner: 10}}}"
        },
        _refused,
    ),
    "experts whose rows all stay": Input(
        ["run", "s.yaml", "--quiet"],
        {
            "s.yaml": b"{version: 1, name: stay, cluster: {extends: clusters/dgx-h100, nodes: 1}, stack: vllm, "
            b"model: {extends: models/olmoe-1b-7b, layers: 2}, serving: {parallel: {dp: 4, ep: 4}, experts: "
            b"{dispatcher: deepep, local_share: 1.0, routing: {load: degenerate}}}, requests: {count: 2, "
            b"arrivals: {at_once: true}, lengths: {prompt: {fixed: 100}, output: {fixed: 3}}}}"
        },
    ),
    "copies of experts of which rounding leaves next to nothing to send": Input(
        ["run", "s.yaml", "--quiet"],
        {
            "s.yaml": b"{version: 1, name: few, cluster: {extends: clusters/dgx-h100, nodes: 1}, stack: nemo, model: "
            b"{extends: models/olmoe-1b-7b, layers: 4}, training: {global_batch: 8, sequence_length: 256, parallel: "
            b"{ep: 2}, steps: 1, routing: {trace: t.jsonl, replicas: 20, capacity: 1.0}}}",
            "t.jsonl": b'{"step": 0, "tokens": ['
            b"900,1,50,50,900,900,900,50,0,50,1,50,1,1,900,0,0,0,0,1,900,1,0,1,50,50,0,50,0,50,50,50,"
            b"900,50,0,1,0,50,0,0,0,0,0,50,0,900,0,50,0,0,0,0,0,1,1,0,1,0,900,50,1,0,0,0"
            b"]}\n",
        },
    ),
    "a job beside others whose calls are all inside passes that run as one": Input(
        ["run", "s.yaml", "--json", "-"],
        {
            "s.yaml": b"{version: 1, name: inside, cluster: {extends: clusters/mi300x-cluster, nodes: 4, network: "
            b"{kind: tree, rail_optimised: false, levels: [{name: leaf, nodes: 2, oversubscription: 8}, {name: spine, "
            b"nodes: 4}]}}, jobs: [{name: served, model: models/llama-3-8b, stack: vllm, nodes: 2, placement: spread, "
            b"serving: {pools: [{name: a, role: prefill, parallel: {tp: 8}}, {name: b, role: decode, parallel: {tp: "
            b"8}}]}, requests: {arrivals: {at_once: true}, lengths: {prompt: {fixed: 500}, output: {fixed: 3}}, "
            b"count: 3}}, {name: trained, model: {extends: models/llama-3-8b, layers: 2}, stack: megatron-deepspeed, "
            b"nodes: 2, repeat: true, training: {global_batch: 32, micro_batch: 2, sequence_length: 512, zeroth_order: "
            b"{passes: 5}}}]}"
        },
    ),
    "more pairs of members than memory holds": Input(
        ["collective", "frontier", "--op", "all_to_all", "--size", "1GB"], {}, _refused
    ),
    "more ways into nodes than memory holds": Input(
        ["collective", "frontier", "--op", "dispatch", "--library", "deepep", *_TOKENS, "--experts", "75264"],
        {},
        _refused,
    ),
    "experts of a server whose cards hold whole layers": Input(
        ["run", "s.yaml", "--quiet"],
        {
            "s.yaml": b"{version: 1, name: layers, cluster: {extends: clusters/dgx-h100, nodes: 1}, stack: llama.cpp, "
            b"model: {extends: models/olmoe-1b-7b, layers: 4}, serving: {parallel: {tp: 2}}, requests: {count: 1, "
            b"arrivals: {at_once: true}, lengths: {prompt: {fixed: 9}, output: {fixed: 2}}}}"
        },
        lambda answer: answer.err if answer.code else None,
    ),
    "a whole prompt beyond any budget, for which there is no room yet": Input(
        ["run", "s.yaml", "--quiet"],
        {
            "s.yaml": b"{version: 1, name: whole, cluster: {extends: clusters/dgx-h100, nodes: 1}, stack: vllm, "
            b"model: {extends: models/llama-3-8b, layers: 2}, serving: {batching: {policy: whole-prompts, "
            b"token_budget: 64, max_sequences: 2}, kv_cache: {blocks: 14, block_size: 16}, context: 200}, "
            b"requests: {count: 4, arrivals: {at_once: true}, lengths: {prompt: {fixed: 140}, output: {fixed: 50}}}}"
        },
        lambda answer: answer.err if answer.code else None,
    ),
    "an algorithm forced that the library has not for its operation": Input(
        ["calibrate", "collectives", "rows.jsonl"],
        {
            "rows.jsonl": b'{"id": "a", "op": "all_gather", "accelerator": "B200-SXM", "accelerator_id": "b200-sxm", '
            b'"num_ranks": 16, "num_nodes": 2, "interconnect": {"intra": "NVLink + NVSwitch", "inter": "RoCE (gIB), '
            b'8x400 Gb/s per node"}, "library": "NCCL", "library_version": "2.26.6", "size_bytes": 8192, "metrics": '
            b'{"time_s": 4.448e-05}, "source": "s", "source_ref": "r", "source_kind": "read at the source", "algo": '
            b'"nvls + IB SHARP"}'
        },
        _refused,
    ),
    "hours in which nothing happens but looks of an autoscaler": Input(
        ["run", "s.yaml", "--json", "-"],
        {
            "s.yaml": b"{version: 1, name: looks, cluster: {extends: clusters/generic-h100, nodes: 1}, stack: "
            b"tensorrt-llm, model: models/qwen1.5-moe-a2.7b, serving: {replicas: 1, parallel: {tp: 1}, fleet: "
            b"{autoscaling: {rule: queue, target: 1, min: 0, max: 8, start: 0, check: 1 ms, cooldown: 0 s}}, "
            b"expert_loads: {path: disk, memory: 300 MB, bandwidth: 100 MB/s}}, requests: {arrivals: {poisson: 2 /s}, "
            b"lengths: {prompt: {fixed: 300}, output: {fixed: 60}}, count: 20}}"
        },
        lambda answer: None if json.loads(answer.out)["provenance"]["events"] < 100_000 else "looks at nothing",
    ),
    "a number of thousands of digits in TOML": Input(
        ["import", "job.toml", "--cluster", "dgx-h100"],
        {"job.toml": b"[model]\nname = 'llama3'\n[training]\nsteps = " + b"9" * 5000 + b"\n"},
        _refused,
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_broke_a_command_is_refused_in_words(name: str, tmp_path: Path) -> None:
    assert fault(FOUND[name], tmp_path) is None


def test_waits_for_hosts_are_cut_at_the_begin_of_the_gap(tmp_path: Path) -> None:
    """What ended before a gap of a lane had been counted into it, so that a breakdown was longer than its step."""
    figure = {"value": "400 GB/s", "status": "estimate", "source": "test"}
    document = {
        "version": 1,
        "name": "sums",
        "cluster": {"extends": "clusters/dgx-2", "nodes": 2, "node": {"host_links": figure}},
        "model": {"extends": "models/llama-3.2-1b", "layers": 4},
        "stack": "fsdp2",
        "training": {
            "global_batch": 16,
            "sequence_length": 4096,
            "parallel": {"pp": 2, "zero": 3},
            "offload": {"optimizer": {"flush": "blocking"}},
        },
    }

    def check(answer: Answer) -> str | None:
        return training_faults(json.loads(answer.out), document)

    text = {"s.yaml": json.dumps(document).encode()}
    assert fault(Input(["run", "s.yaml", "--json", "-"], text, check), tmp_path) is None


def _step(**training: Any) -> dict[str, Any]:
    """A step of a small Llama on L40S: 4 nodes of 8."""
    return {
        "version": 1,
        "name": "folded",
        "cluster": {"extends": "clusters/l40s-cluster", "nodes": 4},
        "model": {"extends": "models/llama-3-8b", "layers": 8},
        "stack": "nemo",
        "training": {"global_batch": 16, "micro_batch": 2, "sequence_length": 1024, **training},
    }


_SMALL_EXPERTS = {"extends": "models/deepseek-v3", "layers": 4, "hidden": 1024, "experts": 16, "expert_groups": 4}
_UNFOLDED: dict[str, dict[str, Any]] = {
    "gradients of a tied embedding meet on another stage": {
        "cluster": {"extends": "clusters/generic-h100", "nodes": 1},
        "model": _SMALL_EXPERTS,
        "stack": "fsdp",
        "training": {
            "global_batch": 16,
            "micro_batch": 4,
            "sequence_length": 1024,
            "parallel": {"tp": 2, "pp": 2, "zero": 1, "ep": 2},
            "precision": "fp8",
            "noise": {"jitter": 0.05},
        },
        "seed": 4,
    },
    "of causes that end together one is named": {
        "cluster": {"extends": "clusters/generic-h100", "nodes": 1},
        "model": "models/llama-3.2-1b",
        "stack": "deepspeed",
        "training": {
            "global_batch": 8,
            "micro_batch": 1,
            "sequence_length": 4096,
            "parallel": {"pp": 2, "zero": 3, "vpp": 2},
            "schedule": "breadth-first",
        },
    },
    "two copies of a stage are no peers that are late": {
        "cluster": {"extends": "clusters/ascend-910b", "nodes": 1},
        "model": {"extends": "models/mamba-2-1.3b", "layers": 8},
        "stack": "fsdp2",
        "training": {
            "global_batch": 16,
            "micro_batch": 4,
            "sequence_length": 512,
            "parallel": {"pp": 4, "cp": 2, "zero": 1, "cp_kind": "all-gather"},
            "schedule": "chimera",
            "recompute": "selective",
            "documents": {"lognormal": [200, 1.0], "high": 512},
            "batching": {"policy": "bucket", "buckets": [64, 256], "tokens": 4096, "synchronous": True},
        },
    },
}


@pytest.mark.parametrize("name", _UNFOLDED)
def test_where_a_step_goes_is_the_same_unfolded(name: str, tmp_path: Path) -> None:
    """What another stage holds up was called communication where equal chains were one, and lateness of peers where
    they were apart."""
    text = {"s.yaml": json.dumps({"version": 1, "name": "folded", **_UNFOLDED[name]}).encode()}
    words = ["run", "s.yaml", "--json", "-"]
    found = fault(Input(words, text, lambda answer: apart(answer, answered([*words, "--no-fold"]))), tmp_path)
    assert found is None


def test_the_step_that_is_shown_is_the_one_that_is_timed(tmp_path: Path) -> None:
    """Replicas of different pace, whose collectives take multiprocessors from what is computed beside them, were timed
    as the slowest of them alone: parts of the step summed to 0.4 % more than it."""
    document = _step(parallel={"tp": 2}, noise={"jitter": 0.05}, global_batch=8, micro_batch=1, recompute="selective")
    document |= {"cluster": {"extends": "clusters/gaudi2-cluster", "nodes": 1}, "model": "models/gpt2-355m", "seed": 3}
    text = {"s.yaml": json.dumps(document).encode()}
    words = ["run", "s.yaml", "--json", "-"]
    assert fault(Input(words, text, lambda answer: training_faults(json.loads(answer.out), document)), tmp_path) is None


def test_chains_that_share_links_with_a_straggler_are_folded_apart(tmp_path: Path) -> None:
    """Chains of the straggler's node share its links with it, those of the other nodes do not: they were one class, and
    the step was 9 us longer than unfolded."""
    noise = {"stragglers": {"devices": [23], "slowdown": 1.5}}
    text = {"s.yaml": json.dumps(_step(parallel={"tp": 2, "pp": 2, "zero": 2}, noise=noise)).encode()}
    words = ["run", "s.yaml", "--json", "-"]
    found = fault(Input(words, text, lambda answer: apart(answer, answered([*words, "--no-fold"]))), tmp_path)
    assert found is None


def test_a_host_link_carries_no_more_than_it_has(tmp_path: Path) -> None:
    """Bytes of copies in passes that are cut had been spread over their kernels too, and counted on both lanes."""
    document = _step(
        parallel={"pp": 2, "zero": 2}, offload_layers=1, global_batch=64, micro_batch=4, sequence_length=2048
    )
    document |= {"cluster": {"extends": "clusters/generic-h100", "nodes": 1}, "stack": "megatron-core"}

    def check(answer: Answer) -> str | None:
        links = [one for one in json.loads(answer.out)["links"] if one["name"].startswith("host link")]
        over = [one for one in links if one["peak_bytes_per_s"] > one["capacity_bytes_per_s"] * (1 + TINY)]
        return f"{over}" if over or len(links) != 2 else None

    text = {"s.yaml": json.dumps(document).encode()}
    assert fault(Input(["run", "s.yaml", "--json", "-"], text, check), tmp_path) is None


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"fleet": {"after": [{"name": "detokeniser", "servers": 1, "per_token": "1 ms"}]}},
        {"adapters": {"count": 1, "kind": "whole", "slots": 1}},
    ],
)
def test_a_service_runs_as_it_is_explained(more: dict[str, Any], tmp_path: Path) -> None:
    """Defaults that are for pools apart, stations that fail and adapters of low rank were refused written out."""
    document = {
        "version": 1,
        "name": "explained",
        "cluster": "clusters/dgx-h100",
        "model": "models/llama-3.2-1b",
        "stack": "vllm",
        "serving": {"replicas": 1},
        "requests": {
            "arrivals": {"at_once": True},
            "lengths": {"prompt": {"fixed": 9}, "output": {"fixed": 2}},
            "count": 1,
        },
    }

    def check(answer: Answer) -> str | None:
        (tmp_path / "o.yaml").write_text(answer.out, encoding="utf-8")
        again = answered(["run", "o.yaml", "--quiet"])
        return again.err if again.code else None

    text = {"s.yaml": json.dumps(document).encode()}
    assert fault(Input(["explain", "s.yaml"], text, check), tmp_path) is None


def test_waiting_for_peers_is_no_more_than_what_no_transfer_takes(tmp_path: Path) -> None:
    """A wait for slower peers under which parameters came from the host was booked twice, and taken from the bubble."""
    links = {"value": "64 GB/s", "status": "estimate", "source": "test"}
    document = {
        "version": 1,
        "name": "late",
        "cluster": {"extends": "clusters/dgx-h100", "nodes": 1, "node": {"host_links": links}},
        "model": "models/gemma-3-1b",
        "stack": "pytorch-ddp",
        "training": {
            "global_batch": 16,
            "micro_batch": 1,
            "sequence_length": 2048,
            "parallel": {"zero": 3},
            "precision": "fp32",
            "noise": {"jitter": 0.05},
            "offload": {"parameters": {}},
        },
        "seed": 1,
    }

    def check(answer: Answer) -> str | None:
        return training_faults(json.loads(answer.out), document)

    text = {"s.yaml": json.dumps(document).encode()}
    assert fault(Input(["run", "s.yaml", "--json", "-"], text, check), tmp_path) is None


def test_settings_of_other_types_are_compared_as_nothing() -> None:
    """A pool that is a text, a layout that is a list, an axis of size 0."""
    scenarios = [
        {"cluster": {"nodes": 1, "node": {"devices": 8, "accelerator": {"name": "A"}}}, **rest}
        for rest in (
            {"serving": {"pools": ["x"], "parallel": []}},
            {"serving": {"pools": 3}},
            {"training": {"parallel": {"tp": 0}}},
        )
    ]
    assert json.dumps(differing(scenarios))


def test_prompts_that_start_again_are_looked_up_again(tmp_path: Path) -> None:
    """Tokens from tiers were counted each time that a prompt was loaded, and the prompt once: 1.9 of all."""
    document = {
        "version": 1,
        "name": "again",
        "cluster": "clusters/ascend-910b",
        "model": "models/llama-3-8b",
        "stack": "deepspeed-fastgen",
        "serving": {
            "replicas": 2,
            "parallel": {"tp": 1, "pp": 4},
            "batching": {"policy": "orca", "chunked_pipeline": True, "padded": True, "max_sequences": 2},
            "kv_cache": {
                "prefix_caching": "radix",
                "tiers": [
                    {"name": "ssd", "capacity": "2 GB", "bandwidth": "6 GB/s"},
                    {"name": "store", "capacity": "50 MB", "shared": True, "bandwidth": "10 GB/s", "write": "back"},
                ],
                "blocks": 100,
                "block_size": 16,
                "loads": {"when": "faster", "layered": True, "least": 1},
            },
            "fleet": {"failures": {"mtbf": "500 ms", "repair": {"fixed": 0}, "requests": "migrate", "of": "node"}},
        },
        "requests": {
            "arrivals": {"poisson": "2 /s"},
            "lengths": "sharegpt-clients",
            "count": 25,
            "sessions": {"turns": {"uniform": [1, 5]}, "think": {"exponential": 2}},
        },
        "seed": 2,
    }

    def check(answer: Answer) -> str | None:
        told = json.loads(answer.out)
        rates = [tier["hit_rate"] for tier in told["service"]["cache_tiers"]]
        assert sum(rates) == pytest.approx(told["metrics"]["tier_hit_rate"]) and sum(rates) > 0.1
        return shares(told["metrics"], ["tier_hit_rate"])

    text = {"s.yaml": json.dumps(document).encode()}
    assert fault(Input(["run", "s.yaml", "--json", "-"], text, check), tmp_path) is None


def test_a_run_that_is_faster_on_fewer_nodes_spends_no_less_than_nothing_on_them(tmp_path: Path) -> None:
    """Two slow nodes lose to one: the step on what is left takes less, and what it saves was a part below 0."""
    causes = [{"name": "a", "of": "device", "mtbf": "5 d"}, {"name": "b", "of": "run", "mtbf": "9 h"}]
    document = {
        "version": 1,
        "name": "fewer",
        "cluster": {
            "extends": "clusters/dgx-1-v100",
            "nodes": 2,
            "storage": {
                "bandwidth": {"value": "2 GB/s", "status": "estimate", "source": "test"},
                "file_bandwidth": {"value": "1 GB/s", "status": "estimate", "source": "test"},
            },
        },
        "model": "models/gpt3-1.3b",
        "stack": "deepspeed",
        "training": {
            "global_batch": 4,
            "micro_batch": 1,
            "sequence_length": 512,
            "parallel": {"tp": 4, "pp": 2, "zero": 3},
            "recompute": "full",
            "run": {
                "tokens": 100_000_000,
                "samples": 2,
                "failures": {"causes": causes},
                "recovery": {"spares": 0, "elastic": True, "repair": "6 h"},
                "data": {"bytes": "1 B", "rate": "1 GB/s"},
                "evaluation": {"every": 100, "takes": "3 min"},
            },
        },
        "seed": 4,
    }

    def check(answer: Answer) -> str | None:
        return training_faults(json.loads(answer.out), document)

    text = {"s.yaml": json.dumps(document).encode()}
    assert fault(Input(["run", "s.yaml", "--json", "-"], text, check), tmp_path) is None
