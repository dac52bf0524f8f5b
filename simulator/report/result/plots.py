"""The plots of a Result as files, those of its kind of run."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.report.jobs import plots as jobs_plots
from simulator.report.serving import plots as serving_plots
from simulator.report.step import run_plots
from simulator.report.step.plots import PLOTS, memory, step_times
from simulator.report.svg.figures import save_figures
from simulator.results.infeasibility import nothing_served
from simulator.results.result import Result, Service

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_plots(result: Result, folder: str | Path) -> list[Path]:
    """Write every plot as PNG and SVG into a folder that exists; that of step times only of several, that of
    meetings only where jobs met. Returns the files.

    Raises InputError where one cannot be written.
    """
    several = len(result.step_times) > 1
    wanted = {name: draw for name, draw in _wanted(result).items() if several or draw is not step_times}
    return save_figures(wanted, result, folder, result.name)


def _wanted(result: Result) -> Mapping[str, Callable[[Result, "Axes"], "Axes"]]:
    """The plots of this kind of run."""
    if result.kind == "jobs":
        return {
            name: draw for name, draw in jobs_plots.PLOTS.items() if result.meetings or draw is jobs_plots.slowdowns
        }
    if result.kind != "serving":
        tried = result.run is not None and bool(result.run.tried)
        whole = {name: draw for name, draw in run_plots.PLOTS.items() if tried or draw is run_plots.timeline}
        return {**PLOTS, **(whole if result.run is not None else {})}
    if (service := result.service) is None or nothing_served(result):
        return {"memory": memory}
    return {name: partial(_of_service, draw, service) for name, draw in serving_plots.PLOTS.items()}


def _of_service(
    draw: Callable[[Result, Service, "Axes"], "Axes"], service: Service, result: Result, axes: "Axes"
) -> "Axes":
    return draw(result, service, axes)
