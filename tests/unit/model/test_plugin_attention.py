"""An attention kind that one file adds: values are the keys, so that one matrix makes both and the cache holds one
(as the full layers of Gemma 4 have it). Trained and served by name, from files, with nothing else touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import simulator as sim
from simulator.axes import TP
from simulator.model.blocks import ATTENTIONS, KEYS, QUERIES
from simulator.model.blocks.base import enter, leave
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, ROW, AttentionCore, CacheWrite, Linear, Op
from simulator.specs.model import Model

NAME = "keys-as-values"


@ATTENTIONS.add(NAME)
def keys_as_values(model: Model, cut: Cut, window: int | None, part: str) -> Iterator[Op]:
    """Queries, and keys that are the values too."""
    size = model.head_dim
    heads = 0 if part == KEYS else cut.share(model.heads)
    kv_heads = 0 if part == QUERIES else cut.share(model.kv_heads)
    width = (heads + kv_heads) * size
    yield from enter(cut, "attention", model.hidden)
    yield Op("attention in", Linear(model.hidden, width, COLUMN, TP))
    if kv_heads:
        yield Op("cache", CacheWrite(kv_heads * size))
    if heads:
        core = AttentionCore(heads, cut.share(model.kv_heads), size, window, cut.causal, kept=width)
        yield Op("attention", core)
        yield Op("attention out", Linear(core.attended, model.hidden, ROW, TP))
        yield from leave(cut, "attention", model.hidden)


MODEL = """
name: small
layers: 8
hidden: 2048
heads: 16
vocabulary: 32000
max_sequence: 2048
biases: false
"""

TRAINING = """
version: 1
name: trained
cluster: {extends: dgx-a100, nodes: 1}
model: ./MODEL.yaml
stack: megatron-lm-2021
training: {global_batch: 16, micro_batch: 2, sequence_length: 2048, parallel: {tp: 2, pp: 2, dp: 2}}
"""

SERVING = """
version: 1
name: served
cluster: {extends: dgx-a100, nodes: 1}
model: ./MODEL.yaml
stack: vllm
serving: {parallel: {tp: 2}}
requests: {arrivals: {poisson: 20 /s}, lengths: {prompt: {fixed: 512}, output: {fixed: 128}}, count: 50}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "grouped.yaml").write_text(MODEL)
    (tmp_path / "shared.yaml").write_text(f"{MODEL}attention: {NAME}\n")
    for name in ("grouped", "shared"):
        (tmp_path / f"train-{name}.yaml").write_text(TRAINING.replace("MODEL", name))
        (tmp_path / f"serve-{name}.yaml").write_text(SERVING.replace("MODEL", name))
    return tmp_path


def test_it_is_trained(folder: Path) -> None:
    """A matrix of h x h less in each of 8 layers: a twelfth of the FLOPs of its products."""
    grouped, shared = (sim.run(folder / f"train-{name}.yaml") for name in ("grouped", "shared"))
    assert shared.metrics["step_time_s"] < grouped.metrics["step_time_s"]
    assert shared.metrics["peak_memory_bytes"] < grouped.metrics["peak_memory_bytes"]
    flops = [one.metrics["model_flops_per_device"] * 8 * one.metrics["step_time_s"] for one in (grouped, shared)]
    assert flops[0] - flops[1] == pytest.approx(6 * 16 * 2048 * 8 * 2048 * 2048)


def test_it_is_served(folder: Path) -> None:
    """A token's cache has half the bytes, so that the same memory has room for twice the tokens and more."""
    grouped, shared = (sim.run(folder / f"serve-{name}.yaml") for name in ("grouped", "shared"))
    services = [one.service for one in (grouped, shared)]
    blocks = [one.replicas[0].blocks for one in services if one is not None]
    assert blocks[1] / blocks[0] == pytest.approx(2, rel=0.01)
    assert shared.metrics["mean_tpot_ms"] < grouped.metrics["mean_tpot_ms"]


def test_a_kind_that_is_not_known_names_the_nearest(folder: Path) -> None:
    (folder / "shared.yaml").write_text(f"{MODEL}attention: keys-as-value\n")
    for name in ("train", "serve"):
        with pytest.raises(sim.InputError, match=NAME):
            sim.run(folder / f"{name}-shared.yaml")
