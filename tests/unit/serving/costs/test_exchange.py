"""Rows that are sent to the devices of their experts only: bytes, and who decides how long it takes."""

import numpy as np
import pytest

from simulator.cli import main
from simulator.collectives import Routing, cost_of, library_of
from simulator.fabric import build
from simulator.serving.fleet.system import System, resolve
from simulator.specs import load_scenario, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile

MIXTURE = (
    "cluster={extends: clusters/dgx-h100, nodes: 2}",
    "model=models/qwen3-30b-a3b",
    "requests.count=30",
    "requests.arrivals.poisson=40 /s",
)
HIDDEN, TOP_K, LAYERS = 2048, 8, 48


def system(*overrides: str) -> System:
    return resolve(load_scenario("serving/quickstart", [*MIXTURE, *overrides]).spec)[0]  # type: ignore[arg-type]


def sent(dispatcher: str, layout: str = "{dp: 16, ep: 16}", more: str = "") -> System:
    return system(f"serving.parallel={layout}", f"+serving.experts={{dispatcher: {dispatcher}{more}}}")


def test_bytes_of_dispatch_and_combine() -> None:
    """Of R rows of all, a rank has R / n, and sends a copy of each to each of its 8 experts: there in fp8 with a
    scale of 4 bytes for 128 elements, back in 16 bits; in every layer once."""
    cost = sent("deepep-low-latency", more=", dispatch_precision: fp8").cost.stages[0]
    found = {send.operation: send for send in cost.sends}
    assert set(found) == {"dispatch", "combine"}
    for operation, element in (("dispatch", 1 + 4 / 128), ("combine", 2.0)):
        assert found[operation].size(1600) == pytest.approx(100 * TOP_K * HIDDEN * element)
        assert (found[operation].runs, found[operation].axis) == (LAYERS, "ep")


def test_bytes_that_ranks_gather() -> None:
    """Whatever is chosen, all get the rows of all, and give as many back."""
    found = {send.operation: send for send in sent("allgather").cost.stages[0].sends}
    assert {operation: send.size(1600) for operation, send in found.items()} == {
        "all_gather": 1600 * HIDDEN * 2,
        "reduce_scatter": 1600 * HIDDEN * 2,
    }


def test_rows_whose_expert_is_on_their_device_stay_there() -> None:
    """Of 16 devices a sixteenth stays by chance; where three quarters do, a quarter goes, in place of 15 of 16."""
    usual = {send.operation: send.size(1600) for send in sent("deepep-low-latency").cost.stages[0].sends}
    grouped = sent("deepep-low-latency", more=", local_share: 0.75").cost.stages[0]
    for send in grouped.sends:
        assert send.size(1600) == pytest.approx(usual[send.operation] * 0.25 / (15 / 16))
    assert grouped.exchanged(1024, 16 * 1024) < sent("deepep-low-latency").cost.stages[0].exchanged(1024, 16 * 1024)


def test_a_local_share_of_gathered_rows_has_no_effect() -> None:
    assert any(
        "local_share: rows of all" in said for said in sent("allgather", more=", local_share: 0.5").cost.warnings
    )


def test_figures_of_other_loads_have_no_effect() -> None:
    def said(routing: str) -> list[str]:
        warnings = system(f"+serving.experts={{routing: {routing}}}").cost.warnings
        return [text for text in warnings if "routing." in text]

    path = "no effect: serving.experts.routing"
    assert said("{load: random, variance: 0.4}") == [f"{path}.variance: routing.load is random"]
    assert said("{load: uneven, exponent: 2}") == [f"{path}.exponent: routing.load is uneven"]
    assert not said("{load: uneven, variance: 0.4}") and not said("{load: zipf, exponent: 2}")


