"""Regression checks: baselines as files, verdicts, the scenarios below a folder, and planted slowdowns."""

import dataclasses
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import collectives
from simulator.collectives import CollectiveCost
from simulator.errors import InputError
from simulator.report.check.phrases import lines
from simulator.results.documents.check import MovedPart
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
from simulator.study.check import baseline, regression
from simulator.study.check.baseline import Baseline
from simulator.study.check.check import Tolerances, check, parse_tolerances
from tests.factories import out_of_memory, training_result
from tests.services import asked, serve, serving_result

ROOT = Path(__file__).resolve().parents[4]
REAL = collectives.cost_of


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder with one small scenario."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text("extends: quickstart\nname: small\ntraining: {global_batch: 8}\n")
    yield tmp_path


def entries(paths: list[str], update: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    """The JSON form of a check against `base`, scenario by scenario."""
    cases, notes = regression.cases_of(paths, "base")
    checked = regression.run(cases, Tolerances(), jobs, update)
    return regression.document(checked, "base", Tolerances(), notes).scenarios


def slower(operation: str) -> Any:
    """Costs of collectives, of which one takes 2 % longer."""

    def cost_of(asked: str, *arguments: Any, **options: Any) -> CollectiveCost:
        cost = REAL(asked, *arguments, **options)
        if asked != operation:
            return cost
        ticks, moving = (np.round(1.02 * column).astype(np.int64) for column in (cost.ticks, cost.moving))
        return dataclasses.replace(cost, ticks=ticks, moving=moving)

    return cost_of


# A planted slowdown of one collective is caught and named, exposed or hidden.


@pytest.mark.parametrize(
    ("scenario", "operation", "named"),
    [
        ("quickstart", "all_gather", "all_gather (tp) over scale-up, exposed +2."),
        ("quickstart", "send", "send backward (pp) over scale-up"),
        # Copies of the tensors of a list are in these operations too, and stay as long as they were.
        ("training/zero3-175b", "all_gather", "gather parameters (dp) over NIC up, exposed +1."),
        ("training/zero3-175b", "reduce_scatter", "reduce gradients (dp) over NIC up, exposed +1."),
        ("training/ptdp-175b", "all_reduce", "all_reduce (tp) over scale-up, exposed +2.0 %"),
    ],
)
def test_two_percent_of_one_collective_are_caught_and_named(
    scenario: str, operation: str, named: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = entries([scenario], update=True)
    assert made.state == "new"
    (same,) = entries([scenario])
    assert same.state == "same"
    monkeypatch.setattr(collectives, "cost_of", slower(operation))
    (entry,) = entries([scenario])
    assert entry.state == "moved"
    what, through, why, expected = lines(entry)
    assert what.startswith("step time")
    assert "worse" in what
    assert expected.startswith("step time of measured runs is expected at ")
    assert "the figure before lies inside" in expected
    assert through.startswith("through ") and named in through
    assert "the scenario says the same" in why
    assert why.endswith(f"clustersim check {entry.file} --baseline base --update")


def test_communication_that_nothing_waits_for_is_caught_too() -> None:
    result = training_result()
    before = baseline.observe(result)
    after = dataclasses.replace(before, parts=before.parts | {"operations": {"reduce gradients": 0.5}})
    old = dataclasses.replace(before, parts=before.parts | {"operations": {"reduce gradients": 0.4}})
    verdict = check(old, after, Tolerances(), {"reduce gradients": "NIC up"})
    (cause,) = verdict.causes
    assert (cause.name, cause.axis, cause.link, cause.hidden) == ("reduce gradients", "dp", "NIC up", True)
    assert not verdict.same
    assert not verdict.moved


def test_a_service_leads_with_what_moved_most() -> None:
    before = kept("serving", {"mean_e2el_ms": 1000.0, "p99_ttft_ms": 100.0, "mean_itl_ms": 20.0})
    after = kept("serving", {"mean_e2el_ms": 1000.88, "p99_ttft_ms": 140.0, "mean_itl_ms": 20.1})
    names = [one.metric for one in check(before, after, Tolerances(), {}).moved]
    assert names == ["p99_ttft_ms", "mean_e2el_ms", "mean_itl_ms"]
    near = kept("serving", {"mean_e2el_ms": 1200.0, "p99_ttft_ms": 130.0, "mean_itl_ms": 20.0})
    assert check(before, near, Tolerances(), {}).moved[0].metric == "mean_e2el_ms"
    lenient = Tolerances(named={"p99_ttft_ms": 0.4})
    assert [one.metric for one in check(before, after, lenient, {}).moved] == ["mean_itl_ms", "mean_e2el_ms"]


def test_settings_that_older_baselines_do_not_know_are_told_by_their_section() -> None:
    old = dataclasses.replace(kept("serving", {}), scenario={"serving": "1f", "slo": "2e"})
    new = dataclasses.replace(old, scenario={"serving": "2f", "serving.router": "random", "slo": "2e"})
    newer = dataclasses.replace(new, scenario={"serving": "3f", "serving.router": "round-robin", "slo": "2e"})
    assert check(old, new, Tolerances(), {}).edited == ("serving",)
    assert check(new, newer, Tolerances(), {}).edited == ("serving.router random to round-robin",)


def kept(kind: str, metrics: dict[str, float], **parts: dict[str, float]) -> Baseline:
    """A baseline of these figures."""
    return Baseline(kind, "by hand", True, "0", {}, metrics, parts)


def told(causes: Iterable[MovedPart]) -> list[tuple[Any, ...]]:
    return [(one.table, one.name, one.axis, one.link, round(one.share, 12), one.hidden) for one in causes]


def test_causes_of_a_service_by_hand() -> None:
    """Parts are shares of an iteration of 20 ms and of a request of 1 s; what is new has no relative change."""
    before = kept(
        "serving",
        {"mean_e2el_ms": 1000.0},
        operations={"linear": 0.012, "host": 0.008},
        breakdown={"queue": 0.2, "preempted": 0.1, "decode": 0.7},
    )
    after = kept(
        "serving",
        {"mean_e2el_ms": 1050.0},
        operations={"linear": 0.013, "host": 0.008, "tp": 0.004},
        breakdown={"queue": 0.35, "decode": 0.7},
    )
    verdict = check(before, after, Tolerances(), {})
    assert [(one.metric, round(one.change or 0, 12)) for one in verdict.moved] == [("mean_e2el_ms", 0.05)]
    assert told(verdict.causes) == [
        ("operations", "tp", None, None, 0.2, False),
        ("operations", "linear", None, None, 0.05, False),
        ("breakdown", "queue", None, None, 0.15, False),
        ("breakdown", "preempted", None, None, -0.1, False),
    ]
    assert [one.change for one in verdict.causes] == [None, *map(pytest.approx, (1 / 12, 0.75, -1.0))]


def test_causes_of_a_step_by_hand() -> None:
    """Of 10 s: sends are longer by 0.5 on the path and by 1 in all, which made passes slower; a reduction is hidden."""
    path, all_of_it = {"forward": 6.0, "send forward": 2.0}, {"send forward": 3.0, "reduce gradients": 1.0}
    before = kept(
        "training",
        {"step_time_s": 10.0},
        breakdown={"compute": 8.0, "bubble": 2.0},
        critical_path=path,
        links={"NIC up": 2.0, "scale-up": 1.0},
        operations=all_of_it,
    )
    slower = {
        "critical_path": {"forward": 6.8, "send forward": 2.5},
        "operations": {"send forward": 4.0, "reduce gradients": 1.2},
    }
    links = {"send forward": "scale-up", "reduce gradients": "NIC down"}
    expected = [
        ("critical_path", "send forward", "pp", "NIC up", 0.05, False),
        ("critical_path", "forward", None, None, 0.08, False),
        ("operations", "reduce gradients", "dp", "NIC down", 0.02, True),
    ]
    one = dataclasses.replace(before, parts=before.parts | slower | {"links": {"NIC up": 2.5, "scale-up": 1.0}})
    assert told(check(before, one, Tolerances(), links).causes) == expected
    two = dataclasses.replace(before, parts=before.parts | slower | {"links": {"NIC up": 2.25, "scale-up": 1.25}})
    expected[0] = ("critical_path", "send forward", "pp", "scale-up", 0.05, False)
    assert told(check(before, two, Tolerances(), links).causes) == expected
    only = dataclasses.replace(before, parts=before.parts | {"links": {"NIC up": 2.5, "scale-up": 1.0}})
    assert told(check(before, only, Tolerances(), {}).causes) == [("links", "NIC up", None, None, 0.05, False)]


def test_a_tolerance_is_kept_up_to_its_very_limit() -> None:
    before = kept("training", {"step_time_s": 8.0}, breakdown={"compute": 8.0})
    path = kept("training", {"step_time_s": 8.0}, breakdown={"compute": 10.0})
    assert check(before, path, Tolerances(named={"step_time_s": 0.25}), {}).same
    assert not check(before, path, Tolerances(named={"step_time_s": 0.2499}), {}).same
    figure = kept("training", {"step_time_s": 10.0}, breakdown={"compute": 8.0})
    assert check(before, figure, Tolerances(named={"step_time_s": 0.25}), {}).same
    moved = check(before, figure, Tolerances(named={"step_time_s": 0.2499}), {})
    assert (moved.same, moved.causes, moved.moved[0].change) == (False, (), 0.25)
    zero = kept("training", {"step_time_s": 8.0, "bubble_fraction": 0.0}, breakdown={"compute": 8.0})
    some = kept("training", {"step_time_s": 8.0, "bubble_fraction": 1e-12}, breakdown={"compute": 8.0})
    (risen,) = check(zero, some, Tolerances(0.5), {}).moved
    assert (risen.metric, risen.change) == ("bubble_fraction", None)


# What does not change an answer changes no verdict.


def test_a_reformatted_scenario_is_the_same(workplace: Path) -> None:
    entries(["small.yaml"], update=True)
    (workplace / "small.yaml").write_text(
        "# a comment\nname:    small\n\ntraining:\n    global_batch:   8   # sequences\nextends:  quickstart.yaml\n"
    )
    (entry,) = entries(["small.yaml"])
    assert (entry.state, entry.edited, entry.moved) == ("same", (), ())


def test_a_renamed_scenario_is_the_same_and_update_keeps_its_new_name(workplace: Path) -> None:
    entries(["small.yaml"], update=True)
    (workplace / "small.yaml").write_text("extends: quickstart\nname: other\ntraining: {global_batch: 8}\n")
    assert entries(["small.yaml"])[0].state == "same"
    assert entries(["small.yaml"], update=True)[0].state == "same"
    assert json.loads((workplace / "base" / "small.json").read_text())["name"] == "other"


def test_another_version_alone_rewrites_nothing(workplace: Path) -> None:
    entries(["small.yaml"], update=True)
    file = workplace / "base" / "small.json"
    file.write_text(file.read_text().replace(f'"version": "{baseline.__version__}"', '"version": "0.0.1"'))
    old = file.read_text()
    assert entries(["small.yaml"], update=True)[0].state == "same"
    assert file.read_text() == old


def test_an_edited_scenario_is_said_to_be_edited(workplace: Path) -> None:
    entries(["small.yaml"], update=True)
    (workplace / "small.yaml").write_text("extends: quickstart\nname: small\ntraining: {global_batch: 16}\n")
    (entry,) = entries(["small.yaml"])
    assert "training.global_batch 8 to 16" in entry.edited
    assert "the scenario says otherwise in training.global_batch 8 to 16" in lines(entry)[2]
    (entry,) = entries(["small.yaml"], update=True)
    assert entry.state == "rewritten"
    assert entries(["small.yaml"])[0].state == "same"


def test_a_baseline_is_small_and_the_same_everywhere(workplace: Path) -> None:
    entries(["small.yaml"], update=True)
    first = (workplace / "base" / "small.json").read_bytes()
    (workplace / "base" / "small.json").unlink()
    entries(["small.yaml"], update=True)
    assert (workplace / "base" / "small.json").read_bytes() == first
    assert len(first) < 4096
    assert str(workplace).encode() not in first
    numbers = json.loads(first, parse_float=str)["metrics"].values()
    assert all(len(str(number).split("e")[0].replace(".", "").strip("0")) <= 12 for number in numbers)


def test_several_processes_say_the_same_as_one(workplace: Path) -> None:
    shutil.copy("small.yaml", "more.yaml")
    entries(["."], update=True)
    assert entries(["."], jobs=2) == entries(["."])


def test_what_fits_no_longer_is_told() -> None:
    full = baseline.observe(out_of_memory())
    fits = dataclasses.replace(full, feasible=True)
    verdict = check(fits, full, Tolerances(), {})
    assert not verdict.same
    assert (verdict.fitted, verdict.fits) == (True, False)
    memory = fits.parts["memory"]
    more = dataclasses.replace(full, parts=full.parts | {"memory": memory | {"activations": 2 * sum(memory.values())}})
    assert [cause.name for cause in check(fits, more, Tolerances(), {}).causes] == ["activations"]


# Tolerances.


def moved(before: Baseline, factor: float, texts: list[str], name: str = "mfu") -> list[str]:
    """Names of the figures that moved when one was multiplied."""
    after = dataclasses.replace(before, metrics=before.metrics | {name: before.metrics[name] * factor})
    return [one.metric for one in check(before, after, parse_tolerances(texts), {}).moved]


def test_tolerances_are_for_all_or_for_one_figure() -> None:
    known = baseline.observe(training_result())
    assert moved(known, 1 + 1e-12, []) == []
    assert moved(known, 1 + 1e-8, []) == ["mfu"]
    assert moved(known, 1.02, ["1%"]) == ["mfu"]
    assert moved(known, 0.98, ["1%"]) == ["mfu"], "a gain is told as well"
    assert moved(known, 1.02, ["1%", "mfu=3%"]) == []
    assert moved(known, 1.02, ["step_time_s=3%"]) == ["mfu"]
    assert moved(known, 1.02, ["0.03"]) == []


def test_parts_have_the_tolerance_of_the_figure_that_they_sum_to() -> None:
    before = baseline.observe(training_result())
    whole = sum(before.parts["breakdown"].values())
    known = before.parts["critical_path"]
    path = known | {"optimizer": known.get("optimizer", 0) + whole / 200}
    after = dataclasses.replace(before, parts=before.parts | {"critical_path": path})
    assert not check(before, after, Tolerances(), {}).same
    assert check(before, after, parse_tolerances(["step_time_s=1%"]), {}).same
    assert not check(before, after, parse_tolerances(["mfu=1%"]), {}).same


def test_parts_explain_a_figure_although_they_are_within_tolerance() -> None:
    before = baseline.observe(training_result())
    path = before.parts["critical_path"] | {"optimizer": 1e-3}
    after = dataclasses.replace(
        before, metrics=before.metrics | {"mfu": 0.1}, parts=before.parts | {"critical_path": path}
    )
    assert [cause.name for cause in check(before, after, parse_tolerances(["50%"]), {}).causes] == ["optimizer"]


def test_figures_that_come_and_go_are_told() -> None:
    before = baseline.observe(training_result())
    fewer = dataclasses.replace(before, metrics={k: v for k, v in before.metrics.items() if k != "mfu"})
    (gone,) = check(before, fewer, Tolerances(), {}).moved
    (new,) = check(fewer, before, Tolerances(), {}).moved
    assert (gone.metric, gone.after, new.metric, new.before) == ("mfu", None, "mfu", None)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["mfy=1%"], "did you mean `mfu`"),
        (["much"], "is no quantity"),
        (["=1%"], "unknown metric"),
        (["-1%"], "out of range"),
        (["nan"], "nan"),
        (["mfu=2000%"], "out of range"),
        (["1"], "would be 100%; write `1%`"),
        (["1%", "2%"], "second one"),
        (["mfu=5 s"], "mfu=5 s"),
    ],
)
def test_tolerances_that_make_no_sense(texts: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_tolerances(texts)


# Baselines as files.


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    for name in ("quickstart", "serving/tellme-kv260", "training/edge-cell-oom"):
        known = baseline.observe(simulate(load_scenario(name).scenario))
        baseline.write(tmp_path / "deep" / "x.json", known)
        assert baseline.read(tmp_path / "deep" / "x.json") == known
    assert baseline.read(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cut or damaged"),
        ('{"baseline": 1, "kind": "tra', "cut or damaged"),
        ("[" * 100_000, "cut or damaged"),
        ("{\n \udcff", "x.json:2:2: byte 0xff is no text in UTF-8"),
        ('{"baseline": 2}', "form 2.*reads form 1"),
        ('{"baseline": 1}', "`kind` is missing"),
        ("[]", "is no baseline"),
        ('{"metrics": {}}', "is no baseline"),
    ],
)
def test_files_that_are_no_baseline(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=words):
        baseline.read(tmp_path / "x.json")


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": {"mfu": "much"}},
        {"metrics": {"mfu": 0.5, "hfu": "much"}},
        {"parts": {"breakdown": [1]}},
        {"kind": "baking"},
        {"scenario": {"a": 1}},
        {"feasible": 1},
        {"metrics": {"mfu": True}},
        {"metrics": {"mfu": 10**400}},
        {"parts": {"breakdown": {"a": float("nan")}}},
    ],
)
def test_baselines_with_damaged_values(change: dict[str, Any], tmp_path: Path) -> None:
    known = {"baseline": 1} | dataclasses.asdict(baseline.observe(training_result()))
    (tmp_path / "x.json").write_text(json.dumps(known | change))
    with pytest.raises(InputError, match=f"`{next(iter(change))}` is missing or of another form.*--update"):
        baseline.read(tmp_path / "x.json")


