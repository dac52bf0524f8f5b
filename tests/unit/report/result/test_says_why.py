"""Figures of one row in one unit, costs that are not there with their reason, values as they are written."""

import pytest

from simulator import units
from simulator.cli import main
from simulator.report.compare import page as compare_page
from simulator.report.result import html
from simulator.report.result.page import page
from simulator.report.sweep import html as sweep_html
from simulator.report.sweep import page as sweep_page
from simulator.report.text.wording import figures
from simulator.results.result import overridden
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document
from simulator.study.sweep.sweep import sweep
from simulator.study.sweep.table import View

SERVING = "scenarios/serving/quickstart.yaml"
POOLS = "scenarios/serving/disaggregated-70b-h100.yaml"
UNPRICED = "scenarios/training/cloudmatrix-910c-70b.yaml"


@pytest.mark.parametrize(
    ("values", "dimension", "shown"),
    [
        ([0.049, 1.34], "time", ["0.0490 s", "1.34 s"]),
        ([0.049, 0.255], "time", ["49.0 ms", "255 ms"]),
        ([5e-6, 14.0], "time", ["5.00 us", "14,000,000 us"]),
        ([0.0, 2e9, 5e8], "bytes", ["0.00 GB", "2.00 GB", "0.500 GB"]),
        ([100.0, 200.0], "time", ["1.67 min", "3.33 min"]),
    ],
)
def test_numbers_beside_each_other_have_one_unit(values: list[float], dimension: str, shown: list[str]) -> None:
    assert units.format_alike(values, dimension) == shown


def test_rows_of_a_comparison() -> None:
    assert figures("mean_ttft_ms", [49.7, None, 1340.0]) == ["0.0497 s", "-", "1.34 s"]
    assert figures("mfu", [0.4, 0.5]) == ["40.0 %", "50.0 %"]
    small = [
        load_scenario(SERVING, ["requests.count=20", f"requests.arrivals.poisson={r} /s"]).scenario for r in (1, 50)
    ]
    told = document(compare([simulate(one) for one in small], ["calm", "busy"]))
    for name, row in told.metrics.items():
        cells = [cell.text.partition(" ")[2] for cell in compare_page.cells(name, row, told)]
        assert len(set(cells)) == 1, name


def test_a_cost_that_is_not_known_says_which_price_is_missing() -> None:
    result = simulate(load_scenario(UNPRICED).scenario)
    for text in (page(result), html.document(result)):
        flat = " ".join(text.split())
        assert "no price of Huawei Ascend 910C" in flat
        assert "cluster.node.accelerator.price=" in flat
    priced = simulate(load_scenario(UNPRICED, ["cluster.node.accelerator.price=2.50 USD/h"]).scenario)
    assert "cost_usd" in priced.metrics
    assert "no price" not in page(priced)
    told = document(compare([result, priced], ["a", "b"]))
    assert any("no price of Huawei" in note for note in told.notes)


def test_pools_differ_by_settings_as_they_are_written() -> None:
    both = [load_scenario(POOLS, ["requests.count=5", f"serving.pools.0.replicas={n}"]).scenario for n in (1, 2)]
    told = document(compare([simulate(one) for one in both], ["one", "two"]))
    assert told.differing["serving.pools.0.replicas"] == ("1", "2")
    assert not any("{'" in value for values in told.differing.values() for value in values)


def test_what_is_left_of_a_link_in_percent() -> None:
    for text in ("10 %", "0.1"):
        override = f"training.noise.slow_links={{count: 1, factor: {text}}}"
        scenario = load_scenario("scenarios/training/stragglers-39.1b.yaml", [override]).scenario
        assert scenario.training.noise.slow_links.factor == pytest.approx(0.1)  # type: ignore[union-attr]


def test_a_sweep_takes_vary_and_ranks_a_promise_by_goodput(capsys: pytest.CaptureFixture[str]) -> None:
    axis = "serving.batching.max_sequences=1,64"
    promised = sweep(SERVING, [axis], overrides=["requests.count=30", "+slo={ttft: 1 s, tpot: 60 ms}"])
    assert promised.described().best.metric == "request_goodput"
    assert sweep(SERVING, [axis], overrides=["requests.count=30"]).described().best.metric == "output_throughput"
    assert main(["sweep", SERVING, "--vary", axis, "requests.count=30", "--no-cache", "--jobs", "1"]) == 0
    assert "max_sequences 1, 64" in capsys.readouterr().out


def test_a_sweep_that_no_point_can_be_ranked_in_says_why() -> None:
    overrides = ["requests.count=20", "~cluster.node.accelerator.price"]
    table = sweep(SERVING, ["serving.batching.max_sequences=1,64"], overrides=overrides)
    told = table.described(View(by="cost_usd_per_million_tokens"))
    assert (told.best, told.unpriced) == (None, ("NVIDIA A100 SXM4 80GB",))
    for text in (sweep_page.page(told, sweep_page.Effort(2, 0)), sweep_html.page(told)):
        flat = " ".join(text.split())
        assert "No point has cost per million output tokens" in flat
        assert "`cluster.node.accelerator.price=2.50 USD/h`" in flat
    assert "No point" not in sweep_page.page(table.described(), sweep_page.Effort(2, 0))


def test_a_run_without_energy_says_which_power_is_missing() -> None:
    changes = ["cluster=clusters/tpu-v5e-pod", "cluster.nodes=32", "stack=maxtext", "training.global_batch=256"]
    result = simulate(load_scenario("scenarios/quickstart.yaml", changes).scenario)
    for text in (page(result), html.document(result)):
        assert "energy: no power of Google TPU v5e is known" in " ".join(text.split())
    changes.append("cluster.node.accelerator.power.peak=200 W")
    powered = simulate(load_scenario("scenarios/quickstart.yaml", changes).scenario)
    assert "energy_j" in powered.metrics
    assert "energy: no power" not in page(powered)


@pytest.mark.parametrize("file", ["scenarios/quickstart.yaml", SERVING])
def test_the_head_of_a_report_names_what_was_overridden(file: str) -> None:
    result = simulate(load_scenario(file).scenario)
    plain, changes = page(result), [f"seed={number}" for number in range(6)]
    assert "with seed=" not in plain + html.document(result)
    for text in (page(overridden(result, changes)), html.document(overridden(result, changes))):
        assert "with seed=0, seed=1, seed=2, seed=3, 2 more" in text
    assert overridden(result, []) is result
