from dataclasses import replace
from math import nan

import pytest

from simulator.errors import InputError
from simulator.results.result import Result
from simulator.specs import dump, load_scenario
from simulator.study import header
from simulator.study.compare.comparison import compare, distinct
from simulator.study.compare.document import document, sentence
from tests.factories import out_of_memory, training_result
from tests.services import asked, serve, serving_result


def slower(result: Result, factor: float) -> Result:
    """The same step with a longer bubble: `factor` times the time for the same tokens."""
    step = result.metrics["step_time_s"]
    breakdown = tuple({**part, "bubble": part["bubble"] + (factor - 1) * step} for part in result.breakdown)
    rates = {name: result.metrics[name] / factor for name in ("tokens_per_s", "tokens_per_s_per_device", "mfu")}
    return replace(result, metrics=result.metrics | rates | {"step_time_s": step * factor}, breakdown=breakdown)


def larger(result: Result, times: int) -> Result:
    """`times` as many tokens in `times` the time."""
    grown = {name: result.metrics[name] * times for name in ("step_time_s", "energy_j", "cost_usd")}
    breakdown = tuple({key: value * times for key, value in part.items()} for part in result.breakdown)
    return replace(result, metrics=result.metrics | grown, breakdown=breakdown)


def row(comparison, metric):
    return next(row for row in comparison.rows if row.metric == metric)


def test_the_difference_is_explained_by_its_parts() -> None:
    first = training_result()
    found = compare([first, slower(first, 1.25)], ["a", "b"])
    (difference,) = found.differences
    assert difference.ratio == pytest.approx(0.25)
    assert sum(difference.parts.values()) == pytest.approx(difference.ratio)
    assert next(iter(difference.parts)) == "bubble"
    assert sentence(difference) == "b takes 25.0 % more time: 25.0 points more bubble"
    assert sentence(difference, against=True) == "b takes 25.0 % more time than a: 25.0 points more bubble"
    assert row(found, "tokens_per_s").best == (0,)
    assert found.notes == ()


def test_the_parts_of_the_first_sum_to_one_and_those_of_others_to_their_time() -> None:
    first = training_result()
    runs = compare([first, slower(first, 1.5), slower(first, 4.0)]).runs
    assert [sum(run.shares.values()) for run in runs] == pytest.approx([1.0, 1.5, 4.0])
    assert sum(runs[0].seconds.values()) == pytest.approx(first.metrics["step_time_s"])


def test_many_times_the_time_is_told_as_such() -> None:
    first = training_result()
    (difference,) = compare([first, slower(first, 3.5)], ["a", "b"]).differences
    assert sentence(difference).startswith("b takes 3.5 times as long: 250.0 points more bubble")


def test_equal_runs_have_no_best_and_no_reasons() -> None:
    found = compare([training_result(), training_result()])
    assert all(row.best == () for row in found.rows)
    assert sentence(found.differences[0]) == "gpt-1t on 3,072 A100 (2) takes as long as the first, within 0.5 %"


def test_what_prints_alike_is_marked_alike() -> None:
    first = training_result()
    found = compare([first, slower(first, 1.0002), slower(first, 1.2)])
    assert row(found, "tokens_per_s").best == (0, 1)


def test_steps_of_other_sizes_are_held_to_the_same_tokens() -> None:
    first = training_result()
    found = compare([first, larger(first, 2)], ["a", "b"])
    (difference,) = found.differences
    assert difference.ratio == pytest.approx(0.0)
    assert not any(abs(share) > 1e-9 for share in difference.parts.values())
    assert [row(found, name).best for name in ("step_time_s", "energy_j", "cost_usd")] == [(), (), ()]
    assert "steps are of 786,432 and 1,572,864 tokens" in found.notes[0]


