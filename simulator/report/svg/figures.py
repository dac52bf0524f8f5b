"""Figures of matplotlib as files: PNG and SVG, whole or not at all, with the same bytes for the same figure."""

from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem
from simulator.report.text.plain import clean
from simulator.results.writing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
_FEW = 5  # rows down to which a bar fills its row
_BELOW = 0.4  # inches from the axes to the legend
_MOST_COLUMNS = 5


def check_library() -> None:
    """InputError where matplotlib cannot be imported because the environment names a backend that there is not."""
    try:
        import matplotlib  # noqa: F401
    except ValueError as error:
        hint = "unset MPLBACKEND, or write `MPLBACKEND=agg`"
        raise InputError(Problem(f"matplotlib cannot draw: {str(error).partition(';')[0]}", hint=hint)) from error


def new_figure() -> "Figure":
    """An empty figure of the usual size; InputError as `check_library`."""
    check_library()
    from matplotlib.figure import Figure

    return Figure(figsize=(11, 6), layout="constrained")


def new() -> "Axes":
    """Axes of a new figure of the usual size; InputError where matplotlib has no such backend."""
    check_library()
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(11, 6), layout="constrained")[1]


def save_figure(figure: "Figure", folder: str | Path, name: str) -> list[Path]:
    """Write a figure in every format into a folder that exists; InputError where one cannot be written."""
    from matplotlib import rc_context

    written = []
    for kind in FORMATS:
        path, buffer = Path(folder) / f"{name}.{kind}", BytesIO()
        # Neither date nor random ids, so that the same figure gives the same bytes.
        with rc_context({"svg.hashsalt": name}), replacing(path) as file:
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
            file.write(buffer.getvalue())
        written.append(path)
    return written


def save_figures(
    plots: Mapping[str, Callable[[Any, "Axes"], object]], shown: Any, folder: str | Path, title: str = ""
) -> list[Path]:
    """Draw a Result or document with each of some plots and write them into a folder that exists; returns the files.

    Raises InputError where one cannot be written.
    """
    written: list[Path] = []
    for name, draw in plots.items():
        figure = new_figure()
        draw(shown, figure.subplots())
        if title:
            figure.suptitle(plain(title))
        written += save_figure(figure, folder, name)
    return written


def legend_below(axes: "Axes", columns: int = _MOST_COLUMNS) -> None:
    """A legend under the axes, as wide as they are at most; a figure that leaves no room for it is laid out anew."""
    if not axes.get_legend_handles_labels()[0]:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    if figure.get_layout_engine() is None and axes.get_subplotspec() is not None:
        figure.set_layout_engine("constrained")
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -_BELOW, figure.dpi_scale_trans)
    for count in range(columns, 0, -1):
        legend = axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            bbox_transform=below,
            ncols=count,
            fontsize="small",
            frameon=False,
        )
        if legend.get_window_extent().width <= axes.bbox.width:
            break


def plain(text: str) -> str:
    """Text in which matplotlib sees no formula."""
    return clean(text).replace("$", r"\$")


def thickness(rows: int) -> float:
    """Share of its row that a bar takes, so that one alone is a bar and no block."""
    return min(1.0, rows / _FEW)
