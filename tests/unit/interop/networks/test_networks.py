"""Networks that other programs describe, read and refused through the command line."""

import json
from pathlib import Path

import pytest

from simulator import collectives, fabric
from simulator.cli import main
from simulator.fabric import Fabric
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from tests.matrices import mpigraph, table

Capture = pytest.CaptureFixture[str]

CONF = """\
# two leaves and a spine
SwitchName=leaf0 Nodes=n[0-15]
SwitchName=leaf1 Nodes=n[16-30,31] LinkSpeed=100
SwitchName=spine Switches=leaf[0-1]
"""
TREE = """\
- {topology: t, cluster_default: true, tree: {switches: [{switch: spine, children: "leaf[0-1]"},
   {switch: leaf0, nodes: "n[0-15]"}, {switch: leaf1, nodes: "n[16-31]"}]}}
"""
BLOCKS = "BlockName=b0 Nodes=n[0-17]\nBlockName=b1 Nodes=n[18-35]\nBlockSizes=18,36\n"
GPU = """<pci busid="0000:{0}:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
  <gpu dev="{1}" sm="90" rank="{1}" gdr="1">{2}</gpu></pci>"""
NET = '<pci class="0x020700"><nic><net name="mlx5_{0}" dev="{0}" speed="400000" port="1" gdr="1"/></nic></pci>'
NVSWITCH = '<nvlink target="0000:99:00.0" count="18" tclass="0x068000"/>'


def xml(links: list[str], nets: int = 2, head: str = "") -> str:
    """Two devices a PCIe switch, with these NVLinks each."""
    pairs = [links[i : i + 2] for i in range(0, len(links), 2)]
    bridges = [
        f'<pci busid="0000:f{i}:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">'
        + "".join(GPU.format(f"{2 * i + j:02x}", 2 * i + j, link) for j, link in enumerate(pair))
        + "</pci>"
        for i, pair in enumerate(pairs)
    ]
    cards = "".join(NET.format(i) for i in range(nets))
    return f'{head}<system version="1"><cpu numaid="0" arch="x86_64">{"".join(bridges)}{cards}</cpu></system>'


GRAPH = {
    "directed": False,
    "nodes": [{"id": "a", "kind": "node"}, {"id": "b", "kind": "host"}, {"id": "s0"}, {"id": "s1"}],
    "links": [
        {"source": "a", "target": "s0"},
        {"source": "s1", "target": "b"},
        {"source": "s0", "target": "s1", "bandwidth": "200 Gbit/s", "latency": "1 us", "count": 2},
    ],
}
LONG = "9" * 5000
FORMAT = ("--format", "astra-sim")
ASTRA = "topology: [{0}]\nnpus_count: [{1}]\nbandwidth: [{2}]\nlatency: [{3}]\n"


def made(folder: Path, name: str, text: str, *arguments: str) -> tuple[Cluster, Fabric]:
    """The cluster file that an import writes, loaded and built."""
    (folder / name).write_text(text)
    out = str(folder / "made.yaml")
    assert main(["import", str(folder / name), "--cluster", "dgx-h100", "--out", out, "--force", *arguments]) == 0
    cluster = load_spec(Cluster, out)
    return cluster, fabric.build(cluster)


def way(machine: Fabric, src: int, dst: int) -> list[str]:
    return [machine.network.ends(link - machine.first_outer) for link in machine.route(src, dst)][1:-1]


@pytest.mark.parametrize(("name", "text"), [("topology.conf", CONF), ("topology.yaml", TREE)])
def test_slurm_trees(tmp_path: Path, name: str, text: str) -> None:
    cluster, machine = made(tmp_path, name, text)
    assert cluster.nodes == 32
    assert way(machine, 0, 8 * 31) == ["switch leaf0 > switch spine", "switch spine > switch leaf1"]
    assert way(machine, 0, 8 * 15) == []
    assert machine.capacity[machine.route(0, 8 * 31)[1]] == 16 * 8 * 50e9  # all that comes from below


@pytest.mark.parametrize(("name", "text"), [("site.conf", CONF), ("net", CONF), ("my.yml", TREE), ("my.yaml", TREE)])
def test_slurm_shows_in_what_a_file_says(tmp_path: Path, name: str, text: str) -> None:
    assert made(tmp_path, name, text)[0].nodes == 32