def test_update_mends_a_damaged_baseline_but_keeps_files_of_others(workplace: Path) -> None:
    entries(["small.yaml"], update=True)
    file = workplace / "base" / "small.json"
    sound = file.read_bytes()
    file.write_bytes(sound[:200])
    assert entries(["small.yaml"])[0].state == "refused"
    assert entries(["small.yaml"], update=True)[0].state == "new"
    assert file.read_bytes() == sound
    file.write_text('{"precious": 1}')
    assert entries(["small.yaml"], update=True)[0].state == "refused"
    assert file.read_text() == '{"precious": 1}'


# Scenarios below a folder.


def test_folders_are_walked_and_what_is_no_scenario_is_left_out(workplace: Path) -> None:
    (workplace / "plans" / "families").mkdir(parents=True)
    (workplace / ".hidden").mkdir()
    (workplace / ".hidden" / "x.yaml").write_text("what")
    (workplace / "plans" / "families" / "base.yaml").write_text("version: 1\ncluster: clusters/dgx-h100\n")
    (workplace / "plans" / "one.yml").write_text(
        "extends: families/base.yaml\nname: one\nmodel: llama-3-8b\nstack: megatron-core\n"
        "training: {global_batch: 8, sequence_length: 2048}\n"
    )
    (workplace / "compose.yaml").write_text("services: {}\n")
    cases, notes = regression.cases_of([".", "plans/one.yml"], "base")
    assert [case.file for case in cases] == ["small.yaml", "plans/one.yml"]
    assert [case.baseline for case in cases] == [Path("base/small.json"), Path("base/plans/one.json")]
    assert notes == [
        "compose.yaml is left out: no scenario",
        "plans/families/base.yaml is left out: no scenario by itself, others extend it",
    ]


