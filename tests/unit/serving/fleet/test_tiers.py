"""Tiers of the cache that a machine cannot have, and what is said of them."""

import pytest

from simulator.cli import main
from simulator.run.serve import serve
from simulator.specs import load_scenario

FILE = "scenarios/serving/quickstart.yaml"


@pytest.mark.parametrize(
    ("tiers", "words", "more"),
    [
        ("{name: attic, capacity: 1 GB}", ("the tier 'attic' has no path", "`path: host`, `disk` or `network`"), ()),
        ("{name: ssd, capacity: 1 TB}", ("the disks of the tier 'ssd' need a `bandwidth`",), ()),
        ("{name: host, capacity: 0 GB}", ("capacity", "more than 0"), ()),
        ("{name: host}", ("capacity",), ()),
        ("{name: host, capacity: 1 GB, eviction: lra}", ("unknown eviction `lra`", "lru", "tiers.0.eviction"), ()),
        ("{name: host, capacity: 1 GB, write: around}", ("write `through` or `back`",), ()),
        ("{name: host, capacity: 3 TB}", ("3,000 GB of a host", "2,000 GB", "tiers.0.capacity"), ()),
        ("{name: host, capacity: 1 GB, shared: true}", ("other replicas do not reach it",), ()),
        ("{name: host, capacity: 1 GB, write_bandwidth: 1 GB/s}", ("stands beside `bandwidth`",), ()),
        ("{name: host, capacity: 1 GB}, {name: host, capacity: 1 GB}", ("tiers have different names",), ()),
        ("{name: store, capacity: 1 TB}", ("no network cards",), ("cluster=clusters/workstation-4x-rtx-4090",)),
        ("{name: host, capacity: 1 GB}", ("the devices of", "are the host"), ("cluster=clusters/laptop-cell",)),
    ],
)
def test_tiers_that_cannot_be_are_refused_in_words(
    tiers: str, words: tuple[str, ...], more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"+serving.kv_cache={{prefix_caching: block, tiers: [{tiers}]}}"
    assert main(["run", FILE, "--quiet", "requests.count=10", given, *more]) == 2
    said = capsys.readouterr()
    assert not said.out and "Traceback" not in said.err
    for word in words:
        assert word in said.err


@pytest.mark.parametrize("caching", ["prefix_caching: none, ", ""])
def test_tiers_keep_what_prompts_share(caching: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = f"+serving.kv_cache={{{caching}tiers: [{{name: host, capacity: 1 GB}}]}}"
    assert main(["run", FILE, "--quiet", "requests.count=10", given, "stack=fastertransformer"]) == 2
    assert "prefix_caching: block" in capsys.readouterr().err


def test_tiers_without_anything_to_share_are_said_to_have_no_effect() -> None:
    given = "+serving.kv_cache={prefix_caching: block, tiers: [{name: host, capacity: 1 GB}]}"
    result = serve(load_scenario(FILE, ["requests.count=10", given]).spec)  # type: ignore[arg-type]
    assert [text for text in result.warnings if "`serving.kv_cache.tiers` have no effect" in text]
    assert result.service is not None and not result.service.tiers
