"""What lives beside the devices' memory: exposed copies in closed form, bytes conserved, capacities that bind."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from simulator import units
from simulator.errors import InputError
from simulator.program import codes as d
from simulator.run.gather import Run, gather
from simulator.run.simulate import run, simulate
from simulator.specs.base import Figure
from simulator.specs.hardware import Node
from simulator.specs.scenario import Scenario
from simulator.specs.tiers.host import HostCpu, Nvme
from simulator.training import memory
from simulator.training.passes.offload import IN, OUT, READ, WRITE
from tests import jobs

FAST = 1e18
"""Bytes/s of a link that takes no time to speak of."""


def figure(value: float) -> Figure[Any]:
    return Figure(value=value, status="estimate", source="test")


def scenario(
    offload: dict[str, Any] | None,
    *,
    link: float = 20e9,
    links: float | None = None,
    drives: float = 6e9,
    memory: float = 1e12,
    room: float = 1e13,
    training: dict[str, Any] | None = None,
    **changes: Any,
) -> Scenario:
    """A small job on a node with cores and drives."""
    more = dict(training or {}) | ({"offload": offload} if offload else {})
    found = jobs.scenario(training={"recompute": "none", **more}, **changes)
    node = found.cluster.node
    nvme = Nvme.model_construct(capacity=figure(room), read=figure(drives), write=figure(drives / 2))
    cpu = HostCpu.model_construct(name="test", cores=figure(64), memory_bandwidth=None, update=figure(100e9))
    device = node.accelerator.model_copy(update={"host_link": figure(link)})
    own = {"accelerator": device, "host_memory": figure(memory), "cpu": cpu, "nvme": nvme}
    own["host_links"] = figure(links) if links else None
    cluster = found.cluster.model_copy(update={"node": node.model_copy(update=own)})
    return found.model_copy(update={"cluster": cluster})


def lasted(done: Run, *kinds: int) -> list[int]:
    """Ticks of the operations of some kinds on the first device, in order."""
    rows = np.flatnonzero(np.isin(done.program.columns.kind, kinds) & (done.program.device(slice(None)) == 0))
    rows = rows[np.argsort(done.timeline.start[rows], kind="stable")]
    return (done.timeline.end - done.timeline.start)[rows].tolist()


def exposed(loads: Sequence[int], computes: Sequence[int]) -> int:
    """The largest over k of (loads 1..k - computes 1..k-1)."""
    before = np.concatenate([[0], np.cumsum(computes)])
    return int(max(0, (np.cumsum(loads) - before[: len(loads)]).max()))


@pytest.mark.parametrize("link", [2e9, 20e9, 60e9, 400e9])
def test_fetched_layer_by_layer_the_largest_lead_of_loads_is_exposed(link: float) -> None:
    """Prefetched as far ahead as one likes: what is waited for is the largest over k of loads 1..k less computes
    1..k-1; between forward and backward pass the last layer is there already."""
    one = {"devices": 1, "batch": 1, "micro": 1}
    done = run(scenario({"parameters": {"ahead": 100}}, link=link, **one))
    plain = run(scenario(None, **one))
    layers = done.job.model.layers
    loads = lasted(done, d.FETCH_PARAMETERS)
    assert len(loads) == 2 * layers - 1
    rows = done.program.on(np.arange(len(done.program.tape)), "compute")
    passes = rows & np.isin(done.program.columns.kind, (d.FORWARD, d.BACKWARD))
    turns = [
        int(
            (done.timeline.end - done.timeline.start)[
                passes & (done.program.columns.kind == kind) & (place == piece)
            ].sum()
        )
        for kind in (d.FORWARD, d.BACKWARD)
        for place in [done.program.columns.piece]
        for piece in range(layers)
    ]
    computes = [*turns[: layers - 1], turns[layers - 1] + turns[layers], *turns[layers + 1 :]]
    assert sum(computes) == sum(turns)
    back = lasted(done, d.STORE_PARAMETERS)
    assert done.timeline.makespan == plain.timeline.makespan + exposed(loads, computes) + sum(back)


@pytest.mark.parametrize("link", [5e9, 20e9, 80e9])
def test_of_one_pair_the_longer_counts(link: float) -> None:
    """Two layers, one fetched ahead: the second load runs beside the first compute and exposes max(0, copy - compute)
    of it."""
    shape = jobs.model(layers=2)
    done = run(scenario({"parameters": {"ahead": 1}}, link=link, devices=1, batch=1, shape=shape))
    kinds, piece, start, end = (
        done.program.columns.kind,
        done.program.columns.piece,
        done.timeline.start,
        done.timeline.end,
    )
    compute = done.program.on(np.arange(len(kinds)), "compute") & (kinds == d.FORWARD)
    first, second = (compute & (piece == number) for number in (0, 1))
    load = lasted(done, d.FETCH_PARAMETERS)[1]
    took = int(end[first].max() - start[first].min())
    # The first compute begins when the first load is there, and so does the second load.
    assert int(start[second].min() - end[first].max()) == max(0, load - took)


@pytest.mark.parametrize("pp", [1, 2])
@pytest.mark.parametrize("tier", ["host", "nvme"])
def test_what_goes_comes_back(tier: str, pp: int) -> None:
    """Bytes out are bytes in, over the host's link and to the drives, and each link carries them at its rate."""
    found = scenario({"activations": {"to": tier}}, pp=pp, drives=1e15)
    done = run(found)
    moved = done.program.moved
    assert moved
    for (chain, rank, lane, _), size in moved.items():
        back = {OUT: IN, IN: OUT, READ: WRITE, WRITE: READ}[lane]
        assert size == sum(other for key, other in moved.items() if key[:3] == (chain, rank, back))
    out = {key[1]: size for key, size in moved.items() if key[0] == 0 and key[2] == OUT}
    assert sum(lasted(done, d.STORE_ACTIVATIONS)) == pytest.approx(units.to_ticks(out[0] / 20e9), rel=1e-6)
    whole = sum(memory.offloaded_of(done.job, one) for one in memory.chunks_of_stage(done.job, 0))
    assert 0 < out[0] <= done.job.microbatches * whole
    for load in gather(done).links:
        if load.name.startswith(("host link", "NVMe")):
            assert load.utilisation <= 1 and load.peak <= load.capacity


