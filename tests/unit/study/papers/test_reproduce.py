"""Published systems beside ours: verdicts, totals, what is kept, and the list of systems."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from simulator.errors import InputError
from simulator.report.papers import html, markdown, phrases
from simulator.report.papers.page import page
from simulator.results.documents.papers import (
    DIRECTION,
    GIVEN,
    HOLDS,
    MISSED,
    NO_SCENARIO,
    REPRODUCED,
    PaperEntry,
    PapersDocument,
    PublishedFigure,
)
from simulator.study.papers import kept, reproduce
from simulator.study.papers.claims import Claim, Figure, known_claims
from simulator.study.papers.systems import PublishedSystem, Systems, known_systems
from simulator.study.papers.verdict import best, error, verdict

PAPERS, SYSTEMS = known_claims(), known_systems()
RATIO = {"ratio": [{"value": 1}, {"value": 1}]}


def claim(**more: Any) -> Claim:
    """A claim of 2."""
    figure = {"value": 1}
    return Claim.model_validate({"paper": "p", "claim": "c", "published": 2, "source": "s", "figure": figure, **more})


@pytest.mark.parametrize(
    ("more", "ours", "found"),
    [
        ({}, 2.19, REPRODUCED),
        ({}, 1.81, REPRODUCED),
        ({}, 2.21, MISSED),
        ({"spread": 0.2}, 2.39, REPRODUCED),
        ({"spread": 0.2}, 2.41, MISSED),
        ({}, float("nan"), MISSED),
        ({"bound": "least"}, 5, HOLDS),
        ({"bound": "least"}, 2.1, REPRODUCED),
        ({"bound": "least"}, 1.5, MISSED),
        ({"bound": "most"}, 1, HOLDS),
        ({"bound": "most"}, 3, MISSED),
        ({"figure": RATIO}, 1.5, DIRECTION),
        ({"figure": RATIO}, 9, DIRECTION),
        ({"figure": RATIO}, 0.9, MISSED),
        ({"figure": RATIO, "unit": "s"}, 1.5, MISSED),
        ({"figure": RATIO, "published": 1.05}, 0.99, MISSED),
        ({"figure": RATIO, "published": 1.0}, 0.99, REPRODUCED),
        ({"figure": RATIO, "published": 0.5}, 0.8, DIRECTION),
        ({"by_construction": "sizes"}, 2, GIVEN),
        ({"figure": RATIO, "assumed": "lengths"}, 2.0, DIRECTION),
        ({"figure": RATIO, "assumed": "lengths", "bound": "most"}, 1.5, DIRECTION),
        ({"figure": RATIO, "assumed": "lengths"}, 0.99, MISSED),
        ({"figure": RATIO, "assumed": "lengths", "published": 1, "bound": "least"}, 1.1, DIRECTION),
        ({"figure": RATIO, "assumed": "lengths", "published": 1, "bound": "least"}, 1.01, MISSED),
        ({"figure": RATIO, "assumed": "lengths", "published": 1, "bound": "most"}, 0.9, DIRECTION),
        ({"figure": RATIO, "assumed": "lengths", "published": 1, "bound": "most"}, 1.1, MISSED),
    ],
)
def test_a_figure_comes_to_what_the_rule_says(more: dict[str, Any], ours: float, found: str) -> None:
    assert verdict(claim(**more), ours) == found


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"assumed": "lengths"}, "goes with a `ratio`"),
        ({"assumed": "lengths", "figure": RATIO, "unit": "s"}, "goes with a `ratio`"),
        ({"assumed": "lengths", "figure": RATIO, "published": 1}, "needs `bound`"),
    ],
)
def test_a_claim_on_assumed_inputs_is_a_ratio_with_a_side(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        claim(**more)


@pytest.mark.parametrize(
    ("bound", "ours", "off"),
    [(None, 1.5, -0.25), ("least", 1.5, -0.25), ("least", 3, None), ("most", 1.5, None), ("most", 3, 0.5)],
)
def test_a_bound_has_an_error_only_where_it_is_missed(bound: str | None, ours: float, off: float | None) -> None:
    assert error(claim(bound=bound), ours) == off


def test_a_system_is_as_good_as_its_best_figure() -> None:
    assert best([MISSED, DIRECTION, GIVEN]) == DIRECTION
    assert best([MISSED, REPRODUCED, HOLDS]) == REPRODUCED
    assert best([GIVEN, GIVEN]) == GIVEN
    assert best([]) == NO_SCENARIO


def published(verdict: str, paper: str = "a") -> PublishedFigure:
    """A figure with a verdict."""
    return PublishedFigure(
        paper, "claim", "source", 2.0, None, "", 2.2, 0.1, verdict, "why", {"all": 2.0, "none": None}
    )


def small() -> PapersDocument:
    """Three papers, four systems of three sources, one without a scenario and one whose only figure does not count."""
    entries = (
        PaperEntry("a", "Paper A", "training", (published(REPRODUCED), published(GIVEN)), (), ()),
        PaperEntry("b", "Paper B", "serving", (published(MISSED, "b"),), (), ()),
        PaperEntry("c", "Paper C", "serving", (published(GIVEN, "c"),), (), ()),
    )
    systems = {
        "one": PublishedSystem(title="One", half="training", mechanism="x", papers=("a",)),
        "again": PublishedSystem(title="One", half="serving", mechanism="x", papers=("a",), same_as="one"),
        "two": PublishedSystem(title="Two", half="serving", mechanism="y", papers=("b",)),
        "three": PublishedSystem(title="Three", half="serving", mechanism="y", why="no figure was published"),
        "four": PublishedSystem(title="Four", half="serving", mechanism="y", papers=("c",), why="a quotient of sizes"),
    }
    return reproduce.document(entries, systems)


def test_a_source_counts_once_and_what_is_given_not_at_all() -> None:
    found = small().totals
    assert found.systems == {REPRODUCED: 1, MISSED: 1, NO_SCENARIO: 1, GIVEN: 1}
    assert found.figures == {REPRODUCED: 1, GIVEN: 2, MISSED: 1}
    assert found.by_mechanism == {"x": {REPRODUCED: 1}, "y": {MISSED: 1, NO_SCENARIO: 1, GIVEN: 1}}
    assert phrases.systems(small()).startswith("Of 4 systems, 1 have a figure that is reproduced")
    assert phrases.systems(small()).endswith(
        "of 1 all figures are true by construction, and of 1 there is no scenario."
    )
    assert [one.why for one in small().systems if one.name == "four"] == ["a quotient of sizes"]
    assert "Of 2 figures, 1 are reproduced" in phrases.all_figures(small())


@pytest.mark.parametrize("draw", [page, html.page, markdown.page])
def test_pages_show_figures_verdicts_and_reasons(draw: Any) -> None:
    text = draw(small())
    for words in ("Paper A", "2.000x", "2.200x", "+10 %", REPRODUCED, GIVEN, "no figure was published"):
        assert words in text
    assert "with all 2.000x" in " ".join(text.split())


def test_figures_are_found_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run finds all in the file; a changed program finds them again."""
    cache = tmp_path / "papers.json"
    first = reproduce.reproduce(["deepspeed-moe"], cache=cache)
    written = cache.read_text()

    def refuse(self: object, figure: Figure) -> float:
        raise AssertionError("found again")

    monkeypatch.setattr(reproduce.Bench, "value", refuse)
    assert reproduce.reproduce(["deepspeed-moe"], cache=cache) == first
    assert cache.read_text() == written
    monkeypatch.setattr(kept.fingerprint, "program", lambda: "another")
    with pytest.raises(AssertionError, match="found again"):
        reproduce.reproduce(["deepspeed-moe"], cache=cache)