def test_what_does_not_fit_is_never_the_best() -> None:
    fast = replace(out_of_memory(), name="too large")
    slow = slower(training_result(), 1.5)
    found = compare([fast, slow, slower(slow, 1.1)])
    assert row(found, "tokens_per_s").best == (1,)
    assert found.notes[0] == "too large does not fit into memory; figures say what would be if it did"
    (difference,) = compare([slow, fast]).differences
    assert "too large does not fit into memory; if it did, it would take 33.3 % less time" in sentence(difference)


def test_a_service_that_does_not_fit_has_no_figures_and_no_difference() -> None:
    served = serving_result()
    full = replace(served, name="full", metrics={}, service=None, feasible=False)
    for results in ([served, full, served], [full, served, served]):
        found = compare(results)
        assert len(found.differences) == 1
        assert "full does not fit into memory, so that there are no figures" in found.notes[0]
        assert [bool(run.shares) for run in found.runs] == [result is not full for result in results]
    assert compare([full, full]).rows == compare([full, full]).differences == ()


def test_what_is_no_number_is_left_out_of_the_comparison() -> None:
    served = serving_result()
    none = replace(served, name="none", metrics=served.metrics | {"mean_e2el_ms": nan, "p99_ttft_ms": nan})
    found = compare([served, none])
    assert row(found, "p99_ttft_ms").values[1] is None
    assert row(found, "p99_ttft_ms").best == ()
    assert found.differences == ()
    assert "NaN" not in str(document(found))
    assert compare([none, served, served]).differences[0].against == served.name


@pytest.mark.parametrize("rate", [nan, 1e308])
def test_steps_of_no_number_of_tokens_are_compared(rate: float) -> None:
    first = training_result()
    none = replace(first, metrics=first.metrics | {"tokens_per_s": rate, "step_time_s": rate})
    assert "steps are of 0 and 786,432 tokens" in compare([none, first]).notes[0]


def test_requests_are_explained_by_their_parts() -> None:
    one, other = serving_result(serve(asked())), serving_result(serve(asked(), replicas=1, blocks=900, most=64))
    found = compare([one, other], ["two", "one"])
    (difference,) = found.differences
    assert difference.metric == "mean_e2el_ms"
    assert difference.ratio == pytest.approx(other.metrics["mean_e2el_ms"] / one.metrics["mean_e2el_ms"] - 1)
    assert sum(difference.parts.values()) == pytest.approx(difference.ratio)
    assert " a request: " in sentence(difference)
    assert "the runs have 4 and 2 devices: figures for each device are the fairer ones" in found.notes


def test_other_requests_are_told() -> None:
    short = serving_result(serve(asked(50)), name="short")
    notes = compare([serving_result(), short]).notes
    assert any(note.startswith("the runs do not answer the same requests") for note in notes)
    assert any(note.startswith("of short ") and "are not: latencies are of those done" in note for note in notes)


def test_training_and_serving_share_little_and_it_says_so() -> None:
    first = training_result()
    results = [first, serving_result(), slower(first, 2.0), serving_result()]
    found = compare(results, ["t1", "s1", "t2", "s2"])
    assert [row.metric for row in found.rows] == ["peak_memory_bytes"]
    assert found.rows[0].best == ()
    assert [(d.name, d.against) for d in found.differences] == [("t2", "t1"), ("s2", "s1")]
    (note,) = (note for note in found.notes if note.startswith("training (t1 and t2) and serving (s1 and s2)"))
    assert "both have peak memory" in note
    told = document(found).differences
    assert told[1].sentence == "s2 takes as long a request as s1, within 0.5 %"


def test_models_and_lengths_that_differ_are_named() -> None:
    def with_model(name: str, length: int) -> Result:
        return training_result(scenario={"model": {"name": name}, "training": {"sequence_length": length}})

    notes = compare([with_model("a", 2048), with_model("b", 4096)]).notes
    assert notes == ("models differ: a and b", "sequence lengths differ: 2048 and 4096")


def test_names_are_told_apart() -> None:
    assert distinct(["a", "b", "a", "a (2)", "a"]) == ("a", "b", "a (2)", "a (2) (2)", "a (3)")
    assert compare([training_result(), training_result()], ["x", "x"]).names == ("x", "x (2)")


