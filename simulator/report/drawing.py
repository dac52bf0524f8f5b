"""Figures of matplotlib as files: PNG and SVG, whole or not at all, with the same bytes for the same figure."""

from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem
from simulator.report.plain import clean
from simulator.results.writing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
_FEW = 5  # rows down to which a bar fills its row


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


def plain(text: str) -> str:
    """Text in which matplotlib sees no formula."""
    return clean(text).replace("$", r"\$")


def thickness(rows: int) -> float:
    """Share of its row that a bar takes, so that one alone is a bar and no block."""
    return min(1.0, rows / _FEW)
