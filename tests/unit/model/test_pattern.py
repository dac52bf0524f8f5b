"""A model as a pattern of layers: what adds up and what does not, and what serving makes of it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.tensors import cached, tensors
from simulator.serving.costs.depth import depths
from simulator.serving.costs.formats import Formats
from simulator.serving.costs.iteration import compile_costs
from simulator.serving.costs.operators import Shard
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import LayerKind, Model
from simulator.specs.serving import KvCache, Layout, NumberFormats, ServingStack
from simulator.training.build import build_job
from tests import jobs

BF16 = Formats("bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", whole=False)
SHAPE: dict[str, Any] = {"name": "small", "hidden": 1024, "heads": 8, "vocabulary": 1000, "ffn": 4096}
EXPERTS: dict[str, Any] = {"experts": 16, "top_k": 2, "expert_ffn": 512}
DEEP: dict[str, Any] = {"layers": [{"repeat": 3, "mlp": "dense"}, {"repeat": 58, "mlp": "moe"}]}


def model(**changes: Any) -> Model:
    return Model.model_validate(SHAPE | changes)


def test_a_list_of_layers_is_their_pattern_and_its_sum_their_number() -> None:
    found = model(**EXPERTS, **DEEP)
    assert found.layers == 61
    assert Counter(kind.mlp for kind in found.kinds) == {"dense": 3, "moe": 58}
    assert [kind.mlp for kind in found.kinds[:4]] == ["dense", "dense", "dense", "moe"]
    assert Model.model_validate(found.model_dump()) == found


def test_a_short_pattern_is_repeated() -> None:
    found = model(layers=26, pattern=[{"window": 4096}, {}])
    assert (found.window, found.windowed_layers) == (4096, 13)
    assert [kind.window for kind in found.kinds[:3]] == [4096, None, 4096]
    assert found.windowed_share == model(layers=26, window=4096, windowed_layers=13).windowed_share


def test_without_a_pattern_all_layers_are_alike() -> None:
    assert set(model(layers=4).kinds) == {LayerKind("grouped", "dense")}
    assert set(model(layers=4, **EXPERTS).kinds) == {LayerKind("grouped", "moe")}
    assert set(model(layers=4, window=64).kinds) == {LayerKind("grouped", "dense", 64)}


def test_layers_with_a_window_that_are_only_counted_are_spread() -> None:
    assert [kind.window for kind in model(layers=6, window=64, windowed_layers=2).kinds] == [None, None, 64] * 2
    assert [kind.window for kind in model(layers=3, window=64, windowed_layers=2).kinds] == [None, 64, 64]


def test_layers_may_have_heads_and_widths_of_their_own() -> None:
    """Four query heads of 2 over two of keys; in the second layer eight of 1 over one, whose values are its keys."""
    mixed = model(
        hidden=8,
        heads=4,
        kv_heads=2,
        ffn=16,
        biases=False,
        layers=[{}, {"heads": 8, "kv_heads": 1, "head_dim": 1, "keys_as_values": True, "ffn": 4}],
    )
    usual, other = mixed.kinds
    sizes = [
        {one.name: one.elements for one in tensors(layer(mixed, Cut(), kind)) if one.kind == "matrix"}
        for kind in (usual, other)
    ]
    assert sizes[0] == {"attention in": 8 * 16, "attention out": 64, "mlp in": 128, "mlp out": 128}
    assert sizes[1] == {"attention in": 8 * 9, "attention out": 64, "mlp in": 32, "mlp out": 32}
    assert [cached(layer(mixed, Cut(), kind)) for kind in (usual, other)] == [8, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": 61, "pattern": [{"repeat": 3}, {"repeat": 57}]}, "3 + 57 = 60 layers, .* add up to 61.*`repeat`"),
        ({"layers": [{"repeat": 3, "mlp": "moe"}]}, "no experts: write `experts`"),
        ({"layers": [{"repeat": 3, "mlp": "dense"}], **EXPERTS}, "write `mlp: moe` for some"),
        ({"layers": 4, "pattern": [{"window": 64}, {"window": 32}]}, r"windows of \[32, 64\] tokens"),
        ({"layers": 4, "pattern": [{"window": 64}, {}], "window": 32}, "differ: write it in one"),
        ({"layers": 4, "pattern": [{}], "prompt_layers": 2}, "not described together"),
    ],
)
def test_what_does_not_add_up_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("+", r"\+")):
        model(**changes)


def test_the_message_names_the_place(tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    text = "name: deep\nhidden: 1024\nheads: 8\nvocabulary: 1000\nlayers: 61\npattern: [{repeat: 3}, {repeat: 57}]\n"
    file.write_text(text)
    with pytest.raises(InputError, match=r"deep.yaml:1:1: .*add up to 61"):
        load_spec(Model, str(file))


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("{repeat: 0}", r"deep.yaml:5:23: layers.1.repeat: `0` is out of range"),
        ("{repeats: 2}", r"deep.yaml:5:15: layers.1.repeats: unknown key `repeats`; did you mean `repeat`"),
        ("4", r"deep.yaml:5:14: layers.1: `4` stands where keys are needed"),
    ],
)
def test_wrong_groups_of_layers_are_found_in_their_list(group: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text(f"name: deep\nhidden: 1024\nheads: 8\nvocabulary: 1000\nlayers: [{{}}, {group}]\n")
    with pytest.raises(InputError, match=words):
        load_spec(Model, str(file))


def test_stages_hold_the_layers_of_each_kind_that_are_theirs() -> None:
    first, second = depths(model(**EXPERTS, **DEEP), (31, 30))
    assert [(kind.mlp, count) for kind, count in first.kinds] == [("dense", 3), ("moe", 28)]
    assert [(kind.mlp, count) for kind, count in second.kinds] == [("moe", 30)]


def rows(shape: Model) -> float:
    """Ticks of 64 rows through the layers of a model on one device."""
    cluster, stack = load_spec(Cluster, "dgx-a100"), load_spec(ServingStack, "vllm")
    price = compile_costs(shape, Layout(), NumberFormats(), stack, cluster, 1024, KvCache(), 512, 16)
    (stage,) = price.stages
    return float(sum(stage.parts(64, 0).values()))


def test_a_mixture_with_dense_layers_is_priced_layer_by_layer() -> None:
    """Each layer costs the same whatever stands beside it, so what a layer of each kind adds is additive."""
    dense, sparse = (lambda n: model(layers=n)), (lambda n: model(layers=n, **EXPERTS))
    mixed = model(**EXPERTS, layers=[{"repeat": 3, "mlp": "dense"}, {"repeat": 5, "mlp": "moe"}])
    of_dense, of_sparse = rows(dense(2)) - rows(dense(1)), rows(sparse(2)) - rows(sparse(1))
    embedding = rows(dense(1)) - of_dense
    assert rows(mixed) == pytest.approx(embedding + 3 * of_dense + 5 * of_sparse, rel=1e-7)
    shard = Shard(mixed, 1, BF16, True)
    kinds = {kind.mlp: kind for kind in mixed.kinds}
    assert shard.layer_bytes(kinds["dense"]) == 2 * (4 * 1024**2 + 2 * 1024 * 4096 + 4 * 1024)
    assert shard.layer_bytes(kinds["moe"]) == 2 * (4 * 1024**2 + 16 * 2 * 1024 * 512 + 1024 * 16 + 4 * 1024)


def test_layers_of_different_kinds_are_trained() -> None:
    mixed = build_job(jobs.scenario(shape=model(**EXPERTS, **DEEP), tp=8))
    assert {kind.mlp for kind in mixed.kinds} == {"dense", "moe"}
    windows = jobs.scenario(shape=model(layers=8, pattern=[{"window": 64}, {}]), tp=8)
    assert build_job(windows).model.windowed_layers == 4


def test_a_changed_copy_has_layers_of_its_own() -> None:
    one = model(layers=4, **EXPERTS)
    assert len(one.kinds) == 4
    other = one.model_copy(update={"layers": 6, "experts": None, "mtp_layers": 1})
    assert other.kinds == (LayerKind(one.attention, "dense"),) * 6
    assert (len(one.predicting), len(other.predicting)) == (0, 1)
    assert one == model(layers=4, **EXPERTS)
