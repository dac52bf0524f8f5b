"""A Result as one self-contained HTML file that people send each other."""

from collections.abc import Iterable

from simulator.report.html import parts as html_parts
from simulator.report.html.markup import Markup, tag
from simulator.report.html.page import standalone
from simulator.report.serving import html as serving_html
from simulator.report.step import html_gantt, html_sections, html_step_times
from simulator.results.infeasibility import remarks
from simulator.results.result import Result


def document(result: Result) -> str:
    """The report as text of an HTML file."""
    return standalone(result.name, _body(result), f"clustersim {result.provenance.get('version', '')}".strip())


def _body(result: Result) -> Iterable[Markup]:
    yield html_sections.title(result) if result.kind != "serving" else serving_html.title(result)
    yield tag("main", *_sections(result))
    times = "" if result.kind == "serving" else "; times are of one step"
    yield tag("footer", tag("p", f"Simulated, not measured{times}.", class_="soft small"))


def _sections(result: Result) -> Iterable[Markup]:
    named = serving_html.sections(result) if result.kind == "serving" else _of_training(result)
    yield from html_parts.sections(named)


def _of_training(result: Result) -> Iterable[tuple[str, Iterable[Markup]]]:
    return (
        ("Published and simulated", html_sections.published(result)),
        ("Step times", html_step_times.section(result)),
        ("Pipeline", html_gantt.section(result)),
        ("Where the step goes", html_sections.breakdown(result)),
        ("Critical path", html_sections.critical_path(result)),
        ("What to change", html_sections.sensitivities(result)),
        ("Device memory", html_sections.memory(result)),
        ("Links", html_sections.links(result)),
        ("Warnings", html_parts.notes(remarks(result))),
        *html_sections.left_open(result),
        ("Provenance", html_sections.provenance(result)),
    )
