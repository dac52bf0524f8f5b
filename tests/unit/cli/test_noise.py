"""Noise that cannot be: one clear message each, exit 2."""

import json

import pytest

from simulator.cli import main

QUICKSTART = "scenarios/quickstart.yaml"
NOISE = "training.noise"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (f"{NOISE}.jitter=-3 %", "training.noise.jitter: `-3 %` is out of range; write 0 or more"),
        (f"{NOISE}.jitter=101 %", "training.noise.jitter: `101 %` is out of range; write 1 or less"),
        (f"{NOISE}.jitter=3 s", "`s` is a unit of time, not of fraction"),
        (f"{NOISE}.jiter=3 %", "did you mean `jitter`?"),
        (f"{NOISE}.stragglers={{count: 1, slowdown: 0.9}}", "slowdown: `0.9` is out of range; write 1 or more"),
        (f"{NOISE}.stragglers={{count: 9, slowdown: 2}}", "9 devices are to be slow, and the cluster has 8"),
        (f"{NOISE}.stragglers={{count: 0, slowdown: 2}}", "count: `0` is out of range"),
        (f"{NOISE}.stragglers={{devices: [3, 8], slowdown: 2}}", "there is no device 8: the cluster has 8, from 0 on"),
        (f"{NOISE}.stragglers={{devices: [-1], slowdown: 2}}", "`-1` is out of range; write 0 or more"),
        (f"{NOISE}.stragglers={{slowdown: 2}}", "write either `count` or `devices`"),
        (f"{NOISE}.stragglers={{count: 1, devices: [0], slowdown: 2}}", "write either `count` or `devices`, not both"),
        (f"{NOISE}.slow_links={{count: 1, factor: 0}}", "factor: `0` is out of range; write more than 0"),
        (f"{NOISE}.slow_links={{count: 1, factor: 1.5}}", "factor: `1.5` is out of range; write 1 or less"),
        (f"{NOISE}.slow_links={{links: [NIC 8], factor: 0.5}}", "the cluster has no link `NIC 8`"),
        (f"{NOISE}.slow_links={{factor: 0.5}}", "write either `count` or `links`"),
        ("training.variability=slow", "`slow` is not accepted; write `equal`, `expected` or `drawn`"),
        ("cluster.node.accelerator.variability=3 s", "`s` is a unit of time, not of fraction"),
        ("cluster.node.accelerator.variability=-1 %", "`-1 %` is out of range; write 0 or more"),
        ("training.steps=0", "training.steps: `0` is out of range; write 1 or more"),
        ("training.steps=1000000", "training.steps: `1000000` is out of range"),
        ("seed=-1", "seed: `-1` is out of range"),
    ],
)
def test_noise_that_cannot_be(override: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", QUICKSTART, override, "--quiet"]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert not said.out


def test_a_share_may_be_a_number_or_in_percent(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for jitter in ("3 %", "0.03"):
        assert main(["run", QUICKSTART, "training.steps=5", f"{NOISE}.jitter={jitter}", "--json", "-"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert [one["provenance"].pop("overrides")[-1].rpartition("=")[2] for one in said] == ["3 %", "0.03"]
    assert said[0] == said[1]
    assert len(said[0]["step_times_s"]) == 5
