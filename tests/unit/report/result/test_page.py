import re
from dataclasses import replace

import numpy as np
import pytest

from simulator.report.result.page import page
from simulator.report.step.breakdown import MOST_ROWS
from simulator.report.text.plain import encodable
from simulator.results.result import CriticalPath, DeviceClass, MemoryUse, Result, Sensitivity, Spans
from tests.factories import GB, out_of_memory, training_result

ESCAPE = "\x1b"


def section(text: str, heading: str) -> list[str]:
    """Lines of a page from a heading to the next empty line."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.strip().startswith(heading))
    end = next((i for i in range(begin, len(lines)) if not lines[i].strip()), len(lines))
    return lines[begin + 1 : end]


def test_headline_figures() -> None:
    text = page(training_result())
    for figure in (
        "340 ms",
        "2,313,035",
        "38.5 %",
        "120 TFLOP/s per device",
        "51.3 %",
        "25.6 %",
        "tp 48.0 ms, pp 3.00 ms",
    ):
        assert figure in text


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("stages", [1, 4, 8, 64])
def test_no_line_is_wider_than_the_page(width: int, stages: int) -> None:
    for result in (training_result(stages), replace(out_of_memory(), name="x" * 300)):
        assert max(map(len, page(result, width=width).splitlines())) <= width


def test_plain_page_has_neither_colours_nor_trailing_spaces() -> None:
    text = page(training_result())
    assert ESCAPE not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert page(training_result()) == text


def test_coloured_page_says_the_same() -> None:
    coloured = page(training_result(), colour=True)
    assert ESCAPE in coloured
    plain = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    words = [re.sub(r"[^\x00-\x7f ]+", "", text).split() for text in (plain, page(training_result()))]
    assert words[0] == words[1]


def test_page_in_ascii() -> None:
    text = encodable(page(training_result()), "ascii")
    assert text.isascii()
    assert "?" not in text
    assert "####" in text


def test_text_from_files_cannot_steer_the_terminal() -> None:
    evil = "\x1b]0;owned\x07 [bold]name[/bold] :smile:\n\r\x9b2J"
    names = tuple(DeviceClass(f"{evil}{i}", 1, i) for i in range(4))
    result = replace(training_result(), name=evil, classes=names, warnings=(evil,), assumptions=(evil,))
    text = page(result)
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\r"}
    assert "[bold]name[/bold] :smile:" in text


def test_few_classes_are_all_shown() -> None:
    rows = section(page(training_result(MOST_ROWS)), "Where the step goes")
    assert [row.split()[1] for row in rows[1:]] == [str(i) for i in range(MOST_ROWS)]


def test_of_many_classes_the_mean_the_ends_and_those_that_stand_out() -> None:
    rows = section(page(training_result(64)), "Where the step goes")[1:]
    assert len(rows) == MOST_ROWS
    assert rows[0].split()[:4] == ["mean", "of", "64", "classes"]
    assert rows[1].lstrip().startswith("stage 0, idlest")
    assert rows[-1].lstrip().startswith("stage 63, most comm.")


def test_parts_that_print_as_nothing_are_left_out() -> None:
    parts = tuple({**part, "offload": 0.0, "stall": 1e-9} for part in training_result().breakdown)
    head = section(page(replace(training_result(), breakdown=parts)), "Where the step goes")[0]
    assert "compute" in head
    assert "offload" not in head
    assert "stall" not in head


@pytest.mark.parametrize("width", [72, 84, 98])
def test_no_head_is_cut_where_names_are_long(width: int) -> None:
    result = training_result(stages=4)
    classes = tuple(replace(one, name=f"stage {i}, chains like {1000 + i}") for i, one in enumerate(result.classes))
    keys = ("compute", "recompute", "exposed_tp", "exposed_pp", "exposed_dp", "optimizer", "bubble")
    breakdown = (dict.fromkeys(keys, 1.0),) * 4
    text = page(replace(result, classes=classes, breakdown=breakdown), width=width)
    told = section(text, "Where the step goes")
    assert "…" not in "".join(told)
    heads = " ".join(told).split()
    assert all(name in heads for name in ("ranks", "compute", "recomp.", "tp", "pp", "dp", "optim.", "bubble"))
    assert "`chains like 1000` are chain 1000 and those" in " ".join(text.split())


def test_bars_give_way_to_numbers() -> None:
    kinds = (
        "compute",
        "recompute",
        "optimizer",
        "host",
        "exposed_tp",
        "exposed_pp",
        "exposed_dp",
        "exposed_ep",
        "stall",
        "bubble",
    )
    result = replace(training_result(), breakdown=(dict.fromkeys(kinds, 0.034),) * 4)
    axis, mean, head, *rows = section(page(result, width=100), "Where the step goes")
    assert axis.endswith("340 ms")
    assert len(mean) == len(axis) == 99
    assert len(set(mean.strip())) >= 6
    for name in ("compute", "recomp.", "optim.", "tp", "ep", "bubble"):
        assert name in head
    assert len(rows) == 4
    assert "█" not in "".join(rows)


def test_memory_by_kind_of_the_fullest_device() -> None:
    rows = section(page(training_result()), "Device memory at its peak, stage 0 (rank 0 and 47 others)")
    assert [row.split()[0] for row in rows] == [
        "optimizer",
        "parameters",
        "gradients",
        "activations",
        "buffers",
        "together",
        "peaks",
    ]
    assert "46.9 GB  58.6 %" in rows[5]
    assert "of 80.0 GB" in rows[5]


def test_out_of_memory_comes_first_with_hints() -> None:
    text = page(out_of_memory())
    assert (
        text.index("OUT OF MEMORY") < text.index("optimizer") < text.index("What would help") < text.index("step time")
    )
    assert "needs 46.9 GB of 40.0 GB" in text
    assert "training.parallel.zero=1" in text
    assert "If it fitted" in text


def test_published_figures_with_the_sign_of_time() -> None:
    (head, row) = section(page(training_result()), "Published and simulated")
    assert head.split() == ["published", "simulated", "error", "source"]
    assert "163 TFLOP/s  160 TFLOP/s  +1.9 %  arXiv:2104.04473 Table 1" in row


def test_run_over_many_tokens() -> None:
    result = replace(training_result(), scenario={"training": {"tokens": 300e9}})
    assert "300 billion tokens  36.0 h  ·  2.77 MWh  ·  7.61 kUSD" in page(result)
    step = {key: value for key, value in result.metrics.items() if not key.startswith("run_")}
    assert "per step  26.1 kJ  ·  0.01995 USD" in page(replace(result, metrics=step)).replace(
        "0.0199 ", "0.01995 "
    ).replace("0.02 ", "0.01995 ")


def test_footer_says_how_it_was_done() -> None:
    text = page(training_result(), elapsed_s=1.234)
    assert "192 ranks in 4 classes · fold: tiers · 89 operations · 267 events" in text
    assert "simulated in 1.23 s · clustersim 0.1.0 · scenario 0f3a0f3a0f3a0f3a" in text


def test_the_stack_of_the_assumptions_is_named_once() -> None:
    lines = ("precision is not given: fp16 (Stack (2021))", "schedule is not given: 1f1b")
    text = page(training_result(assumptions=lines, scenario={"stack": {"name": "Stack (2021)"}}))
    assert "left open; defaults are those of Stack\n" in text
    assert text.count("Stack") == 2  # and in the title
    assert "· precision is not given: fp16\n" in text


def test_subject_is_told_as_far_as_it_is_known() -> None:
    scenario = {
        "cluster": {"nodes": 2, "node": {"devices": 8, "accelerator": {"name": "A100"}}},
        "model": {"name": "GPT"},
        "training": {"global_batch": 64, "sequence_length": 2048, "parallel": {"tp": 8, "pp": 2}},
        "stack": {"name": "Megatron (2021)"},
    }
    assert " 16 x A100 · GPT · tp 8, pp 2 · batch 64 of 2,048 tokens · Megatron\n" in page(
        training_result(scenario=scenario)
    )
    hostile = {"cluster": [], "model": {"name": 3}, "training": {"parallel": {"tp": "x"}, "tokens": "y"}, "stack": None}
    assert page(training_result(scenario=hostile, feasible=False))


def test_notes() -> None:
    text = page(training_result())
    assert "· precision is not given: fp16 (megatron-lm-2021)" in section(text, "Assumptions")[0]
    assert "no effect" in section(text, "Warnings")[0]
    assert "Warnings" not in page(training_result(warnings=()))


def test_a_result_with_next_to_nothing_has_a_page() -> None:
    none = np.zeros(0, np.int64)
    spans = Spans(none, none, none, none, none, none, (), ())  # type: ignore[arg-type]
    text = page(Result("training", "empty", {}, (), (), spans, ()))
    assert "empty" in text
    assert "0 ranks in 0 classes" in text


def test_figures_that_are_not_numbers() -> None:
    nothing = float("nan")
    memory = (MemoryUse(0, 0.0, 1 * GB, {"parameters": 1 * GB}, np.zeros(1, np.int64), np.zeros(1)),)
    text = page(training_result(metrics={"step_time_s": nothing, "mfu": nothing}, memory=memory, feasible=False))
    assert "not known" in text


def test_critical_path() -> None:
    lines = section(page(training_result()), "Critical path")
    assert re.search(r"compute.*dp", lines[0])
    assert lines[1].split()[:2] == ["whole", "path"]
    assert [line.split()[0] for line in lines[2:]] == ["operations", "links", "roofs"], "one class is the whole path"


def test_critical_path_through_several_classes() -> None:
    result = training_result()
    path = result.critical_path
    half = {part: seconds / 2 for part, seconds in path.seconds.items()}
    through = replace(path, by_class=(half, half, {}, {}))
    lines = section(page(replace(result, critical_path=through)), "Critical path")
    assert [line.split()[0] for line in lines[1:4]] == ["whole", "stage", "stage"]


def test_no_critical_path_no_section() -> None:
    assert "Critical path" not in page(replace(training_result(), critical_path=CriticalPath()))


def test_the_critical_path_names_operations_links_and_roofs() -> None:
    path = training_result().critical_path
    step_s = sum(path.seconds.values())
    text = page(training_result())
    for name, parts in (("operations", path.by_operation), ("links", path.by_link), ("roofs", path.by_roof)):
        said = next(line for line in text.splitlines() if line.strip().startswith(f"{name} "))
        assert all(f"{one} {100 * seconds / step_s:.1f}" in said for one, seconds in parts.items())


def test_sensitivities_begin_with_the_most_useful() -> None:
    lines = section(page(training_result()), "What to change")
    assert [line.split()[0] for line in lines] == ["FLOP", "NIC", "latency"]
    assert "-8.00 %" in lines[0] and "█" in lines[0]
    assert "+0.20 %" in lines[2] and "█" not in lines[2]


def test_a_sensitivity_that_nobody_knows() -> None:
    odd = Sensitivity("\x1b[2Jodd", "+1 \x1b[0m", 1.0, float("nan"))
    text = page(replace(training_result(), sensitivities=(odd,)))
    assert "odd" in text and ESCAPE not in text


def test_a_stall_stands_beside_exposed_communication() -> None:
    slow = tuple(dict(parts) | {"stall": 0.01} for parts in training_result().breakdown)
    assert "(stall besides: 10.0 ms)" in " ".join(page(training_result(breakdown=slow)).split())
    assert "stall besides" not in page(training_result())


def test_the_same_letters_of_communication_say_what_they_are_in_each_table() -> None:
    text = page(training_result())
    where, path = text.index(": exposed communication)"), text.index(": communication on the path)")
    assert text.index("Where the step goes") < where < text.index("Critical path") < path