def test_the_baseline_is_the_same_from_whichever_path(workplace: Path) -> None:
    (workplace / "plans").mkdir()
    shutil.move("small.yaml", "plans/small.yaml")
    for path in (".", "plans", "plans/small.yaml", str(workplace / "plans"), "./plans/../plans"):
        (case,) = regression.cases_of([path], "base")[0]
        assert case.baseline == Path("base/plans/small.json")


def test_a_scenario_that_cannot_run_stops_no_other(workplace: Path) -> None:
    (workplace / "bad.yaml").write_text("extends: quickstart\ntraining: {parallel: {tp: 3}}\n")
    (workplace / "worse.yaml").write_text("training: {global_batch: [\n")
    bad, small, worse = entries(["."], update=True)
    assert (bad.state, small.state, worse.state) == ("refused", "new", "refused")
    assert bad.problems[0].line is not None or bad.problems[0].file
    assert worse.problems[0].file == "worse.yaml"


@pytest.mark.parametrize("paths", [["empty"], ["nothing.yaml"], ["nothing"]])
def test_paths_without_scenarios(paths: list[str], workplace: Path) -> None:
    (workplace / "empty").mkdir()
    with pytest.raises(InputError, match="there is no scenario"):
        regression.cases_of(paths, "base")


def test_two_scenarios_cannot_share_a_baseline(workplace: Path) -> None:
    shutil.copy("small.yaml", "small.yml")
    with pytest.raises(InputError, match=r"same baseline as small\.yaml"):
        regression.cases_of(["."], "base")


