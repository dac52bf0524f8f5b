"""Batches of uneven length: what is refused, and what is said of them."""

from typing import Any

import pytest
from pydantic import ValidationError

from simulator.errors import InputError
from simulator.specs.batching import Batching
from simulator.specs.training import Documents
from simulator.training.batches.microbatches import work_of
from simulator.training.build import build_job
from simulator.training.flops import head_forward_flops, layers_forward_flops
from simulator.training.job import Job
from tests import jobs


def job(batching: Any, documents: Any = None, *, training: dict[str, Any] | None = None, **changes: Any) -> Job:
    given: dict[str, Any] = {"attention": "fused", "batching": Batching.model_validate(batching)}
    if documents is not None:
        given["documents"] = Documents.model_validate(documents)
    return build_job(jobs.scenario(training=given | (training or {}), **changes))


SPEECH = {"encoder_layers": 4}
PAD = {"policy": "pad"}


@pytest.mark.parametrize(
    ("batching", "message"),
    [
        ({"policy": "bucket"}, "`policy: bucket` needs `buckets`"),
        ({"policy": "grid"}, "`policy: grid` needs `shapes`"),
        ({"policy": "pad", "tokens": 5}, "`tokens` goes with `policy: bucket`, not with `pad`"),
        ({"policy": "first-fit", "capacity": 5}, "`capacity` goes with `policy: balanced`"),
        ({"policy": "bucket", "buckets": [5, 5]}, "the bounds of buckets rise"),
        ({"policy": "first-fit", "fill": "longest"}, "`fill: longest` is not one of `first-fit`: none, context"),
    ],
)
def test_keys_belong_to_policies(batching: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Batching.model_validate(batching)


@pytest.mark.parametrize("documents", [{"fixed": 0}, {"normal": [-100, 10]}, [], {"cdf": []}, {"uniform": [-5, 5]}, {}])
def test_an_empty_or_negative_distribution_is_refused(documents: Any) -> None:
    with pytest.raises(ValidationError):
        Documents.model_validate(documents)


@pytest.mark.parametrize(
    ("batching", "documents", "changes", "message"),
    [
        (PAD, None, {}, "`policy: pad` needs lengths"),
        ({"policy": "grid", "shapes": [[1, 64]]}, 64, {}, "`policy: grid` draws no lengths"),
        (
            {"policy": "grid", "shapes": [[1, 2048]]},
            None,
            {},
            "a shape of 2,048 tokens is longer than `sequence_length`",
        ),
        (PAD, 2048, {}, "a sequence of 2,048 tokens is longer than the context"),
        (PAD, [64, 64], {}, "too few sequences, 2: a step takes 16"),
        ({"policy": "first-fit"}, [64, 64], {}, "too few sequences, 2: 128 tokens do not fill 16 microbatches"),
        ({"policy": "cut"}, [64, 64], {}, "too few sequences, 2: they do not fill the sequences of a step"),
        ({"policy": "bucket", "buckets": [64]}, [64] * 9, {}, "too few sequences, 9: they fill 9 of 16 microbatches"),
        ({"policy": "bucket", "buckets": [4096]}, 64, {}, "a bucket up to 4,096 tokens is longer than the context"),
        ({"policy": "balanced", "capacity": 512}, 64, {}, "a capacity of 512 tokens has no room"),
        (PAD, 64, {"training": {"encoder_documents": Documents(fixed=64)}}, "small has no encoder"),
        (PAD, 64, {"shape": jobs.model(experts=4, top_k=2, expert_ffn=512)}, "loads of experts are not simulated"),
        (PAD, 64, {"training": {"offload_layers": 1}}, "offloaded activations are not simulated"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    batching: Any, documents: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        job(batching, documents, **changes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"documents": Documents(trace="lengths.csv")}, "lengths without `batching`"),
        ({"encoder_documents": Documents(fixed=64)}, "lengths without `batching`"),
    ],
)
def test_lengths_that_only_batches_have_are_refused_without(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_job(jobs.scenario(training=given))


@pytest.mark.parametrize("policy", ["cut", "first-fit", "balanced", "pad"])
def test_every_rank_has_its_microbatches_and_no_token_is_lost(policy: str) -> None:
    made = job({"policy": policy}, {"lognormal": [200, 1.0], "high": 1024}, tp=2, batch=24)
    assert made.batch is not None
    batch = made.batch
    assert [len(row) for row in batch.rows] == [6] * 4
    computed = sum(batch.shapes[number].computed for row in batch.rows for number in row)
    assert computed == batch.tokens == round(computed * (1 - batch.padding))
    assert any(text.startswith(f"batching: {batch.sequences:,} sequences") for text in made.assumptions)


def test_cut_documents_fill_every_sequence() -> None:
    made = job({"policy": "cut"}, {"lognormal": [200, 1.0]}, batch=24, micro=3)
    assert made.batch is not None and made.batch.tokens == 24 * 1024
    assert {shape.tokens for shape in made.batch.shapes} == {3 * 1024}


def test_sequences_divide_over_the_ranks_that_they_are_cut_over() -> None:
    made = job(PAD, {"uniform": [100, 1000]}, cp=4, batch=16)
    assert made.batch is not None
    assert all(shape.tokens % 8 == 0 for shape in made.batch.shapes)
    assert 0 < made.batch.padding < 8 / 100


def test_work_is_that_of_the_model() -> None:
    """Forward FLOPs of 1,024 tokens, of which attention has its causal half."""
    plain = build_job(jobs.scenario(training={"attention": "fused"}))
    work, whole = work_of(plain), layers_forward_flops(plain) + head_forward_flops(plain)
    attention = 8 * 4 * 1024 * 1024**2
    assert work.square * 1024**2 == pytest.approx(attention / 2)
    assert float(work.of([1024])[0]) == pytest.approx(whole - attention / 2)
