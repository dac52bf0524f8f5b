"""Retrieved chunks that are used again at any place: what a prompt computes, which chunks an independent LRU holds."""

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from simulator.cli import main
from simulator.random import stream
from simulator.results.result import Result
from simulator.run.serve import serve, serving
from simulator.run.site import Site
from simulator.serving.fleet.system import resolve
from simulator.serving.workload import chunks
from simulator.serving.workload.chunks import drawn, identities
from simulator.specs import load_scenario
from simulator.specs.requests import RetrievedChunks

FILE = "scenarios/serving/quickstart.yaml"
CHUNKS = "+requests.chunks={tokens: 256, each: 4, of: 40, zipf: 1}"
REUSE = "+serving.kv_cache.chunks={capacity: 1.4 GB, recompute: 0.25}"
ALONE = ("requests.arrivals={constant: 0.2 /s}", "requests.lengths={prompt: {fixed: 1200}, output: {fixed: 4}}")


def scenario(*changes: str) -> Any:
    return load_scenario(FILE, ["requests.count=60", CHUNKS, *changes]).spec


def run(*changes: str) -> Result:
    return serve(scenario(*changes))


def _replica(*changes: str) -> Any:
    spec = scenario(*changes)
    return serving(Site(spec.cluster, 0), spec, resolve(spec)).replicas[0]


def test_prompts_compute_what_is_not_there_and_a_share_of_what_is() -> None:
    """One request at a time: tokens that are saved are those of an LRU counted here."""
    result, cache = run(*ALONE, REUSE), _replica(*ALONE, REUSE).blocks.chunks
    assert result.service is not None and cache.slots == int(1.4e9 / (256 * 2 * 2 * 32 * 4096))
    held: OrderedDict[int, None] = OrderedDict()
    saved, hits = list[int](), 0
    for own in cache.of:
        there = [chunk for chunk in own if chunk in held]
        hits += len(there)
        saved.append(int(len(there) * 256 * 0.75))
        for chunk in (*there, *own):
            held[chunk] = None
            held.move_to_end(chunk)
        while len(held) > cache.slots:
            held.popitem(last=False)
    assert 0 < hits < 4 * len(cache.of) and len(held) == cache.slots
    rows = result.service.replicas[0].iterations
    assert rows.prompt_tokens.sum() == sum(1200 - tokens for tokens in saved)
    assert result.service.requests.cached.tolist() == saved


def test_a_prompt_whose_chunks_are_all_there_lasts_as_long_as_its_last_tokens() -> None:
    """All is in memory after the first request, as there are only the same chunks: the others compute a quarter."""
    same = ("requests.chunks={tokens: 256, each: 4, of: 8}", "serving.kv_cache.chunks.capacity=8 GB")
    result = run(*ALONE, REUSE, *same, "serving.batching.token_budget=2048", "requests.count=20")
    assert result.service is not None
    requests = result.service.requests
    full = requests.cached == 768
    assert full.sum() > 10
    cost = _replica(*ALONE, REUSE, *same).stages.costs[0]
    ticks = cost.rows(432, 1) + cost.host(1) + cost.prompt(432, 768)
    assert set((requests.first_token - requests.scheduled)[full].tolist()) == {ticks}


def test_with_all_computed_anew_it_is_as_without_it() -> None:
    given = ("serving.kv_cache.blocks=3000", "+serving.kv_cache.prefix_caching=none")
    reuse = run(*given, REUSE, "serving.kv_cache.chunks.recompute=1", "serving.kv_cache.chunks.capacity=1 B")
    plain = run(*given, "serving.kv_cache.blocks=2999")
    assert reuse.service is not None and plain.service is not None
    assert reuse.service.requests.finish.tolist() == plain.service.requests.finish.tolist()


def test_chunks_save_what_prefixes_in_another_order_do_not() -> None:
    chunks, prefixes = run(REUSE), run("+serving.kv_cache.prefix_caching=block")
    assert chunks.metrics["prefix_cache_hit_rate"] > 1.5 * prefixes.metrics["prefix_cache_hit_rate"] > 0
    assert chunks.metrics["completed"] == prefixes.metrics["completed"] == 60


def test_all_blocks_come_back() -> None:
    spec = scenario(REUSE, "serving.kv_cache.blocks=400", "requests.arrivals={poisson: 9 /s}")
    site = Site(spec.cluster, 0)
    (replica,) = serving(site, spec, resolve(spec)).replicas
    site.run(None)
    blocks = replica.blocks
    assert blocks.free == blocks.memory.blocks and not blocks.held


def test_prompts_have_different_chunks_and_popular_ones_more_often() -> None:
    spec = RetrievedChunks(tokens=100, each=3, of=50, zipf=1.0)
    found = drawn(spec, 2000, 7)
    assert found == drawn(spec, 2000, 7) and all(len(set(own)) == 3 for own in found)
    counts = np.bincount(np.array(found).ravel(), minlength=51)[1:]
    assert counts[0] > counts[4] > counts[40] > 0
    assert stream(7, "chunks").random() >= 0


def test_identities_stand_for_all_chunks_before() -> None:
    first, second, third, fourth = identities(((1, 2), (1, 3), (2, 1), (1, 2)), 40, 16)
    assert first == fourth and len(first) == 5 and first[:2] == second[:2]
    assert not set(first[2:]) & set(second[2:]) and not set(third) & set(first)


def test_memory_for_chunks_without_chunks_is_said_to_have_no_effect() -> None:
    spec: Any = load_scenario(FILE, ["requests.count=5", REUSE]).spec
    assert any("kv_cache.chunks` has no effect" in text for text in serve(spec).warnings)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ((REUSE.replace("0.25", "1.5"),), 2, ("recompute",)),
        ((REUSE, "+serving.kv_cache.prefix_caching=block"), 2, ("in place of prefixes",)),
        ((REUSE.replace("1.4 GB", "900 GB"),), 4, ()),
        ((REUSE, "model=models/mamba-1.4b"), 2, ("layers with a state",)),
        (("requests.chunks.of=6",), 2, ("at least twice",)),
        (("+requests.shared_prefix={tokens: {fixed: 9}}",), 2, ("leave `shared_prefix` out",)),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    changes: tuple[str, ...], code: int, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FILE, "--quiet", "requests.count=10", CHUNKS, *changes]) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    for word in words:
        assert word in said, said


def test_chunks_that_hardly_come_up_are_drawn_as_they_would_come_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a steep popularity the draws were repeated for ever; what takes their place draws from the same law."""
    steep = RetrievedChunks(tokens=1, each=4, of=1000, zipf=200.0)
    assert set(drawn(steep, 20, 0)) == {(1, 2, 3, 4)}
    spec, count = RetrievedChunks(tokens=1, each=4, of=12, zipf=1.0), 4000
    again = drawn(spec, count, 0)
    monkeypatch.setattr(chunks, "ROUNDS", 1)
    for place in range(4):
        one, other = (
            np.bincount([own[place] for own in found], minlength=13) for found in (again, drawn(spec, count, 1))
        )
        assert np.abs(one - other).max() < 5 * np.sqrt(one.max())
