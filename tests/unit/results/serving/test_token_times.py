from dataclasses import replace

import numpy as np
import pytest

from simulator.results.serving.token_times import token_times
from tests.services import Asked, asked, disaggregated, iterations, serve


@pytest.mark.parametrize("leap", [True, False])
@pytest.mark.parametrize("blocks", [400, 130])
def test_every_token_of_every_request(blocks: int, leap: bool) -> None:
    requests = asked()
    service = serve(requests, blocks=blocks, leap=leap)
    found = dict(token_times(service))
    assert found.keys() == {one.number for one in requests if one.tokens}
    for number, moments in found.items():
        assert moments.tolist() == requests[number].tokens
    gaps = np.concatenate([np.diff(moments) for moments in found.values()])
    assert np.unique(gaps).tolist() == service.gaps.gap.tolist()
    assert np.unique(gaps, return_counts=True)[1].tolist() == service.gaps.count.tolist()


def test_tokens_of_another_replica_begin_with_the_handover() -> None:
    found = dict(token_times(disaggregated()))
    assert found[0].tolist() == [100, 170, 190, 210]
    assert found[1].tolist() == [300, 380, 412, 446, 482]


def test_requests_in_flight() -> None:
    service = serve(requests := asked())
    finish, generated = service.requests.finish.copy(), service.requests.generated.copy()
    cut = int(np.argmax(generated))
    finish[cut], generated[cut] = -1, 3
    records = replace(service.requests, finish=finish, generated=generated)
    assert dict(token_times(replace(service, requests=records)))[cut].tolist() == requests[cut].tokens[:3]


def overlapping(tokens: int):
    """Two batches of 10 ps in flight, half a batch apart."""
    service = serve([Asked(0, 0, 10, tokens)], replicas=1)
    rows = [(5 * i, 1, 10, 0, 1, 0, 0, 0, 0, 0) for i in range(20)]
    one = replace(service.replicas[0], iterations=iterations(*rows))
    return replace(service, replicas=(one,))


def test_batches_that_overlap_follow_each_other() -> None:
    service = overlapping(4)
    records = replace(service.requests, first_token=np.array([10]), finish=np.array([40]))
    assert dict(token_times(replace(service, requests=records)))[0].tolist() == [10, 20, 30, 40]


def test_what_does_not_fit_is_spread_evenly() -> None:
    service = overlapping(7)
    records = replace(service.requests, first_token=np.array([10]), finish=np.array([40]))
    moments = dict(token_times(replace(service, requests=records)))[0]
    assert moments.tolist() == [10, 15, 20, 25, 30, 35, 40]
    nowhere = replace(records, replica=np.array([-1]))
    assert dict(token_times(replace(service, requests=nowhere)))[0].tolist() == moments.tolist()


def test_batches_that_take_turns_on_one_stage() -> None:
    """Of two batches every second iteration is another's: what is told does not say whose, only when the last was."""
    service = overlapping(4)
    rows = [(10 * i, 1, 10, 0, 1, 0, 0, 0, 0, 0) for i in range(20)]
    turns = replace(service.replicas[0], iterations=iterations(*rows), batches=2)
    records = replace(service.requests, first_token=np.array([10]), finish=np.array([70]))
    found = dict(token_times(replace(service, requests=records, replicas=(turns,))))
    assert found[0].tolist() == [10, 30, 50, 70]
