"""`clustersim collective`: one collective, dispatch or combine on a cluster."""

import json

import pytest

from simulator.cli import main

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
