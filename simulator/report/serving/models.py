"""What pages say of several models behind one address: a row for each pool and for each difficulty of requests."""

from collections.abc import Iterable, Mapping

from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.report.html import parts as html_parts
from simulator.report.html.markup import Markup
from simulator.report.text import blocks, wording
from simulator.report.text.plain import clean
from simulator.results.result import Service
from simulator.results.serving.model_routing import by_model
from simulator.results.serving.service import by_difficulty

_AMOUNTS = {"cost_usd": ("cost", "money"), "energy_j": ("energy", "energy")}
_POOL = ("attempts", "answers", "tokens out", "mean", "P99")
_CLASS = ("requests", "asked again", "E2E mean", "P99", "right")

Figures = Mapping[str, float]


def of_models(service: Service) -> Iterable[RenderableType]:
    """What each pool was asked and took, and how requests of each difficulty fared."""
    use = service.models
    if use is None:
        return
    pools, classes = by_model(use), by_difficulty(service)
    table = blocks.headed("model", "", *_POOL, *_titles(pools))
    for model, (name, figures) in zip(use.models, pools.items(), strict=True):
        table.add_row(Text(clean(name), "bold"), clean(model), *_of_pool(figures), *_amounts(figures))
    yield blocks.heading("Models: attempts, and what their devices took")
    yield table
    table = blocks.headed("difficulty", *_CLASS, *_titles(classes))
    for name, of in classes.items():
        table.add_row(Text(clean(name), "bold"), *_of_class(of), *_amounts(of))
    yield table


def section(service: Service) -> Iterable[Markup]:
    """The same as tables."""
    use = service.models
    if use is None:
        return
    pools, classes = by_model(use), by_difficulty(service)
    rows = [
        (name, model, *_of_pool(figures), *_amounts(figures))
        for model, (name, figures) in zip(use.models, pools.items(), strict=True)
    ]
    titles = [f"{title} n" for title in (*_POOL, *_titles(pools))]
    yield html_parts.table(("pool name", "model name", *titles), rows)
    rows = [(name, *_of_class(figures), *_amounts(figures)) for name, figures in classes.items()]
    titles = [f"{title} n" for title in (*_CLASS, *_titles(classes))]
    yield html_parts.table(("difficulty name", *titles), rows)


def _titles(found: Mapping[str, Figures]) -> tuple[str, ...]:
    """Titles of amounts that are known."""
    first = next(iter(found.values()), {})
    return tuple(title for key, (title, _) in _AMOUNTS.items() if key in first)


def _amounts(figures: Figures) -> tuple[str, ...]:
    return tuple(units.format(figures[key], kind) for key, (_, kind) in _AMOUNTS.items() if key in figures)


def _of_pool(figures: Figures) -> tuple[str, ...]:
    counts = (f"{figures[name]:,.0f}" for name in ("attempts", "answers", "output_tokens"))
    times = (wording.figure("mean_ttft_ms", figures[name]) for name in ("mean_latency_ms", "p99_latency_ms"))
    return *counts, *times


def _of_class(figures: Figures) -> tuple[str, ...]:
    counts = (f"{figures[name]:,.0f}" for name in ("requests", "asked_again"))
    times = (wording.figure(name, figures[name]) for name in ("mean_e2el_ms", "p99_e2el_ms"))
    right = wording.percent(figures["expected_accuracy"]) if "expected_accuracy" in figures else "-"
    return *counts, *times, right