def test_scenarios_of_one_name_elsewhere_have_baselines_of_their_own(workplace: Path) -> None:
    """Neither lies below the working folder: the second one was written over the first."""
    inner = workplace / "inner"
    inner.mkdir()
    for folder, batch in (("a", 8), ("b", 16)):
        (workplace / folder).mkdir()
        (workplace / folder / "x.yaml").write_text(
            f"extends: quickstart\nname: small\ntraining: {{global_batch: {batch}}}\n"
        )
    os.chdir(inner)
    for folder in ("a", "b", "a", "b"):
        (entry,) = entries([f"../{folder}/x.yaml"], update=True)
        assert Path(entry.baseline) == Path("base", "_up", folder, "x.json")
    assert entry.state == "same"
    assert {entry.baseline for entry in entries(["../a", "../b"])} == {"base/_up/a/x.json", "base/_up/b/x.json"}


def test_a_baseline_without_scenario_fails_and_is_removed_by_update(workplace: Path) -> None:
    entries(["."], update=True)
    os.rename("small.yaml", "large.yaml")
    (workplace / "base" / "mine.json").write_text("{}")
    (one,) = regression.gone(["."], "base", update=False)
    told = regression.document([one], "base", Tolerances())
    assert (one.state, regression.exit_code([one]), told.passed) == ("gone", 1, False)
    assert told.scenarios[0].file == "small.yaml"
    assert told.scenarios[0].accept == "clustersim check . --baseline base --update"
    assert regression.gone(["large.yaml"], "base", update=True) == []
    assert [one.state for one in regression.gone(["."], "base", update=True)] == ["removed"]
    assert os.listdir("base") == ["mine.json"]


