"""Norms of queries and keys head by head, in training."""

import pytest

from simulator.model.tensors import kept
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.overlap.launches import launched
from tests import jobs
from tests.jobs import kernels, moved


def job(name: str = "megatron-core", precision: str = "bf16", normed: bool = True, on: str = "generic-a100") -> Job:
    shape = jobs.model(head_norms=normed)
    return build_job(jobs.scenario(shape=shape, software=jobs.stack(name), on=on, training={"precision": precision}))


def test_queries_and_keys_are_copied_and_normed() -> None:
    """Both are read and written twice forward; backward rows and gradients are read, gradients written."""
    built = job()
    model = built.model
    once = built.tokens * (model.heads + model.kv_heads) * model.head_dim * 2.0
    assert moved(kernels(built, "head norms")) == [(2 * once, 2 * once)]
    assert moved(kernels(built, "head norms", backward=True)) == [(2 * once, once)]
    held = {one.name: one.elements for one in kept(operators.layer_ops(built, model.kinds[0]))}
    assert held["head norms"] == (model.heads + model.kv_heads) * model.head_dim


@pytest.mark.parametrize(("name", "normed"), [("megatron-core", False), ("maxtext", True)])
def test_models_without_norms_and_compilers_do_not(name: str, normed: bool) -> None:
    assert kernels(job(name, normed=normed), "head norms") == []


def test_the_host_takes_no_longer_for_them() -> None:
    """Host times of layers were chosen on steps in which they ran."""
    counts = [launched(one, operators.layer_ops(one, one.model.kinds[0])) for one in (job(), job(normed=False))]
    assert counts[0] == counts[1]
    assert counts[0].calls > 0
