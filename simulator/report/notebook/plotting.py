"""Plots of a Result, a comparison or a sweep by their names: what hangs on `.plot` in the Python interface.

Every method draws on the axes that it is given (`ax`), or on new ones, and returns them.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem
from simulator.report.compare import plots as compare_plots
from simulator.report.jobs import plots as jobs_plots
from simulator.report.serving import plots as serving_plots
from simulator.report.step import plots
from simulator.report.svg.figures import new
from simulator.report.sweep import plots as sweep_plots
from simulator.results.documents.comparison import ComparisonDocument
from simulator.results.documents.sweep import SweepDocument
from simulator.results.infeasibility import nothing_served, reason
from simulator.results.result import Result, Service
from simulator.run.kinds import KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Draw = Callable[[Result, "Axes"], "Axes"]
_LONGEST = 100


def _served(draw: Callable[[Result, Service, "Axes"], "Axes"]) -> Draw:
    """A plot of a service as one of its result, which has one."""

    def drawn(result: Result, axes: "Axes") -> "Axes":
        if result.service is None:
            raise InputError(Problem(f"{result.name} does not fit into memory: nothing was served"))
        if nothing_served(result):
            raise InputError(Problem(f"{result.name}: nothing was served: {reason(result)}"))
        return draw(result, result.service, axes)

    return drawn


_DRAWN: dict[str, dict[str, Draw]] = {
    "training": {
        "gantt": plots.gantt,
        "breakdown": plots.breakdown,
        "memory": plots.memory,
        "memory_over_time": plots.memory_over_time,
        "links": plots.links,
        "step_times": plots.step_times,
    },
    "serving": {
        "latency": _served(serving_plots.latency),
        "objectives": _served(serving_plots.objectives),
        "requests": _served(serving_plots.lives),
        "request_time": _served(serving_plots.request_parts),
        "load": _served(serving_plots.requests_over_time),
        "throughput": _served(serving_plots.tokens_over_time),
        "cache": _served(serving_plots.cache_over_time),
        "breakdown": _served(serving_plots.replicas),
        "memory": plots.memory,
    },
    "jobs": {"slowdowns": jobs_plots.slowdowns, "meetings": jobs_plots.meetings},
}
"""The plots of each kind of run by the names of the methods below."""


class Plots:
    """The plots of one Result; those of another kind of run raise InputError."""

    __slots__ = ("_result",)

    def __init__(self, result: Result) -> None:
        """Of a run of any kind."""
        self._result = result

    def gantt(self, ax: "Axes | None" = None) -> "Axes":
        """Of training: operations of each device class over time in seconds."""
        return self._draw("gantt", ax)

    def breakdown(self, ax: "Axes | None" = None) -> "Axes":
        """Where the step goes, a bar in seconds for each device class; of serving, for each replica its whole run."""
        return self._draw("breakdown", ax)

    def memory(self, ax: "Axes | None" = None) -> "Axes":
        """Memory of each device class at its peak by kind, in GB, with the capacity as a dashed line."""
        return self._draw("memory", ax)

    def memory_over_time(self, ax: "Axes | None" = None) -> "Axes":
        """Of training: memory of the fullest device class in GB over the step."""
        return self._draw("memory_over_time", ax)

    def links(self, ax: "Axes | None" = None) -> "Axes":
        """Of training: use of the busiest link of each kind over the step, in percent."""
        return self._draw("links", ax)

    def step_times(self, ax: "Axes | None" = None) -> "Axes":
        """Of training in several steps: how their times are distributed, in seconds."""
        if self._result.kind == "training" and len(self._result.step_times) < 2:
            hint = "set `training.steps` to more than one, and what makes them differ with `training.noise`"
            raise InputError(Problem(f"{self._result.name} is one step only: its time has no distribution", hint=hint))
        return self._draw("step_times", ax)

    def latency(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: distributions of TTFT, TPOT, ITL and E2E latency in milliseconds, dashed at the objectives."""
        return self._draw("latency", ax)

    def objectives(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: TTFT and TPOT of single requests in milliseconds, with the box of the objectives."""
        return self._draw("objectives", ax)

    def requests(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: the first requests, a row each: waiting, prefill, first to last token, in seconds."""
        return self._draw("requests", ax)

    def request_time(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: where the time of a request goes, in seconds, for requests in the order of arrival."""
        return self._draw("request_time", ax)

    def load(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: requests in the queue and running, over time in seconds."""
        return self._draw("load", ax)

    def throughput(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: output tokens per second over time in seconds."""
        return self._draw("throughput", ax)

    def cache(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: cache blocks in use, in percent over time in seconds."""
        return self._draw("cache", ax)

    def slowdowns(self, ax: "Axes | None" = None) -> "Axes":
        """Of several jobs: how much more time each takes than alone, in percent."""
        return self._draw("slowdowns", ax)

    def meetings(self, ax: "Axes | None" = None) -> "Axes":
        """Of several jobs: what the link that was full for longest carried for each, in GB/s over time in seconds."""
        return self._draw("meetings", ax)

    def __repr__(self) -> str:
        """The plots that this kind of run has."""
        return f"<plots of {self._result.name!r}: {_calls(_DRAWN[self._result.kind])}>"

    def _draw(self, name: str, ax: "Axes | None") -> "Axes":
        known = _DRAWN[self._result.kind]
        if name not in known:
            does = " or ".join(KINDS[kind].does for kind, drawn in _DRAWN.items() if name in drawn)
            message = f"`{name}` is a plot of a run that {does}, and {self._result.name} does not"
            raise InputError(Problem(message, hint=f"it has {_listed(known)}"))
        return known[name](self._result, _axes(ax))


class ComparisonPlots:
    """The plots of a comparison."""

    __slots__ = ("_document",)

    def __init__(self, document: ComparisonDocument) -> None:
        """Of its document."""
        self._document = document

    def parts(self, ax: "Axes | None" = None) -> "Axes":
        """What the time of each run consists of, in percent of that of the first."""
        return compare_plots.parts(self._document, _axes(ax))

    def figures(self, ax: "Axes | None" = None) -> "Axes":
        """Headline figures of the other runs relative to the first, in percent."""
        return compare_plots.figures(self._document, _axes(ax))

    def __repr__(self) -> str:
        """The plots that there are."""
        return f"<plots of a comparison: {_calls(compare_plots.PLOTS)}>"


class SweepPlots:
    """The plots of a sweep."""

    __slots__ = ("_document",)

    def __init__(self, document: Callable[..., SweepDocument]) -> None:
        """`document` gives its document with what `heat=(x, y, metric)` or `pareto=(first, second)` asks for."""
        self._document = document

    def heat(self, x: str, y: str, metric: str, ax: "Axes | None" = None) -> "Axes":
        """A metric over two axes of the sweep by their last words, `heat("tp", "pp", "mfu")`; the best of each cell."""
        document = self._document(heat=(x, y, metric))
        return sweep_plots.heat(document, _axes(ax))

    def pareto(self, first: str, second: str, ax: "Axes | None" = None) -> "Axes":
        """All points by two metrics, and the line of those that no other beats in both."""
        document = self._document(pareto=(first, second))
        return sweep_plots.pareto(document, _axes(ax))

    def __repr__(self) -> str:
        """The plots that there are."""
        return "<plots of a sweep: heat(x, y, metric), pareto(first, second)>"


def _axes(ax: Any) -> "Axes":
    """The axes to draw on: new ones where none are given; InputError for what are none."""
    if ax is None:
        return new()
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return ax
    message = f"`{repr(ax)[:_LONGEST]}` ({type(ax).__name__}) is no axes of matplotlib"
    hint = "give one of them, such as ax[0]" if hasattr(ax, "__len__") else "give those of `plt.subplots()`, or none"
    raise InputError(Problem(message, path="ax", hint=hint))


def _calls(names: Mapping[str, object]) -> str:
    return ", ".join(f"{name}()" for name in names)


def _listed(names: Mapping[str, object]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}"
