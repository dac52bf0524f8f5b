"""Schedules of given sizes and costs: exact times, sizes from files, limits."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import DeadlockError, InfeasibleError, InputError
from simulator.study.schedule import AskedCosts, AskedSchedule, make, run


def costs(*words: str) -> AskedCosts:
    """Costs from decimal digits."""
    return AskedCosts(*map(Fraction, words))


def test_equal_passes_by_hand() -> None:
    asked = AskedSchedule("1f1b", 4, 8)
    document = run(asked, make(asked))
    assert (document.makespan, document.least_makespan, document.peak) == (33, 27, 4)
    assert document.bubble == pytest.approx(3 / 11)
    assert [device.own_idle for device in document.by_device] == [9, 6, 3, 0]
    assert [device.busy + device.idle for device in document.by_device] == [33] * 4
    assert document.against.makespan == document.makespan


def test_chunks_share_what_a_device_does_and_keeps() -> None:
    """Interleaving takes (p - 1)(F + B) / v of idle time, with a v-th of a microbatch kept for each chunk."""
    asked = AskedSchedule("interleaved-1f1b", 4, 8, 2)
    document = run(asked, make(asked))
    assert [device.busy for device in document.by_device] == [24] * 4
    assert document.by_device[0].idle == 9 / 2
    assert document.peak == 11 / 2
    assert document.against.peak == 4


def test_decimal_times_are_whole_ticks() -> None:
    """A fifth of 0.5041 is no float, and yet the sum of what a device does is m times the sum of the costs."""
    asked = AskedSchedule("interleaved-1f1b", 5, 10, 5, costs("1", "0.9765", "0.5041", "0.0324"))
    stages = asked.costs.of_stages(25, Fraction(5))
    scale = asked.costs.ticks(Fraction(5))
    assert Fraction(int(stages.weight_gradient[0]), scale) == Fraction("0.5041") / 5
    assert Fraction(stages.send, scale) == Fraction("0.0324")
    assert run(asked, make(asked)).by_device[2].busy == float(10 * Fraction("2.4806"))


def test_passes_are_those_of_the_order() -> None:
    asked = AskedSchedule("gpipe", 2, 2, costs=costs("1", "1", "0.5"))
    passes = run(asked, make(asked)).passes
    assert passes.device == (0,) * 4 + (1,) * 4
    assert "".join(passes.kind) == "FFBBFFBB"
    assert passes.start[:4] == (0, 1, 4.5, 6)
    assert passes.end[4:] == (2, 3, 4.5, 6)


def test_a_schedule_that_refuses_one_chunk_gets_two(monkeypatch: pytest.MonkeyPatch) -> None:
    from simulator.training.schedules import SCHEDULES, Pipeline, interleaved

    def picky(pipeline: Pipeline) -> object:
        if pipeline.chunks != 2:
            raise InputError("two chunks alone")
        return interleaved(pipeline)

    monkeypatch.setitem(SCHEDULES._things, "picky", picky)
    assert make(AskedSchedule("picky", 4, 8)).stages == 8
    with pytest.raises(InputError, match="two chunks alone"):
        make(AskedSchedule("picky", 4, 8, 1))
    with pytest.raises(InputError, match="two chunks alone"):  # and not that nine is no multiple of four
        make(AskedSchedule("picky", 4, 9))


def test_a_file_says_its_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.csv").write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    asked = AskedSchedule("two.csv")
    document = run(asked, make(asked))
    assert (document.devices, document.microbatches, document.makespan) == (2, 2, 9)
    for sizes, words in (
        ((3, None), "2 devices"),
        ((None, 4), "2 microbatches, not 4"),
        ((2, 2, 2), "2 stages, not 4"),
    ):
        with pytest.raises(InputError, match=words):
            make(AskedSchedule("two.csv", *sizes))


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("0F0,0Q0\n", InputError, r"bad\.csv:1:5: `0Q0` is no instruction"),
        ("0F0,0B0\n\n1F0,1B0\n", InputError, r"bad\.csv:2: device 1 runs no pass"),
        ("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", DeadlockError, "wait in a circle"),
        ("0F0\n1F0,1B0\n", InputError, "lacks 0B0"),
    ],
)
def test_files_that_are_refused(
    text: str, error: type[InputError], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text(text)
    with pytest.raises(error, match=words):
        make(AskedSchedule("bad.csv"))


def test_a_limit_that_the_order_exceeds_is_told_with_what_it_takes() -> None:
    asked = AskedSchedule("1f1b", 4, 8, limit=3.5)
    with pytest.raises(InfeasibleError, match=r"device 0 of `1f1b` keeps 4; this order takes `--memory-limit 4`"):
        run(asked, make(asked))
    enough = AskedSchedule("1f1b", 4, 8, limit=4)
    assert run(enough, make(enough)).memory_limit == 4


def test_sizes_and_costs_out_of_range() -> None:
    with pytest.raises(InputError, match="more than 500,000 forward passes"):
        make(AskedSchedule("1f1b", 4096, 4096))
    with pytest.raises(InputError, match="take no time"):
        make(AskedSchedule("1f1b", 2, 2, costs=costs("0", "0", "0")))
    with pytest.raises(InputError, match="too far apart"):
        make(AskedSchedule("1f1b", 512, 512, costs=costs("1000000", "1", "1", "0.000000001")))


def test_two_copies_of_the_model_share_the_microbatches_and_a_pair_may_be_shorter() -> None:
    """DualPipe at equal costs idles (p / 2 - 1)(FB + I - 2W) and keeps p + 1."""
    asked = AskedSchedule("dualpipe", 4, 8)
    document = run(asked, make(asked))
    assert (document.stages, document.copies, document.makespan, document.peak) == (4, 2, 26, 5)
    assert document.least_makespan <= 26
    passes = document.passes
    assert {one for one in zip(passes.device, passes.stage, passes.chunk, strict=True) if one[0] == 3} == {
        (3, 3, 0),
        (3, 0, 1),
    }
    asked = AskedSchedule("dualpipe", 4, 8, costs=AskedCosts(pair=Fraction("2.4")))
    assert run(asked, make(asked)).makespan < 26


def test_slices_are_counted_apart_from_microbatches() -> None:
    asked = AskedSchedule("seq1f1b", 4, 8, costs=AskedCosts(attention=Fraction(1, 2), balanced=True), slices=2)
    found = run(asked, make(asked))
    assert (found.microbatches, found.slices, max(found.passes.microbatch)) == (8, 2, 15)
    assert found.costs.tokens is not None
    assert sum(found.costs.tokens) == 1
    assert found.costs.tokens[0] > found.costs.tokens[1]
    assert found.makespan >= found.least_makespan
    assert all(device.busy == pytest.approx(24) for device in found.by_device)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            AskedSchedule("1f1b", 4, 8, slices=2),
            "`1f1b` does not cut sequences in 2 slices; `seq1f1b` and `forward-only` do",
        ),
        (AskedSchedule("1f1b", 4, 8, costs=AskedCosts(attention=Fraction(1, 2))), "of whose slices `--attention`"),
        (AskedSchedule("some.csv", slices=2), "leave out `--slices`"),
        (AskedSchedule("some.csv", barrier=False), "leave `--no-barrier` out"),
        (AskedSchedule("zb-h2", 4, 8, barrier=False), "or write `auto`"),
        (AskedSchedule("nonsense", 4, 8, barrier=False), "unknown pipeline schedule"),
    ],
)
def test_slices_of_what_is_not_cut_are_refused(asked: AskedSchedule, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(asked)


def test_a_steady_step_tells_versions_and_how_late_updates_are() -> None:
    asked = AskedSchedule("pipedream-2bw", 4, 6, costs=costs("1", "1", "0.5"))
    found = run(asked, make(asked))
    assert (found.weight_versions, found.updates_late, found.microbatches) == (2, 1, 6)
    assert found.makespan == found.least_makespan == 15
    assert max(found.passes.microbatch) == 5
    assert min(found.passes.start) >= 0


def test_more_ranks_than_microbatches_have_no_steady_step() -> None:
    with pytest.raises(InputError, match="needs 8 microbatches or more, not 6"):
        make(AskedSchedule("pipedream-2bw", 8, 6))


@pytest.mark.parametrize("slow", [0, 1, 3])
def test_uneven_stages_on_uneven_devices_wait_for_the_slowest(slow: int) -> None:
    """1F1B takes m times the slowest stage's work and once that of the stages before it; those behind it are so fast
    that they are done while it runs ahead."""
    layers, speeds = [2, 3, 2, 1], [1, 1, 1, 1]
    speeds[slow] = 4
    layers[slow] = 36
    uneven = AskedCosts(layers=tuple(map(Fraction, layers)), speeds=tuple(map(Fraction, speeds)))
    asked = AskedSchedule("1f1b", 4, 12, costs=uneven)
    found = run(asked, make(asked))
    mean = sum(layers) / 4
    times = [3 * own / mean / speed for own, speed in zip(layers, speeds, strict=True)]
    assert found.makespan == pytest.approx(12 * times[slow] + sum(times[:slow]))
    assert found.by_device[0].peak == pytest.approx(4 * layers[0] / mean)
    assert found.makespan >= found.least_makespan
    assert (found.costs.layers, found.costs.speeds) == (tuple(layers), tuple(speeds))


def test_layers_of_chunks_and_of_both_copies() -> None:
    """Two chunks a device of 1, 2, 3 and 4 layers: devices do 1 + 3 and 2 + 4; two copies have the stages twice."""
    layers = tuple(map(Fraction, (1, 2, 3, 4)))
    asked = AskedSchedule("interleaved-1f1b", 2, 4, 2, AskedCosts(layers=layers))
    assert [device.busy for device in run(asked, make(asked)).by_device] == pytest.approx([4 * 3 * 0.8, 4 * 3 * 1.2])
    both = AskedSchedule("chimera", 4, 4, costs=AskedCosts(layers=layers))
    assert [device.busy for device in run(both, make(both)).by_device] == pytest.approx([12] * 4)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("1f1b", {"layers": (Fraction(1),) * 3}, "3 numbers of layers, and there are 4 stages"),
        ("1f1b", {"speeds": (Fraction(1),) * 3}, "3 speeds for 4 devices"),
        ("zb-v", {"speeds": (Fraction(1),) * 4}, "4 speeds for 4 devices with"),
        ("chimera", {"speeds": (Fraction(1),) * 4}, "each holds the stage of its number"),
        ("1f1b", {"layers": (Fraction(1),) * 4, "pair": Fraction(2)}, "leave out `--pair`"),
    ],
)
def test_lists_that_do_not_fit_are_refused(name: str, changes: dict[str, Any], message: str) -> None:
    asked = AskedSchedule(name, 4, 8, costs=AskedCosts(**changes))
    with pytest.raises(InputError, match=message):
        run(asked, make(asked))


@pytest.mark.parametrize(("name", "late"), [("zb-h1", 1), ("zb-h2", 2)])
def test_what_waits_for_weights_alone_is_less(name: str, late: int) -> None:
    """Worker i of p = 4: (p - i + 1) M_B + (i - 1) M_W under ZB-H1, (2p - 2i + 1) M_B + (2i - 2) M_W under ZB-H2
    (arXiv:2401.10241, table 2), M_W = 0.6 M_B."""
    asked = AskedSchedule(name, 4, 16, costs=AskedCosts(kept_for_weights=Fraction(3, 5)))
    found = run(asked, make(asked))
    whole = [4 - i + 1 if name == "zb-h1" else 8 - 2 * i + 1 for i in range(1, 5)]
    rest = [late * (i - 1) for i in range(1, 5)]
    expected = [b + 0.6 * w for b, w in zip(whole, rest, strict=True)]
    assert [device.peak for device in found.by_device] == pytest.approx(expected)
    assert found.costs.kept_for_weights == 0.6
