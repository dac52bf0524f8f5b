"""`clustersim plan` of a scenario that trains, end to end on small models."""

import json
from pathlib import Path

import pytest

from simulator.cli import main
from tests.matrices import table
from tests.unit.cli.conftest import ROOT

QUICK = str(ROOT / "scenarios" / "quickstart.yaml")
MEGATRON = str(ROOT / "scenarios" / "papers" / "ptd-p" / "162.2b.yaml")
SMALL = (
    "model.layers=4",
    "--free",
    "all",
    "--only",
    "tp=1,2",
    "--only",
    "pp=1,2",
    "--only",
    "micro_batch=1",
    "--no-cache",
)


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    assert main(["plan", *arguments, "--json", "-"]) == code
    out, error = capsys.readouterr()
    assert error == ""
    found: dict[str, object] = json.loads(out)
    return found


def test_a_plan_and_all_that_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"--json": "plan.json", "--html": "plan.html", "--write": "best.yaml"}
    options = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    assert (
        main(["plan", QUICK, *SMALL, *options, "--grid", "france", "--tokens", "1B", "--write-flags", "megatron"]) == 0
    )
    out, error = capsys.readouterr()
    assert error == ""
    for words in (
        "a step, MFU",
        "wins: a step takes",
        "is next: a step takes",
        "candidates",
        "--tensor-model-parallel-size",
    ):
        assert words in out
    document = json.loads((tmp_path / "plan.json").read_text())
    best, counts = document["layouts"][0], document["counts"]
    parts = ("refused", "memory", "days", "budget", "compute", "communication", "bubble", "beaten", "leaders", "failed")
    assert sum(counts[name] for name in parts) == counts["candidates"] > counts["priced"] > 0
    assert best["step_time_low_s"] < best["step_time_s"] < best["step_time_high_s"]
    assert best["carbon_kg"] == pytest.approx(best["energy_j"] / 3.6e6 * 0.057)
    assert best["cost_usd"] > 0
    assert best["days"] > 0
    assert sum(best["parts"].values()) == pytest.approx(best["step_time_s"], rel=1e-6)
    assert "Where a step goes" in (tmp_path / "plan.html").read_text()
    capsys.readouterr()
    assert main(["run", str(tmp_path / "best.yaml"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["step_time_s"] == best["step_time_s"]


@pytest.mark.parametrize("batch", ["32", "128"])
def test_megatron_cuts_162_billion_parameters_as_published(batch: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Figure 13 of arXiv:2104.04473: tensor parallelism of 8 and 8 stages are the fastest on 64 devices."""
    sizes = [f"--only={axis}=2,4,8,16,32" for axis in ("tp", "pp")]
    arguments = [MEGATRON, *sizes, "--only=vpp=1", "--only=dp=1", "--no-cache", f"training.global_batch={batch}"]
    document = told(capsys, *arguments)
    best = document["layouts"][0]  # type: ignore[index]
    assert best["name"].startswith("tp 8, pp 8, dp 1,")
    assert document["counts"]["candidates"] == 5  # type: ignore[index, call-overload]


def test_megatron_passes_two_sequences_at_once_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    """Figure 16 of arXiv:2104.04473: of 1, 2, 4 and 8 sequences 2 are the fastest for 91 billion parameters."""
    file = MEGATRON.replace("162.2b", "91b")
    document = told(capsys, file, "--only=micro_batch=1,2,4,8", "--only=vpp=1", "--no-cache")
    assert "micro batch 2" in document["layouts"][0]["name"]  # type: ignore[index]


def test_the_cheapest_cluster_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    question = [QUICK, *SMALL, "--nodes", "1,2", "--clusters", "dgx-h100,dgx-a100", "--tokens", "1B"]
    cheapest = told(capsys, *question, "--by", "cost")["layouts"][0]  # type: ignore[index]
    limit = cheapest["days"] * 0.7
    document = told(capsys, *question, "--days", f"{limit:.6f}")
    best = document["layouts"][0]  # type: ignore[index]
    assert (document["by"], len(document["machines"])) == ("cost", 4)  # type: ignore[arg-type]
    assert best["days"] <= limit < cheapest["days"]
    assert best["cost_usd"] > cheapest["cost_usd"]


def test_a_budget_that_buys_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, QUICK, *SMALL, "--tokens", "1B", "--budget", "1 USD", code=4)
    (least,) = document["least"]  # type: ignore[misc]
    assert document["feasible"] is False
    assert least["what"] == "cost_usd"
    enough = told(capsys, QUICK, *SMALL, "--tokens", "1B", "--budget", f"{least['value'] * 1.001:.3f} USD")
    assert enough["layouts"]
    assert main(["plan", QUICK, *SMALL, "--tokens", "1B", "--budget", "1 USD"]) == 4
    assert "It takes at least" in capsys.readouterr().out


def test_nothing_fits_into_memory(capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, QUICK, *SMALL, "cluster.node.accelerator.memory.capacity.value=1 GB", code=4)
    assert "need more memory than a device has" in document["infeasible"][0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "tpp=1"), "no choice of a layout"),
        (("--free", "mbs"), "no choice of a layout"),
        (("--days", "3"), "whose length is not given"),
        (("--rate", "3 /s"), "is of a scenario that serves"),
        (("--frontier",), "is of a scenario that serves"),
        (("--write-flags", "vllm"), "another kind of scenario"),
        (("--clusters", "dgx-h10"), "dgx-h100"),
        (("--grid", "franc"), "did you mean `france`"),
        (("--plots", "."), "--plots"),
        (("--write", QUICK), "would overwrite the scenario"),
    ],
)
def test_bad_questions(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", QUICK, *arguments, "--no-cache"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert said in error


@pytest.mark.parametrize("words", [("--nodes", "8:2"), ("--tokens", "many"), ("--budget", "5"), ("--days", "-1")])
def test_options_that_cannot_be_read(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", QUICK, *words]) == 2
    assert words[0] in capsys.readouterr().err


def test_options_of_trainings_are_none_of_serving(capsys: pytest.CaptureFixture[str]) -> None:
    serving = str(ROOT / "scenarios" / "serving" / "quickstart.yaml")
    assert main(["plan", serving, "--budget", "5 MUSD"]) == 2
    assert "is of a scenario that trains" in capsys.readouterr().err


def test_a_torchtitan_job_of_the_winner(capsys: pytest.CaptureFixture[str]) -> None:
    only = ["--only=tp=1,2", "--only=pp=1", "--only=zero=3", "--only=micro_batch=1", "--only=recompute=none,full"]
    assert (
        main(
            [
                "plan",
                QUICK,
                "--free=all",
                *only,
                "stack=fsdp",
                "model=models/llama-3.1-8b",
                "--no-cache",
                "--quiet",
                "--write-flags=torchtitan",
            ]
        )
        == 0
    )
    assert 'flavor = "8B"' in capsys.readouterr().out


UNEVEN = """
version: 1
name: Uneven nodes
cluster:
  extends: clusters/generic-a100
  nodes: 4
  network: {kind: pairs, matrix: rates.csv}
model: {extends: models/gpt-1.7b, layers: 4}
stack: megatron-lm-2022
training: {global_batch: 32, sequence_length: 1024, parallel: {tp: 8}}
"""


def uneven(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four nodes of which 1 and 2, and 3 and 0, are slowly joined."""
    rates = [[0, 20, 20, 3], [20, 0, 3, 20], [20, 3, 0, 20], [3, 20, 20, 0]]
    (folder / "rates.csv").write_text(table("GB/s", rates))
    (folder / "uneven.yaml").write_text(UNEVEN)
    monkeypatch.chdir(folder)


def test_an_order_is_found_written_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uneven(tmp_path, monkeypatch)
    found = told(capsys, "uneven.yaml", "--order", "--write", "placed.yaml", "--quiet")
    assert found["kind"] == "order" and found["nodes"] == [0, 1, 3, 2]
    assert found["called"] == ["n0", "n1", "n3", "n2"] and found["default_pair"]["bandwidth"] == 3e9  # type: ignore[index]
    assert found["step_s"] < found["default_step_s"]  # type: ignore[operator]
    assert (tmp_path / "placed.yaml").read_text() == "extends: ./uneven.yaml\nplacement: {nodes: [0, 1, 3, 2]}\n"
    steps = []
    for arguments in (["placed.yaml"], ["uneven.yaml", "placement=searched"]):
        assert main(["run", *arguments, "--json", "-"]) == 0
        steps.append(json.loads(capsys.readouterr().out)["metrics"]["step_time_s"])
    assert steps == [found["step_s"]] * 2
    assert main(["plan", "uneven.yaml", "--order"]) == 0
    page = capsys.readouterr().out
    assert "times as fast as with ranks on nodes in order" in page and "1 > 2, 3.00 GB/s" in page
    assert "0 (n0), 1 (n1), 3 (n3), 2 (n2)" in page
    assert main(["plan", "uneven.yaml", "cluster.nodes=2", "--order"]) == 0
    assert "no shorter step was found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["uneven.yaml", "--order", "--top", "3"], "--top is not of --order"),
        (["uneven.yaml", "--order", "--only", "tp=2"], "--only is not of --order"),
        (["uneven.yaml", "--order", "--html", "a.html"], "--html is not of --order"),
        (["uneven.yaml", "placement=searched"], "layouts are searched with ranks in order"),
        (["uneven.yaml", "--order", "cluster.nodes=8"], "write `nodes: 4` or less"),
        (["uneven.yaml", "--order", "cluster.network.matrix=none.csv"], "there is no file `none.csv`"),
        (["uneven.yaml", "--order", "placement={nodes: [0, 1, 2]}"], "3 of 4 nodes are listed, not node 3"),
        (["uneven.yaml", "--order", "placement={nodes: [0, 1, 2, 2]}"], "node 2 is listed twice"),
        (["uneven.yaml", "--order", "placement={nodes: [0, 1, 2, 4]}"], "there is no node 4"),
        (["uneven.yaml", "--order", "placement=best"], "`best` is not accepted"),
    ],
)
def test_orders_that_cannot_be_searched(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    uneven(tmp_path, monkeypatch)
    assert main(["plan", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error


def test_too_many_nodes_for_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uneven(tmp_path, monkeypatch)
    monkeypatch.setattr("simulator.run.order.search.MOST_NODES", 3)
    assert main(["run", "uneven.yaml", "placement=searched"]) == 2
    assert "orders of up to 3 nodes are searched" in capsys.readouterr().err
