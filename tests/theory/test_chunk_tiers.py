"""Retrieved chunks on hosts and drives: which an independent LRU of each memory holds, what moves, what hides it."""

from typing import Any

import pytest

from simulator.cli import main
from simulator.results.result import Result, Service
from simulator.run.serve import serve, serving
from simulator.run.site import Site
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario

FILE = "scenarios/serving/quickstart.yaml"
CHUNKS = "+requests.chunks={tokens: 256, each: 4, of: 40, zipf: 1}"
ALONE = ("requests.arrivals={constant: 0.2 /s}", "requests.lengths={prompt: {fixed: 1200}, output: {fixed: 4}}")
SIZE = 256 * 2 * 2 * 32 * 4096
"""Bytes of a chunk of 256 tokens of Llama-2-7B."""
SAME = "requests.chunks={tokens: 256, each: 4, of: 8}"


def cache(tiers: str, capacity: str = "1.4 GB", more: str = "") -> str:
    return f"+serving.kv_cache={{chunks: {{capacity: {capacity}, recompute: 0.25}}, tiers: [{tiers}]{more}}}"


def scenario(*changes: str) -> Any:
    return load_scenario(FILE, ["requests.count=60", CHUNKS, *changes]).spec


def run(*changes: str) -> tuple[Result, Service]:
    result = serve(scenario(*changes))
    assert result.service is not None
    return result, result.service


def _replica(*changes: str) -> Any:
    spec = scenario(*changes)
    return serving(Site(spec.cluster, 0), spec, resolve(spec)).replicas[0]


class Recent:
    """A memory that forgets what was used least recently, counted with stamps."""

    def __init__(self, most: int) -> None:
        self.most, self.stamp, self.clock = most, dict[int, int](), 0

    def touch(self, chunk: int) -> None:
        self.clock += 1
        self.stamp[chunk] = self.clock

    def gives_way(self) -> list[int]:
        gone = sorted(self.stamp, key=lambda chunk: self.stamp[chunk])[: max(len(self.stamp) - self.most, 0)]
        for chunk in gone:
            del self.stamp[chunk]
        return gone


def test_memories_hold_what_independent_counts_say() -> None:
    """One request at a time: hits of the host, bytes both ways, and tokens that are saved."""
    given = *ALONE, cache("{name: host, capacity: 2.8 GB}")
    _, service = run(*given)
    device, host = Recent(10), Recent(20)
    hits = written = 0
    saved = []
    for own in _replica(*given).blocks.chunks.of:
        found = 0
        loaded = []
        for chunk in reversed(own):
            if chunk in host.stamp:
                host.touch(chunk)
        for chunk in own:
            if chunk in device.stamp:
                device.touch(chunk)
                found += 1
            elif chunk in host.stamp:
                loaded.append(chunk)
                found += 1
        hits += len(loaded)
        saved.append(int(found * 256 * 0.75))
        for chunk in own:
            device.touch(chunk)
        device.gives_way()
        for chunk in reversed([chunk for chunk in own if chunk not in host.stamp]):
            written += 1
            host.touch(chunk)
            host.gives_way()
    tier = service.tiers[0]
    assert 0 < hits < 240 and tier.hit_tokens == hits * 256
    assert tier.read == pytest.approx(hits * SIZE * 0.75) and tier.written == pytest.approx(written * SIZE)
    assert service.requests.cached.tolist() == saved
    assert tier.dropped_tokens == (written - 20) * 256 and tier.most == 20 * SIZE


@pytest.mark.parametrize("way", ["{name: host, capacity: 9 GB}", "{name: ssd, capacity: 9 GB, bandwidth: 3 GB/s}"])
def test_a_prompt_waits_for_its_chunks_and_then_computes_its_share(way: str) -> None:
    """With no memory of the devices set aside each prompt is later by its load, to the tick."""
    device = run(*ALONE, SAME, "+serving.kv_cache.chunks={capacity: 9 GB, recompute: 0.25}")[1].requests
    tier = run(*ALONE, SAME, cache(way, "1 B"))[1].requests
    rate = 3e9 if "ssd" in way else 31e9
    late = (tier.first_token - tier.arrival) - (device.first_token - device.arrival)
    full = tier.cached == int(4 * 256 * 0.75)
    assert full.sum() > 30 and tier.cached.tolist() == device.cached.tolist()
    assert late[full].tolist() == pytest.approx([4 * SIZE * 0.75 / rate * 1e12] * int(full.sum()), abs=2)