def test_an_exchange_takes_what_the_plans_of_training_take() -> None:
    cost = sent("deepep", more=", dispatch_precision: fp8").cost.stages[0]
    machine = load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 2})
    library, algorithm = library_of("deepep", load_spec(CollectiveProfile, machine.collectives))
    expected = 0.0
    for operation, element in (("dispatch", 1 + 4 / 128), ("combine", 2.0)):
        size = 1024 * TOP_K * HIDDEN * element
        low, high = 2.0 ** np.floor(np.log2(size)), 2.0 ** np.ceil(np.log2(size))
        where = [range(16)], build(machine), library, algorithm, Routing(128, TOP_K)
        ends = [cost_of(operation, where[0], knot, *where[1:]).slowest for knot in (low, high)]
        expected += float(np.interp(size, [low, high], ends))
    assert cost.exchanged(1024, 16 * 1024) == pytest.approx(LAYERS * expected, rel=1e-6)


def test_the_rank_with_most_rows_decides() -> None:
    cost = sent("deepep-low-latency").cost.stages[0]
    assert cost.exchanged(64, 64 * 16) == cost.exchanged(64, 100) < cost.exchanged(128, 64 * 16)


def test_the_device_with_most_rows_decides() -> None:
    """Zipf's first 8 of 128 experts lie on one device, which takes half of all copies and not a sixteenth."""
    even = sent("deepep-low-latency").cost.stages[0]
    skewed = sent("deepep-low-latency", more=", routing: {load: zipf}").cost.stages[0]
    moved = [stage.exchanged(2048, 16 * 2048) - stage.exchanged(1, 1) for stage in (even, skewed)]
    hot = 16 * sum(1 / n for n in range(1, 9)) / sum(1 / n for n in range(1, 129))
    assert moved[1] / moved[0] == pytest.approx(hot, rel=0.1)
    assert skewed.together(4096, 64) > even.together(4096, 64)


def test_sending_beats_gathering_for_many_rows_on_many_ranks() -> None:
    gathered, chosen = (sent(word).cost.stages[0] for word in ("allgather", "deepep"))
    both = [stage.together(65536, 64) + stage.exchanged(4096, 65536) for stage in (gathered, chosen)]
    assert both[1] < both[0]


def test_copies_of_experts_take_memory() -> None:
    """One expert more of eight on each device, in every layer."""
    without, copied = (sent("deepep", more=more).cost for more in ("", ", routing: {replicas: 1, placement: packed}"))
    expert = 3 * HIDDEN * 768 * 2 * LAYERS
    assert copied.weights_bytes - without.weights_bytes == pytest.approx(expert)


def test_tensor_parallel_ranks_share_their_rows_out() -> None:
    """Of an attention rank of two devices each sends half of its rows, and both gather the results."""
    cost = sent("deepep-low-latency", "{tp: 2, dp: 8, ep: 16}").cost.stages[0]
    runs = {(send.operation, round(send.row_bytes)): send.runs for send in cost.sends}
    assert runs["dispatch", TOP_K * HIDDEN * 2 // 16] == runs["all_gather", HIDDEN * 2] == LAYERS
    assert runs["all_reduce", HIDDEN * 2] == LAYERS + 1  # and the embedding's


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("+serving.experts={dispatcher: deep-ep}", "serving.parallel={dp: 8, ep: 8}"), "serving.experts.dispatcher"),
        (
            ("+serving.experts={dispatcher: deepep}", "serving.parallel={dp: 8}"),
            "sends rows to whole experts, and etp 8",
        ),
        (
            ("+serving.experts={routing: {load: counts}}",),
            "serving.experts.routing.counts: 0 numbers for the 128 experts",
        ),
        (("serving.parallel={dp: 12, ep: 12}",), "12 does not divide the 128 experts"),
    ],
)
def test_what_cannot_be_sent_is_refused(
    overrides: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "serving/quickstart", *MIXTURE, *overrides]) == 2
    assert words in capsys.readouterr().err


def test_what_changes_nothing_is_said() -> None:
    assert any(
        "no other rank holds experts" in text for text in system("+serving.experts={dispatcher: deepep}").cost.warnings
    )
    quiet = sent("allgather", more=", dispatch_precision: fp8").cost.warnings
    assert any("gathered in 16 bits" in text for text in quiet)
