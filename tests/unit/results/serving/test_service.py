from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.metrics import METRICS
from simulator.results.metrics import compare, error_of_time
from simulator.results.sample import spread, weighted_percentiles
from simulator.results.serving.service import (
    attainment,
    by_priority,
    latencies,
    serving_metrics,
    tokens_per_bin,
)
from tests.effort import examples
from tests.services import Slo, asked, disaggregated, serve

SLO = Slo(ttft=0.4, tpot=0.03, e2e=4.0)


@pytest.fixture(scope="module", params=[(400, True), (130, True), (130, False)], ids=["roomy", "tight", "no leap"])
def run(request):
    blocks, leap = request.param
    requests = asked()
    return requests, serve(requests, blocks=blocks, leap=leap)


def finished(requests):
    return [one for one in requests if one.status == 0]


def test_latencies_are_those_of_numpy_on_every_request(run) -> None:
    requests, service = run
    done = finished(requests)
    ttft = [(one.tokens[0] - one.arrival) / 1e9 for one in done]
    e2el = [(one.tokens[-1] - one.arrival) / 1e9 for one in done]
    tpot = [(one.tokens[-1] - one.tokens[0]) / 1e9 / (one.output - 1) for one in done if one.output > 1]
    itl = np.concatenate([np.diff(one.tokens) for one in done]) / 1e9
    found = serving_metrics(service)
    for name, sample in (("ttft", ttft), ("tpot", tpot), ("itl", itl), ("e2el", e2el)):
        assert found[f"mean_{name}_ms"] == pytest.approx(np.mean(sample))
        assert found[f"std_{name}_ms"] == pytest.approx(np.std(sample))
        assert found[f"median_{name}_ms"] == pytest.approx(np.median(sample))
        for p in (90, 95, 99):
            assert found[f"p{p}_{name}_ms"] == pytest.approx(np.percentile(sample, p))


def test_throughput_counts_what_finished_from_the_first_arrival_to_the_last_token(run) -> None:
    requests, service = run
    done = finished(requests)
    found = serving_metrics(service)
    duration = (max(one.tokens[-1] for one in done) - requests[0].arrival) / 1e12
    assert found["duration"] == pytest.approx(duration)
    assert (found["completed"], found["failed"], found["unfinished"]) == (196, 4, 0)
    prompts, outputs = sum(one.prompt for one in done), sum(one.output for one in done)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (prompts, outputs)
    assert found["request_throughput"] == pytest.approx(196 / duration)
    assert found["output_throughput"] == pytest.approx(outputs / duration)
    assert found["total_token_throughput"] == pytest.approx((prompts + outputs) / duration)
    assert found["output_throughput_per_device"] == pytest.approx(outputs / duration / 4)


