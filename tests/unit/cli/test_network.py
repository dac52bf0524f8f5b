"""`clustersim network`: networks drawn and counted."""

import json
import re
from pathlib import Path

import pytest
import yaml

from simulator.cli import main
from tests.machines import figure, level

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(network: dict[str, object], nodes: int = 8, node: object = "nodes/dgx-h100") -> str:
    cluster = {"name": "mine", "node": node, "nodes": nodes, "network": network, "collectives": "nccl-h100"}
    Path("mine.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(cluster))))
    return "mine.yaml"


LEAVES = {"kind": "leaf-spine", "leaf_nodes": 2, "spines": 8}


def counted(*arguments: str) -> dict[str, object]:
    assert main(["network", *arguments, "--json", "counted.json", "--quiet"]) == 0
    found: dict[str, object] = json.loads(Path("counted.json").read_text())
    return found


def test_sites_are_as_wide_as_their_connections(capsys: Capture) -> None:
    """Three sites of 2, 1 and 1 nodes: each pair of nodes has one connection, whatever its devices send."""
    pairs = (("a", "b", "80 Mbit/s"), ("a", "c", "16 Mbit/s"), ("b", "c", "8 Mbit/s"))
    network: dict[str, object] = {
        "kind": "sites",
        "sites": [{"name": "a", "nodes": 2}, {"name": "b", "nodes": 1}, {"name": "c", "nodes": 1}],
        "links": [{"between": [s, t], "delay": "10 ms", "flow_bandwidth": rate} for s, t, rate in pairs],
    }
    name = write(network, 4)
    found = counted(name)
    assert found["bisection"] == pytest.approx(2 * (10e6 + 2e6))  # both nodes of `a` to `b` and to `c`
    assert found["links"]["connection"] == 10  # type: ignore[index]
    assert (found["rates"]["connection"], found["fastest"]["connection"]) == (1e6, 10e6)  # type: ignore[index]
    assert main(["network", name]) == 0
    shown = capsys.readouterr().out
    assert "10 connection of 1.00 MB/s to 10.0 MB/s" in shown
    assert "24.0 MB/s, 0.003% of what half of the nodes send" in shown


def test_cards_bound_what_nodes_have_of_connections() -> None:
    card = {"count": 1, "bandwidth": figure("1 GB/s")}
    node = {
        "name": "n",
        "accelerator": "accelerators/h100-sxm",
        "devices": 1,
        "scale_up": {"kind": "none"},
        "nics": card,
    }
    links = [{"between": [s, t], "delay": "1 ms", "flow_bandwidth": "0.8 GB/s"} for s, t in ("ab", "ac", "bc")]
    sites = [{"name": name, "nodes": 2 - (name != "a")} for name in "abc"]
    found = counted(write({"kind": "sites", "sites": sites, "links": links}, 4, node))
    assert found["bisection"] == pytest.approx(2 * 1e9)  # two of 0.8 are more than a card


def test_a_trunk_that_leads_nowhere_is_no_link(capsys: Capture) -> None:
    """One group of leaves needs nothing above; two do."""
    for nodes, shown in ((4, False), (8, True)):
        found = counted(write({"kind": "tree", "levels": [level("leaf", 4)]}, nodes))
        assert ("leaf up" in found["links"], "leaf up" in found["rates"]) == (shown, shown)  # type: ignore[operator]


# Leaves, spines and cores of DGX SuperPOD B200, switches of 64 ports of 400 Gbit/s (docs.nvidia.com, reference
# architecture); as many cables on each tier as there are GPUs, two transceivers each.
@pytest.mark.parametrize(
    ("nodes", "boxes", "tiers"), [(64, (16, 8), 2), (128, (32, 16), 2), (256, (64, 32), 2), (512, (128, 128, 64), 3)]
)
def test_a_superpod_is_bought_of_what_its_maker_says(nodes: int, boxes: tuple[int, ...], tiers: int) -> None:
    bill = counted("dgx-h100-superpod", "--nodes", str(nodes), "--parts", "infiniband-ndr")["bill"]
    assert isinstance(bill, dict)
    assert tuple(bill["switches"].values()) == boxes
    assert bill["transceivers"] == 2 * tiers * 8 * nodes


def test_a_fat_tree_costs_what_was_published() -> None:
    """2,048 endpoints on 64 ports of 400G: 96 switches, 2,048 cables up, 9 M$ (arXiv:2505.09343 Table 3)."""
    one = {"name": "one", "accelerator": "accelerators/h100-sxm", "devices": 1, "scale_up": {"kind": "none"}}
    node = one | {"nics": {"count": 1, "bandwidth": figure("400 Gbit/s")}}
    found = counted(write(LEAVES | {"leaf_nodes": 32, "spines": 32}, 2048, node), "--parts", "infiniband-ndr")
    bill = found["bill"]
    assert isinstance(bill, dict)
    assert bill["switches"] == {"leaf": 64, "spine": 32} and bill["transceivers"] == 4 * 2048
    assert bill["cost_usd"] - 2048 * 1500 == pytest.approx(9e6, rel=0.04)


@pytest.mark.parametrize(
    ("network", "halves", "ratios"),
    [
        (LEAVES, 1.0, {"leaf": 1}),
        (LEAVES | {"oversubscription": 4}, 0.25, {"leaf": 4}),
        ({"kind": "tree", "levels": [level("leaf", 2), level("spine", 4, 3)]}, 1 / 3, {"leaf": 1, "spine": 3}),
        (
            {"kind": "fat-tree", "levels": [level("leaf", 1, 2), level("pod", 4, 2)], "uplinks": [4, 4]},
            1 / 4,
            {"leaf": 2, "pod": 2},
        ),
        ({"kind": "rail-only", "leaf_nodes": 8}, 1.0, {}),
    ],
)
def test_halves_get_what_oversubscription_of_every_tier_leaves(
    network: dict[str, object], halves: float, ratios: dict[str, float]
) -> None:
    found = counted(write(network))
    assert found["bisection"] == pytest.approx(halves * 4 * 8 * 50e9)
    assert found["oversubscription"] == pytest.approx(ratios)


def test_groups_of_a_dragonfly_meet_without_a_switch() -> None:
    """Two groups of 128 nodes with four cards; 7.3 TB/s of global links of each are 146 of 50 GB/s, shared."""
    found = counted("frontier", "--nodes", "256", "--parts", "infiniband-ndr", "--svg", "a.svg")
    assert re.findall("<text[^>]*>([^<]*)", Path("a.svg").read_text())[-3:] == ["global links", "0.0", "1.0"]
    assert found["switches"] == {"group": 2}
    bill = found["bill"]
    assert isinstance(bill, dict)
    assert list(bill["switches"]) == ["group"] and bill["transceivers"] == 2 * 4 * 256 + 2 * 146


def test_one_node_counts_what_it_has_and_switches_with_room_are_told(capsys: Capture) -> None:
    assert counted("dgx-h100")["links"] == {"scale-up": 16, "NIC up": 8, "NIC down": 8}
    assert main(["network", "mi355x-cluster"]) == 0
    assert "leaf 0.125:1 (not all its places are taken)" in capsys.readouterr().out


def test_a_torus_has_its_bisection_and_diameter() -> None:
    """A cube of 16: two cuts of 256 links of 50 GB/s, and 3 x 8 links to the farthest."""
    found = counted("tpu-v4-pod")
    assert (found["bisection"], found["longest_way"]) == (2 * 256 * 50e9, 24)
    assert counted("dgx-h100", "--nodes", "2")["longest_way"] == 4


def test_every_form_is_written_and_links_are_named(capsys: Capture) -> None:
    routing = {"policy": "ecmp", "seed": 4, "connections": 2}
    name = write(LEAVES | {"routing": routing})
    load = ["--op", "all_reduce", "--size", "1GB", "--algorithm", "ring", "--way", "0", "63"]
    assert main(["network", name, *load, "--png", "a.png", "--svg", "a.svg", "--html", "a.html"]) == 0
    shown = capsys.readouterr().out
    assert "leaf.0.0 > spine" in shown.replace(" ", ".", 1) or "leaf 0.0 > spine 0." in shown
    assert "flow 0  NIC up 0 (NIC 0 of node 0 > leaf 0.0)" in shown and "flow 1" in shown
    assert "Busiest links in all_reduce" in shown
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.svg").read_text().startswith("<svg") and "16 x" not in Path("a.svg").read_text()
    page = Path("a.html").read_text()
    assert re.search(r"<th[^>]*>bytes</th>", page)
    assert "<svg" in page and "Busiest links" in page and "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize("cluster", ["selene", "frontier", "tpu-v5e-pod", "gb200-nvl72", "server-8x-rtx-3090", "gh200"])
def test_shipped_clusters_are_drawn(cluster: str) -> None:
    assert main(
        ["network", cluster, "--nodes", "1" if cluster.startswith("server") else "64", "--svg", "a.svg", "--quiet"]
    ) in (0, 2)


def test_links_around_a_slice_are_stubs() -> None:
    """Two slices of 2 x 2 x 4, each with 28 links, 4 seams of two stubs, and 16 cards; two ways to the core."""
    slices = {"kind": "multislice", "shape": [2, 2, 4], "bandwidth": figure("100 GB/s"), "latency": figure("1 us")}
    name = write(slices, 8, "nodes/tpu-v5p-host")
    assert main(["network", name, "--svg", "a.svg", "--quiet"]) == 0
    assert Path("a.svg").read_text().count("<path") == 2 * (28 + 2 * 4 + 16 + 1)


BAD = {
    "a rank that is not there": ((LEAVES, ("--way", "0", "64")), "there is no rank 64"),
    "a rank that is no number": ((LEAVES, ("--way", "0", "x")), "'x' is no rank"),
    "parts that are not there": ((LEAVES, ("--parts", "gold")), "there is no network `gold`"),
    "a collective without a size": ((LEAVES, ("--op", "all_reduce")), "`--op` and `--size` need each other"),
    "an unknown collective": ((LEAVES, ("--op", "all_around", "--size", "1GB")), "unknown collective"),
    "too large to draw": ((LEAVES, ("--nodes", "5000", "--svg", "a.svg")), "too many to draw"),
    "a network in parts": (
        ({"kind": "graph", "hosts": [{"nodes": 4, "switches": ["a"]}, {"nodes": 4, "switches": ["b"]}]}, ()),
        "the network is in parts: no way leads from `switch b` to `switch a`",
    ),
    "no bandwidth": (
        ({"kind": "full-mesh", "shape": [8], "bandwidth": figure("0 GB/s")}, ()),
        "write more than 0",
    ),
    "negative bandwidth": (
        ({"kind": "full-mesh", "shape": [8], "bandwidth": figure("-5 GB/s")}, ()),
        "network.bandwidth.value",
    ),
    "absurd bandwidth": (
        ({"kind": "full-mesh", "shape": [8], "bandwidth": figure("1e30 GB/s")}, ()),
        "network.bandwidth.value",
    ),
    "bandwidth that is no number": (
        ({"kind": "full-mesh", "shape": [8], "bandwidth": figure("fast")}, ()),
        "network.bandwidth.value",
    ),
    "a seed that is no number": (
        (LEAVES | {"routing": {"policy": "ecmp", "seed": "lucky"}}, ()),
        "network.routing.seed: `lucky` is not",
    ),
    "an unknown policy": ((LEAVES | {"routing": {"policy": "best"}}, ()), "network.routing.policy"),
    "a cable from a switch to itself": (
        (
            {
                "kind": "graph",
                "hosts": [{"nodes": 8, "switches": ["a"]}],
                "cables": [{"between": ["a", "a"], "bandwidth": "1 GB/s"}],
            },
            (),
        ),
        "a cable from `a` to itself",
    ),
    "keys of another kind": ((LEAVES | {"global_links": 3}, ()), "no key of kind `leaf-spine`, which has `routing`"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_networks_are_refused_in_one_message(name: str, capsys: Capture) -> None:
    (network, arguments), words = BAD[name]
    assert main(["network", write(network), *arguments]) == 2
    found = capsys.readouterr().err
    assert words in found and "Traceback" not in found
