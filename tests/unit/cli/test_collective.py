"""`clustersim collective`: one collective, dispatch or combine on a cluster."""

import json
from pathlib import Path

import pytest

from simulator.cli import main
from simulator.report.collective import plots
from simulator.results.documents.collective import CollectiveCurve, CollectiveSweepDocument, SizedCollective
from simulator.specs import data_root

TOKENS = ["--tokens", "4096", "--hidden", "7168", "--top-k", "8", "--experts", "256"]
Capture = pytest.CaptureFixture[str]


def test_a_dispatch_shows_what_the_network_and_the_node_carry(capsys: Capture) -> None:
    asked = ["collective", "h800-cluster", "--op", "moe_dispatch", "--library", "deepep", "--ranks", "64", *TOKENS]
    assert main([*asked, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    token = 4096 * 7392
    assert (found["operation"], found["nodes"], found["algorithm"]) == ("dispatch", 8, "node_multicast/kernels")
    assert found["size_bytes"] == 8 * token
    assert found["busiest_bytes"]["NIC up"] == pytest.approx(token * 5.2947 * 7 / 8, rel=1e-3)
    assert found["busiest_bytes"]["scale-up"] == pytest.approx(token * 7.6802 * 7 / 8, rel=1e-2)
    assert main([*asked, "--groups", "8", "--group-limit", "4"]) == 0
    assert "NIC up, which decides" not in (shown := capsys.readouterr().out)
    assert "dispatch of 242 MB by 64 ranks on 8 nodes" in shown


def test_a_hot_rank_takes_longer(capsys: Capture) -> None:
    asked = ["collective", "dgx-h100", "--op", "combine", "--ranks", "8", *TOKENS, "--json", "-"]
    times = []
    for load in ([], ["--load", "3,1,1,1,1,1,1,1"]):
        assert main([*asked, *load]) == 0
        times.append(json.loads(capsys.readouterr().out)["moving_s"])
    assert times[1] / times[0] == pytest.approx(2.4, rel=0.05)


def test_an_engine_sums_by_its_own_kernels_where_it_does(capsys: Capture) -> None:
    """vLLM on eight H100: one shot to 16 KB or so, two beyond, the library from 4 MiB on and between nodes."""
    for size, ranks, ran in (
        ("4KB", "8", "one shot"),
        ("1MB", "8", "two shots"),
        ("8MB", "8", "nvls"),
        ("1MB", "16", "/"),
    ):
        asked = ["collective", "dgx-h100", "--op", "all_reduce", "--size", size, "--ranks", ranks, "--json", "-"]
        assert main([*asked, "--library", "vllm"]) == 0
        own = json.loads(capsys.readouterr().out)
        assert main(asked) == 0
        library = json.loads(capsys.readouterr().out)
        assert ran in own["algorithm"]
        assert (own["library"] == "kernels of vllm") == (own["time_s"] < library["time_s"]) == ("shot" in ran)


def test_kernels_of_an_engine_over_sizes(capsys: Capture) -> None:
    asked = [
        "collective",
        "dgx-h100",
        "--op",
        "all_reduce",
        "--sizes",
        "4K:16M:64",
        "--ranks",
        "8",
        "--library",
        "vllm",
    ]
    assert main([*asked, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    ran = [(one["algorithm"], one["protocol"]) for one in found["curves"][0]["sizes"]]
    assert ran == [("one shot", "vllm"), ("two shots", "vllm"), ("nvls", "NVLS")]
    assert found["library"].startswith("kernels of vllm, NCCL")
    assert all(one["launch_s"] + one["moving_s"] <= one["time_s"] * 1.001 for one in found["curves"][0]["sizes"])
    assert main([*asked, "--format", "fp8"]) == 2
    assert "send elements as they are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["l40s-cluster", "--op", "all_reduce"], "kernels of `vllm` are not known beside"),
        (["dgx-h100", "--op", "all_gather"], "or vllm, sglang, trtllm for all_reduce"),
        (["dgx-h100", "--op", "all_reduce", "--algorithm", "ring"], "chooses between its own kernels"),
    ],
)
def test_where_an_engine_has_no_kernels_of_its_own(arguments: list[str], words: str, capsys: Capture) -> None:
    assert main(["collective", *arguments, "--size", "64KB", "--ranks", "8", "--library", "vllm"]) == 2
    assert words in capsys.readouterr().err


def test_other_collectives_take_a_size_and_more_nodes_than_the_profile_has(capsys: Capture) -> None:
    assert main(["collective", "dgx-h100", "--op", "all-reduce", "--size", "64MB", "--ranks", "16"]) == 0
    assert "all_reduce of 64.0 MB by 16 ranks on 2 nodes of DGX H100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--op", "all_reduce"], "needs `--size`"),
        (["--op", "all_reduce", "--size", "64XB"], "unknown unit"),
        (["--op", "all_reduce", "--size", "64MB", "--tokens", "5"], "`--tokens` has no meaning"),
        (["--op", "dispatch", *TOKENS[:4]], "needs `--top-k`, `--experts`"),
        (["--op", "dispatch", *TOKENS, "--size", "1MB"], "`--size` has no meaning"),
        (["--op", "dispatch", *TOKENS, "--format", "fp9"], "unknown format"),
        (["--op", "dispatch", *TOKENS, "--library", "nccl-h100"], "dispatches no tokens"),
        (["--op", "dispatch", *TOKENS, "--load", "1,2"], "a load of 2 ranks for 8"),
        (["--op", "scan", "--size", "64MB"], "unknown collective `scan`"),
        (["--op", "all_reduce", "--size", "64MB", "--ranks", "16", "--nodes", "1"], "16 ranks on 8 devices"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str, capsys: Capture) -> None:
    assert main(["collective", "dgx-h100", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("alltoall", "all_to_all"),
        ("sendrecv", "shift"),
        ("reduce", "broadcast"),
        ("reduce-scatter", "reduce_scatter"),
        ("AllGather", "all_gather"),
        ("all_reduce_perf", "all_reduce"),
    ],
)
def test_names_of_nccl_tests_mean_operations_of_ours(theirs: str, ours: str, capsys: Capture) -> None:
    def figures(operation: str, *sized: str) -> str:
        asked = ["collective", "dgx-h100", "--op", operation, "--ranks", "8", *sized, "--json", "-"]
        assert main(asked) == 0
        return capsys.readouterr().out

    for sized in (("--size", "64MB"), ("--sizes", "64M")):
        assert figures(theirs, *sized) == figures(ours, *sized)
    assert main(["collective", "dgx-h100", "--op", theirs, "--ranks", "8", "--size", "64MB"]) == 0
    told = theirs in ("reduce", "sendrecv")  # no mere spellings
    assert (f"  {theirs}: " in capsys.readouterr().out) == told