def test_layers_hide_the_loads_of_later_layers() -> None:
    """What is left to load is hidden behind layers before: a prompt begins after the share that is not."""
    host = cache("{name: host, capacity: 9 GB}", "1 B")
    whole, layered = (
        run(*ALONE, SAME, host, *more)[1].requests for more in ((), ("serving.kv_cache.loads.layered=true",))
    )
    device = run(*ALONE, SAME, "+serving.kv_cache.chunks={capacity: 9 GB, recompute: 0.25}")[1].requests
    load = 4 * SIZE * 0.75 / 31e9 * 1e12
    full = whole.cached == int(4 * 256 * 0.75)
    alone = (device.first_token - device.scheduled)[full]
    late = ((layered.first_token - layered.arrival) - (device.first_token - device.arrival))[full]
    expected = [max(load / 32, load - 31 / 32 * own) for own in alone.tolist()]
    assert late.tolist() == pytest.approx(expected, rel=1e-3)
    assert (late < load).all()


def test_drives_behind_the_host_take_what_it_drops() -> None:
    tiers = "{name: host, capacity: 1.4 GB, write: back}, {name: ssd, capacity: 9 GB, bandwidth: 6 GB/s, write: back}"
    result, service = run(*ALONE, cache(tiers, "700 MB"))
    host, drives = service.tiers
    assert host.written > drives.written > 0 and drives.hit_tokens > 0
    assert drives.most <= 9e9 and host.most == 10 * SIZE
    assert result.metrics["tier_hit_rate"] > 0 and result.metrics["completed"] == 60


def test_what_takes_longer_than_computing_is_computed() -> None:
    slow = "{name: ssd, capacity: 9 GB, bandwidth: 50 MB/s}"
    declined = run(*ALONE, SAME, cache(slow, "1 B", ", loads: {when: faster}"))[1]
    nothing = run(*ALONE, SAME, "+serving.kv_cache.prefix_caching=none")[1]
    assert declined.tiers[0].read == 0
    assert declined.requests.finish.tolist() == nothing.requests.finish.tolist()


@pytest.mark.parametrize("more", [(), ("+serving.fleet={failures: {mtbf: 3 s, repair: {fixed: 1}}}",)])
def test_under_load_all_blocks_come_back_and_no_request_is_lost(more: tuple[str, ...]) -> None:
    lengths = "requests.lengths={prompt: {uniform: [1030, 3000]}, output: {fixed: 20}}"
    tiers = "{name: host, capacity: 3 GB}, {name: ssd, capacity: 20 GB, bandwidth: 3 GB/s}"
    given = lengths, "requests.arrivals={poisson: 20 /s}", cache(tiers, more=", blocks: 2000"), *more
    spec = scenario(*given)
    site = Site(spec.cluster, 0)
    made = serving(site, spec, resolve(spec))
    site.run(None)
    blocks = made.replicas[0].blocks
    assert blocks.free == blocks.memory.blocks and not blocks.held and not blocks.chunks.arrived
    assert sum(made.ledger.status.count(status) for status in (0, 1, 3)) == 60
    assert run(*given)[1].requests.finish.tolist() == run(*given)[1].requests.finish.tolist()


def test_a_tier_that_holds_no_chunk_is_said_to_have_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert any("no effect" in text for text in run(*ALONE, cache("{name: host, capacity: 1 MB}"))[0].warnings)
    path = "+serving.kv_cache={chunks: {capacity: 1 GB, recompute: 0.2}, tiers: [{name: shelf, capacity: 1 GB}]}"
    assert main(["run", FILE, "--quiet", CHUNKS, path]) == 2
    assert "no path" in capsys.readouterr().err
