from dataclasses import replace

import numpy as np
import pytest

from simulator.results.result import Replica, RequestRecords, Service, TokenGaps
from simulator.results.serving.request_time import PARTS, mean_request_time, request_time, stalls
from tests.services import asked, disaggregated, iterations, serve


@pytest.mark.parametrize("blocks", [400, 130])
def test_parts_sum_to_the_latency_of_each_request(blocks: int) -> None:
    service = serve(asked(), blocks=blocks)
    parts = request_time(service)
    assert ("earlier", *parts) == PARTS  # of one model nothing is asked before
    done = service.requests.status == 0
    total = np.sum(list(parts.values()), axis=0)
    np.testing.assert_allclose(total, (service.requests.finish - service.requests.arrival)[done], rtol=1e-12)
    assert min(values.min() for values in parts.values()) >= 0
    assert (parts["preempted"].sum() > 0) == (len(service.pauses) > 0)


def one_replica(rows, requests, pauses=()) -> Service:
    """A service of requests (arrival, scheduled, first token, finish, generated) on one replica."""
    arrival, scheduled, first, finish, generated = (np.array(column) for column in zip(*requests, strict=True))
    ones, none = np.ones(len(requests), np.int64), np.zeros(len(requests), np.int64)
    records = RequestRecords(
        arrival, scheduled, first, finish, ones, generated, generated, none, none, none, none, none
    )
    replica = Replica("0", "all", "both", 1, "A100", 9, 16, 1.0, iterations(*rows), 1e-9)
    return Service(records, (replica,), TokenGaps(none, none), np.array(pauses, np.int64).reshape(-1, 3))


DECODE, PROMPT = (1, 0, 0), (1, 500, 1)  # decodes, prompt tokens, prompts


def test_parts_by_hand() -> None:
    """A prompt (100), two decodes of 20, a decode of 50 beside a prompt, a prompt alone of 30, a decode of 22."""
    rows = [
        (10, 1, 100, 0, 0, 500, 1, 0, 0, 0),
        (110, 2, 20, 0, *DECODE, 0, 0, 0),
        (150, 1, 50, 0, *PROMPT, 0, 0, 0),
        (200, 1, 30, 0, 0, 99, 1, 0, 0, 0),
        (230, 1, 22, 0, *DECODE, 0, 0, 0),
    ]
    parts = request_time(one_replica(rows, [(0, 10, 110, 252, 5)]))
    assert {name: float(values[0]) for name, values in parts.items()} == pytest.approx(
        {"queue": 10, "prefill": 100, "handover": 0, "preempted": 0, "stalled": 60, "peers": 0, "decode": 20 * 3 + 22}
    )


def test_waiting_for_peers_is_neither_prefill_nor_stall_nor_decoding() -> None:
    """Of a prompt (100) 40 are waiting; of two decodes of 20, 5 each; of a decode of 50 beside a prompt, 25."""
    rows = [(10, 1, 100, 0, 0, 500, 1, 0, 0, 0), (110, 2, 20, 0, *DECODE, 0, 0, 0), (150, 1, 50, 0, *PROMPT, 0, 0, 0)]
    service = one_replica(rows, [(0, 10, 110, 200, 4)])
    waited = replace(service.replicas[0].iterations, waited=np.array([40, 10, 25]))
    alone = replace(service, replicas=(replace(service.replicas[0], iterations=waited),))
    parts = {name: float(values[0]) for name, values in request_time(alone).items()}
    assert parts == pytest.approx(
        {"queue": 10, "prefill": 60, "handover": 0, "preempted": 0, "stalled": 10, "peers": 75, "decode": 45}
    )
    elsewhere = replace(alone, replicas=(replace(alone.replicas[0], role="decode"),))
    assert float(request_time(elsewhere)["peers"][0]) == pytest.approx(35)


def test_stalls_compare_with_the_last_iteration_without_prompts() -> None:
    rows = iterations(
        (0, 1, 50, 0, *PROMPT, 0, 0, 0),
        (50, 3, 10, 2, *DECODE, 0, 0, 0),
        (86, 1, 50, 0, *PROMPT, 0, 0, 0),
        (136, 1, 12, 0, *PROMPT, 0, 0, 0),
        (148, 1, 70, 0, 0, 9, 1, 0, 0, 0),
    )
    assert stalls(rows).tolist() == [40, 0, 36, 0, 70]  # of 10 (the first after it), none, 14 (its last), 14, none
    always = iterations((0, 1, 50, 0, *PROMPT, 0, 0, 0), (50, 1, 30, 0, 0, 9, 1, 0, 0, 0))
    assert stalls(always).tolist() == [0, 30]


def test_a_pause_is_no_stall() -> None:
    rows = [
        (0, 1, 100, 0, 0, 500, 1, 0, 0, 0),
        (100, 2, 20, 0, *DECODE, 0, 0, 0),
        (140, 1, 90, 0, *PROMPT, 0, 0, 0),
        (230, 1, 20, 0, *DECODE, 0, 0, 0),
    ]
    parts = request_time(one_replica(rows, [(0, 0, 100, 250, 4)], [(0, 140, 230)]))
    assert (parts["preempted"][0], parts["stalled"][0], parts["decode"][0]) == (90, 0, 60)


def test_where_batches_overlap_stalls_are_shared() -> None:
    rows = [
        (0, 1, 100, 0, 0, 500, 1, 0, 0, 0),
        (100, 1, 20, 0, *DECODE, 0, 0, 0),
        (100, 1, 20, 0, *DECODE, 0, 0, 0),
        (120, 1, 80, 0, 0, 500, 1, 0, 0, 0),
        (120, 1, 20, 0, 0, 500, 1, 0, 0, 0),
    ]
    parts = request_time(one_replica(rows, [(0, 0, 100, 200, 3)]))
    assert parts["stalled"][0] == pytest.approx(100 / 1.2)  # 240 of work in 200
    assert parts["stalled"][0] + parts["decode"][0] == pytest.approx(100)


def test_handover_is_from_the_first_token_to_the_first_decode() -> None:
    parts = request_time(disaggregated())
    assert parts["handover"].tolist() == [50, 50]
    assert parts["decode"].tolist() == [60, 132]
    assert parts["queue"].tolist() == [0, 100]


def test_means_are_over_what_finished() -> None:
    service = serve(asked())
    done = service.requests.status == 0
    mean = (service.requests.finish - service.requests.arrival)[done].mean() / 1e12
    assert sum(mean_request_time(service).values()) == pytest.approx(mean)
    nothing = replace(service, requests=replace(service.requests, status=np.ones(200, np.int64)))
    assert set(mean_request_time(nothing).values()) == {0.0}
