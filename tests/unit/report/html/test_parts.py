import pytest

from simulator import units
from simulator.report.html.markup import tag
from simulator.report.html.parts import graph, heading, magnitude, notes, table, ticks, timeline


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1.50 kB", 1500),
        ("980 us", 980e-6),
        ("1.2 ms", 1.2e-3),
        ("2.00 min", 120),
        ("3,072", 3072),
        ("-3.0 %", -0.03),
        ("−3.0 %", -0.03),
        ("158 TFLOP/s", 158e12),
        ("3.4/s", 3.4),
        ("0.502 USD *", 0.502),
        ("4.00 ms (P99)", 4e-3),
        ("3 of 4", 3),
    ],
)
def test_magnitude_is_what_was_printed(text: str, size: float) -> None:
    assert magnitude(text) == pytest.approx(size)


@pytest.mark.parametrize("text", ["", "-", "not known", "forward 3", "<b>"])
def test_words_have_no_magnitude(text: str) -> None:
    assert magnitude(text) is None


@pytest.mark.parametrize("dimension", units.DIMENSIONS)
@pytest.mark.parametrize("value", [1.25e-7, 0.5, 3.0, 1.23e4, 7.5e12])
def test_magnitude_orders_every_dimension(dimension: str, value: float) -> None:
    small, large = magnitude(units.format(value, dimension)), magnitude(units.format(3 * value, dimension))
    assert small is not None and large is not None and small < large


def test_tables_of_three_rows_sort_by_size_and_keep_their_sum_below() -> None:
    text = table(("kind name", "size n"), [("a", "2 GB"), ("b", "30 MB"), ("<i>", "-")], ("all", "2.03 GB"))
    assert '<table class="sortable">' in text
    assert 'data-v="2e+09">2 GB' in text and 'data-v="3e+07">30 MB' in text
    assert '<td class="n">-</td>' in text
    assert text.index("<tfoot>") > text.index("</tbody>")
    assert "&lt;i&gt;" in text and "<i>" not in text


def test_tables_that_do_not_sort() -> None:
    rows = [("a", "1"), ("b", "2"), ("c", "3")]
    assert "sortable" not in table(("kind name", "size n"), rows[:2])
    assert "sortable" not in table(("kind name", "size n"), rows, sortable=False)


def test_marked_cells_have_the_size_of_their_text() -> None:
    assert 'data-v="0.005"' in table(("a name", "b n"), [("x", tag("strong", "5.00 ms *"))])


def test_a_timeline_names_its_axis_and_its_stretch() -> None:
    text = timeline("step", 0.5, 1.5, ticks(0.5, 1.5))
    assert 'data-axis="step" data-begin="0.5" data-end="1.5"' in text
    assert text.count("data-do=") == 5 and "<output" in text
    assert 'x="10%" y="14" text-anchor="middle">0.6 s</text>' in text and ">1.4 s</text>" in text
    assert "data-axis" not in graph(2.0, unit="/s")


def test_heading_and_notes_escape() -> None:
    assert "<b>" not in heading("<b>") + "".join(notes(["<b>"]))
    assert list(notes([])) == []
