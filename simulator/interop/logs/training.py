"""Step times that Megatron-LM and torchtitan print, read without trust.

Megatron-LM (megatron/training/training.py, `training_log`): `iteration 100/ 500 | ... | elapsed time per iteration
(ms): 1234.5 | ... | global batch size: 256 |`. torchtitan (torchtitan/components/metrics.py): `step: 10 loss: 8.1 ...
tps: 7,123 tflops: 412.3 mfu: 41.7%`, with colours; its `tps` are tokens a second and device. Other lines are passed
over. A line that begins so and is damaged is refused with its place. The first steps, which compile and fill caches,
and those of another batch than the last (ramp-up) do not count.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import median

from simulator.errors import InputError, Problem
from simulator.interop.rows.jsonl import read_lines

WARM = 0.1
"""Share of the steps, and at least `FIRST` of them where there are twice as many, that warm up."""
FIRST = 3
LONGEST_S, FASTEST = 1e6, 1e9
"""Seconds of a step, and tokens a second and device, that are believed."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER = r"(\S*)"
_MEGATRON = re.compile(rf"\biteration\s+(\d+)/\s*\d+\s*\|.*elapsed time per iteration \(ms\):\s*{_NUMBER}")
_BATCH = re.compile(r"global batch size:\s*(\d{1,9})\b")
_TITAN = re.compile(rf"\bstep:\s*(\d+)\s.*\btps:\s*{_NUMBER}")


@dataclass(frozen=True, slots=True)
class Logged:
    """A run by its log."""

    file: str
    tool: str
    figures: Mapping[str, float]
    """Measured figures by the metric of a Result; the median of steps."""
    count: int
    """Steps that count."""
    spread: float
    """Standard error of the figure over the figure."""
    states: Mapping[str, float]
    """What the log says of the run itself, by the path of a scenario's key."""
    refused: tuple[str, ...] = ()
    """`file:line: reason` of each line that is not used."""


@dataclass(frozen=True, slots=True)
class _Step:
    value: float
    batch: int | None


def read_training_log(path: str | Path) -> Logged | None:
    """The steps of a log; None where it is of no framework that is known. InputError where it cannot be read, or where
    no step of it can be used."""
    steps: dict[str, list[_Step]] = {tool: [] for tool in _TOOLS}
    refused = list[str]()
    for line in read_lines(path):
        text = _COLOURS.sub("", line.text or "")
        for tool, (pattern, _, read) in _TOOLS.items():
            if found := pattern.search(text):
                value = read(found[2])
                if value is None:
                    refused.append(f"{line.place}: `{found[2][:40]}` is no {_TOOLS[tool][1]} that can be")
                else:
                    batch = _BATCH.search(text)
                    steps[tool].append(_Step(value, int(batch[1]) if batch else None))
                break
    tool = max(steps, key=lambda name: len(steps[name]))
    if not steps[tool]:
        if refused:
            raise InputError(Problem(f"no step of it can be used: {refused[0]}", file=str(path)))
        return None
    return _logged(str(path), tool, steps[tool], tuple(refused))


def _logged(file: str, tool: str, steps: list[_Step], refused: tuple[str, ...]) -> Logged:
    batch = steps[-1].batch
    same = [step for step in steps if step.batch == batch]
    first = max(FIRST, round(WARM * len(same))) if len(same) >= 2 * FIRST else 0
    values = [step.value for step in same[first:]]
    middle = median(values)
    deviation = median(abs(value - middle) for value in values) * 1.4826
    metric = "step_time_s" if tool == "Megatron-LM" else "tokens_per_s_per_device"
    states = {} if batch is None else {"training.global_batch": float(batch)}
    return Logged(file, tool, {metric: middle}, len(values), deviation / middle / sqrt(len(values)), states, refused)


def _number(text: str, scale: float, most: float) -> float | None:
    """A number above 0 and not above the most that is believed, scaled; None for anything else."""
    plain = text.replace(",", "").rstrip("|")
    if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", plain):
        return None
    value = float(plain) * scale
    return value if 0 < value <= most else None


_TOOLS: Mapping[str, tuple[re.Pattern[str], str, Callable[[str], float | None]]] = {
    "Megatron-LM": (_MEGATRON, "time of a step", lambda text: _number(text, 1e-3, LONGEST_S)),
    "torchtitan": (_TITAN, "number of tokens a second", lambda text: _number(text, 1.0, FASTEST)),
}