def test_slurm_rings_and_tori_are_cables_between_neighbours(tmp_path: Path) -> None:
    ring = '- topology: r\n  ring:\n    rings:\n    - {ring: r0, nodes: "n[0-5]"}\n'
    cluster, machine = made(tmp_path, "topology.yaml", ring)
    assert (cluster.nodes, cluster.network.kind) == (6, "graph")
    assert way(machine, 0, 8) == ["switch n0 > switch n1"] and way(machine, 0, 8 * 5) == ["switch n0 > switch n5"]
    assert len(way(machine, 0, 8 * 3)) == 3
    assert len(machine.capacity) - machine.first_outer == 2 * 6 * 8 + 2 * 6
    assert machine.capacity[machine.route(0, 8)[1]] == 8 * 50e9  # what the cards of a node do
    torus = '- topology: t\n  torus3d: {toruses: [{name: t0, dims: {x: 4, y: 3, z: 2}, nodes: "n[00-23]"}]}\n'
    cluster, machine = made(tmp_path, "topology.yaml", torus)
    assert cluster.nodes == 24
    steps = {1: 1, 3: 1, 2: 2, 4: 1, 8: 1, 12: 1, 16: 2, 23: 3}  # x first; 8 is the third row of y, which closes
    assert {node: len(way(machine, 0, 8 * node)) for node in steps} == steps
    assert len(machine.capacity) - machine.first_outer == 2 * 24 * 8 + 2 * (24 + 24 + 12)


def test_slurm_blocks_meet_above(tmp_path: Path, capsys: Capture) -> None:
    cluster, machine = made(tmp_path, "topology.conf", BLOCKS)
    assert "assumed: blocks meet in one switch" in capsys.readouterr().out
    assert cluster.nodes == 36
    assert way(machine, 0, 8 * 18) == ["switch b0 > switch core", "switch core > switch b1"]


def test_what_blocks_meet_in_has_a_name_of_its_own(tmp_path: Path, capsys: Capture) -> None:
    text = BLOCKS.replace("b0", "core").replace("b1", "core-1")
    _, machine = made(tmp_path, "topology.conf", text)
    assert way(machine, 0, 8 * 18) == ["switch core > switch core-2", "switch core-2 > switch core-1"]
    (tmp_path / "topology.conf").write_text("SwitchName=core Nodes=a\nSwitchName=b Nodes=b\n")
    assert main(["import", str(tmp_path / "topology.conf"), "--cluster", "dgx-h100"]) == 2
    assert "`SwitchName=core-1 Switches=core,b`" in capsys.readouterr().err


def test_slurm_keys_without_a_value_and_dates_are_what_they_say(tmp_path: Path) -> None:
    tree = """- {topology: u, cluster_default: no, flat: true}
- {topology: t, cluster_default: yes, tree: {switches: [{switch: 0, nodes: null, children: "a,b"},
   {switch: a, nodes: 2001-99-99, children: null}, {switch: b, nodes: "n[0-2]"}]}}
"""
    assert made(tmp_path, "topology.yaml", tree)[0].nodes == 4


def test_dimensions_of_one_npu_are_none(tmp_path: Path) -> None:
    for kinds, counts, nodes in (("Ring, Ring, Ring", "8, 1, 1", 1), ("Ring, Ring, Switch", "8, 1, 4", 4)):
        cluster, _ = made(tmp_path, "net.yml", ASTRA.format(kinds, counts, "9, 8, 7", "1, 2, 3"))
        less, _ = made(tmp_path, "net.yml", ASTRA.format("Ring, Switch", f"8, {nodes}", "9, 7", "1, 3"))
        assert (cluster.nodes, cluster.network) == (nodes, less.network)


