"""Context parallelism in a job: defaults, what is refused, who copies parameters, what is in flight."""

from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.specs.scenario import Scenario
from simulator.training import memory, operators
from simulator.training.build import build_job
from simulator.training.context import SCHEMES
from simulator.training.step import Collective, Kernel, Turn
from tests import jobs


def scenario(software: str = "megatron-core", **changes: Any) -> Scenario:
    return jobs.scenario(software=jobs.stack(software), **({"cp": 4, "tp": 2, "sequence": 4096} | changes))


@pytest.mark.parametrize(
    ("software", "kind"),
    [("megatron-core", "zigzag"), ("nemo", "zigzag"), ("fsdp", "all-gather"), ("deepspeed", "ulysses")],
)
def test_a_framework_has_its_own_default(software: str, kind: str) -> None:
    job = build_job(scenario(software))
    assert job.cp_kind == kind
    assert any(text.startswith(f"parallel.cp_kind is not given: {kind}") for text in job.assumptions)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cp": 8, "tp": 1, "sequence": 4098}, "sequence_length 4,098 does not divide into 2 x cp 8 = 16 pieces"),
        ({"sequence": 4094, "cp_kind": "ring"}, "sequence_length 4,094 does not divide into cp 4"),
        ({"devices": 64, "cp": 32, "cp_kind": "ulysses"}, "cp 32 of `ulysses` is more than the 8 attention heads"),
        ({"cp_kind": "rsa"}, "`cp_kind: rsa` works on scores in memory, and attention is fused"),
        ({"cp_kind": "usp", "ulysses": 3}, "ulysses 3 has to divide cp 4"),
        ({"cp_kind": "zigzagg"}, "unknown kind of context parallelism `zigzagg`"),
        ({"training": {"attention": "unfused"}}, "`cp_kind: zigzag` adds up blocks of fused attention"),
        ({"shape": jobs.model(window=512)}, "`cp_kind: zigzag` passes all keys around, and layers look back to 512"),
        (
            {"shape": jobs.model(pattern=[{"repeat": 1, "window": 256}, {"repeat": 1}])},
            "`cp_kind: zigzag` passes all keys around, and layers look back to 256",
        ),
    ],
)
def test_what_a_kind_cannot_do_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        build_job(scenario(**changes))
    assert words in str(caught.value)


def test_a_kind_without_ranks_has_no_effect() -> None:
    job = build_job(scenario(cp=1, cp_kind="ring"))
    assert "no effect: parallel.cp_kind ring: cp is 1" in job.warnings


def test_ranks_of_a_group_lie_tp_apart_and_gradients_are_summed_over_dp_and_cp() -> None:
    job = build_job(scenario(nodes=2, pp=2))
    assert job.mesh.groups("cp")[:2].tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert (job.dense.count, job.dense.shard) == (4, 4)  # zero 1 over dp 1 x cp 4
    assert np.sort(job.grid(job.dense), axis=1).tolist()[0] == [0, 2, 4, 6]
    assert job.tokens == 4096 // 4


def test_everything_but_attention_works_on_its_own_tokens() -> None:
    cut, whole = build_job(scenario()), build_job(scenario(cp=1))
    products = [
        [step.work for step in operators.layer_forward(job, jobs.LAYER) if isinstance(step, Kernel)]
        for job in (cut, whole)
    ]
    rows = [[work.m for work in works if hasattr(work, "m")] for works in products]
    assert rows[0] == [m // 4 for m in rows[1]]


FUSED = [kind for kind in SCHEMES.names() if not SCHEMES.get(kind).unfused and not SCHEMES.get(kind).only_windows]


@pytest.mark.parametrize("kind", [kind for kind in FUSED if not SCHEMES.get(kind).keeps_results])
def test_attention_does_no_less_than_on_one_device(kind: str) -> None:
    """All ranks together do the causal pairs at least; full recomputation sends everything again."""
    job = build_job(scenario(cp_kind=kind, training={"recompute": "full"}))
    alone = build_job(scenario(cp=1))
    (attention,) = [
        step.work
        for step in operators.each(operators.layer_forward(alone, jobs.LAYER))
        if isinstance(step, Kernel) and step.name == "attention"
    ]
    blocks = [
        step.ranks[0] if isinstance(step, Turn) else (step.work,)
        for step in operators.each(operators.layer_forward(job, jobs.LAYER))
        if not isinstance(step, Collective) and step.name == "attention"
    ]
    pairs = [work.flops for works in blocks for work in works if hasattr(work, "query")]
    assert 4 * sum(pairs) >= attention.flops * 0.99
    forward, again = (operators.collectives(pass_(job, jobs.LAYER)) for pass_ in FORWARD_AND_AGAIN)
    assert list(forward) == list(again)


FORWARD_AND_AGAIN = operators.layer_forward, operators.recomputed


def test_launches_that_block_leave_nothing_beside_attention() -> None:
    job = build_job(scenario(training={"blocking_launches": True}))
    steps = list(operators.layer_forward(job, jobs.LAYER))
    assert all(not step.beside for step in steps if not isinstance(step, Collective))
    assert sum(isinstance(step, Collective) and step.axis == "cp" for step in steps) == 3


@pytest.mark.parametrize(
    ("kind", "bytes_of_backward"),
    [
        ("zigzag", 2 * 2 * 2 * 8 * 64),
        ("all-gather", 4 * 2 * 2 * 8 * 64),
        ("ulysses", 2 * (2 * 8 * 64 + 2 * 8 * 64)),
        ("rsa", (2 + 4) * 8 * 64),
    ],
)
def test_what_is_in_flight(kind: str, bytes_of_backward: int) -> None:
    """Two blocks of keys, values and their gradients; all of them; both forms of what goes to heads; or two blocks of
    values and the gradients of all of them, which are summed before the rings of keys begin."""
    job = build_job(scenario(cp_kind=kind, training={"attention": "unfused" if kind == "rsa" else "fused"}))
    assert memory.shared_in_flight(job, jobs.LAYER) == job.tokens * bytes_of_backward * job.element
    assert memory.shared_in_flight(build_job(scenario(cp=1)), jobs.LAYER) == 0


def test_a_kind_that_is_not_known_is_refused_without_any_ranks_too() -> None:
    with pytest.raises(InputError, match="zag") as caught:
        build_job(jobs.scenario(cp_kind="zag"))
    assert caught.value.problems[0].path == "training.parallel.cp_kind"
