"""What collectives take from the kernels beside them, counted by hand, from logs and from publications."""

import numpy as np
import pytest

from simulator import collectives, units
from simulator.cost import compile_device
from simulator.fabric import build
from simulator.program.content import Comm
from simulator.program.piece import Takes
from simulator.run.simulate import simulate
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import Parallel, Stack, Training
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.chains import StepCosts
from simulator.training.communication import Network
from simulator.training.overlap.interference import slowed
from simulator.training.pass_costs import called
from simulator.training.step import Kernel
from tests import jobs


def occupied(cluster: str, profile: str, devices: int, operation: str = "all_gather", size: float = 1e9) -> set[float]:
    """Multiprocessors that a collective of the first devices of a cluster holds."""
    found = jobs.shipped(Cluster, cluster)
    fabric = build(found.model_copy(update={"nodes": max(1, devices // found.node.devices)}))
    library = jobs.shipped(CollectiveProfile, profile)
    cost = collectives.cost_of(operation, np.arange(devices), size, fabric, library)
    return {choice.occupied.multiprocessors for choice in cost.plan.choices}


@pytest.mark.parametrize(
    ("cluster", "profile", "devices", "channels"),
    [
        ("dgx-a100", "nccl-a100", 8, 24),  # Channel 23/24 of NVIDIA/nccl-tests issue 100
        ("dgx-h100", "nccl-h100", 8, 24),  # "24 coll channels, 24 collnet channels, 16 nvls channels"
        ("h800-cluster", "nccl-h800", 8, 16),  # "16 coll channels, 16 nvls channels", NVIDIA/nccl issue 892
    ],
)
def test_rings_hold_the_channels_that_the_library_logs(cluster: str, profile: str, devices: int, channels: int) -> None:
    assert occupied(cluster, profile, devices) == {channels}


def test_what_engines_of_their_own_move_holds_no_multiprocessor() -> None:
    for name in ("ici", "hccl", "deepep-low-latency"):
        assert jobs.shipped(CollectiveProfile, name).occupancy.multiprocessors == {}
    deepep = jobs.shipped(CollectiveProfile, "deepep").occupancy
    assert deepep.multiprocessors["any"].value == 20  # of 132: arXiv:2412.19437, 3.2.2


def costs(scenario: Scenario) -> StepCosts:
    job = build_job(scenario)
    fabric = build(scenario.cluster)
    library = jobs.shipped(CollectiveProfile, scenario.cluster.collectives)
    return StepCosts(job, compile_device(scenario.cluster.node.accelerator), Network(job, fabric, library))


def test_a_ring_reads_and_writes_three_bytes_for_each_that_it_sends() -> None:
    """An all-gather of S over 8 devices sends 7/8 S a device; beside kernels bound by memory it gets h / (1 + h)."""
    found = costs(jobs.scenario(on="dgx-a100", dp=8))
    comm = Comm("all_gather", "dp", 1e9, "dp")
    priced = found.network.collective(comm)
    seconds = priced.cost.slowest / units.TICKS_PER_SECOND
    device = found.device
    asked = 3 * 7 / 8 * 1e9 / (seconds * device.bandwidth * device.stream.efficiency)
    takes = found.takes(comm)
    assert takes.multiprocessors == pytest.approx(24 / 108)
    assert takes.memory == pytest.approx(asked / (1 + asked))
    assert 0.2 < asked < 0.5


def test_user_buffers_hold_what_their_library_says() -> None:
    """TransformerEngine: 16 multiprocessors for reductions, copy engines for gathers."""
    found = costs(jobs.scenario(on="dgx-h100", software=jobs.stack("megatron-core"), tp=8))
    gather, reduction = (Comm(name, "tp", 1e8, "tp") for name in ("all_gather", "reduce_scatter"))
    for comm in (gather, reduction):
        found.network.collective(comm)
    assert found.takes(gather).multiprocessors == 0
    assert found.takes(gather).memory > 0
    assert found.takes(reduction).multiprocessors == pytest.approx(16 / 132)
    plain = costs(jobs.scenario(on="dgx-h100", software=jobs.stack("megatron-core", user_buffers=None), tp=8))
    plain.network.collective(gather)
    assert plain.takes(gather).multiprocessors == pytest.approx(24 / 132)


def test_user_buffers_hold_more_beside_products_that_do_not_take_what_moves() -> None:
    """A layer's backward pass gathers for two products, and beside two others the rows of their weight gradients."""
    found = costs(
        jobs.scenario(on="dgx-h100", software=jobs.stack("megatron-core"), tp=8, dp=1, sequence_parallel=True)
    )
    steps = list(operators.layer_backward(found.job, found.job.kinds[0]))
    beside = [one for step in steps if isinstance(step, Kernel) for one in step.beside]
    assert [(one.operation, one.bulk) for one in beside] == 2 * [
        ("all_gather", False),
        ("all_gather", True),
        ("reduce_scatter", True),
    ]
    for one in beside:
        found.network.collective(called(one, found.job))
    held = {found.takes(called(one, found.job), one.bulk).multiprocessors for one in beside if not one.bulk}
    bulk = {found.takes(called(one, found.job), one.bulk).multiprocessors for one in beside if one.bulk}
    assert (held, bulk) == ({0.0}, {16 / 132})


def test_user_buffers_hold_nothing_where_engines_move_what_the_library_sends() -> None:
    found = costs(jobs.scenario(on="cloudmatrix384-dies", software=jobs.stack("megatron-core"), tp=8))
    reduction = Comm("reduce_scatter", "tp", 1e8, "tp")
    found.network.collective(reduction)
    assert found.takes(reduction).multiprocessors == found.takes(reduction, True).multiprocessors == 0.0


def test_copy_engines_carry_the_rows_of_products_in_steps() -> None:
    training = {"overlap_tensor": "steps"}
    found = costs(
        jobs.scenario(
            on="dgx-h100",
            software=jobs.stack("megatron-core"),
            tp=8,
            dp=1,
            sequence_parallel=True,
            training=training,
        )
    )
    sent = Comm("shift", "tp", 1e7, "tp")
    found.network.collective(sent)
    assert found.takes(sent).multiprocessors == 0.0
    assert found.takes(sent).memory > 0.0


def test_kernels_slow_a_collective_as_it_slows_them() -> None:
    """Beside nothing but a memory-bound kernel, one that asks for half as much as there is: both 1.5 times as long."""
    asked = 0.5
    takes = Takes(0.1, asked / (1 + asked))
    assert slowed(takes, 1.0) == pytest.approx(1 / (1 - takes.memory)) == pytest.approx(1.5)
    assert slowed(takes, 0.0) == 1.0


@pytest.mark.parametrize("on", ["dgx-a100", "dgx-h100"])
@pytest.mark.parametrize("micro", [1, 4])
def test_computation_is_slowed_as_measured(on: str, micro: int) -> None:
    """Four A100 or H100 train GPT and LLaMA with communication beside computation: computation is slower by 18.9 % on
    average and by 40.0 % at most (arXiv:2507.03114)."""
    shape = Model(name="LLaMA-like", layers=8, hidden=4096, heads=32, ffn=11008, vocabulary=32000, max_sequence=2048)
    job = Training(global_batch=4 * micro, micro_batch=micro, sequence_length=2048, parallel=Parallel(dp=4, zero=3))
    scenario = Scenario(
        version=1,
        name="overlap",
        cluster=jobs.cluster(1, 4, on),
        model=shape,
        stack=jobs.shipped(Stack, "fsdp"),
        training=job,
    )
    gather = Comm("all_gather", "dp", 2 * 12 * 4096**2, "shard")
    found = costs(scenario)
    found.network.collective(gather)
    beside = [1 / (1 - share) - 1 for share in found.takes(gather)]
    assert 0.189 < max(beside) < 0.4
    (parts,) = simulate(scenario).breakdown
    slower = parts["stall"] / parts["compute"]
    assert 0.01 < slower < 0.4