def test_over_a_fast_link_nothing_is_waited_for() -> None:
    """Two nanoseconds of copies at most, whatever is offloaded."""
    for pp in (1, 2):
        for offload in ({"activations": {}}, {"parameters": {}}, {"activations": {"share": 0.5}, "parameters": {}}):
            slow = {"overlap_gradients": False, "overlap_parameters": False}
            free = run(scenario(offload, link=FAST, pp=pp, training=slow)).timeline.makespan
            assert free - run(scenario(None, pp=pp, training=slow)).timeline.makespan <= 2000


def test_two_stages_of_a_node_share_its_drives() -> None:
    """What all devices of a node write together never passes the rate of its drives."""
    found = scenario({"activations": {"to": "nvme"}}, pp=2, drives=3e9, training={"schedule": "gpipe"})
    done = run(found)
    assert len(done.program.tape.capacity) > 0
    kinds, start, end = done.program.columns.kind, done.timeline.start, done.timeline.end
    for kind, rate in ((d.NVME_WRITE, 1.5e9), (d.NVME_READ, 3e9)):
        rows = kinds == kind
        size = sum(4 * moved for key, moved in done.program.moved.items() if key[3] == d.KINDS[kind])
        busy = units.to_seconds(int(end[rows].max() - start[rows].min()))
        assert size <= rate * busy * (1 + 1e-9)
        assert size >= 0.5 * rate * busy or kind == d.NVME_READ