def over_sizes(*more: str) -> list[str]:
    return ["collective", "dgx-h100", "--op", "all_reduce", "--sizes", "1K:1G:1024", *more]


def test_sizes_have_the_columns_of_nccl_tests_and_what_bounds_them(capsys: Capture) -> None:
    assert main([*over_sizes("--ranks", "16"), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    (curve,) = found["curves"]
    sizes = curve["sizes"]
    assert [one["size_bytes"] for one in sizes] == [2.0**10, 2.0**20, 2.0**30]
    for one in sizes:
        assert one["busbw_bytes_per_s"] == pytest.approx(one["size_bytes"] / one["time_s"] * 2 * 15 / 16)
        assert one["time_s"] == pytest.approx(one["launch_s"] + one["hops_s"] + one["moving_s"])
    assert [one["bound"] for one in sizes] == ["hops", "hops", "scale-up"]
    assert main(over_sizes("--ranks", "16")) == 0
    shown = capsys.readouterr().out
    assert "algbw    busbw  algorithm            bound by" in shown
    assert "█" in shown


def test_elements_may_travel_in_another_format(capsys: Capture) -> None:
    def times(operation: str, *more: str) -> list[float]:
        asked = ["collective", "dgx-h100", "--op", operation, "--ranks", "8", "--sizes", "1G:4G", *more, "--json", "-"]
        assert main(asked) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["dtype"] == ("float" if "--format" not in more else f"float, sent as {more[-1]}")
        return [one["time_s"] for one in found["curves"][0]["sizes"]]

    # An all-gather of four bytes in one takes as long as one of a quarter of the size.
    assert times("all_gather", "--format", "int8")[2] == pytest.approx(times("all_gather")[0])
    assert times("all_reduce", "--format", "int8")[2] == pytest.approx(times("all_reduce", "--algorithm", "direct")[0])
    assert times("all_reduce", "--format", "fp8")[0] > times("all_reduce", "--format", "int8")[0]
    assert main(over_sizes("--ranks", "8", "--format", "int8", "--algorithm", "ring")) == 2
    assert "made by direct transfers only" in capsys.readouterr().err
    assert main(over_sizes("--ranks", "8", "--format", "int9")) == 2
    assert "unknown format of tokens `int9`" in capsys.readouterr().err


def test_algorithms_are_compared_and_drawn(tmp_path: Path, capsys: Capture) -> None:
    assert main([*over_sizes("--all-algorithms"), "--plots", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "* the fastest" in shown
    assert "halving_doubling/LL" in shown
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{form}" for name in ("bus_bandwidth", "time") for form in ("png", "svg")
    }


def test_a_plot_shows_no_more_curves_than_can_be_told_apart() -> None:
    """Of 30 algorithms every third lies on the one before: the library's own and the 12 nearest to the fastest."""

    def curve(name: str, seconds: float) -> CollectiveCurve:
        return CollectiveCurve(name, (SizedCollective(1e6, 1, seconds, 0.0, 0.0, name, "", "", 0.0, 0.0, 0.0),))

    others = [curve(f"a{i}", 1e-3 * (30 - i + (i % 3 == 2))) for i in range(30)]
    document = CollectiveSweepDocument("all_reduce", "c", "l", 8, 1, 1, "float", (curve("library", 1e-3), *others))
    names = [one.name for one in plots.shown(document)]
    assert len(names) == plots.MOST
    assert names[-1] == "a28"
    assert names == sorted(names, key=lambda name: int(name[1:]))
    assert not {f"a{i}" for i in range(30) if i % 3 == 2} & set(names)


def test_a_log_stands_beside(tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "log"
    log.write_text(
        "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "1048576 524288 half sum -1 41.2 25.4 44.5 0 40.0 25.6 44.8 0\n"
    )
    asked = ["collective", "dgx-h100", "--op", "all_reduce", "--log", str(log)]
    assert main([*asked, "--json", "-"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["curves"][0]["sizes"]
    assert (one["measured_s"], one["count"]) == (pytest.approx(40e-6), 524288)
    assert one["error"] == pytest.approx(one["time_s"] / 40e-6 - 1)
    assert main(asked) == 0
    assert "from 1 MiB: median" in capsys.readouterr().out


def test_the_page_shows_what_the_command_prints(capsys: Capture) -> None:
    block = (data_root() / "docs" / "howto" / "collective.md").read_text(encoding="utf-8").split("```")[1]
    typed, *shown = block.removeprefix("text\n$ clustersim ").splitlines()
    assert main(typed.split()) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()] == shown


def test_a_release_is_asked_for_or_read_from_a_log(tmp_path: Path, capsys: Capture) -> None:
    """2.26 sends 1 MiB over two nodes along trees of switches, 2.28 along trees of lines."""
    log = tmp_path / "log"
    log.write_text("NCCL version 2.26.2+cuda12.2\n1048576 262144 float sum -1 80.0 13.1 24.6 0 80.0 13.1 24.6 0\n")
    asked = ["collective", "dgx-h100", "--op", "all_reduce", "--nodes", "2", "--json", "-"]
    for more, taken in (
        (["--sizes", "1M"], "tree"),
        (["--sizes", "1M", "--release", "2.26"], "nvls_tree"),
        (["--log", str(log)], "nvls_tree"),
        (["--log", str(log), "--release", "2.28"], "tree"),
    ):
        assert main([*asked, *more]) == 0
        assert json.loads(capsys.readouterr().out)["curves"][0]["sizes"][0]["algorithm"] == taken


def test_groups_and_pins(capsys: Capture) -> None:
    """Two groups that cross nodes share cards: each rail serves both."""
    times = {}
    for group in ("0-8:8", "0-8:8/1-9:8", "0-15"):
        assert main([*over_sizes("--group", group, "--algo", "Ring", "--proto", "Simple"), "--json", "-"]) == 0
        found = json.loads(capsys.readouterr().out)
        times[group] = found["curves"][0]["sizes"][-1]["time_s"]
        assert found["curves"][0]["sizes"][0]["protocol"] == "Simple"
    assert times["0-8:8/1-9:8"] == times["0-8:8"]
    assert times["0-15"] < times["0-8:8"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sizes", "1G:1K"], "is no range of sizes"),
        (["--sizes", "1Q:2Q"], "1Q:2Q"),
        (["--sizes", "1K", "--group", "0-7,3"], "rank 3 stands in it twice"),
        (["--sizes", "1K", "--group", "0-7/8-11"], "equally long"),
        (["--sizes", "1K", "--group", "a-b"], "no rank"),
        (["--sizes", "1K", "--group", "0-64", "--nodes", "1"], "no rank 64 of 8 devices"),
        (["--sizes", "1K", "--tokens", "4"], "`--tokens` has no meaning"),
        (["--sizes", "1K", "--algo", "Rong"], "unknown word `rong`"),
        (["--size", "1MB", "--algo", "Ring"], "`--algo` needs `--sizes`"),
        (["--sizes", "1K", "--release", "new"], "'new' is no release such as 2.26"),
        (["--log", "no-such-log"], "cannot be read"),
    ],
)
def test_what_is_refused_over_sizes(arguments: list[str], words: str, capsys: Capture) -> None:
    assert main(["collective", "dgx-h100", "--op", "all_reduce", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_one_rank_has_nothing_to_tabulate(tmp_path: Path, capsys: Capture) -> None:
    row = "1024 256 float sum -1" + 2 * " 20.0 0.05 0.09 0"
    (tmp_path / "log").write_text(f"#  Rank  0 Group  0 Pid 1 on host device  0\n{row}\n")
    for given in (["mac-studio-m2-ultra", "--sizes", "1K:1M"], ["dgx-h100", "--log", str(tmp_path / "log")]):
        assert main(["collective", *given, "--op", "all_reduce"]) == 2
        assert "one rank has no other to send to" in capsys.readouterr().err