def test_a_key_changes_with_the_figure_and_with_its_scenario() -> None:
    asked = {"of": "sarathi/chunked-13b", "metric": "duration"}
    keys = {
        kept.key(Figure.model_validate({**asked, **more}))
        for more in ({}, {"metric": "request_throughput"}, {"changes": ["seed=5"]}, {"changes": ["seed=6"]})
    }
    assert len(keys) == 4
    assert kept.key(Figure.model_validate(asked)) in keys


@pytest.mark.parametrize("text", ["", "[]", '{"figures": 3}', '{"figures": {"a": "b"}}', "\x00"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "cache").write_text(text)
    with pytest.raises(InputError, match="is no cache of figures"):
        kept.read(tmp_path / "cache")


def test_papers_are_chosen_by_their_key_or_by_a_system() -> None:
    assert reproduce.choose((), PAPERS, SYSTEMS) == list(PAPERS.titles)
    assert reproduce.choose(("megatron_ptdp", "ptd-p", "sarathi"), PAPERS, SYSTEMS) == ["ptd-p", "sarathi"]
    with pytest.raises(InputError, match=r"no published system is called `sarathy`.*sarathi"):
        reproduce.choose(("sarathy",), PAPERS, SYSTEMS)


def test_systems_have_claims_or_a_reason() -> None:
    """Every system of the list has claims here, or says why there are none."""
    without = {name for name, one in SYSTEMS.items() if not set(one.papers) & set(PAPERS.titles) and not one.why}
    assert without == set()


def test_every_paper_belongs_to_a_system() -> None:
    assert set(PAPERS.titles) <= {paper for one in SYSTEMS.values() for paper in one.papers}


def test_what_is_true_by_construction_says_why() -> None:
    marked = [one for one in PAPERS.claims if one.by_construction]
    assert marked
    assert all(len(one.by_construction.split()) > 3 for one in marked)


def test_a_list_of_systems_is_checked() -> None:
    with pytest.raises(ValidationError, match="says `why`"):
        PublishedSystem(title="t", half="training", mechanism="m")
    with pytest.raises(ValidationError, match="is no system"):
        Systems(systems={"a": PublishedSystem(title="t", half="training", mechanism="m", papers=("p",), same_as="b")})
