"""Four requests on one replica whose figures are worked out in the comments. Times are milliseconds.

request   arrival  scheduled  tokens at                 prompt (cached)
0               0          0  100, 200                  32 (16)
1               0        100  200                       16
2              50        200  300, 400, 600, 650, 700   16, preempted at 400 and computed again until 600
3              60          -  rejected                  99
"""

from dataclasses import replace

import numpy as np
import pytest

from simulator.results.result import Replica, RequestRecords, Service, TokenGaps
from simulator.results.serving.request_time import request_time
from simulator.results.serving.service import attainment, serving_metrics, tokens_per_bin
from simulator.results.serving.token_times import token_times
from tests.services import MS, Slo, iterations

BOUNDS = Slo(ttft=0.2, tpot=0.1, e2e=0.65)
"""Request 1 has a TTFT of just 200, requests 0 and 2 a TPOT of just 100, request 2 an E2E latency of just 650."""


@pytest.fixture(scope="module")
def service() -> Service:
    column = np.array
    requests = RequestRecords(
        arrival=MS * column([0, 0, 50, 60]),
        scheduled=column([0, 100 * MS, 200 * MS, -1]),
        first_token=column([100 * MS, 200 * MS, 300 * MS, -1]),
        finish=column([200 * MS, 200 * MS, 700 * MS, -1]),
        prompt=column([32, 16, 16, 99]),
        output=column([2, 1, 5, 1]),
        generated=column([2, 1, 5, 0]),
        cached=column([16, 0, 0, 0]),
        preemptions=column([0, 0, 1, 0]),
        replica=column([0, 0, 0, -1]),
        status=column([0, 0, 0, 1]),
        priority=column([0, 0, 0, 0]),
    )
    rows = iterations(
        (0, 1, 100 * MS, 0, 0, 16, 1, 0, 2, 1),
        (100 * MS, 1, 100 * MS, 0, 1, 16, 1, 33, 4, 1),
        (200 * MS, 1, 100 * MS, 0, 0, 16, 1, 0, 1, 0),
        (300 * MS, 1, 100 * MS, 0, 1, 0, 0, 17, 2, 0),
        (500 * MS, 1, 100 * MS, 0, 0, 18, 1, 0, 2, 0),
        (600 * MS, 2, 50 * MS, 0, 1, 0, 0, 19, 2, 0),
    )
    replica = Replica("0", "all", "both", 2, "A100", 10, 16, 1.0, rows, 0.6, {"linear": 0.5, "host": 0.1})
    gaps = TokenGaps(MS * column([50, 100, 200]), column([2, 2, 1]))
    return Service(requests, (replica,), gaps, MS * column([[2, 400, 600]]) // column([MS, 1, 1]))


def test_latencies(service: Service) -> None:
    found = serving_metrics(service)
    assert found["mean_ttft_ms"] == pytest.approx((100 + 200 + 250) / 3)
    assert (found["median_ttft_ms"], found["p90_ttft_ms"]) == pytest.approx((200, 200 + 0.8 * 50))
    assert (found["mean_tpot_ms"], found["p99_tpot_ms"]) == pytest.approx((100, 100))  # a single token has none
    assert found["mean_e2el_ms"] == pytest.approx((200 + 200 + 650) / 3)
    assert found["std_e2el_ms"] == pytest.approx((2 * 150**2 / 3 + 300**2 / 3) ** 0.5)
    assert (found["mean_itl_ms"], found["median_itl_ms"]) == pytest.approx((100, 100))  # 50, 50, 100, 100, 200
    assert (found["p90_itl_ms"], found["p99_itl_ms"]) == pytest.approx((100 + 0.6 * 100, 100 + 0.96 * 100))
    assert (found["mean_queue_ms"], found["p99_queue_ms"]) == pytest.approx((250 / 3, 100 + 0.98 * 50))


def test_throughput_and_work(service: Service) -> None:
    found = serving_metrics(service)
    assert (found["duration"], found["completed"], found["failed"], found["unfinished"]) == (0.7, 3, 1, 0)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (64, 8)
    assert (found["request_throughput"], found["output_throughput"]) == pytest.approx((3 / 0.7, 8 / 0.7))
    assert (found["max_output_tokens_per_s"], found["max_concurrent_requests"]) == (8, 3)
    assert found["prefix_cache_hit_rate"] == 16 / 64
    assert found["preemptions"] == 1
    assert found["mean_batch"] == pytest.approx(300 / 600)
    # blocks by the hundred milliseconds: 2, 4, 1, 2, 2, 2
    assert found["mean_kv_usage"] == pytest.approx(13 / 6 / 10)
    assert found["max_kv_usage"] == 4 / 10
    assert found["utilisation"] == pytest.approx(6 / 7)


def test_an_objective_is_kept_up_to_its_very_limit(service: Service) -> None:
    met = attainment(service, BOUNDS)
    assert met["ttft"].tolist() == [True, True, False]
    assert met["tpot"].tolist() == met["e2el"].tolist() == [True, True, True]
    assert met["slo"].tolist() == [True, True, False]
    found = serving_metrics(service, BOUNDS)
    assert found["request_goodput"] == pytest.approx(2 / 0.7)
    names = ("slo", "ttft", "tpot", "e2el")
    assert [found[f"{name}_attainment"] for name in names] == [2 / 4, 2 / 4, 3 / 4, 3 / 4]  # of all that came
    assert attainment(service, Slo(None, 0.0999, None))["tpot"].tolist() == [False, True, False]
    assert attainment(service, Slo(None, 0.0, None))["tpot"].tolist() == [False, True, False]
    assert attainment(service, Slo(0.1999, None, None))["ttft"].tolist() == [True, False, False]


def test_energy_and_money(service: Service) -> None:
    found = serving_metrics(service, prices={"A100": 3.6 / 3600}, energy_j=424.0)
    assert found["cost_usd"] == pytest.approx(2 * 0.7 * 0.001)
    assert found["energy_j_per_million_tokens"] == pytest.approx(424 / 8 * 1e6)
    nobody = serving_metrics(replace(service, replicas=()), prices={})
    assert not {"energy_j", "cost_usd"} & nobody.keys()


def test_every_token_is_counted_once_where_it_came_out(service: Service) -> None:
    found = tokens_per_bin(service, 0, 100 * MS, 8)
    assert found.tolist() == [0, 1, 2, 1, 1, 0, 2, 1]  # 600 and 650 share a bin; 600 is the one computed again
    times = {request: (moments // MS).tolist() for request, moments in token_times(service)}
    assert times == {0: [100, 200], 1: [200], 2: [300, 400, 600, 650, 700]}


def test_where_the_time_of_each_request_goes(service: Service) -> None:
    found = {part: (values / MS).tolist() for part, values in request_time(service).items()}
    # the decode beside request 1's prompt took no longer than the first one without, so it is no stall
    assert found == {
        "queue": [0, 100, 150],
        "prefill": [100, 100, 100],
        "handover": [0, 0, 0],
        "preempted": [0, 0, 200],
        "stalled": [0, 0, 0],
        "peers": [0, 0, 0],
        "decode": [100, 0, 200],
    }
