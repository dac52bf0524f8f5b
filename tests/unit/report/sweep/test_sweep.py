"""Pages of sweeps, from tables with made-up figures."""

import re
from typing import Any

import pytest

from simulator.metrics import METRICS, SERVING
from simulator.report.sweep import html as sweep_html
from simulator.report.sweep import page as sweep_page
from simulator.report.sweep import phrases
from simulator.report.text.column_titles import short
from simulator.results.documents.sweep import MissedCondition, SweepDocument
from simulator.study.sweep.table import Row, SweepTable, View

HOW = sweep_page.Effort(5, 1, 2.0)


def _row(tp: int, size: int, status: Any, reason: str = "", mfu: float = 0.4, peak: float = 5e10) -> Row:
    known = {} if status == "refused" else {"mfu": mfu, "peak_memory_bytes": peak}
    values = {"training.parallel.tp": tp, "training.micro_batch": size}
    return Row(
        10 * tp + size,
        (f"training.parallel.tp={tp}", f"training.micro_batch={size}"),
        values,
        status,
        reason,
        known,
        (),
        "",
    )


def swept(**changes: Any) -> SweepDocument:
    """The document of a sweep of which some points fit, some do not and some are refused."""
    rows = (
        _row(1, 1, "out of memory", "needs 99.0 GB of 85.5 GB", peak=9.9e10),
        _row(1, 2, "out of memory", "needs 200.5 GB of 85.5 GB", peak=2.005e11),
        _row(2, 1, "ok", mfu=0.5),
        _row(2, 2, "ok", mfu=0.52),
        _row(3, 1, "refused", "tp 3 is not 8"),
        _row(3, 2, "refused", "tp 3 x 2 is not 8"),
    )
    axes = {"training.parallel.tp": (1, 2, 3), "training.micro_batch": (1, 2)}
    given: dict[str, Any] = {
        "rows": rows,
        "provenance": {"version": "0", "seed": 0},
        "changes": ("training.pp=2",),
        "subject": {"model": "Llama 3 8B (Meta)", "devices": "8 x H100"},
    }
    table = SweepTable("a name", "training", axes, **(given | changes))
    view = View(by="mfu", heat=("tp", "micro_batch", "mfu"), pareto=("mfu", "peak_memory_bytes"))
    return table.described(view if any(row.status == "ok" for row in table.rows) else View())


def gaps(document: SweepDocument) -> list[list[str]]:
    """The marks of the cells of its heat map."""
    assert document.heat is not None
    return phrases.gaps(document, document.heat)


def page(document: SweepDocument) -> str:
    """The page for a terminal, on one line."""
    return " ".join(sweep_page.page(document, HOW).split())


def test_pages_say_what_all_points_share_and_were_changed_by() -> None:
    for text in (page(swept()), sweep_html.page(swept())):
        assert "Llama 3 8B · 8 x H100" in text
        assert "all with training.pp=2" in text


def test_points_add_up() -> None:
    told = swept(random=6, dropped=2)
    parts = "2 fit, 2 out of memory, 2 refused, 2 left out by conditions"
    assert phrases.counted(told) == f"8 points drawn of 6: {parts}"
    assert "5 tried now, 1 from the cache, 2 refused at sight or equal to another; 2.00 s" in page(told)


def test_reasons_that_differ_in_numbers_are_one_line_with_the_nearest_point() -> None:
    assert list(phrases.reasons(swept(), "out of memory")) == [
        "2 points, the nearest is tp 1, micro_batch 1: needs 99.0 GB of 85.5 GB"
    ]
    assert list(phrases.reasons(swept(), "refused", most=1)) == [
        "tp 3, micro_batch 1: tp 3 is not 8",
        "and 1 point for 1 other reason",
    ]


def test_conditions_that_leave_nothing_tell_what_there_was() -> None:
    missed = (MissedCondition("mfu > 0.6", "mfu", 0.31, 0.52, 0),)
    told = swept(rows=(_row(1, 1, "refused", "no"),), dropped=3, missed=missed)
    words = "mfu > 0.6: it was 31.0 % to 52.0 %; 0 points would meet this one alone"
    assert words in page(told)
    assert words in sweep_html.page(told).replace("&gt;", ">")
    assert not list(phrases.missed(swept(dropped=3, missed=missed)))


def test_the_heat_map_tells_out_of_memory_from_refused() -> None:
    assert gaps(swept()) == [["×", "", "–"], ["×", "", "–"]]
    text = sweep_html.page(swept())
    heat = text[text.index('class="heat"') :]
    assert '<td class="none">×</td>' in heat and '<td class="none">–</td>' in heat and 'class="h9">52.0 %' in heat
    assert "× out of memory · – refused" in text and "× out of memory · – refused" in page(swept())
    assert gaps(swept(rows=(_row(2, 1, "ok"),)))[1] == ["", "", ""]
    assert "blank: not tried" in page(swept(rows=(_row(2, 1, "ok"),)))
    assert "blank: not tried or left out by conditions" in page(swept(rows=(_row(2, 1, "ok"),), dropped=1))


def test_bars_are_named_and_left_out_where_all_are_equal() -> None:
    assert "█" not in sweep_page.page(swept(), HOW)
    differing = swept(rows=(_row(2, 1, "ok", mfu=0.5), _row(2, 2, "ok", mfu=0.1)))
    assert re.search(r"MFU +memory +MFU\n +2 +1 .*█{12}\n", sweep_page.page(differing, HOW))


def test_axes_of_the_front_lie_around_the_points() -> None:
    text = sweep_html.page(swept())
    front = text[text.index("Pareto front") : text.index('class="heat"')]
    assert ">50.0 %<" in front and ">0 %<" not in front


@pytest.mark.parametrize("number", [1, 2])
def test_a_fit_or_several(number: int) -> None:
    rows = tuple(_row(2, size + 1, "ok") for size in range(number))
    assert phrases.counted(swept(rows=rows)) == ("1 point: 1 fits" if number == 1 else "2 points: 2 fit")


def test_axes_stay_and_metrics_go_where_the_page_is_narrow() -> None:
    axes = ("serving.parallel.tp", "model", "requests.arrival.rate")
    long = ("cost_usd_per_million_tokens", "output_throughput", "mean_ttft_ms", "mean_tpot_ms", "p99_e2el_ms")
    figures = {name: 123.0 + place for place, name in enumerate(long)}
    values = {axes[0]: 8, axes[1]: "models/llama-3-8b-of-a-rather-long-name", axes[2]: "12/s"}
    row = Row(0, (), values, "ok", "", figures, (), "")
    table = SweepTable(
        "a name",
        "serving",
        {key: (told,) for key, told in values.items()},
        (row,),
        provenance={"version": "0", "seed": 0},
    )
    document = table.described(View(by=long[0]))
    for width in (60, 80, 100, 140):
        text = sweep_page.page(document, HOW, width=width)
        head = next(line for line in text.splitlines() if "cost/Mtok" in line).split()
        assert head[:4] == ["tp", "model", "rate", "cost/Mtok"]
        assert "…" not in text and max(map(len, text.splitlines())) <= width
        assert ("P99" in head) == (width >= 100)


def test_every_metric_has_a_short_head() -> None:
    heads = {name: short(name) for name in METRICS}
    assert max(map(len, heads.values())) <= 14, heads
    assert [short(name) for name in ("mean_ttft_ms", "p99_e2el_ms", "mfu")] == ["TTFT", "P99 E2E", "MFU"]
    for metrics in (SERVING, set(METRICS) - set(SERVING)):
        assert len({heads[name] for name in metrics}) == len(metrics)
