"""Training of layers with a state: linear in the sequence, FLOP as published, what is refused."""

import pytest

from simulator.cost.work import Scan
from simulator.errors import InputError
from simulator.model.ops import StateScan
from simulator.training import flops, memory
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.operators import layer_backward, layer_forward, layer_ops
from simulator.training.step import Turn
from tests import jobs

SIZES = {"key_heads": 8, "value_heads": 16, "key_dim": 64, "value_dim": 64}


def job(kind: str = "delta", sequence: int = 1024, **parallel: int) -> Job:
    shape = jobs.model(attention=kind, linear=SIZES, biases=False, position="none")
    fused = {"attention": "fused"}
    return build_job(jobs.scenario(shape=shape, sequence=sequence, training=fused, nodes=4, batch=32, **parallel))


def test_a_scan_runs_forward_and_backward() -> None:
    own = job()
    kind = own.model.kinds[0]
    forward = [step.work for step in layer_forward(own, kind) if step.name == "state"]
    back = [step.work for step in layer_backward(own, kind) if step.name == "state"]
    assert len(forward) == len(back) == 1
    assert (forward[0].backward, back[0].backward) == (False, True)
    assert forward[0].length == 1024


@pytest.mark.parametrize("kind", ["delta", "kda", "gla", "lightning", "mamba1", "mamba2"])
def test_flops_and_kept_bytes_are_linear_in_the_sequence(kind: str) -> None:
    short, long = job(kind), job(kind, 4096)
    layer = short.model.kinds[0]
    assert flops.layer_forward_flops(long, layer) == pytest.approx(4 * flops.layer_forward_flops(short, layer))
    assert memory.layer_activations(long, layer) == pytest.approx(4 * memory.layer_activations(short, layer))
    assert flops.attention_flops(short, layer) == 0
    assert flops.causal_flops(short) == flops.model_flops(short)


def test_flops_count_the_recurrence_as_published() -> None:
    own = job()
    layer = own.model.kinds[0]
    matrices = 1024 * (2 * 8 * 64 + 2 * 16 * 64 + 2 * 16) + 16 * 64 * 1024 + 2 * 1024 * 4096
    assert flops.layer_forward_flops(own, layer) == 1024 * (2 * matrices + 8 * 16 * 64 * 64)


def test_a_device_of_a_tensor_parallel_group_scans_its_heads() -> None:
    own = job(tp=4)
    scans = [op.does for op in layer_ops(own, own.model.kinds[0]) if isinstance(op.does, StateScan)]
    assert [does.heads for does in scans] == [4]


def test_tensor_parallelism_has_to_divide_the_heads() -> None:
    with pytest.raises(InputError, match="tp 32 does not divide"):
        job(tp=32)


def test_ranks_of_a_cut_sequence_scan_their_part_and_gather_states() -> None:
    """All states of one size, whatever the sequence; half of the rows."""
    whole, cut = job(), job(cp=2)
    (turn,) = (step for step in layer_forward(cut, cut.model.kinds[0]) if isinstance(step, Turn))
    (states,) = turn.beside
    (scan,) = turn.ranks[0]
    assert isinstance(scan, Scan)
    assert (scan.length, states.operation, states.axis) == (whole.sequence // 2, "all_gather", "cp")
    assert states.size == 2 * 16 * 64 * 64 * 4


def test_a_device_of_a_context_parallel_group_scans_its_part_beside_a_gather_of_all_states() -> None:
    """N b states of 16 heads x 64 x 64 numbers in fp32, forward and backward: LASP-2, arXiv:2502.07563."""
    own = job(cp=2)
    steps = [*layer_forward(own, own.model.kinds[0]), *layer_backward(own, own.model.kinds[0])]
    turns = [step for step in steps if isinstance(step, Turn)]
    lengths = [work.length for turn in turns for works in turn.ranks for work in works if isinstance(work, Scan)]
    assert lengths == [512, 512]
    assert [one.size for turn in turns for one in turn.beside] == [2 * 4 * 16 * 64 * 64] * 2
