"""Where jobs are placed, and what is said where they cannot be: file, line, path, what is wrong and what to write."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from simulator.cli import main
from simulator.run.jobs.placing import place
from simulator.specs.jobs import AnyJob
from tests import together
from tests.unit.cli.conftest import ROOT

SPINE = Path(__file__).with_name("two-jobs-one-spine.yaml").read_text(encoding="utf-8")
BESIDE = (ROOT / "scenarios" / "jobs" / "training-beside-serving.yaml").read_text(encoding="utf-8")
PLACED = "    placement: spread\n    nodes: 4\n"


def placed(*listed: AnyJob, seed: int = 0) -> list[list[int]]:
    """Nodes of each job, on eight of them."""
    asked = together.scenario(*listed, on=together.cluster(8), seed=seed)
    return [sorted({device // 8 for device in devices}) for devices in place(asked)]


def two(how: str, nodes: Sequence[int] = (4, 4)) -> list[AnyJob]:
    """Two jobs that say how many nodes they take."""
    return [together.trains(f"job {i}", placement=how, tp=8, of_job={"nodes": count}) for i, count in enumerate(nodes)]


def test_packed_takes_the_first_and_spread_every_second() -> None:
    assert placed(*two("packed")) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert placed(*two("spread")) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_random_is_drawn_with_the_seed() -> None:
    first, second = placed(*two("random", (3, 4)))
    assert placed(*two("random", (3, 4))) == [first, second]
    assert len(first) == 3 and len(second) == 4 and not set(first) & set(second)
    assert len({tuple(map(tuple, placed(*two("random", (3, 4)), seed=seed))) for seed in range(8)}) > 3


def test_those_that_name_theirs_come_first_and_one_takes_what_is_left() -> None:
    rest, named = together.trains("rest", tp=8), together.trains("named", placement={"nodes": [0, 5]}, tp=8)
    few = together.trains("few", tp=2, dp=2)
    assert placed(rest, few, named) == [[2, 3, 4, 6, 7], [1], [0, 5]]


def test_small_jobs_share_a_node() -> None:
    small = [together.trains(f"job {i}", tp=2, dp=2) for i in range(3)]
    asked = together.scenario(*small, on=together.cluster(2))
    assert place(asked) == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11))


def spine(first: str, second: str = PLACED) -> str:
    """The two jobs on one spine, placed otherwise."""
    head, middle, tail = SPINE.split(PLACED)
    return f"{head}{first}{middle}{second}{tail}"


def at(placement: str) -> str:
    """A line."""
    return f"    placement: {placement}\n"


REFUSED = {
    "nodes of another": (
        spine(at("{nodes: [0, 5]}"), at("{nodes: [5, 6]}")),
        ":23: jobs.1.placement.nodes: node 5 belongs to job `large` already; choose another",
    ),
    "devices of another": (
        spine(at("{nodes: [0, 1]}"), at("{devices: [8, 9]}")),
        ":23: jobs.1.placement.devices: device 8 belongs to job `large` already; choose another",
    ),
    "no such placement": (
        spine(at("packd")),
        ":18:16: jobs.0.placement: `packd` is not accepted; did you mean `packed`?",
    ),
    "no such node": (
        spine(at("{nodes: [0, 8]}")),
        ":18: jobs.0.placement.nodes: there is no node 8: the cluster has 8, from 0 on; at most 7",
    ),
    "no such device": (
        spine(at("{devices: [64, 65]}")),
        ":18: jobs.0.placement.devices: there is no device 64: the cluster has 64, from 0 on; at most 63",
    ),
    "less than none": (
        spine(at("{nodes: [-1]}")),
        ":18:25: jobs.0.placement.nodes.0: `-1` is out of range; write 0 or more",
    ),
    "a node twice": (spine(at("{nodes: [1, 1]}")), ":18:16: jobs.0.placement: node 1 is listed twice"),
    "nodes and devices": (
        spine(at("{nodes: [1], devices: [3]}")),
        ":18:16: jobs.0.placement: write either `nodes` or `devices`, not both",
    ),
    "none named": (spine(at("{nodes: []}")), ":18:16: jobs.0.placement: write either `nodes` or `devices`"),
    "named and counted": (
        spine(at("{nodes: [0, 1]}") + "    nodes: 4\n"),
        ":15:5: jobs.0: `placement` names 2 nodes and `nodes` says 4: leave `nodes` out",
    ),
    "uneven": (
        spine(at("{devices: [0, 1, 2, 8]}"), at("{nodes: [2]}")),
        ":18: jobs.0.placement: it has 1 devices of one node and 3 of another; give it as many of each node",
    ),
    "more than is left": (
        spine("    nodes: 6\n"),
        ":20: jobs.1: job `small` needs 4 whole nodes, and 16 devices are left; raise `cluster.nodes`",
    ),
    "more than there is": (
        spine("    nodes: 9\n"),
        ":15: jobs.0: job `large` needs 9 whole nodes, and 64 devices are left; raise `cluster.nodes`",
    ),
    "two of open size": (
        spine("", ""),
        ":19: jobs.1.nodes: `large` and `small` leave open how many devices they take; write `nodes`, or",
    ),
    "one name": (
        SPINE.replace("name: small", "name: large"),
        ":15:3: jobs: two jobs are called `large`: names tell them apart",
    ),
    "none": (SPINE.partition("jobs:")[0] + "jobs: []\n", ":14:7: jobs: is an empty list; write at least one"),
    "training and serving": (
        SPINE.replace("  - name: small", "    serving: {replicas: 1}\n  - name: small"),
        ":21:5: jobs.0.serving: `training` and `serving` are both there, and a job either trains or serves;",
    ),
    "replicas without devices": (
        BESIDE.replace("{nodes: [2, 6]}", "{nodes: [2]}"),
        ":33: jobs.1.serving: its replicas take 16 devices, and it is given 8; give it more, or cut replicas or layout",
    ),
    "nodes without a network": (
        f"{BESIDE.partition('  network:')[0]}  network: {{kind: none}}\njobs:{BESIDE.partition('jobs:')[2]}",
        ":8:3: cluster: several nodes need a `network`",
    ),
    "pools without a network": (
        BESIDE.replace("role: decode,", "role: decode, cluster: clusters/dgx-a100,"),
        ":33: jobs.1.serving.pools: pool `answers` has a cluster of its own, and no network joins it to the others;",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_placed(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, message = REFUSED[what]
    (said,) = refused(text, tmp_path, capsys)
    assert said.startswith(message)


def refused(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is said of a scenario that is refused, without the name of the file."""
    path = folder / "jobs.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["run", str(path), "--quiet"]) == 2
    said = capsys.readouterr()
    assert not said.out
    lines = said.err.strip().splitlines()
    assert all(line.removeprefix("clustersim: ").startswith(str(path)) for line in lines)
    return [line.removeprefix("clustersim: ").removeprefix(str(path)) for line in lines]
