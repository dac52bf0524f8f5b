"""Plots of a Result or a comparison by their names: what hangs on `result.plot` in the Python interface.

Every method draws on the axes that it is given (`ax`), or on new ones, and returns them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem
from simulator.report import compare_plots, plots, serving_plots
from simulator.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Plots:
    """The plots of one Result; those of the other kind of run raise InputError."""

    __slots__ = ("_result",)

    def __init__(self, result: Result) -> None:
        """Of a run of either kind."""
        self._result = result

    def gantt(self, ax: "Axes | None" = None) -> "Axes":
        """Of training: operations of each device class over time in seconds."""
        return plots.gantt(self._training("gantt"), ax)

    def breakdown(self, ax: "Axes | None" = None) -> "Axes":
        """Where the step goes, a bar in seconds for each device class; of serving, for each replica its whole run."""
        if self._result.service is not None:
            return serving_plots.replicas(self._result, self._result.service, ax if ax is not None else plots.new())
        return plots.breakdown(self._training("breakdown"), ax)

    def memory(self, ax: "Axes | None" = None) -> "Axes":
        """Memory of each device class at its peak by kind, in GB, with the capacity as a dashed line."""
        return plots.memory(self._result, ax)

    def memory_over_time(self, ax: "Axes | None" = None) -> "Axes":
        """Of training: memory of the fullest device class in GB over the step."""
        return plots.memory_over_time(self._training("memory_over_time"), ax)

    def links(self, ax: "Axes | None" = None) -> "Axes":
        """Of training: use of the busiest link of each kind over the step, in percent."""
        return plots.links(self._training("links"), ax)

    def step_times(self, ax: "Axes | None" = None) -> "Axes":
        """Of training: how the times of several steps are distributed, in seconds."""
        return plots.step_times(self._training("step_times"), ax)

    def latency(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: distributions of TTFT, TPOT, ITL and E2E latency in milliseconds, dashed at the objectives."""
        return self._serving("latency", "latency", ax)

    def requests(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: the first requests, a row each: waiting, prefill, first to last token, in seconds."""
        return self._serving("requests", "requests", ax)

    def request_time(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: where the time of a request goes, in seconds, for requests in the order of arrival."""
        return self._serving("request_time", "request-time", ax)

    def load(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: requests in the queue and running, over time in seconds."""
        return self._serving("load", "requests-over-time", ax)

    def throughput(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: output tokens per second over time in seconds."""
        return self._serving("throughput", "tokens-over-time", ax)

    def cache(self, ax: "Axes | None" = None) -> "Axes":
        """Of serving: cache blocks in use, in percent over time in seconds."""
        return self._serving("cache", "cache-over-time", ax)

    def _training(self, name: str) -> Result:
        if self._result.kind == "serving":
            raise self._refused(name, "trains", ("breakdown", "latency", "load", "memory"))
        return self._result

    def _serving(self, name: str, file: str, ax: "Axes | None") -> "Axes":
        if self._result.service is None:
            if self._result.kind == "serving":
                raise InputError(Problem(f"{self._result.name} does not fit into memory: nothing was served"))
            raise self._refused(name, "serves", ("breakdown", "gantt", "memory", "links"))
        draw = serving_plots.PLOTS[file]
        return draw(self._result, self._result.service, ax if ax is not None else plots.new())

    def _refused(self, name: str, does: str, instead: tuple[str, ...]) -> InputError:
        hint = f"there are {', '.join(instead[:-1])} and {instead[-1]}"
        message = f"`{name}` is a plot of a run that {does}, and {self._result.name} does not"
        return InputError(Problem(message, hint=hint))


class ComparisonPlots:
    """The plots of a comparison."""

    __slots__ = ("_document",)

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Of its JSON form."""
        self._document = document

    def parts(self, ax: "Axes | None" = None) -> "Axes":
        """What the time of each run consists of, in percent of that of the first."""
        return compare_plots.parts(self._document, ax)

    def figures(self, ax: "Axes | None" = None) -> "Axes":
        """Headline figures of the other runs relative to the first, in percent."""
        return compare_plots.figures(self._document, ax)
