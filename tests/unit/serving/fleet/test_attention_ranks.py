"""Attention ranks of a replica: batches and caches of their own, experts on the devices of all of them."""

import numpy as np
import pytest

from simulator.cli import main
from simulator.results.result import Result
from simulator.run.serve import serve
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario

NODE = "cluster={extends: clusters/dgx-h100, nodes: 2}"
MIXTURE = (NODE, "model=models/qwen3-30b-a3b", "requests.count=40", "requests.arrivals.poisson=40 /s")


def loaded(*overrides: str) -> object:
    return load_scenario("serving/quickstart", overrides).spec


def served(*overrides: str) -> Result:
    return serve(loaded(*overrides))  # type: ignore[arg-type]


def test_ranks_are_counted_replica_by_replica_and_experts_lie_on_all_devices_of_one() -> None:
    (system,) = resolve(loaded(*MIXTURE, "serving.replicas=2", "serving.parallel={dp: 8, ep: 8}"))  # type: ignore[arg-type]
    assert (system.replicas, system.peers) == (16, 8)
    assert {place.peers for place in system.placements} == {
        tuple((rank,) for rank in range(first, first + 8)) for first in (0, 8)
    }


def test_experts_are_cut_over_all_devices_where_nothing_is_said_of_them() -> None:
    (cut,) = resolve(loaded(*MIXTURE, "serving.parallel={tp: 2, dp: 4}"))  # type: ignore[arg-type]
    (same,) = resolve(loaded(*MIXTURE, "serving.parallel={tp: 2, dp: 4, etp: 8}"))  # type: ignore[arg-type]
    (spread,) = resolve(loaded(*MIXTURE, "serving.parallel={tp: 2, dp: 4, ep: 8}"))  # type: ignore[arg-type]
    assert cut.cost.weights_bytes == same.cost.weights_bytes == pytest.approx(spread.cost.weights_bytes, rel=0.01)
    assert cut.peers == spread.peers == 4


def test_ranks_of_a_replica_are_those_of_several_that_share_experts() -> None:
    ranks = served(*MIXTURE, "serving.parallel={dp: 4, ep: 4}")
    several = served(*MIXTURE, "serving.replicas=4", "serving.parallel={ep: 4}")
    assert ranks.metrics == several.metrics


def test_ranks_of_a_dense_model_are_not_in_step() -> None:
    """There are no experts to meet at: each goes its own way, as replicas do."""
    changes = (NODE, "requests.count=40", "requests.arrivals.poisson=40 /s")
    ranks, several = (served(*changes, way) for way in ("serving.parallel={dp: 4}", "serving.replicas=4"))
    assert ranks.metrics == several.metrics
    assert ranks.service is not None
    assert all("idle for peers" not in replica.parts for replica in ranks.service.replicas)
    starts = [set(replica.iterations.start.tolist()) for replica in ranks.service.replicas]
    assert not np.any([starts[0] & other for other in starts[1:]])


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (
            "{tp: 2, dp: 4, ep: 16}",
            "attention lies on tp 2 x dp 4 = 8 devices of a stage, experts on etp 1 x ep 16 = 16",
        ),
        (
            "{tp: 2, dp: 4, ep: 4, etp: 1}",
            "attention lies on tp 2 x dp 4 = 8 devices of a stage, experts on etp 1 x ep 4 = 4",
        ),
        ("{dp: 32, ep: 32}", "a replica takes tp 1 x dp 32 x pp 1 = 32 devices, the cluster has 16"),
    ],
)
def test_meshes_that_do_not_fit_are_both_said(layout: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "serving/quickstart", *MIXTURE, f"serving.parallel={layout}"]
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