def test_switches_that_devices_share_bind() -> None:
    """Eight devices on links of 20 GB/s that have 40 GB/s together copy at 5 GB/s each."""
    one, all_ = (run(scenario({"activations": {}}, links=links, zero=0)) for links in (None, 40e9))
    assert sum(lasted(all_, d.STORE_ACTIVATIONS)) == pytest.approx(4 * sum(lasted(one, d.STORE_ACTIVATIONS)), rel=1e-9)


def test_an_update_on_the_host_takes_what_its_cores_take() -> None:
    """Gradient, moments and copy read, 14 bytes an element written by the cores of the node; then the last parameters
    travel."""
    done = run(scenario({"optimizer": {"subgroup": 10_000_000}}, devices=1, batch=1))
    elements = memory.updated(done.job, 0)
    groups = -(-int(elements) // 10_000_000)
    update, back = lasted(done, d.HOST_UPDATE), lasted(done, d.FETCH_PARAMETERS)
    assert len(update) == len(back) == groups
    assert sum(update) == pytest.approx(units.to_ticks(elements * (done.job.gradient_bytes + 26) / 100e9), rel=1e-6)
    gradients = np.flatnonzero(done.program.columns.kind == d.STORE_GRADIENTS)
    arrived = int(done.timeline.end[gradients].max())
    optimizer = int(done.timeline.end[done.program.columns.kind == d.FORWARD].max())
    assert arrived > optimizer
    assert done.timeline.makespan >= arrived + sum(update) + back[-1]
    parts = gather(done).breakdown[0]
    assert sum(parts.values()) == pytest.approx(units.to_seconds(done.timeline.makespan))
    assert parts["optimizer"] >= 0.95 * units.to_seconds(sum(update)) and parts["offload"] > 0


def test_device_and_cores_together_are_faster_than_either() -> None:
    ways = {
        update: run(
            scenario({"optimizer": {"update": update, "subgroup": 5_000_000, "every": 4}}, devices=1, batch=1)
        ).timeline.makespan
        for update in ("cpu", "device", "interleaved")
    }
    assert ways["interleaved"] < min(ways["cpu"], ways["device"])


@pytest.mark.parametrize("more", [{}, {"flush": "blocking"}])
def test_an_update_in_the_backward_pass_hides(more: dict[str, str]) -> None:
    step, back = (
        run(scenario({"optimizer": {"during": during, **more}}, devices=1, batch=4, micro=4)).timeline.makespan
        for during in ("step", "backward")
    )
    assert back < step


def test_layers_update_behind_the_cast_of_their_gradients_with_sharded_parameters() -> None:
    """Gradients of whole replicas are cast a turn later; an update before its own cast would wait for ever."""
    offload = {"optimizer": {"during": "backward", "flush": "blocking"}}
    sharded = run(scenario(offload, software=jobs.stack("fsdp"), zero=3))
    assert sharded.job.copied and sharded.timeline.makespan > 0


def test_full_tiers_make_a_run_infeasible() -> None:
    """Out of host or NVMe memory is an answer with its ledger, as out of device memory is."""
    for tier, key in (("host", "memory"), ("nvme", "room")):
        offload = {"optimizer": {"to": tier}}
        kept = simulate(scenario(offload))
        use = kept.host if tier == "host" else kept.nvme
        assert kept.feasible and use is not None and 0 < use.peak <= use.capacity
        assert sum(use.at_peak.values()) == pytest.approx(use.peak)
        assert use.peak == pytest.approx(8 * sum(memory.by_tier(run(scenario(offload)).job, 0)[1].values()))
        full = simulate(scenario(offload, **{key: 0.9 * use.peak}))
        assert not full.feasible


def test_token_by_token_trades_copies_for_recomputation() -> None:
    found = {
        tokens: run(scenario({"activations": {"tokens": tokens}}, batch=8, devices=1, training={"recompute": None}))
        for tokens in (0.0, 0.5, 1.0)
    }
    sent = [sum(one.program.moved.values()) for one in found.values()]
    again = [gather(one).breakdown[0]["recompute"] for one in found.values()]
    assert sent[0] < sent[1] < sent[2]
    assert again[0] > again[1] > again[2] == 0
    assert again[1] == pytest.approx(again[0] / 2, rel=0.01)
    hfu = [
        gather(one).metrics["hardware_flops_per_device"] / gather(one).metrics["model_flops_per_device"]
        for one in found.values()
    ]
    assert hfu[0] > hfu[1] > hfu[2] == pytest.approx(1)


def test_states_leave_the_device() -> None:
    deep = jobs.model(layers=24)
    plain = memory.by_tier(run(scenario(None, shape=deep)).job, 0)
    here, away = memory.by_tier(run(scenario({"optimizer": {"share": 0.5}, "parameters": {}}, shape=deep)).job, 0)
    assert not plain[1]
    assert here["optimizer"] == pytest.approx(plain[0]["optimizer"] / 2) == pytest.approx(away["optimizer"])
    assert away["parameters"] == plain[0]["parameters"] > here["parameters"]


def test_fragmentation_adds_to_what_passes_take() -> None:
    plain, lost = (simulate(scenario(None, training=more)).memory[0] for more in ({}, {"fragmentation": 0.25}))
    passes = plain.at_peak["activations"] + plain.at_peak["working"]
    assert lost.at_peak["fragmentation"] == pytest.approx(0.25 * passes)
    assert lost.peak == pytest.approx(plain.peak + 0.25 * passes)
    assert lost.level.max() == pytest.approx(lost.peak)


def absent(**missing: Any) -> Node:
    node = scenario({"optimizer": {}}).cluster.node
    return node.model_copy(update=missing)


@pytest.mark.parametrize(
    ("offload", "missing", "said"),
    [
        ({"activations": {"layers": 9}}, {}, "9 layers of each stage or chunk, but the largest has 8"),
        ({"optimizer": {"to": "nvme"}}, {"nvme": None}, "has no `nvme`"),
        ({"optimizer": {}}, {"host_memory": None}, "has no `host_memory`"),
        ({"optimizer": {}}, {"cpu": None}, "has no `cpu` in its profile: the rate of an update"),
        ({"optimizer": {"update": "device", "flush": "blocking"}}, {"cpu": None}, "the rate of widening gradients"),
        ({"activations": {"tensors": ("mlp inn",)}}, {}, "keep nothing of `mlp inn`"),
    ],
)
def test_what_is_not_there_is_refused(offload: dict[str, Any], missing: dict[str, Any], said: str) -> None:
    found = scenario(offload)
    cluster = found.cluster.model_copy(update={"node": absent(**missing)})
    with pytest.raises(InputError, match=said):
        run(found.model_copy(update={"cluster": cluster}))


@pytest.mark.parametrize(
    ("training", "parallel", "said"),
    [
        ({"offload_layers": 1}, {}, "by `offload_layers` or by `offload`"),
        ({"schedule": "zb-h1"}, {"pp": 2}, "backward passes in two halves"),
        ({"optimizer": "muon"}, {}, "looks at whole matrices"),
        ({"blocking_launches": True}, {}, "nothing travels beside"),
        ({}, {"zero": 1}, "write `parallel.zero: 3`"),
    ],
)
def test_what_does_not_go_together_is_refused(training: dict[str, Any], parallel: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as raised:
        run(scenario({"optimizer": {}, "parameters": {}}, training=training, **parallel))
    assert said in str(raised.value)


def test_layers_in_the_backward_pass_are_updated_by_the_host() -> None:
    with pytest.raises(InputError, match="begins with all gradients"):
        run(scenario({"optimizer": {"update": "interleaved", "during": "backward"}}))


def test_millions_of_subgroups_are_refused() -> None:
    """Each is an update of its own: subgroups of 8 parameters took hours."""
    with pytest.raises(InputError, match="subgroups are updated one by one on a device; up to 10,000 are simulated"):
        simulate(scenario({"optimizer": {"subgroup": 8}}))