def test_nccl_nodes_of_every_kind(tmp_path: Path) -> None:
    cluster, machine = made(tmp_path, "topo.xml", xml([NVSWITCH] * 8, nets=4))
    node = cluster.node
    assert (node.devices, node.scale_up.kind, node.nics and node.nics.count) == (8, "switch", 4)
    assert machine.capacity[0] == pytest.approx(18 * 20.6e9) and node.nics and node.nics.bandwidth.value == 50e9
    assert node.accelerator.name == load_spec(Cluster, "dgx-h100").node.accelerator.name
    direct = [f'<nvlink target="0000:{peer:02x}:00.0" count="4" tclass="0x030200"/>' for peer in (1, 0)]
    cluster, machine = made(tmp_path, "topo.xml", xml(direct))
    assert cluster.node.scale_up.kind == "links" and machine.capacity[0] == pytest.approx(4 * 20.6e9)
    cluster, machine = made(tmp_path, "topo.xml", xml([""] * 4))
    assert (cluster.node.scale_up.kind, cluster.node.scale_up.switch_devices) == ("pcie", 2)
    assert [len(machine.route(0, other)) for other in (1, 2, 3)] == [2, 4, 4] and machine.capacity[0] == 48e9


def test_networkx_graphs(tmp_path: Path) -> None:
    cluster, machine = made(tmp_path, "graph.json", json.dumps(GRAPH), "--format", "networkx")
    assert cluster.nodes == 2 and way(machine, 0, 8) == ["switch s0 > switch s1"]
    assert machine.capacity[machine.route(0, 8)[1]] == 25e9 and machine.kinds[-1] == "cable down"
    assert len(machine.capacity) - machine.first_outer == 4 * 8 + 2 * 2


@pytest.mark.parametrize(
    ("dimensions", "nodes", "inside", "between", "far"),
    [
        (("Ring, Switch", "8, 4", "400, 50", "500, 1500"), 4, "ring", "tree", 50e9),
        (("Switch, FullyConnected", "8, 4", "450, 50", "500, 700"), 4, "switch", "full-mesh", 50e9),
        (("FullyConnected, Ring", "4, 6", "100, 25", "500, 700"), 6, "mesh", "graph", 25e9),
        (("Switch, Switch, Switch", "8, 4, 4", "450, 50, 25", "500, 700, 900"), 16, "switch", "tree", 50e9),
        (("Switch", "8", "450", "250"), 1, "switch", "tree", 450e9),
    ],
)
def test_astra_sim_dimensions(
    tmp_path: Path, dimensions: tuple[str, ...], nodes: int, inside: str, between: str, far: float
) -> None:
    cluster, machine = made(tmp_path, "net.yml", ASTRA.format(*dimensions), "--format", "astra-sim")
    assert (cluster.nodes, cluster.node.scale_up.kind, cluster.network.kind) == (nodes, inside, between)
    last = machine.route(0, machine.devices - 1)
    assert min(machine.capacity[link] for link in last) == pytest.approx(far)
    if nodes == 16:
        assert cluster.network.levels[0].oversubscription == 2


@pytest.mark.parametrize(
    ("dimensions", "ways"),
    [
        (("Ring, Switch", "8, 4", "400, 50", "500, 1500"), {(0, 1): 500, (0, 4): 2000, (0, 8): 3000}),
        (("Switch, FullyConnected", "8, 4", "450, 50", "500, 700"), {(0, 5): 1000, (0, 24): 700}),
        (
            ("FullyConnected, Ring", "4, 6", "100, 25", "500, 700"),
            {(0, 3): 500, (0, 4): 700, (1, 13): 2100, (0, 20): 700},
        ),
        (("Switch, Ring", "4, 2", "100, 25", "500, 700"), {(0, 3): 1000, (0, 4): 700}),
        (("Switch, Switch, Switch", "2, 2, 2", "9, 8, 7", "500, 700, 900"), {(0, 1): 1000, (0, 2): 1400, (0, 4): 1800}),
        (
            ("Switch, Switch, Switch, Switch", "2, 2, 2, 2", "9, 8, 7, 6", "500, 700, 900, 1300"),
            {(0, 2): 1400, (0, 4): 1800, (0, 8): 2600},
        ),
        (
            ("Ring, FullyConnected, Switch", "4, 3, 2", "400, 50, 25", "500, 700, 900"),
            {(0, 2): 1000, (0, 4): 700, (0, 8): 700, (0, 12): 1800, (0, 20): 2500, (0, 21): 3000},
        ),
        (
            ("Ring, Ring, Switch", "2, 5, 3", "400, 50, 25", "500, 700, 900"),
            {(0, 1): 500, (0, 2): 700, (0, 4): 1400, (0, 6): 1400, (0, 8): 700, (0, 10): 1800, (0, 14): 3200},
        ),
        (
            ("Switch, Switch, Ring", "2, 2, 4", "9, 8, 7", "500, 700, 900"),
            {(0, 2): 1400, (0, 4): 900, (0, 8): 1800, (0, 12): 900, (0, 3): 2400},
        ),
    ],
)
def test_astra_sim_counts_hops(tmp_path: Path, dimensions: tuple[str, ...], ways: dict[tuple[int, int], float]) -> None:
    """Its analytical backend: a switch two hops, a cable one, a ring the shorter way; the format shows in the file."""
    _, machine = made(tmp_path, "net.yml", ASTRA.format(*dimensions))
    for (one, other), nanoseconds in ways.items():
        wire = machine.latency[list(machine.route(one, other))].sum()
        assert wire == pytest.approx(nanoseconds * 1e-9), (one, other)


