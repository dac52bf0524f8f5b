"""The virtual token counter: tenants that always have something waiting are served alike, or by their weights."""

import numpy as np
import pytest

from tests.replicas import Setting, asked, system

COUNT = 1200


def served(policy: str, weights: tuple[float, float], until: int) -> dict[int, float]:
    """Tokens of each of two tenants out by a time; the second asks for three times as many, longer ones."""
    tenant = np.array([0, 1, 1, 1] * (COUNT // 4), np.int64)
    rows = [[0, 20, 20] if one == 0 else [0, 40, 30] for one in tenant.tolist()]
    made = system(asked(rows), Setting(policy, most=8, blocks=400, budget=128))
    made.ledger.tenant, made.ledger.weights = tenant.tolist(), list(weights)
    made.agenda.run()
    found = {0: 0.0, 1: 0.0}
    for request, finish in enumerate(made.ledger.finish):
        if finish <= until:
            found[int(tenant[request])] += made.ledger.prompt[request] + 2 * made.ledger.output[request]
    return found


@pytest.mark.parametrize(("weights", "ratio"), [((1.0, 1.0), 1.0), ((2.0, 1.0), 2.0), ((1.0, 3.0), 1 / 3)])
def test_service_is_shared_by_weight(weights: tuple[float, float], ratio: float) -> None:
    """While both wait their weighted service differs by no more than a batch (theorem 4.4 of the paper)."""
    found = served("fair", weights, 600_000)
    assert 0 < found[0] < 60 * COUNT / 4  # the first still has requests that wait
    assert found[0] / found[1] == pytest.approx(ratio, rel=0.1)


def test_in_order_of_arrival_who_asks_for_more_gets_more() -> None:
    found = served("vllm-v1", (1.0, 1.0), 600_000)
    assert found[0] / found[1] == pytest.approx(60 / 300, rel=0.1)
