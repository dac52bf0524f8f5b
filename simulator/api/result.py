"""Results with what notebooks ask of them: plots, frames, a card in a cell, files.

`simulator.results` knows nothing of drawing; the classes here are its own with methods hung on, and hold nothing else.
"""

from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from simulator import results
from simulator.api.arguments import path_of
from simulator.errors import InputError, Problem, nearest
from simulator.results.documents.form import plain
from simulator.results.jobs import of_job
from simulator.results.metrics import like
from simulator.results.writing import write
from simulator.study.compare import comparison as comparing
from simulator.study.sweep import table

if TYPE_CHECKING:
    from pandas import DataFrame

    from simulator.report.notebook.plotting import ComparisonPlots, Plots, SweepPlots
    from simulator.results.documents.comparison import ComparisonDocument

Frame = Literal[
    "metrics", "breakdown", "operations", "memory", "links", "requests", "iterations", "replicas", "jobs", "meetings"
]
_TABLE = 'a frame writes tables: `.to_frame().to_csv("metrics.csv")`'
_PICTURE = 'plots write pictures: `.plot.NAME().figure.savefig("plot.png")`'
_OTHERS = {
    **dict.fromkeys((".png", ".pdf", ".svg", ".jpg", ".jpeg", ".eps"), _PICTURE),
    **dict.fromkeys((".csv", ".tsv", ".xlsx", ".parquet", ".feather"), _TABLE),
    **dict.fromkeys((".yaml", ".yml"), "write `.html` for a report or `.json` for its figures"),
    **dict.fromkeys((".txt", ".md"), "print it: `print(result)`"),
    **dict.fromkeys((".htm", ".jsonl"), "write `.html` or `.json`"),
    **dict.fromkeys((".pkl", ".pickle", ".npz", ".npy", ".h5", ".zip"), "write, for example, `step.result`"),
}
"""Endings of files that hold something else, with what writes them."""


class Figures(dict[str, float]):
    """Figures by name; one that is not there is a KeyError that names the nearest."""

    __slots__ = ()

    def __missing__(self, name: str) -> float:
        """What a message says of a figure that is missing."""
        raise KeyError(f"there is no figure `{name}`; {like(str(name), self)}")


