"""Routings that cannot be, and words of libraries."""

import pytest

from simulator import collectives
from simulator.collectives import Routing, library_of, token_bytes
from simulator.errors import InputError
from simulator.fabric import build
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from tests.machines import cluster, profile


@pytest.mark.parametrize(
    ("numbers", "what"),
    [
        ({"experts": 8, "top_k": 9}, "9 experts a token of 8"),
        ({"experts": 8, "top_k": 0}, "0 experts a token"),
        ({"experts": 8, "top_k": 2, "groups": 3}, "3 groups do not divide 8"),
        ({"experts": 8, "top_k": 2, "groups": 4, "group_limit": 5}, "5 of 4 groups"),
        ({"experts": 8, "top_k": 3, "groups": 4, "group_limit": 1}, "fewer than 3"),
        ({"experts": 8, "top_k": 2, "load": (1.0, -1.0)}, "load below 0"),
        ({"experts": 8, "top_k": 2, "load": (0.0, 0.0)}, "nothing at all"),
    ],
)
def test_what_cannot_be_chosen(numbers: dict[str, object], what: str) -> None:
    with pytest.raises(InputError, match=what):
        Routing(**numbers)  # type: ignore[arg-type]


def test_a_routing_fits_its_group() -> None:
    fabric, library = build(cluster()), profile()
    for routing, what in (
        (None, "needs a routing"),
        (Routing(4, 2), "4 experts for 8"),
        (Routing(8, 2, load=(1.0, 2.0)), "2 ranks for 8"),
    ):
        with pytest.raises(InputError, match=what):
            collectives.cost_of("dispatch", [range(8)], 1e6, fabric, library, routing=routing)
    with pytest.raises(InputError, match="unknown exchange of tokens"):
        collectives.cost_of("dispatch", [range(8)], 1e6, fabric, library, "ring", Routing(8, 2))


@pytest.mark.parametrize("nodes", [1, 2, 9])
def test_exchanges_of_grouped_sends_pay_the_rounds_of_an_all_to_all(nodes: int) -> None:
    """NCCL serves eight peers at a time, whatever the sends are for: one hop stood for any number of them."""
    fabric, library = build(cluster(nodes=nodes, devices=4)), profile()
    ranks = range(4 * nodes)

    def empty(operation: str, algorithm: str, routing: Routing | None = None) -> int:
        return collectives.cost_of(operation, [ranks], 1.0, fabric, library, algorithm, routing).slowest

    uniform = Routing(8 * len(ranks), 1)
    linear = empty("dispatch", "direct", uniform)
    assert linear == pytest.approx(empty("all_to_all", "direct"), rel=1e-4)
    if nodes == 9:  # 32 peers on other nodes in four rounds; in two levels 3 and 8 in one each
        assert linear > empty("dispatch", "two_level", uniform)


def test_bytes_of_a_token() -> None:
    """DeepSeek-V3: 7,168 wide, a scale of 4 bytes for 128 elements; 16 bytes of address with low latency."""
    assert token_bytes(7168, "bf16") == 14336
    assert token_bytes(7168, "fp8") == 7392
    assert token_bytes(7168, "fp8", header=16) == 7408
    with pytest.raises(InputError, match="unknown format"):
        token_bytes(7168, "fp9")


def test_words_of_libraries() -> None:
    machine = load_spec(CollectiveProfile, "nccl-h100")
    assert library_of("alltoall", machine) == (machine, "direct")
    assert library_of("allgather", machine) == (machine, "all_gather")
    with pytest.raises(InputError, match="dispatches no tokens"):
        library_of("nccl-a100", machine)
    with pytest.raises(InputError, match="there is no exchange library `nosuch`; write one of alltoall, hierarchical"):
        library_of("nosuch", machine)
