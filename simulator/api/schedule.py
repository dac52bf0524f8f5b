"""Pipeline schedules in Python: made, run without a model or a machine, drawn."""

from __future__ import annotations  # help() then shows the names of types, not what they stand for

import operator
from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from simulator import results
from simulator.api.arguments import choice, path_of, shown, whole
from simulator.errors import InputError, Problem
from simulator.program.schedule import Paths
from simulator.results.documents.form import plain
from simulator.results.documents.schedule import ScheduleDocument
from simulator.results.writing import write
from simulator.study.schedule import AskedCosts, AskedSchedule, actions_of, exact_time, make, run

if TYPE_CHECKING:
    from pandas import DataFrame

Time = int | float | str | Fraction
"""A time in any unit: a number, or its decimal digits."""


class PipelineSchedule(ScheduleDocument):
    """A pipeline schedule in time, with its figures, frames, files and a picture in a cell."""

    __slots__ = ()

    @classmethod
    def of(cls, document: ScheduleDocument) -> PipelineSchedule:
        """The same schedule with these methods."""
        return cls(**{field.name: getattr(document, field.name) for field in fields(document)})

    def to_frame(self, what: Literal["devices", "passes"] = "devices") -> DataFrame:
        """A pandas frame (the extra `frames`): a row for each device, or for each pass."""
        from simulator.report.notebook.frames import made

        choice("what", what, ("devices", "passes"))
        if what == "passes":
            return made({field.name: list(getattr(self.passes, field.name)) for field in fields(self.passes)})
        names = [field.name for field in fields(self.by_device[0])]
        return made({name: [getattr(device, name) for device in self.by_device] for name in names}, name="device")

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file: `.csv` the order in PyTorch's form, `.svg` and `.png` the chart, any other the JSON form.

        Raises InputError where it cannot be written.
        """
        from simulator.report.schedule.picture import save_png, save_svg

        name = path_of("path", path)
        ending = Path(name).suffix.lower()
        if ending == ".csv":
            from simulator.program.csv_form import write_csv

            if self.weight_versions:
                message = f"`{self.name}` has no order of a single step: its steps overlap"
                hint = "`clustersim schedule --csv` writes the order of several"
                raise InputError(Problem(message, path="path", hint=hint))
            write_csv(actions_of(self.passes), name)
        elif ending in (".svg", ".png"):
            (save_svg if ending == ".svg" else save_png)(self, name)
        else:
            write(name, results.dumps(plain(self)))

    def __str__(self) -> str:
        """The page that `clustersim schedule` prints."""
        from simulator.report.schedule.page import page

        return page(self).rstrip("\n")

    def __repr__(self) -> str:
        """Name, sizes and bubble."""
        from simulator.report.text.wording import percent

        sizes = f"{self.devices} devices x {self.microbatches} microbatches"
        return f"<{type(self).__name__} {self.name!r}: {sizes}, bubble {percent(self.bubble)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from simulator.report.schedule.picture import svg

        return svg(self)


def schedule(
    source: str | PathLike[str],
    stages: int | None = None,
    microbatches: int | None = None,
    *,
    chunks: int | None = None,
    forward: Time = 1,
    input_gradient: Time = 1,
    weight_gradient: Time = 1,
    send: Time = 0,
    scores: Time = 0.5,
    scores_gradient: Time = 0.5,
    pair: Time | None = None,
    memory_limit: Time | None = None,
    slices: int | None = None,
    attention: Time = 0,
    cut: Literal["even", "balanced"] = "even",
    paths: Sequence[Sequence[int]] = (),
    layers: Sequence[Time] = (),
    speeds: Sequence[Time] = (),
    kept_for_weights: Time = 1,
    barrier: bool = True,
) -> PipelineSchedule:
    """Make a pipeline schedule and run it without a model or a machine.

    Arguments:

    * `source`: the name of a schedule, or a CSV file in the form of PyTorch's pipelining, which says its sizes itself.
    * `stages`: devices of the pipeline.
    * `microbatches`: microbatches of a step.
    * `chunks`: model chunks of each device; None is one, or two where the schedule refuses one.
    * `forward`: time of a forward pass of a microbatch on a device, in any unit; its chunks share it.
    * `input_gradient`: the same of the input's half of a backward pass.
    * `weight_gradient`: the same of the weights' half.
    * `send`: time of a send between neighbours.
    * `scores`: time of scores of a device's part of the vocabulary, under schedules that cut it over devices; what
      these do together then takes as long as a send.
    * `scores_gradient`: time of their gradients.
    * `pair`: time of a forward and a backward pass side by side; None is the sum of both.
    * `memory_limit`: most microbatches whose activations a device may keep.
    * `slices`: slices of each microbatch along its sequence, for schedules that cut it; None is as the schedule does.
    * `attention`: share of a forward pass, and of the input's half of a backward pass, that goes with pairs of tokens.
    * `cut`: slices of equally many tokens, or with equally long forward passes.
    * `layers`: layers of each stage, which times and activations go with; the times given are those of the mean.
    * `speeds`: speeds of the devices, of one stage each, beside that of which the times given are.
    * `kept_for_weights`: share of what a microbatch keeps from F on that it keeps from I to W; more than 1 where layers
      are recomputed.
    * `paths`: stages that microbatches go through in turn, for schedules that let them skip some.
    * `barrier`: whether devices wait for each other at the end of a step; without, `auto` looks for the least time
      between first and last pass of a device.

    Raises InputError for sizes that do not suit the schedule, and `simulator.errors.InfeasibleError` for a limit that
    it does not meet.
    """
    times = {"forward": forward, "input_gradient": input_gradient, "weight_gradient": weight_gradient, "send": send}
    times |= {"scores": scores, "scores_gradient": scores_gradient}
    together = None if pair is None else _time("pair", pair)
    choice("cut", cut, ("even", "balanced"))
    share = _time("attention", attention)
    if share > 1:
        raise InputError(Problem(f"{shown(attention)} is no share from 0 to 1", path="attention"))
    forth, inputs, weights, sent, scored, regressed = (_time(name, value) for name, value in times.items())
    balanced = cut == "balanced"
    costs = AskedCosts(forth, inputs, weights, sent, together, scored, regressed, attention=share, balanced=balanced)
    rest = _time("kept_for_weights", kept_for_weights)
    costs = replace(
        costs, kept_for_weights=rest, layers=_positive("layers", layers), speeds=_positive("speeds", speeds)
    )
    limit = None if memory_limit is None else float(_time("memory_limit", memory_limit))
    counts = (_count("stages", stages), _count("microbatches", microbatches), _count("chunks", chunks))
    asked = AskedSchedule(
        path_of("source", source), *counts, costs, limit, _count("slices", slices), _paths(paths), barrier
    )
    return PipelineSchedule.of(run(asked, make(asked)))


def _positive(name: str, values: Sequence[Time]) -> tuple[Fraction, ...]:
    """Numbers above 0."""
    found = tuple(_time(name, value) for value in values)
    if not all(found):
        raise InputError(Problem("0 is no number of layers and no speed", path=name, hint="write more than 0"))
    return found


def _paths(value: Sequence[Sequence[int]]) -> Paths:
    """Paths of whole numbers."""
    try:
        return tuple(tuple(operator.index(stage) for stage in path) for path in value)
    except TypeError:
        hint = "write, for example, paths=[[0, 1], [0, 2]]"
        raise InputError(Problem(f"{shown(value)} is no list of paths", path="paths", hint=hint)) from None


def _count(name: str, value: int | None) -> int | None:
    return None if value is None else whole(name, value)


def _time(name: str, value: Time) -> Fraction:
    """An exact time; of a float its shortest digits count."""
    try:
        return exact_time(str(float(value)) if isinstance(value, Fraction) else str(value))
    except ValueError as error:
        raise InputError(Problem(f"{shown(value)} {error}", path=name, hint=f"write, for example, {name}=1")) from None