@pytest.mark.parametrize(("count", "names", "message"), [(1, None, "nothing to compare"), (2, ["a"], "1 names for 2")])
def test_too_few(count, names, message) -> None:
    with pytest.raises(InputError, match=message):
        compare([training_result()] * count, names)


def test_the_document_is_plain_data() -> None:
    from simulator.results import dumps
    from simulator.results.documents.form import plain

    first = training_result()
    told = document(compare([first, slower(first, 1.1)], ["a", "b"]))
    assert list(plain(told)) == [
        "schema",
        "kind",
        "shared",
        "differing",
        "changes",
        "names",
        "runs",
        "metrics",
        "differences",
        "notes",
    ]
    assert told.metrics["mfu"].best == ("a",)
    assert told.metrics["mfu"].headline and not told.metrics["samples_per_s"].headline
    assert dumps(plain(told))


def step(seconds: float, tokens: float, **parts: float) -> Result:
    """A step of one device class with these seconds by part."""
    result = training_result(stages=1)
    metrics = {"step_time_s": seconds, "tokens_per_s": tokens / seconds, "energy_j": 50 * seconds}
    return replace(result, metrics=metrics, breakdown=(parts,))


def test_parts_by_hand() -> None:
    """10 s for 100 tokens, and 12 s for 200: 6 s for 100, of which compute is 9/12, so 0.45 of the first one's time."""
    first, other = step(10, 100, compute=6, bubble=4), step(12, 200, compute=9, exposed_tp=3)
    found = compare([first, other], ["a", "b"])
    (difference,) = found.differences
    assert difference.ratio == pytest.approx(-0.4)
    assert difference.parts == pytest.approx({"bubble": -0.4, "compute": -0.15, "exposed_tp": 0.15})
    assert found.runs[1].shares == pytest.approx({"compute": 0.45, "exposed_tp": 0.15})
    assert row(found, "step_time_s").best == row(found, "energy_j").best == ()
    assert row(found, "tokens_per_s").best == (1,)


def test_of_equal_steps_the_shorter_one_is_the_best() -> None:
    found = compare([step(10, 100, compute=10), step(8, 100, compute=8), step(8.004, 100, compute=8.004)])
    assert row(found, "step_time_s").best == row(found, "tokens_per_s").best == row(found, "energy_j").best == (1, 2)
    assert row(found, "energy_j").headline


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        (2.346, ()),  # 2.344 beside it prints as 2.34 and this as 2.35, but they are within a thousandth
        (2.3449, ()),
        (2.348, (0,)),
        (2.33501, ()),  # further apart than a thousandth, and both print as 2.34
        (2.33, (1,)),
    ],
)
def test_how_close_runs_are_equal(seconds: float, best: tuple[int, ...]) -> None:
    found = compare([step(2.344, 100, compute=1), step(seconds, 100, compute=1)])
    assert row(found, "step_time_s").best == best


@pytest.mark.parametrize(
    ("overrides", "devices"),
    [
        ([], "1 x NVIDIA A100 SXM4 80GB"),
        (["serving.replicas=3", "serving.parallel.tp=2"], "6 x NVIDIA A100 SXM4 80GB"),
        (
            ["+serving.pools=[{name: a, role: prefill, replicas: 2}, {name: b, role: decode, parallel: {tp: 4}}]"],
            "6 x NVIDIA A100 SXM4 80GB",
        ),
    ],
)
def test_a_service_is_on_the_devices_that_its_replicas_take(overrides: list[str], devices: str) -> None:
    assert header.scenario_fields(dump(load_scenario("serving/quickstart", overrides).scenario))["devices"] == devices


def test_a_device_that_is_half_a_package_is_called_so() -> None:
    known = header.scenario_fields(dump(load_scenario("training/frontier-175b").scenario))
    assert known["devices"] == "1,024 x AMD Instinct MI250X (one GCD)"