@pytest.mark.parametrize(
    ("kinds", "dimension", "apart", "share", "links"),
    [
        ("Switch, Ring, FullyConnected", 1, 2, 3 / 5, 60),  # one hop, and two of the way of each neighbour but one
        ("Switch, Ring, FullyConnected", 2, 10, 1 / 3, 60),  # a link from each to each of two
        ("Ring, FullyConnected, Switch", 1, 2, 1 / 5, 120),
        ("Ring, FullyConnected, Switch", 2, 10, 2 / 3, 60),  # up to the switch and down from it, 30 each
        ("Ring, Ring, Ring", 2, 10, 1 / 3, 60),
    ],
)
def test_links_of_astra_sim_carry_what_their_dimension_sends(
    tmp_path: Path, kinds: str, dimension: int, apart: int, share: float, links: int
) -> None:
    """An all-to-all along one dimension of 2 x 5 x 3, all its groups at once: bytes of every link, and the time."""
    size, rate = 3e9, (400e9, 50e9, 25e9)[dimension]
    _, machine = made(tmp_path, "net.yml", ASTRA.format(kinds, "2, 5, 3", "400, 50, 25", "500, 700, 900"))
    count = (2, 5, 3)[dimension]
    groups = [[first + at * apart for at in range(count)] for first in range(30) if first // apart % count == 0]
    profile = load_spec(CollectiveProfile, "collectives/nccl-h100")
    cost = collectives.cost_of("all_to_all", groups, size, machine, profile)
    cables = slice(machine.first_outer + 2 * 30, None)
    mine = machine.capacity[cables] == rate
    assert cost.load[cables][mine] == pytest.approx([size * share] * links)
    assert not cost.load[cables][~mine].any()
    sent = machine.capacity[machine.first_outer]  # a card has the rates of all links that leave the node
    each = {"Switch, Ring, FullyConnected": (2, 2), "Ring, FullyConnected, Switch": (4, 1), "Ring, Ring, Ring": (2, 2)}
    assert sent == each[kinds][0] * 50e9 + each[kinds][1] * 25e9


def test_a_level_of_astra_sim_that_is_quicker_than_the_way_to_it_is_said(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "net.yml").write_text(ASTRA.format("Switch, Switch, Switch", "2, 2, 2", "9, 8, 7", "500, 700, 600"))
    assert main(["import", str(tmp_path / "net.yml"), "--cluster", "dgx-h100"]) == 0
    assert "assumed: hops of dimension-2 are no quicker than the way through those below" in capsys.readouterr().out


BAD = {
    "xml that is malformed": ("t.xml", "<system><cpu>", (), "t.xml:1:14: is malformed XML"),
    "xml with entities": (
        "t.xml",
        '<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + xml([NVSWITCH]),
        (),
        "document type or",
    ),
    "xml that opens files": (
        "t.xml",
        '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system>&x;</system>',
        (),
        "document type or",
    ),
    "xml of another program": ("t.xml", "<html></html>", (), "no topology of NCCL"),
    "xml that is deep": ("t.xml", "<a>" * 60 + "</a>" * 60, (), "too deep"),
    "a capability that is no number": ("t.xml", xml([NVSWITCH] * 2).replace('sm="90"', 'sm="x"'), (), "`sm` of <gpu>"),
    "a card without speed": ("t.xml", xml([NVSWITCH] * 2).replace("400000", "-1"), (), "`speed` of <net>"),
    "slurm of nothing": ("topology.conf", "# none\n", (), "names no nodes"),
    "slurm hosts": ("topology.conf", "SwitchName=a Nodes=n[3-1]\n", (), "topology.conf:1: `n[3-1]` is no list"),
    "a slurm switch that is not there": ("topology.conf", "SwitchName=a Switches=b\n", (), "a switch `b` that is not"),
    "slurm words": ("topology.conf", "Frobnicate=1\n", (), "names neither a switch nor a block"),
    "slurm twice": ("topology.conf", "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", (), "there twice"),
    "slurm in a circle": (
        "topology.conf",
        "SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=a\n",
        (),
        "lead back to",
    ),
    "a slurm number that is long": ("topology.conf", f"SwitchName=a Nodes=n[{LONG}]\n", (), "is no list of hosts"),
    "a slurm list that is long": (
        "topology.conf",
        "SwitchName=a Nodes=a[0-150000],b[1-50000]\n",
        (),
        "topology.conf:1: more than 200,000 names",
    ),
    "slurm lists that are long": (
        "topology.conf",
        "SwitchName=a Nodes=a[0-150000]\nSwitchName=b Nodes=b[1-50000]\n",
        (),
        "topology.conf:2: more than 200,000 names",
    ),
    "a slurm host below two": (
        "topology.conf",
        "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[2-5]\n",
        (),
        "topology.conf:2: `b` names the node `n2`, which `a` has",
    ),
    "a slurm switch below two": (
        "topology.conf",
        "SwitchName=a Nodes=n\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n",
        (),
        "topology.conf:3: `c` joins the switch `a`, which `b` joins",
    ),
    "slurm nodes in a list": ("topology.yaml", TREE.replace('"n[0-15]"', "[n1, n2]"), (), ":2: `nodes` is no text"),
    "slurm nodes of a number": ("topology.yaml", TREE.replace('"n[0-15]"', "12"), (), "write a host list"),
    "slurm numbers that are long": ("topology.yaml", TREE.replace('"n[0-15]"', LONG), (), "5000 digits is too long"),
    "slurm switches without a name": ("topology.yaml", TREE.replace("leaf0,", "null,"), (), "`switch` is no name"),
    "slurm tori without end": (
        "topology.yaml",
        f"- {{topology: t, torus3d: {{toruses: [{{name: a, dims: {{x: 2, y: 2, z: 0x{LONG[:90]}}}}}]}}}}\n",
        (),
        "`a` has no `dims`",
    ),
    "slurm tori": ("topology.yaml", "- {topology: t, torus3d: {toruses: []}}\n", (), "no list of `toruses`"),
    "slurm tori by regions": (
        "topology.yaml",
        "- topology: t\n  torus3d:\n    toruses:\n    - {name: a, dims: {x: 2, y: 2, z: 2}, regions: []}\n",
        (),
        "topology.yaml:4: `a` places its nodes by `regions`, which are not read",
    ),
    "slurm tori of other sizes": (
        "topology.yaml",
        '- {topology: t, torus3d: {toruses: [{name: a, dims: {x: 2, y: 2, z: 2}, nodes: "n[0-6]"}]}}\n',
        (),
        "`a` has 8 places and names 7 nodes",
    ),
    "slurm rings apart": (
        "topology.yaml",
        "- topology: t\n  ring: {rings: [{ring: a, nodes: x},\n   {ring: b, nodes: y}]}\n",
        (),
        "topology.yaml:3: nothing joins `b` to `a`",
    ),
    "slurm flat": ("topology.yaml", "- {topology: t, flat: true}\n", (), "`flat` says nothing of the network"),
    "slurm trees apart": (
        "topology.conf",
        CONF + "SwitchName=leaf2 Nodes=m[0-3]\nSwitchName=other Switches=leaf2\n",
        (),
        "topology.conf:6: nothing joins the tree below `other` to the one below `spine`; "
        "write what does, `SwitchName=core Switches=spine,other`",
    ),
    "slurm trees apart in yaml": (
        "topology.yaml",
        "- topology: t\n  tree:\n    switches:\n    - {switch: a, nodes: x}\n    - {switch: b, nodes: y}\n",
        (),
        "topology.yaml:5: nothing joins the tree below `b` to the one below `a`; "
        'write what does, `{switch: core, children: "a,b"}`',
    ),
    "a graph that is no json": ("g.json", "{", ("--format", "networkx"), "g.json:1:2: is no JSON"),
    "a graph in parts": (
        "g.json",
        json.dumps(GRAPH | {"links": GRAPH["links"][:2]}),
        ("--format", "networkx"),
        "no way leads from",  # type: ignore[index]
    ),
    "a graph without nodes": (
        "g.json",
        json.dumps({"nodes": [{"id": 1}], "edges": []}),
        ("--format", "networkx"),
        "no point",
    ),
    "a cable without a rate": (
        "g.json",
        json.dumps(GRAPH).replace('"bandwidth"', '"speed"'),
        ("--format", "networkx"),
        "has no bandwidth",
    ),
    "a cable of nothing": ("g.json", json.dumps(GRAPH).replace("200 G", "0 G"), ("--format", "networkx"), "cables"),
    "a cable to nowhere": (
        "g.json",
        json.dumps(GRAPH).replace('"s1", "t', '"s9", "t'),
        ("--format", "networkx"),
        "no point `s9`",
    ),
    "dimensions": ("n.yml", ASTRA.format("Cube", "8", "1", "1"), ("--format", "astra-sim"), "`Cube` is not Ring"),
    "npus of many digits": ("n.yml", ASTRA.format("Ring", LONG, "1", "1"), FORMAT, "n.yml:2:14: a number of 5000"),
    "npus of a date": ("n.yml", ASTRA.format("Ring", "2001-99-99", "1", "1"), FORMAT, "`2001-99-99` is no number"),
    "npus": ("n.yml", ASTRA.format("Ring", "0", "1", "1"), ("--format", "astra-sim"), "`0` is no number of NPUs"),
    "rates": ("n.yml", ASTRA.format("Ring", "8", "-1", "1"), ("--format", "astra-sim"), "`-1` is out of range"),
    "npus that no file holds": (
        "n.yml",
        ASTRA.format("Ring, Ring, Ring", "8, 32, 32", "9, 9, 9", "1, 1, 1"),
        ("--format", "astra-sim"),
        "24,576 cables of their own; up to 12,000 are modelled",
    ),
    "lists": ("n.yml", ASTRA.format("Ring, Ring", "8", "1", "1"), ("--format", "astra-sim"), "an entry for each"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_is_refused_in_one_line(case: str, tmp_path: Path, capsys: Capture) -> None:
    name, text, arguments, words = BAD[case]
    (tmp_path / name).write_text(text)
    assert main(["import", str(tmp_path / name), "--cluster", "dgx-h100", *arguments]) == 2
    found = capsys.readouterr().err
    assert words in found and "Traceback" not in found and found.count("\n") <= 3


def test_mpigraph_is_told_by_its_first_line(tmp_path: Path, capsys: Capture) -> None:
    rates = [[0, 14000, 12000], [11000, 0, 13000], [12000, 13000, 0]]
    cluster, machine = made(tmp_path, "rates.txt", "mlx5_0:1\n" + mpigraph(rates))
    assert (cluster.nodes, cluster.network.kind) == (3, "pairs")
    assert machine.capacity[machine.route(0, 8)[1]] == 14000 * 2**20
    assert machine.capacity[machine.route(8, 0)[1]] == 11000 * 2**20
    said = capsys.readouterr().out
    assert "3 nodes, pairs of 11.5 GB/s to 14.7 GB/s" in said and "`n0` to `n1` has 1.27 times the way back" in said
    assert "of: card" in said  # eight cards, and one figure
    _, machine = made(tmp_path, "rates.csv", table("GB/s", rates), "--nodes", "2")
    assert machine.numbering.all_nodes == 2
    assert "one matrix only" in capsys.readouterr().out


def test_a_wrong_matrix_is_refused_with_its_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "rates.out"
    path.write_text(mpigraph([[0, 14000], [-3, 0]]))
    assert main(["import", str(path), "--cluster", "dgx-h100"]) == 2
    said = capsys.readouterr().err
    assert "rates.out:7" in said and "has `-3.000` from `n1:1` to `n0:0`" in said and "Traceback" not in said