@pytest.mark.parametrize("text", ["", "# all of it is a comment\n", "version: 1\nname: x: y: [", "services: {}\n"])
def test_a_scenario_with_a_baseline_cannot_be_emptied_unseen(text: str, workplace: Path) -> None:
    entries(["."], update=True)
    (workplace / "small.yaml").write_text(text)
    (entry,) = entries(["."])
    assert (entry.file, entry.state) == ("small.yaml", "refused")


def test_a_file_that_cannot_be_parsed_is_not_left_out(workplace: Path) -> None:
    (workplace / "cut.yaml").write_text("foo: [")
    cases, notes = regression.cases_of(["."], "base")
    assert ([case.file for case in cases], notes) == (["cut.yaml", "small.yaml"], [])


def test_the_folder_of_baselines_must_be_a_folder(workplace: Path) -> None:
    for folder in ("small.yaml", "small.yaml/below"):
        with pytest.raises(InputError, match="is no folder"):
            regression.cases_of(["small.yaml"], folder)


def test_a_folder_that_cannot_be_written_is_told_before_the_work(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise InputError("cannot be written: Read-only file system")

    monkeypatch.setattr(regression, "check_writable", refuse)
    monkeypatch.setattr(regression, "simulate", lambda scenario: pytest.fail("simulated"))
    with pytest.raises(InputError, match="Read-only file system; name another folder with --baseline"):
        entries(["small.yaml"], update=True)


def test_an_iteration_of_each_pool_by_hand() -> None:
    """Seconds of all replicas of a pool over their iterations; the pool is named where there are several."""
    service = serve(asked())
    first, second = service.replicas
    counts = [int(one.iterations.count.sum()) for one in (first, second)]
    parted = [dataclasses.replace(first, pool=name, parts={"linear": 3.0}) for name in ("a", "b")]
    other = dataclasses.replace(second, pool="b", parts={"linear": 2.0})
    services = [dataclasses.replace(service, replicas=(one, other)) for one in parted]
    apart, together = (baseline.observe(serving_result(one)).parts["operations"] for one in services)
    assert apart == pytest.approx({"a: linear": 3.0 / counts[0], "b: linear": 2.0 / counts[1]})
    assert together == pytest.approx({"linear": 5.0 / sum(counts)})


def test_the_order_of_keys_is_no_change_of_a_scenario() -> None:
    result = serving_result()
    one, two = ({"requests": {"count": 3, "speed": speed}} for speed in (1, 2))
    turned = {"requests": {"speed": 1, "count": 3}}
    results = [dataclasses.replace(result, scenario=scenario) for scenario in (one, turned, two)]
    digests = [baseline.observe(one).scenario for one in results]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.usefixtures("workplace")
def test_figures_beyond_the_tolerance_come_first_when_written_anew() -> None:
    entries(["small.yaml"], update=True)
    cases, _ = regression.cases_of(["small.yaml"], "base")
    known = baseline.read(cases[0].baseline)
    other = {"step_time_s": known.metrics["step_time_s"] * 1.0002, "exposed_communication_s": 1.0}
    baseline.write(cases[0].baseline, dataclasses.replace(known, metrics=known.metrics | other))
    (one,) = regression.run(cases, parse_tolerances(["1%"]), update=True)
    assert one.state == "rewritten" and one.verdict is not None
    assert [moved.metric for moved in one.verdict.moved] == ["exposed_communication_s", "step_time_s"]