def test_peaks_as_vllm_finds_them(run) -> None:
    requests, service = run
    done = finished(requests)
    origin = requests[0].arrival
    seconds = np.bincount([(token - origin) // 10**12 for one in done for token in one.tokens])
    events = sorted([(one.arrival, 1) for one in done] + [(one.tokens[-1], -1) for one in done])
    found = serving_metrics(service)
    assert found["max_output_tokens_per_s"] == pytest.approx(seconds.max())
    assert found["max_concurrent_requests"] == np.cumsum([change for _, change in events]).max()


@pytest.mark.parametrize("width", [10**12, 7 * 10**9, 10**13])
def test_tokens_are_counted_when_they_come_out(run, width) -> None:
    requests, service = run
    moments = np.concatenate([one.tokens for one in requests if one.tokens])
    bins = int(moments.max() // width) + 1
    np.testing.assert_allclose(tokens_per_bin(service, 0, width, bins), np.bincount(moments // width, minlength=bins))
    half = bins // 2
    counted = np.bincount(moments[moments < half * width] // width, minlength=half)
    np.testing.assert_allclose(tokens_per_bin(service, 0, width, half), counted)


def test_objectives(run) -> None:
    requests, service = run
    done = finished(requests)
    ttft = np.array([(one.tokens[0] - one.arrival) / 1e12 for one in done])
    e2el = np.array([(one.tokens[-1] - one.arrival) / 1e12 for one in done])
    tpot = (e2el - ttft) / np.maximum([one.output - 1 for one in done], 1)
    met = [ttft <= 0.4, tpot <= 0.03, e2el <= 4.0]
    good = np.logical_and.reduce(met)
    found = serving_metrics(service, SLO)
    assert found["request_goodput"] == pytest.approx(good.sum() / found["duration"])
    assert found["slo_attainment"] == pytest.approx(good.sum() / 200)  # the rejected have met nothing
    for name, one in zip(("ttft", "tpot", "e2el"), met, strict=True):
        assert found[f"{name}_attainment"] == pytest.approx(one.sum() / 200)


def test_without_objectives_nothing_is_said_about_them(run) -> None:
    assert "request_goodput" not in serving_metrics(run[1])
    nothing = serving_metrics(run[1], Slo(None, None, None))
    assert not [name for name in nothing if "goodput" in name or "attainment" in name]
    assert set(attainment(run[1], Slo(0.4, None, None))) == {"slo", "ttft"}


def test_energy_and_money_of_the_devices_that_serve(run) -> None:
    service = run[1]
    found = serving_metrics(service, prices={"A100": 2 / 3600}, energy_j=7e6, peak_memory=5e9)
    duration = found["duration"]
    assert found["energy_j"] == 7e6
    assert found["energy_j_per_million_tokens"] == pytest.approx(7e6 / found["total_output_tokens"] * 1e6)
    assert found["cost_usd"] == pytest.approx(4 * duration * 2 / 3600)
    assert found["cost_usd_per_million_tokens"] == pytest.approx(found["cost_usd"] / found["total_output_tokens"] * 1e6)
    assert found["peak_memory_bytes"] == 5e9
    unknown = serving_metrics(service)
    assert not {"energy_j", "cost_usd", "peak_memory_bytes"} & unknown.keys()
    assert "cost_usd" not in serving_metrics(service, prices={"A100": None})


def test_work_of_the_replicas(run) -> None:
    requests, service = run
    found = serving_metrics(service)
    assert found["preemptions"] == sum(one.preemptions for one in requests)
    assert found["mean_queue_ms"] == pytest.approx(
        np.mean([(one.scheduled - one.arrival) / 1e9 for one in finished(requests)])
    )
    busy = sum(replica.busy for replica in service.replicas)
    assert found["utilisation"] == pytest.approx(busy / 2 / found["duration"])
    assert 0 < found["mean_kv_usage"] < found["max_kv_usage"] <= 1
    assert found["prefix_cache_hit_rate"] == pytest.approx(0.25, abs=0.01)


def test_leaps_change_no_figure() -> None:
    leaping, stepping = (serving_metrics(serve(asked(), leap=leap), SLO) for leap in (True, False))
    for name, value in leaping.items():
        assert value == pytest.approx(stepping[name], rel=0.03 if "kv" in name else 1e-12), name


def test_mean_batch_by_hand() -> None:
    # a decode replica: 60 ps with one sequence, 132 ps with one; the prefill replica does not count
    assert serving_metrics(disaggregated())["mean_batch"] == 1


def test_nothing_finished() -> None:
    service = serve(asked())
    rejected = replace(service.requests, status=np.ones(200, np.int64))
    found = serving_metrics(replace(service, requests=rejected), SLO)
    assert (found["completed"], found["failed"], found["slo_attainment"]) == (0, 200, 0)
    assert np.isnan(found["mean_ttft_ms"])
    assert found["max_concurrent_requests"] == 0


def test_an_empty_run() -> None:
    found = serving_metrics(serve([]), SLO)
    assert found["completed"] == 0
    assert np.isnan(found["output_throughput"])


def test_requests_that_were_cut_off() -> None:
    service = serve(asked())
    status, finish = service.requests.status.copy(), service.requests.finish.copy()
    late = finish > 30 * 10**12
    status[late], finish[late] = 2, -1
    found = serving_metrics(replace(service, requests=replace(service.requests, status=status, finish=finish)), SLO)
    assert found["unfinished"] == late.sum()
    assert found["duration"] > 30  # to the end of the last iteration, not of the last request


def test_every_figure_is_described() -> None:
    found = serving_metrics(serve(asked()), SLO, prices={"A100": 1.0}, energy_j=1.0, peak_memory=1.0)
    assert set(found) <= set(METRICS)


def test_published_latencies_are_read_with_their_unit() -> None:
    row = compare("mean_ttft_ms", "350 ms", 700.0, "a paper")
    assert (row.published, row.error) == (pytest.approx(350), pytest.approx(1.0))
    assert compare("completed", 1000, 1000.0, "a paper").error == 0
    assert compare("output_throughput", "2 kB/s".replace("kB", "tokens"), 1.0, "x").error == pytest.approx(1.0)
    assert error_of_time("request_throughput", 2.0, 4.0) == pytest.approx(-0.5)
    with pytest.raises(ValueError, match="no unit"):
        compare("mean_ttft_ms", 350, 1.0, "a paper")


samples = st.lists(st.tuples(st.integers(0, 10**13), st.integers(0, 40)), min_size=1, max_size=60).filter(
    lambda rows: any(count for _, count in rows)
)


@examples(200)
@given(samples, st.floats(0, 100))
def test_percentiles_over_weights_are_those_of_the_expanded_sample(rows, percentile) -> None:
    values, counts = np.array([row[0] for row in rows], float), np.array([row[1] for row in rows])
    expanded = np.repeat(values, counts)
    assert weighted_percentiles(values, counts, (percentile,))[0] == pytest.approx(
        np.percentile(expanded, percentile), rel=1e-12
    )
    found = spread(values, counts)
    assert found.mean == pytest.approx(expanded.mean())
    assert found.std == pytest.approx(expanded.std(), rel=1e-9, abs=1e-3)


def test_figures_of_each_priority_class() -> None:
    """Each class is what a run of it alone would show; classes without requests are left out, and a single one too."""
    service = serve(asked(), blocks=130)
    assert by_priority(service) == {}
    requests = service.requests
    classes = np.where(np.arange(len(requests.arrival)) < 120, 0, 2)
    found = by_priority(replace(service, requests=replace(requests, priority=classes)))
    assert list(found) == [0, 2]
    assert sum(one["completed"] for one in found.values()) == (requests.status == 0).sum()
    assert [one["requests"] for one in found.values()] == [120, len(classes) - 120]
    times = latencies(requests)
    finished = classes[requests.status == 0]
    for one, figures in found.items():
        assert figures["mean_ttft_ms"] == pytest.approx(times.ttft[finished == one].mean())
        assert figures["p99_e2el_ms"] == pytest.approx(np.percentile(times.e2el[finished == one], 99))
        assert figures["mean_tpot_ms"] == pytest.approx(times.tpot[(finished == one) & times.several].mean())
