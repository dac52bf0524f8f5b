"""Tests about simulated runs: the fixture `simulated`, which pytest finds by itself where clustersim is installed.

    def test_utilisation(simulated):
        assert simulated("scenarios/quickstart.yaml").mfu > 0.45

Every scenario is simulated once in a session, however many tests ask for it, unless its file is changed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from simulator.api.result import Result

_CACHE: "pytest.StashKey[dict[tuple[str, ...], Simulated]]" = pytest.StashKey()
_HEADLINES = ("step_time_s", "mfu", "output_throughput", "mean_ttft_ms", "mean_tpot_ms", "peak_memory_bytes")


class Simulated:
    """A simulated run with its metrics as attributes: `mfu`, `step_time_s`, `mean_ttft_ms` ...

    All are SI, those of vLLM's names in milliseconds. Asking for a metric of a run that does not fit into memory fails
    the test: its figures are those of a run that cannot be.
    """

    def __init__(self, source: str, result: "Result") -> None:
        """`source` is what was simulated, in a line."""
        self._source = source
        self.result = result
        """The whole Result, with plots and frames, as `simulator.run` gives it."""

    @property
    def feasible(self) -> bool:
        """Whether it fits into memory."""
        return self.result.feasible

    @property
    def metrics(self) -> Mapping[str, float]:
        """All figures by name, also of a run that does not fit into memory."""
        return self.result.metrics

    @property
    def parts(self) -> Mapping[str, float]:
        """Seconds of a step, or of a request, by what they consist of, on average over devices or requests."""
        from simulator.study.compare.comparison import parts

        return parts(self.result)

    def __getattr__(self, name: str) -> float:
        """A metric by its name."""
        if name.startswith("_"):
            raise AttributeError(name)
        metrics = self.result.metrics
        if name not in metrics:
            from simulator.results.metrics import like

            raise AttributeError(f"{self._source} has no figure `{name}`; {like(name, metrics)}")
        if not self.result.feasible:
            from simulator.results.infeasibility import infeasibility, reason

            fits = "does not fit into memory" if infeasibility(self.result) == "out of memory" else "serves nothing"
            _fail(
                f"{self._source} {fits} ({reason(self.result)}), so it has no `{name}`;"
                " `.feasible` asks whether it can run, `.metrics` has the figures if it could"
            )
        return metrics[name]

    def __dir__(self) -> list[str]:
        """Its own names and those of its metrics."""
        return sorted({*super().__dir__(), *self.result.metrics})

    def __repr__(self) -> str:
        """What a failed assertion shows: the scenario and its main figures."""
        from simulator.report.text.wording import figure

        metrics = self.result.metrics
        known = [f"{name} {figure(name, metrics[name])}" for name in _HEADLINES if name in metrics]
        return f"<{self._source}: {', '.join(known) or 'no figures'}>"


class Simulate:
    """What the fixture gives: called with a scenario, it simulates it, once for equal calls."""

    def __init__(self, folder: Path, known: dict[tuple[str, ...], Simulated]) -> None:
        """`folder` is where paths begin, besides the working folder."""
        self._folder, self._known = folder, known

    def __call__(self, scenario: str | Path, *overrides: str, **values: object) -> Simulated:
        """Simulate a scenario: a path from the test's folder or the working folder, or a name.

        Overrides are written as on the command line, `"training.micro_batch=2"`, or as keywords with two underscores
        for a dot, `training__micro_batch=2`. What is wrong with them fails the test with one line for each problem.
        """
        changes = (*overrides, *(f"{key.replace('__', '.')}={_yaml(value)}" for key, value in values.items()))
        path = self._folder / scenario
        source = str(path if path.is_file() else scenario)
        key = (*_state(Path(source)), source, *changes)
        if key not in self._known:
            self._known[key] = Simulated(" ".join([str(scenario), *changes]), _simulate(source, changes))
        return self._known[key]


@pytest.fixture
def simulated(request: pytest.FixtureRequest) -> Simulate:
    """Simulate a scenario: `simulated("x.yaml").mfu`, `simulated("x.yaml", training__micro_batch=2).step_time_s`."""
    return Simulate(request.path.parent, request.config.stash.setdefault(_CACHE, {}))


def _state(path: Path) -> tuple[str, ...]:
    """What a name means now: the working folder, and of a file when it was written and how large it is."""
    stat = path.stat() if path.is_file() else None
    return (str(Path.cwd()), *(() if stat is None else (str(stat.st_mtime_ns), str(stat.st_size))))


def _simulate(scenario: str, overrides: tuple[str, ...]) -> "Result":
    from simulator.api.calls import run
    from simulator.errors import InputError

    try:
        return run(scenario, overrides)
    except InputError as error:  # `from None`, so that pytest does not show it twice
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _fail(reason: str) -> NoReturn:
    pytest.fail(reason, pytrace=False)


def _yaml(value: object) -> str:
    """A value as it is written in an override; JSON is YAML."""
    return value if isinstance(value, str) else json.dumps(value, default=_unknown)


def _unknown(value: Any) -> NoReturn:
    _fail(f"{value!r} cannot be written into a scenario: give text, numbers, lists or mappings")
