"""`training.run` of scenarios: what checkpoints hold and take, what fails, and what the Result, pages and files say."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator import fabric
from simulator.cli import main
from simulator.errors import InfeasibleError, InputError
from simulator.report.export.trace import events
from simulator.report.result.html import document
from simulator.report.result.page import page
from simulator.report.result.plots import save_plots
from simulator.results import files, read, save, to_json
from simulator.results.long_run import header
from simulator.results.result import Result
from simulator.run.dispatch import simulate
from simulator.run.long import checkpoint
from simulator.run.long.life import Slow
from simulator.run.long.pace import fewer, slowed
from simulator.run.long.sources import mtbf_s, sources
from simulator.run.long.trace import read_trace
from simulator.run.simulate import finished, prepare, run
from simulator.specs import load_scenario, load_spec, names
from simulator.specs.long_runs.failures import FailureRates
from simulator.specs.scenario import Scenario
from tests.factories import assert_same

QUICK = "scenarios/quickstart.yaml"
NODE = "failures: {causes: [{name: node, of: node, mtbf: 10 h}]}"
SMALL = "samples: 2, checkpoints: {interval: 20 min}"
COMMON = f"+training.run={{days: 4, {NODE}, {SMALL}}}"


def loaded(*overrides: str) -> Scenario:
    scenario = load_scenario(QUICK, overrides).scenario
    assert isinstance(scenario, Scenario)
    return scenario


def simulated(*overrides: str) -> Result:
    """Without a search for an interval where one is given."""
    return finished(run(loaded(*overrides)), advising=False)


def refused(*overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        simulated(*overrides)
    return str(caught.value)


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(loaded(COMMON))


# ---- the Result -----------------------------------------------------------------------------------------------------


def test_time_by_cause_sums_to_the_run(result: Result) -> None:
    assert result.run is not None
    metrics = result.metrics
    assert metrics["run_time_s"] == 4 * 86_400
    assert sum(result.run.seconds.values()) == pytest.approx(metrics["run_time_s"], abs=1e-6)
    fractions = [value for name, value in metrics.items() if name.endswith("_fraction") and name != "bubble_fraction"]
    assert sum(fractions) + metrics["effective_time_ratio"] == pytest.approx(1)
    tokens = metrics["run_steps"] * 128 * 8192
    assert metrics["run_tokens"] == pytest.approx(tokens)
    assert metrics["goodput_tokens_per_s"] == pytest.approx(tokens / metrics["run_time_s"])
    assert metrics["mtbf_s"] == pytest.approx(36_000)
    idle = 120 * 8
    stepping = sum(result.run.seconds[part] for part in ("training", "lost work"))
    spent = metrics["energy_j"] / metrics["step_time_s"] * stepping + idle * (metrics["run_time_s"] - stepping)
    assert metrics["run_energy_j"] == pytest.approx(spent)
    assert metrics["run_cost_usd"] == pytest.approx(metrics["cost_usd"] / metrics["step_time_s"] * 4 * 86_400)


def test_the_step_itself_is_as_without_a_run(result: Result) -> None:
    plain = simulated()
    assert plain.run is None
    assert {name: result.metrics[name] for name in plain.metrics} == pytest.approx(plain.metrics, rel=1e-9)


def test_a_run_over_tokens_without_failures_takes_steps_and_its_last_checkpoint() -> None:
    found = simulated("+training.run={tokens: 1e9}")
    steps = -(-(10**9) // (128 * 8192))
    cost = checkpoint_cost()
    assert found.metrics["run_steps"] == steps
    expected = steps * found.metrics["step_time_s"] + cost.stall + cost.store
    assert found.metrics["run_time_s"] == pytest.approx(expected, abs=1e-5)
    assert any("nothing fails" in text for text in found.warnings)
    older = simulated("+training.tokens=1e9", "+training.run={}")
    assert older.metrics["run_time_s"] == found.metrics["run_time_s"]


def test_a_seed_decides() -> None:
    assert simulated(COMMON).metrics == simulated(COMMON).metrics
    assert simulated(COMMON, "+seed=1").metrics["run_steps"] != simulated(COMMON).metrics["run_steps"]


def test_published_figures_of_a_run_are_compared() -> None:
    figure = "+published=[{metric: effective_time_ratio, value: 90 %, source: ours}]"
    found = simulated(COMMON, figure)
    assert [one.metric for one in found.comparisons] == ["effective_time_ratio"]
    assert found.comparisons[0].simulated == found.metrics["effective_time_ratio"]


def test_pages_files_and_traces_show_it(result: Result, tmp_path: Path) -> None:
    assert result.run is not None
    text = page(result, width=100)
    assert "The run: 4.00 d" in text
    assert "lost work, done again" in text
    assert max(map(len, text.splitlines())) <= 100
    html = document(result)
    assert "what the run does over time" in html
    assert html.count("<h2>The run</h2>") == 1
    assert any("the whole run" in event for event in events(result))
    assert all(json.loads(event) for event in events(result))
    told = to_json(result)["run"]
    assert told["failures"]["node"] > 0
    assert {path.name for path in save_plots(result, tmp_path)} >= {"run.png", "run-intervals.png"}
    save(result, tmp_path / "run.result")
    again = read(tmp_path / "run.result")
    assert_same(replace(result, run=None), replace(again, run=None))
    assert again.run is not None
    assert header(again.run) == header(result.run)
    assert np.array_equal(again.run.bands, result.run.bands)


def test_what_a_file_says_of_a_run_is_checked(result: Result, tmp_path: Path) -> None:
    assert result.run is not None
    for bands in ([[5, 3, 0]], [[0, 3, 9]], [[-1, 3, 0]]):
        save(replace(result, run=replace(result.run, bands=np.array(bands))), tmp_path / "run.result")
        with pytest.raises(InputError, match="band of a run"):
            files.read(tmp_path / "run.result")


# ---- checkpoints ----------------------------------------------------------------------------------------------------


def checkpoint_cost(*overrides: str) -> checkpoint.Cost:
    scenario = loaded("+training.run={days: 1}", *overrides)
    assert scenario.training.run is not None
    return checkpoint.cost(scenario.cluster, prepare(scenario).job, scenario.training.run.checkpoints)


STORAGE = (
    "+cluster.storage={bandwidth: {value: 5 GB/s, status: estimate, source: ours},"
    " read_bandwidth: {value: 10 GB/s, status: estimate, source: ours}}"
)


@pytest.mark.parametrize("layout", ["{tp: 2, pp: 2}", "{tp: 8}", "{pp: 4}", "{tp: 2, pp: 2, zero: 1}"])
def test_a_checkpoint_holds_each_state_once(layout: str) -> None:
    # Llama 3 8B has 8.03 billion parameters; 2 bytes of each, and 12 of Adam's states and the copy in 32 bits.
    cost = checkpoint_cost(f"training.parallel={layout}")
    assert cost.size == pytest.approx(14 * 8.03e9, rel=0.003)


def test_the_copy_to_hosts_is_waited_for_and_storage_is_shared() -> None:
    cost = checkpoint_cost(STORAGE)
    share = 14 * 8.03e9 / 8
    assert cost.stall == pytest.approx(share / 63e9, rel=0.1)
    assert cost.store == cost.write == pytest.approx(14 * 8.03e9 / 5e9, rel=0.003)
    synchronous = checkpoint_cost(STORAGE, "+training.run.checkpoints={kind: synchronous}")
    assert synchronous.stall == pytest.approx(cost.stall + cost.store)
    assert synchronous.write == synchronous.store == 0
    whole = "training.parallel={tp: 2, pp: 2, zero: 0}"
    once = checkpoint_cost(STORAGE, whole).load
    each = checkpoint_cost(STORAGE, whole, "+training.run.checkpoints={load: each}").load
    assert each - once == pytest.approx(cost.size / 10e9, rel=1e-3)  # two data-parallel replicas read what one needs
    offline = checkpoint_cost(STORAGE, "+training.run.checkpoints={reshard: offline}")
    assert offline.reshard == pytest.approx(cost.size / 5e9 + cost.size / 10e9, rel=1e-6)


def test_nodes_files_and_metadata_bound_a_write() -> None:
    def storage(key: str, value: str) -> checkpoint.Cost:
        return checkpoint_cost(STORAGE, f"+cluster.storage.{key}={{value: {value}, status: estimate, source: ours}}")

    plain = checkpoint_cost(STORAGE)
    assert storage("node_bandwidth", "1 GB/s").store == pytest.approx(8 * plain.stall * 63e9 / 1e9)
    assert storage("file_bandwidth", "0.1 GB/s").store == pytest.approx(plain.stall * 63e9 / 1e8)
    assert storage("file_time", "3 s").store == pytest.approx(plain.store + 3)
    assert storage("files_per_second", "2 /s").store == pytest.approx(plain.store + 4)


def test_the_first_rank_alone_writes_more_than_its_part() -> None:
    whole = "training.parallel={tp: 2, pp: 2, zero: 0}"
    both, first = checkpoint_cost(whole), checkpoint_cost(whole, "+training.run.checkpoints={writers: first}")
    assert first.stall == pytest.approx(2 * both.stall)
    assert first.size == both.size


def test_a_size_of_ones_own() -> None:
    assert checkpoint_cost("+training.run.checkpoints={size: 7 GB}").size == pytest.approx(7e9)


def test_memory_of_another_host_is_reached_over_its_cards() -> None:
    two = ("cluster={extends: clusters/dgx-h100, nodes: 2}", "+training.run.checkpoints={kind: memory}")
    cost = checkpoint_cost(*two)
    assert cost.write == pytest.approx(cost.size / 2 / (8 * 50e9), rel=0.1)
    assert cost.store > cost.write
    assert cost.load_memory < cost.load


# ---- what is wrong --------------------------------------------------------------------------------------------------


CAPACITY = "+cluster.storage.capacity={value: 150 GB, status: estimate, source: ours}"


@pytest.mark.parametrize(
    ("run", "overrides", "words"),
    [
        ("{}", (), "`run` needs its length"),
        ("{days: 1, steps: 3}", (), "not both"),
        ("{days: 1}", ("+training.tokens=1e9",), "leave one out"),
        ("{days: 1, failures: nowhere}", (), "nowhere"),
        ("{days: 1, failures: {causes: []}}", (), "training.run.failures.causes"),
        ("{days: 1, failures: {causes: [{name: a, of: node}]}}", (), "either `mtbf` or `count`"),
        ("{days: 1, failures: {causes: [{name: a, of: node, count: 3}]}}", (), "write `observed`"),
        ("{days: 1, failures: {causes: [{name: a, of: switch, count: 3}]}}", (), "write the `mtbf` of one switch"),
        ("{days: 1, failures: {causes: [{name: a, of: switch, mtbf: 1 d}]}}", (), "no switches of its own"),
        ("{days: 1, failures: {causes: [{name: a, of: link, mtbf: 1 d, links: cable}]}}", (), "links called `cable`"),
        ("{days: 1, failures: {causes: [{name: a, of: run, mtbf: 1 d, left: 0.5}]}}", (), "`left` is of devices"),
        ("{days: 1, failures: {causes: [{name: a, of: node, mtbf: 1 d, links: x}]}}", (), "no effect"),
        ("{days: 1, checkpoints: {interval: 1 h, steps: 3}}", (), "not both"),
        ("{days: 1, checkpoints: {steps: 1}}", (STORAGE,), "shorter than the writing of its checkpoint, 22.5 s"),
        ("{days: 1, checkpoints: {interval: 8 s}}", (STORAGE,), "interval: an interval of"),
        ("{days: 1, checkpoints: {kind: memory}}", (), "the cluster has one node"),
        ("{days: 1}", (STORAGE, CAPACITY), "2 checkpoints of 112 GB are larger than the storage of 150 GB"),
        ("{days: 1}", (STORAGE, CAPACITY.replace("150", "50")), "write larger storage"),
        ("{tokens: 1e17}", (), "longer than the clock of a run counts"),
    ],
)
def test_bad_input(run: str, overrides: tuple[str, ...], words: str) -> None:
    assert words in refused(f"+training.run={run}", *overrides)


def test_hosts_that_are_too_small() -> None:
    run = "+training.run={days: 1, checkpoints: {kind: memory}}"
    two = "cluster={extends: clusters/dgx-h100, nodes: 2}"
    small = "cluster.node.host_memory={value: 100 GB, status: estimate, source: ours}"
    assert "checkpoints in memory take" in refused(run, two, small)


def test_one_checkpoint_fits_where_two_do_not() -> None:
    simulated("+training.run={days: 1, checkpoints: {keep: 1}}", STORAGE, CAPACITY)


def test_several_jobs_have_no_runs(tmp_path: Path) -> None:
    text = Path("scenarios/jobs/two-trainings.yaml")
    file = text if text.exists() else next(Path("scenarios/jobs").glob("*.yaml"))
    with pytest.raises(InputError, match="scenario of one job"):
        load_scenario(str(file), ["+jobs.0.training.run={days: 1}"])


def test_failures_that_let_nothing_finish(capsys: pytest.CaptureFixture[str]) -> None:
    run = "+training.run={tokens: 1e11, failures: {causes: [{name: a, of: run, mtbf: 2 min}]}, samples: 1}"
    assert main(["run", QUICK, run, "+training.run.checkpoints.steps=10"]) == 4
    said = " ".join(capsys.readouterr().err.split())
    assert "the run does not finish" in said
    assert re.search(r"a day of .* without failures", said)


def test_an_interval_is_advised_where_failures_are_years_apart() -> None:
    """The search for it simulates several runs of nine years, as one with a thousand failures is beyond the clock."""
    rare = "{days: 1, failures: {causes: [{name: a, of: run, mtbf: 3000 d}]}, samples: 1}"
    figures = simulate(loaded(f"+training.run={rare}")).metrics
    assert 0 < figures["advised_interval_s"] <= 86_400


def test_no_spare_node_is_left() -> None:
    run = "{tokens: 2e11, failures: {causes: [{name: a, of: node, mtbf: 10 h}]}, recovery: {spares: 1}, samples: 1}"
    with pytest.raises(InfeasibleError, match="no spare node is left"):
        simulated(f"+training.run={run}", "+training.run.checkpoints.steps=100")


# ---- what fails -----------------------------------------------------------------------------------------------------


def machine(*overrides: str) -> tuple[Scenario, fabric.Fabric]:
    scenario = loaded("cluster={extends: clusters/dgx-h100, nodes: 2}", *overrides)
    return scenario, fabric.build(scenario.cluster)


@pytest.mark.parametrize("name", names(FailureRates))
def test_shipped_rates_load_and_have_sources(name: str) -> None:
    rates = load_spec(FailureRates, name)
    assert rates.source
    scenario, links = machine()
    assert 0 < mtbf_s(sources(rates, scenario.cluster, links, 60.0)) < 1e10


def test_rates_are_those_of_the_machine_that_was_seen() -> None:
    scenario = load_scenario("scenarios/training/llama-3-405b.yaml").scenario
    found = sources(load_spec(FailureRates, "llama-3-h100"), scenario.cluster, fabric.build(scenario.cluster), 60.0)
    assert mtbf_s(found) == pytest.approx(54 * 86_400 / 419)
    assert sum(source.rate for source in found) == pytest.approx(466 / 54 / 86_400)


def test_units_are_those_of_the_cluster() -> None:
    scenario, links = machine()
    causes = [{"name": of, "of": of, "mtbf": "1000 h"} for of in ("device", "node", "link", "run")]
    causes.append({"name": "up", "of": "link", "mtbf": "1000 h", "links": links.kinds[-1]})
    found = sources(FailureRates.model_validate({"causes": causes}), scenario.cluster, links, 60.0)
    assert [source.units for source in found[:4]] == [16, 2, 16, 1]
    assert [source.units_per_node for source in found[:4]] == [8, 1, 8, 0]
    assert links.links[found[2].first] == "NIC up 0"
    assert links.links[found[4].first] == f"{links.kinds[-1]} 0"


def test_switches_are_counted_where_they_are_known() -> None:
    tree = "{kind: leaf-spine, leaves: 2, spines: 2}"
    try:
        scenario, links = machine(f"cluster.network={tree}")
    except InputError:
        scenario, links = machine()
    rates = FailureRates.model_validate({"causes": [{"name": "a", "of": "switch", "mtbf": "1000 h"}]})
    assert sources(rates, scenario.cluster, links, 60.0)[0].units >= 2


# ---- traces ---------------------------------------------------------------------------------------------------------


def test_a_trace_says_what_fails_when(tmp_path: Path) -> None:
    file = tmp_path / "failures.csv"
    file.write_text("time,what,until,left\n3 h,node 0,5 h,\n3600,device 9,,50 %\n\n7200,NIC 3,,\n1 d,run,,\n")
    scenario, links = machine()
    found, recorded = read_trace(str(file), scenario.cluster, links, 4, 60)
    assert [one.tick for one in recorded] == [3600 * 10**9, 7200 * 10**9, 3 * 3600 * 10**9, 86_400 * 10**9]
    assert [one.node for one in recorded] == [1, 0, 0, -1]
    assert [one.left for one in recorded] == [0.5, None, None, None]
    assert recorded[2].until == 5 * 3600 * 10**9
    assert [found[one.source - 4].of for one in recorded] == ["device", "link", "node", "run"]


def test_rows_that_are_wrong_are_named_with_their_lines(tmp_path: Path) -> None:
    rows = ["soon,node 0,", "5,node 7,", "5,device 16,", "5,cable 3,", "5,node 0,4", "5,node 0,,50 %", "5", "5,run,,2"]
    file = tmp_path / "failures.csv"
    file.write_text("time,what,until,left\n" + "\n".join(rows) + "\n")
    scenario, links = machine()
    with pytest.raises(InputError) as caught:
        read_trace(str(file), scenario.cluster, links, 0, 60)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert all(problem.file == str(file) and problem.hint for problem in caught.value.problems)
    text = str(caught.value)
    for words in ("`time` is `soon`", "there is no node 7", "no device 16", "no `cable 3`", "not after", "1 cells"):
        assert words in text


@pytest.mark.parametrize(
    ("text", "words"), [("", "no fail"), ("when,what\n", "names no"), ("time,what,until\n", "no fail")]
)
def test_files_without_failures(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "failures.csv"
    file.write_text(text)
    scenario, links = machine()
    with pytest.raises(InputError, match=words):
        read_trace(str(file), scenario.cluster, links, 0, 60)
    with pytest.raises(InputError, match="there is no file"):
        read_trace(str(tmp_path / "none.csv"), scenario.cluster, links, 0, 60)


def test_a_run_with_a_trace_alone_is_the_same_in_every_sample(tmp_path: Path) -> None:
    file = tmp_path / "failures.csv"
    file.write_text("time,what,until\n5 h,node 0,\n20 h,run,\n")
    found = simulated(f"+training.run={{days: 2, trace: {file}, checkpoints: {{interval: 1 h}}, samples: 3}}")
    assert found.metrics["failures"] == 2
    assert len({one["ratio"] for one in found.run.samples}) == 1 if found.run else False
    assert found.metrics["restart_fraction"] * 2 * 86_400 == pytest.approx(
        2 * 300 + 2 * found.metrics["checkpoint_load_s"]
    )


# ---- steps that are slow, or on fewer nodes -------------------------------------------------------------------------


def test_a_slow_device_is_a_straggler_and_a_slow_link_a_slow_link() -> None:
    scenario, links = machine("training.parallel.tp=8")
    straggler = loaded(
        "cluster={extends: clusters/dgx-h100, nodes: 2}",
        "training.parallel.tp=8",
        "+training.noise={stragglers: {devices: [9], slowdown: 2}}",
    )
    changed = slowed(scenario, Slow("device", 9, 0.5, 1), links)
    assert run(changed).steps.mean_s == run(straggler).steps.mean_s > run(scenario).steps.mean_s
    card = links.find("NIC up 8")[0]
    told = slowed(scenario, Slow("link", card, 0.1, 1), links).training.noise.slow_links
    assert told is not None
    assert told.links == ("NIC up 8",)


def test_fewer_replicas_share_the_whole_batch() -> None:
    scenario, _ = machine()
    half = fewer(scenario, 2, 4)
    assert half.cluster.nodes == 1
    assert half.training.global_batch == 128
    assert half.training.parallel.dp == 2
    third = fewer(load_scenario(QUICK, ["cluster={extends: clusters/dgx-h100, nodes: 4}"]).scenario, 6, 8)  # type: ignore[arg-type]
    assert third.training.global_batch == 132  # six replicas of 22, the fullest of 128
    with pytest.raises(InputError, match="no whole nodes"):
        fewer(scenario, 1, 4)


def test_an_elastic_run_goes_on_where_another_waits() -> None:
    two = "cluster={extends: clusters/dgx-h100, nodes: 2}"
    run_of = "{{days: 4, {0}, samples: 2, checkpoints: {{steps: 100}}, recovery: {{spares: 0, repair: 6 h{1}}}}}"
    waits = simulated("+training.run=" + run_of.format(NODE, ""), two)
    goes_on = simulated("+training.run=" + run_of.format(NODE, ", elastic: true"), two)
    assert waits.metrics["waiting_fraction"] > 0.1
    assert goes_on.metrics["fewer_nodes_fraction"] > 0
    assert goes_on.metrics["run_steps"] > waits.metrics["run_steps"]


def test_something_slow_costs_until_it_is_detected() -> None:
    two = "cluster={extends: clusters/dgx-h100, nodes: 2}"
    cause = "{{name: hot, of: device, mtbf: 400 h, left: 0.5, detection: {}}}"
    run_of = "+training.run={{days: 4, failures: {{causes: [{}]}}, samples: 2, checkpoints: {{steps: 500}}}}"
    late, early = (simulated(run_of.format(cause.format(time)), two) for time in ("5 h", "1 min"))
    assert late.metrics["slow_fraction"] > 10 * early.metrics["slow_fraction"] > 0
    assert late.metrics["lost_work_fraction"] == 0
