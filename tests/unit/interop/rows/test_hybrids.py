"""Training rows of models whose layers carry a state: their profiles know the layers, words on them do not."""

from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused, read_row
from simulator.interop.rows.stated import hybrids
from simulator.interop.rows.training import Draft, Row, draft
from simulator.run.measured.training import map_row
from simulator.specs import load_spec
from simulator.specs.model import Model

NANO = load_spec(Model, "nemotron-3-nano-30b-a3b")
ROW: dict[str, Any] = {
    "id": "row",
    "source": "test",
    "device": "H100-80GB",
    "devices": 16,
    "devices_per_node": 8,
    "model": "Nemotron-3-Nano-30B-A3B",
    "hidden": 2688,
    "layers": 52,
    "heads": 32,
    "seq_len": 4096,
    "precision": "bf16",
    "global_batch": 64,
    "micro_batch": 1,
    "tp": 1,
    "pp": 1,
    "ep": 8,
    "recompute": "full",
    "attention": "hybrid Mamba-2",
    "framework": "Megatron-Core",
    "primary_metric": "step_s",
    "step_s": 4.0,
}


def drafted(**changes: Any) -> Draft:
    return draft(read_row(Row, {key: value for key, value in (ROW | changes).items() if value is not None}))


@pytest.mark.parametrize(
    "words",
    ["hybrid Mamba-2", "Mamba2 + GQA, 6 of 52 layers", "SSM and attention", "hybrid (linear attention)", None],
)
def test_layers_are_those_of_the_profile(words: str | None) -> None:
    found = drafted(attention=words, vocab=131584)
    model = found.scenario.model
    assert (model.pattern, model.linear, model.kinds) == (NANO.pattern, NANO.linear, NANO.kinds)
    assert (model.vocabulary, model.experts, model.position) == (131584, 128, "none")
    assert (found.row.experts, found.row.topk, found.scenario.training.parallel.ep) == (128, 6, 8)
    assert any("layers and their sizes" in said for said in found.assumed)


def test_a_row_of_a_hybrid_is_simulated() -> None:
    found = map_row(read_row(Row, ROW))
    assert (found.job.model.kinds, found.job.model.predicting) == (NANO.kinds, ())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "a model of one's own"}, "attention `hybrid Mamba-2` of a model without a profile"),
        ({"layers": 26}, "attention `hybrid Mamba-2` of a model without a profile"),
        ({"experts": 64, "topk": 6}, "attention `hybrid Mamba-2` of a model without a profile"),
        ({"model": "Llama-3.1-8B", "attention": "SSM"}, "attention `SSM` of a model without a profile"),
        ({"attention": "hybrid Mamba-2 and hashing"}, "attention `hybrid Mamba-2 and hashing`"),
    ],
)
def test_without_a_profile_of_these_sizes_a_row_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        drafted(**changes)


def test_latents_beside_states_are_those_of_the_profile() -> None:
    known = load_spec(Model, "kimi-linear-48b-a3b")
    sizes = {"model": "Kimi-Linear-48B-A3B", "hidden": known.hidden, "layers": known.layers, "heads": known.heads}
    assert drafted(**sizes, attention="KDA + MLA, 3:1").scenario.model.kinds == known.kinds


def test_modules_for_multi_token_prediction_are_those_that_flags_name() -> None:
    """A profile may have such modules; a training run has them where its flags say so."""
    known = load_spec(Model, "qwen3-next-80b-a3b")
    sizes = {"model": "Qwen3-Next-80B-A3B", "hidden": known.hidden, "layers": known.layers, "heads": known.heads}
    for flags, modules in ((None, 0), ("MTP off", 0), ("w/ MTP", 1)):
        assert drafted(**sizes, attention="hybrid Gated DeltaNet", flags=flags).scenario.model.mtp_layers == modules


def test_other_words_are_left_as_they_are() -> None:
    assert (hybrids.beside("GQA of 8 heads"), hybrids.named("grouped query")) == ("gqa of 8 heads", False)
