"""Sweeps: which points there are, what becomes of them, on any executor; the table and what is made of it."""

import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario
from simulator.study import executors
from simulator.study.sweep import frontier
from simulator.study.sweep import sweep as sweeps
from simulator.study.sweep.conditions import parse_conditions
from simulator.study.sweep.evaluate import Outcome, evaluate
from simulator.study.sweep.sweep import sweep
from simulator.study.sweep.table import SweepTable, View

AXES = ["training.parallel.tp=2,4", "training.micro_batch=1,2"]


def quick(axes: Any = AXES, **options: Any) -> SweepTable:
    """A sweep of the quickstart in this process."""
    return sweep("quickstart", axes, **options)


class Stub(Executor):
    """An executor that does everything at once and remembers what it was given, as text: only plain data may cross."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def submit(self, do: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        self.sent.append(json.dumps(arguments))
        future: Future[Any] = Future()
        future.set_result(do(*json.loads(self.sent[-1])))
        return future


def test_a_row_is_what_the_same_run_says() -> None:
    table = quick()
    assert [row.number for row in table.rows] == [0, 1, 2, 3]
    for row in table.rows:
        result = simulate(load_scenario("quickstart", row.overrides).scenario)
        assert row.metrics == result.metrics
        assert row.scenario == load_scenario_hash(row.overrides)
    assert table.rows[2].values == {"training.parallel.tp": 4, "training.micro_batch": 1}
    assert table.rows[2].name == "tp 4, micro_batch 1"


def load_scenario_hash(overrides: tuple[str, ...]) -> str:
    """What `clustersim run` gives as the hash of the scenario."""
    from simulator.specs import scenario_hash

    return scenario_hash(load_scenario("quickstart", overrides).scenario)


def test_serving_and_scenarios_made_in_python() -> None:
    axes = {"serving.batching.max_sequences": [16, 64]}
    named = sweep("serving/quickstart", axes, overrides=["requests.count=60"])
    scenario = load_scenario("serving/quickstart", ["requests.count=60"]).scenario
    assert named.kind == "serving"
    assert [row.metrics for row in sweep(scenario, axes).rows] == [row.metrics for row in named.rows]
    assert named.best()[0].metrics["output_throughput"] >= named.best()[1].metrics["output_throughput"]  # type: ignore[operator]


def test_out_of_memory_and_refused_are_rows_with_a_reason() -> None:
    table = quick(["training.parallel.tp=1,2,16", "training.micro_batch=1,8"])
    status = {row.name: (row.status, row.reason) for row in table.rows}
    assert status["tp 2, micro_batch 1"] == ("ok", "")
    assert status["tp 1, micro_batch 8"][0] == "out of memory"
    assert "GB of 85.5 GB" in status["tp 1, micro_batch 8"][1]
    assert status["tp 16, micro_batch 1"][0] == "refused"
    assert "the cluster has 8" in status["tp 16, micro_batch 1"][1]
    assert all(row.status == "ok" for row in table.best())


@pytest.mark.parametrize(
    "make", [Stub, lambda: ThreadPoolExecutor(2), lambda: executors.processes(2)], ids=["stub", "threads", "processes"]
)
def test_any_executor_gives_the_same_table(make: Callable[[], Any]) -> None:
    assert quick(executor=make()).csv() == quick().csv()


def test_what_crosses_to_a_worker_is_plain_data() -> None:
    stub = Stub()
    table = quick(executor=stub)
    assert len(stub.sent) == table.simulated == 4
    assert "quickstart.yaml" not in stub.sent[0]


def test_points_that_are_equal_are_simulated_once() -> None:
    table = sweep("quickstart", ["training.parallel={tp: 8},{tp: 8, pp: 1}", "training.micro_batch=1,2"])
    assert len(table.rows) == 4
    assert table.simulated == 2
    assert table.rows[0].metrics == table.rows[2].metrics


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BrokenExecutor("gone"), "a worker was lost"),
        (RuntimeError("no module\nnamed so"), r"a worker cannot simulate \(RuntimeError: no module\); on a cluster"),
    ],
)
def test_a_lost_worker_is_said_with_the_way_to_go_on(error: Exception, words: str) -> None:
    class Broken(Stub):
        def submit(self, do: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(error)
            return future

    with pytest.raises(InputError, match=words) as raised:
        quick(executor=Broken())
    assert "run the same sweep again" in str(raised.value)


def test_a_worker_of_another_version_is_refused() -> None:
    with pytest.raises(InputError, match="another version"):
        evaluate("{}", "0" * 16)


def test_an_error_of_the_simulator_is_a_row_and_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    def broken(document: str, program: str) -> Outcome:
        return Outcome("failed", "internal error: KeyError: 'x'")

    monkeypatch.setattr(sweeps, "evaluate", broken)
    table = quick(cache=tmp_path / "cache")
    assert {row.status for row in table.rows} == {"failed"}
    monkeypatch.undo()
    assert quick(cache=tmp_path / "cache").simulated == 4


# ---- which points ------------------------------------------------------------------------------------------------


def test_conditions_on_axes_scenario_and_metrics() -> None:
    def names(*where: str) -> list[str]:
        return [row.name for row in quick(where=where).rows]

    assert names("tp < 4") == ["tp 2, micro_batch 1", "tp 2, micro_batch 2"]
    assert names("training.parallel.tp >= 4", "micro_batch == 1") == ["tp 4, micro_batch 1"]
    assert names("training.global_batch > 1") == names()
    assert names("peak_memory_bytes < 40 GB", "micro_batch != 2") == ["tp 4, micro_batch 1"]
    assert names("peak_memory_bytes < 4e10", "micro_batch != 2") == ["tp 4, micro_batch 1"]
    table = quick(where=["mfu > 99 %"])
    assert (table.rows, table.dropped) == ((), 4)
    assert [(one.condition, one.met) for one in table.missed] == [("mfu > 99 %", 0)]
    assert 0.3 < table.missed[0].least < table.missed[0].most < 0.6
    assert table.subject["model"] == "Llama 3 8B" and "layout" not in table.subject
    assert (table.changes, quick(overrides=["training.recompute=full"]).changes) == ((), ("training.recompute=full",))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("tp", "is none"),
        ("tp + 1 < 3", "is none"),
        ("tp = 3", "is none"),
        ("1 < tp < 3", "is none"),
        ("paralel.tp < 3", "unknown key `paralel`"),
        ("mfuu < 3", "did you mean `mfu`"),
        ("peak_memory_bytes < 50 GHz", "GHz"),
        ("cluster.node.accelerator.memory.capacity < 50", "has no unit"),
        ("tp < two", "is a number here"),
        ("training.schedule < 1f1b", "is text here"),
        ("tp > 100", "none of 4 points meets the conditions: nothing to simulate; `tp > 100`: it was 2, 4"),
        ("peak_memory_bytes < 60", "`60` has no unit: write a unit, for example `60 GB`"),
    ],
)
def test_conditions_that_cannot_be(where: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        quick(where=[where])
    assert message in str(error.value)


def test_what_a_condition_is_held_against() -> None:
    """Milliseconds of vLLM's names where the number is bare, any unit of time else; a figure that is not there meets
    nothing."""
    texts = ["mean_ttft_ms < 500", "mean_ttft_ms < 0.5 s", "mean_ttft_ms < 500 ms", "duration > 2 min", "mfu >= 40 %"]
    conditions = parse_conditions(texts, [], ServingScenario)
    assert [one.wanted for one in conditions] == pytest.approx([500, 500, 500, 120, 0.4])
    assert [one.holds(499.9) for one in conditions[:3]] == [True] * 3
    assert [one.holds(500.1) for one in conditions[:3]] == [False] * 3
    assert (conditions[4].holds(0.4), conditions[4].holds(0.399), conditions[4].holds(None)) == (True, False, False)


def test_a_random_choice_is_that_of_the_seed() -> None:
    axes = ["training.global_batch=" + ",".join(str(64 * i) for i in range(1, 20)), "training.micro_batch=1,2"]
    chosen = [row.number for row in quick(axes, random=5).rows]
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 5
    assert chosen == [row.number for row in quick(axes, random=5).rows]
    other = sweep("quickstart", axes, random=5, overrides=["seed=1"])
    assert chosen != [row.number for row in other.rows]
    half = [row.number for row in quick(axes, random=3, where=["micro_batch < 2"]).rows]
    assert len(half) == 3
    assert all(number % 2 == 0 for number in half)
    assert len(quick(AXES, random=100).rows) == 4


def test_a_choice_from_more_combinations_than_could_be_listed() -> None:
    many = ",".join(map(str, range(1, 401)))
    axes = [f"training.global_batch={many}", f"seed={many}", "training.micro_batch=1,2"]
    assert len({row.number for row in quick(axes, random=4, where=["micro_batch == 1"]).rows}) == 4


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ([], "nothing is varied"),
        (["training.paralel.tp=1,2"], "unknown key `paralel`"),
        (["training.parallel.tp=1,x"], "`x` is not a whole number"),
        (["cluster=clusters/selene,clusters/selen"], "there is no"),
        (["training.parallel.tp=16,32"], "all of the 2 points are refused"),
        (
            ["seed=" + ",".join(map(str, range(400))), "training.global_batch=" + ",".join(map(str, range(1, 300)))],
            "119,600 points are too many",
        ),
        ({"training.parallel.tp": []}, "a value of the list is empty"),
    ],
)
def test_what_could_suit_no_point_is_refused_before_anything_runs(axes: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        quick(axes)
    assert message in str(error.value)


# ---- the cache ---------------------------------------------------------------------------------------------------


def test_nothing_is_simulated_twice(tmp_path: Any) -> None:
    first = quick(cache=tmp_path / "cache")
    again = quick(cache=tmp_path / "cache")
    wider = quick(["training.parallel.tp=2,4,8", "training.micro_batch=1,2"], cache=tmp_path / "cache")
    assert (first.simulated, first.reused) == (4, 0)
    assert (again.simulated, again.reused) == (0, 4)
    assert (wider.simulated, wider.reused) == (2, 4)
    assert first.csv() == again.csv()
    assert first.document() == again.document()


def test_another_program_or_a_changed_file_is_another_key(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(cache=tmp_path / "cache")
    monkeypatch.setattr("simulator.study.fingerprint.program", lambda: "another")
    assert quick(cache=tmp_path / "cache").simulated == 4


@pytest.mark.parametrize("name", ["requests.csv", "requests.of-monday", "requests"])
def test_a_named_file_is_part_of_the_key(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / name
    simulated = []
    for tokens in (100, 100, 300):
        trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + f"2023-11-16 18:15:46.68,{tokens},10\n" * 20)
        table = sweep(
            "serving/quickstart",
            ["serving.batching.max_sequences=16,32"],
            cache="cache",
            overrides=[f"requests={{trace: {name}}}"],
        )
        simulated.append(table.simulated)
    assert simulated == [2, 0, 2]


def test_a_full_disk_in_the_middle_does_not_lose_the_sweep(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    from simulator.study.sweep import cache as caches

    connect = caches._connected

    class Full:
        """A connection whose disk is full for outcomes."""

        def __init__(self, path: Any) -> None:
            self.file = connect(path)

        def execute(self, text: str, *values: Any) -> Any:
            if text.startswith("INSERT"):
                raise sqlite3.OperationalError("database or disk is full")
            return self.file.execute(text, *values)

        def close(self) -> None:
            self.file.close()

    monkeypatch.setattr(caches, "_connected", Full)
    table = quick(cache=tmp_path / "cache")
    assert [row.status for row in table.rows] == ["ok"] * 4
    assert len(table.notes) == 1
    assert "nothing more is kept from here on" in table.notes[0]
    assert "disk is full" in table.notes[0]


def test_two_sweeps_at_once_on_one_cache(tmp_path: Any) -> None:
    tables: list[SweepTable] = []
    both = [threading.Thread(target=lambda: tables.append(quick(cache=tmp_path / "cache"))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert tables[0].csv() == tables[1].csv()
    assert quick(cache=tmp_path / "cache").simulated == 0


# ---- table, front, heat map --------------------------------------------------------------------------------------


def test_the_front_is_what_nothing_beats() -> None:
    figures: list[dict[str, float | None]] = [
        {"mfu": m, "peak_memory_bytes": b}
        for m, b in ((0.5, 10.0), (0.4, 5.0), (0.45, 12.0), (0.5, 10.0), (0.3, 5.0), (None, 1.0), (0.1, 1.0))
    ]
    found = frontier.front(figures, "mfu", "peak_memory_bytes")
    assert found == [0, 3, 1, 6]
    for index in range(len(figures)):
        beaten = figures[index]["mfu"] is None or any(_beats(figures[o], figures[index]) for o in found)
        assert beaten == (index not in found)


def test_the_best_is_the_least_time_and_the_largest_rate() -> None:
    times = (3.0, None, 1.0, 2.0, 1.0)
    figures: list[dict[str, float | None]] = [
        {"step_time_s": time, "tokens_per_s": time, "mfu": mfu}
        for time, mfu in zip(times, (0.5, 0.9, 0.2, 0.2, 0.1), strict=True)
    ]
    assert frontier.ranked(figures, "step_time_s") == [2, 4, 3, 0]
    assert frontier.ranked(figures, "tokens_per_s") == [0, 3, 2, 4]
    assert frontier.front(figures, "step_time_s", "mfu") == [2, 0]
    places = [{"x": x, "y": 0} for x in (0, 0, 1, 1, 1)]
    for metric, best in (("step_time_s", 1.0), ("tokens_per_s", 2.0)):
        heat = frontier.heat(places, figures, "x", "y", metric, {"x": (0, 1, 2), "y": (0,)})
        assert (heat.cells, heat.most_points) == (((3.0, best, None),), 3)


def _beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
    better = one["mfu"] >= other["mfu"] and one["peak_memory_bytes"] <= other["peak_memory_bytes"]
    return better and one != other


def test_a_heat_map_shows_the_best_of_each_cell() -> None:
    table = quick(["training.parallel.tp=2,4,16", "training.parallel.pp=1,2", "training.micro_batch=1,2"])
    heat = table.heat("tp", "pp", "mfu")
    assert (heat.x_values, heat.y_values) == ((2, 4, 16), (1, 2))
    assert heat.most_points == 2
    best = max(
        (row.metrics["mfu"] or 0.0)
        for row in table.rows
        if row.status == "ok" and row.values["training.parallel.tp"] == 4 and row.values["training.parallel.pp"] == 1
    )
    assert heat.cells[0][1] == best
    assert heat.cells[0][2] is None


def test_names_that_a_view_cannot_have() -> None:
    axes = ["training.parallel.tp", "training.parallel.pp"]
    for view in (View(by="mfuu"), View(pareto=("mfu", "x")), View(heat=("tp", "cp", "mfu"))):
        with pytest.raises(InputError):
            view.check(axes)
    View("mfu", ("mfu", "hfu"), ("tp", "pp", "mfu")).check(axes)
    table = quick()
    with pytest.raises(InputError, match="unknown metric"):
        table.best("x")
    with pytest.raises(InputError, match="are one axis"):
        table.heat("tp", "tp", "mfu")
    with pytest.raises(InputError, match="no point has `duration`"):
        table.pareto("mfu", "duration")


def test_files_hold_the_same_table(tmp_path: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = quick(["training.parallel={tp: 2},{tp: 16}", "training.micro_batch=1,2"])
    table.to_csv(tmp_path / "t.csv")
    table.to_json(tmp_path / "t.json")
    table.to_parquet(tmp_path / "t.parquet")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0].startswith("point,training.parallel,training.micro_batch,status,reason,step_time_s")
    assert len(lines) == 5
    rows = json.loads((tmp_path / "t.json").read_text())["rows"]
    read = parquet.read_table(tmp_path / "t.parquet").to_pydict()
    assert read["mfu"] == [row["metrics"].get("mfu") for row in rows]
    assert read["training.parallel"][0] == '{"tp": 2}'


# ---- Dask --------------------------------------------------------------------------------------------------------


def test_a_dask_cluster_with_two_workers() -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        table = quick(executor=executors.dask(cluster.scheduler_address))
        assert table.csv() == quick().csv()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mfu > 50", "`50` would be 5,000 %; write `50 %`"),
        ("mfu > 500", "would be 50,000 %; write a share such as `50 %`"),
        ("nope < 2", "for example `training.parallel.tp`, `training.micro_batch`, `mfu`"),
    ],
)
def test_conditions_that_cannot_be_meant(text: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        quick(where=[text])


def test_max_plus_says_what_is_shared() -> None:
    with pytest.raises(InputError, match=r"collectives share the device .*leave out the executor"):
        simulate(load_scenario("quickstart").scenario, executor="max-plus")


def test_progress_counts_what_the_cache_has(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    quick([AXES[0]], cache=tmp_path / "cache")
    quick(["training.parallel.tp=2,4,8"], cache=tmp_path / "cache", progress=lambda *both: told.append(both))
    assert told == [(2, 3), (3, 3)]


def test_a_dask_cluster_without_workers_is_told_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    monkeypatch.setattr(sweeps, "LOOK_S", 0.05)
    monkeypatch.setattr(executors, "_WARN_S", 0.1)
    monkeypatch.setattr(executors, "_ABSENT_S", 0.4)
    told: list[str] = []
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        pytest.raises(InputError, match=r"no worker of the Dask cluster answered for .*`dask worker tcp://"),
    ):
        quick(executor=executors.dask(cluster.scheduler_address, told.append))
    assert len(told) == 1 and "no worker of the Dask cluster answers" in told[0]


def test_dask_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"dask\.distributed is not installed"):
        quick(executor=executors.dask("tcp://localhost:1"))