class Result(results.Result):
    """Everything that one simulated run has to say, with plots, frames and files; SI units throughout.

    Its figures are attributes too: `result.mfu` is `result.metrics["mfu"]`.
    """

    __slots__ = ()

    @classmethod
    def of(cls, result: results.Result) -> "Result":
        """The same result with these methods."""
        found = {field.name: getattr(result, field.name) for field in fields(result)}
        return cls(**found | {"metrics": Figures(result.metrics)})

    def __getattr__(self, name: str) -> float:
        """A figure by its name."""
        if name.startswith("_") or name == "metrics":  # the second of an object that is not made yet
            raise AttributeError(name)
        if name not in self.metrics:
            near = nearest(name, dir(self))
            hint = near if near.startswith("did") else like(name, self.metrics)
            raise AttributeError(f"a result of {self.kind} has no figure `{name}`; {hint}")
        return self.metrics[name]

    def __dir__(self) -> list[str]:
        """Its own names and those of its figures."""
        return sorted({*super().__dir__(), *self.metrics})

    def job(self, name: str) -> "Result":
        """What one of several jobs did beside the others; InputError where none has that name."""
        return Result.of(of_job(self, name))

    @property
    def plot(self) -> "Plots":
        """Plots with matplotlib: `result.plot.gantt()`, `.breakdown(ax=axes)` ...; each returns its axes."""
        from simulator.report.notebook.plotting import Plots

        return Plots(self)

    def to_frame(self, what: Frame = "metrics") -> "DataFrame":
        """A pandas frame (the extra `frames`): `metrics` is one row; others have a row for each of what they name."""
        from simulator.report.notebook.frames import frame

        return frame(self, what)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file: `.json` the JSON form, `.html` the report, `.result` the whole, which `read` reads.

        So does any other ending that is not known for something else. Raises InputError for one that is, and where the
        file cannot be written.
        """
        name, ending = _named(path)
        if ending == ".html":
            from simulator.report.result.html import document

            write(name, document(self))
        elif ending == ".json":
            write(name, results.dumps(results.to_json(self)))
        else:
            results.save(self, name)

    def __str__(self) -> str:
        """The page that `clustersim run` prints."""
        from simulator.report.result.page import page

        return page(self).rstrip("\n")

    def __repr__(self) -> str:
        """Name, kind and the figure that says how fast it is."""
        return f"<{type(self).__name__} of {self.name!r}: {self.kind}, {_speed(self)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from simulator.report.notebook.card import card

        return card(self)


class Comparison(comparing.Comparison):
    """Runs side by side, with plots, frames and files."""

    __slots__ = ()

    @classmethod
    def of(cls, comparison: comparing.Comparison) -> "Comparison":
        """The same comparison with these methods."""
        return cls(**{field.name: getattr(comparison, field.name) for field in fields(comparison)})

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why each run is faster or slower than the first of its kind."""
        return tuple(difference.sentence for difference in self._document().differences)

    @property
    def plot(self) -> "ComparisonPlots":
        """Plots with matplotlib: `comparison.plot.parts()`, `.figures()`; each returns its axes."""
        from simulator.report.notebook.plotting import ComparisonPlots

        return ComparisonPlots(self._document())

    def to_frame(self) -> "DataFrame":
        """A pandas frame (the extra `frames`): a row for each run, its metrics and the shares of its parts."""
        from simulator.report.notebook.frames import comparison_frame

        return comparison_frame(self._document())

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file: `.html` the report, any other ending the JSON form; InputError where it cannot be written."""
        name, ending = _named(path)
        if ending == ".html":
            from simulator.report.compare.html import page

            write(name, page(self._document()))
        else:
            write(name, results.dumps(plain(self._document())))

    def __str__(self) -> str:
        """The page that `clustersim compare` prints."""
        from simulator.report.compare.page import page

        return page(self._document(), rest="in to_frame()").rstrip("\n")

    def __repr__(self) -> str:
        """The names of the runs."""
        return f"<{type(self).__name__} of {', '.join(map(repr, self.names))}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from simulator.report.notebook.card import comparison_card

        return comparison_card(self._document())

    def _document(self) -> "ComparisonDocument":
        from simulator.study.compare.document import document

        return document(self)


class Sweep(table.SweepTable):
    """All points of a sweep, with plots, frames and files."""

    __slots__ = ()

    @classmethod
    def of(cls, swept: table.SweepTable) -> "Sweep":
        """The same sweep with these methods."""
        return cls(**{field.name: getattr(swept, field.name) for field in fields(swept)})

    @property
    def plot(self) -> "SweepPlots":
        """Plots with matplotlib: `sweep.plot.heat("tp", "pp", "mfu")`, `.pareto("mfu", "cost_usd")`; returns axes."""
        from simulator.report.notebook.plotting import SweepPlots

        return SweepPlots(lambda **view: self.described(table.View(**view)))

    def to_frame(self) -> "DataFrame":
        """A pandas frame (the extra `frames`): a row for each point: what was varied, what became of it, metrics."""
        from simulator.report.notebook.frames import made

        return made(self.columns())

    def __str__(self) -> str:
        """The page that `clustersim sweep` prints."""
        from simulator.report.sweep.page import Effort, page

        return page(self.described(), Effort(self.simulated, self.reused)).rstrip("\n")

    def __repr__(self) -> str:
        """What was varied and how many points there are."""
        from simulator.report.text.wording import plural

        points = plural(len(self.rows), "point")
        return f"<{type(self).__name__} of {self.name!r} over {', '.join(self.axes)}: {points}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from simulator.report.notebook.card import sweep_card

        return sweep_card(self.described())


_INFEASIBLE = {
    "out of memory": "does not fit into memory",
    "all requests rejected": "all requests are rejected",
    "no replica starts": "no replica ever starts",
}


def _speed(result: results.Result) -> str:
    """The figure of a result that says how fast it is, in words."""
    from simulator.report.text.wording import figure

    if not result.feasible:
        from simulator.results.infeasibility import infeasibility

        return _INFEASIBLE[infeasibility(result)]
    from simulator.run.kinds import KINDS

    name, unit = KINDS[result.kind].headline
    return f"{figure(name, result.metrics.get(name, float('nan')))}{unit}"


def _named(path: str | PathLike[str]) -> tuple[str, str]:
    """Name and ending of a file to write; InputError for an ending under which something else is expected."""
    name = path_of("path", path)
    ending = Path(name).suffix.lower()
    if ending in _OTHERS:
        raise InputError(Problem(f"nothing of the form `{ending}` is saved here", file=name, hint=_OTHERS[ending]))
    return name, ending
