"""A frontier as one self-contained HTML file; reads the document that `study.frontier.document` makes."""

from collections.abc import Iterable

from simulator.report.frontier import phrases
from simulator.report.html.markup import Markup, tag
from simulator.report.html.page import standalone
from simulator.report.html.parts import ground, heading, notes, sections, table
from simulator.report.plan.phrases import promised
from simulator.report.svg import scatter
from simulator.report.text import scales, wording
from simulator.results.documents.frontier import FrontierDocument, FrontierPoint

_ROOM = 1.06
_LOOKS = ("replicas that do both", "prefill and decode apart", "misses the objectives", "the front")


def page(document: FrontierDocument) -> str:
    """The page as text of an HTML file."""
    return standalone(document.name, _body(document), f"clustersim {document.provenance.version}")


def _body(document: FrontierDocument) -> Iterable[Markup]:
    system = document.system
    about = f"{system.model} on {document.devices} x {system.device}, {system.stack}"
    wanted = tag("p", f"Wanted: {promised(document.slo)}.")
    yield heading(document.name, tag("p", about, class_="soft"), *ground(document.ground.sentence), wanted)
    said = tag("p", tag("strong", phrases.headline(document)))
    yield said if document.feasible else tag("div", said, class_="alarm")
    counted = [f"{document.counts.candidates:,} candidates", *phrases.counted(document)]
    named: list[tuple[str, Iterable[Markup]]] = [
        ("Warnings", notes(document.warnings)),
        ("Why", notes(document.why)),
        ("Tokens per second and device over tokens per second and user", _picture(document)),
        ("The front", _table(document, phrases.listed(document))),
        ("Candidates", notes([*counted, *filter(None, [phrases.doubt(document)])])),
        ("All points simulated", _table(document, list(document.points))),
        ("Assumptions", notes(document.assumptions)),
    ]
    yield tag("main", *sections(named))
    known = document.provenance
    made_of = [wording.plural(known.simulations, "simulation"), f"seed {known.seed}", f"scenario {known.scenario}"]
    yield tag("footer", tag("p", " · ".join([*made_of, "simulated, not measured"]), class_="soft small"))


def _picture(document: FrontierDocument) -> Iterable[Markup]:
    """Points by mode over the area that the front leaves behind."""
    points = phrases.drawable(document.points)
    if not points:
        return
    end = _ROOM * max(one.tokens_per_s_per_user for one in points)
    high = _ROOM * max(one.tokens_per_s_per_device for one in points)
    x, y = (scatter.Axis(0.0, most, tuple(scales.marks(0.0, most))) for most in (end, high))
    drawn = [_dot(document, one) for one in sorted(points, key=lambda one: one.on_front)]
    yield scatter.legend(_LOOKS)
    yield scatter.scatter(drawn, x, y, "tokens per second and device", band=_behind(document), height=500)
    said = (
        "Across: tokens per second and user. Up: output tokens per second and device. Shaded: what the front exceeds."
    )
    yield tag("p", said, class_="soft small")


def _dot(document: FrontierDocument, one: FrontierPoint) -> scatter.Point:
    look = 3 if one.on_front else 2 if one.state != "meets" else int(one.mode == "disaggregated")
    across, up = one.tokens_per_s_per_user, one.tokens_per_s_per_device
    figures = f"{across:.1f} tokens/s/user, {up:,.0f} tokens/s/device, {phrases.rate(one)}"
    return scatter.Point(across, up, look, f"{one.name}: {figures} {_remark(document, one)}")


def _behind(document: FrontierDocument) -> list[tuple[float, float]]:
    """Corners of the area below and left of the front."""
    corners, before = [(0.0, 0.0)], 0.0
    for one in reversed(phrases.front(document)):
        corners += [(one.tokens_per_s_per_user, before), (one.tokens_per_s_per_user, one.tokens_per_s_per_device)]
        before = one.tokens_per_s_per_device
    return [(0.0, 0.0), *[(x, y) for x, y in corners[1:]], (0.0, before)]


def _table(document: FrontierDocument, points: list[FrontierPoint]) -> Iterable[Markup]:
    if not points:
        return
    rows = [(*phrases.cells(document, one)[:-1], _remark(document, one)) for one in points]
    titles = ("system class", *(f"{title} n" for title in phrases.TITLES[1:-1]), "remark class")
    yield table(titles, rows)


def _remark(document: FrontierDocument, point: FrontierPoint) -> str:
    own = phrases.cells(document, point)[-1]
    state = "" if point.state == "meets" else phrases.STATES.get(point.state, f"{point.state}: {point.reason}")
    return ", ".join(filter(None, (own, "front" if point.on_front else "", state)))
