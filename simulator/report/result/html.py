"""A Result as one self-contained HTML file that people send each other."""

from collections.abc import Callable, Iterable

from simulator.report.html import parts as html_parts
from simulator.report.html.markup import Markup, tag
from simulator.report.html.page import standalone
from simulator.report.jobs import html as jobs_html
from simulator.report.serving import html as serving_html
from simulator.report.step import html_gantt, html_long_run, html_sections, html_step_times
from simulator.results.infeasibility import remarks
from simulator.results.result import Result


def document(result: Result) -> str:
    """The report as text of an HTML file."""
    return standalone(result.name, _body(result), f"clustersim {result.provenance.get('version', '')}".strip())


def _body(result: Result) -> Iterable[Markup]:
    title, sections, times = _KINDS[result.kind]
    yield title(result)
    yield tag("main", *html_parts.sections(sections(result)))
    yield tag("footer", tag("p", f"Simulated, not measured{times}.", class_="soft small"))


def _of_training(result: Result) -> Iterable[tuple[str, Iterable[Markup]]]:
    return (
        ("Published and simulated", html_sections.published(result)),
        ("The run", html_long_run.section(result)),
        ("Step times", html_step_times.section(result)),
        ("Pipeline", html_gantt.section(result)),
        ("Where the step goes", html_sections.breakdown(result)),
        ("Critical path", html_sections.critical_path(result)),
        ("What to change", html_sections.sensitivities(result)),
        ("Device memory", html_sections.memory(result)),
        ("Links", html_sections.links(result)),
        ("The network under load", html_sections.network(result)),
        ("Warnings", html_parts.notes(remarks(result))),
        *html_sections.left_open(result),
        ("Provenance", html_sections.provenance(result)),
    )


def _of_jobs(result: Result) -> jobs_html.Named:
    return jobs_html.sections(result, lambda job: _KINDS[job.kind][1](job))


_KINDS: dict[str, tuple[Callable[[Result], Markup], Callable[[Result], jobs_html.Named], str]] = {
    "training": (html_sections.title, _of_training, "; times are of one step"),
    "serving": (serving_html.title, serving_html.sections, ""),
    "jobs": (jobs_html.title, _of_jobs, ""),
}
"""Title, sections and a remark on the times by kind of run."""
