"""`import simulator as sim`: few names, each documented, and nothing loaded before it is asked for."""

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import simulator as sim
from tests.architecture.source import PACKAGE

FUNCTIONS = ("load", "run", "compare", "sweep", "validate", "read", "schedule")
TYPES = ("Scenario", "Result", "Comparison", "Sweep", "PipelineSchedule", "InputError")
NAMES = {*FUNCTIONS, *TYPES}


def alone(code: str, *flags: str) -> list[str]:
    """The words that code prints in a fresh process."""
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True).stdout.split()


def test_the_names_are_these() -> None:
    assert set(sim.__all__) == NAMES
    assert set(dir(sim)) == {*NAMES, "__version__"}
    assert set(sim._NAMES) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(sim, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_is_typed(name: str) -> None:
    signature = inspect.signature(getattr(sim, name))
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(one.annotation is not inspect.Parameter.empty for one in signature.parameters.values())


@pytest.mark.parametrize("kind", [sim.Scenario, sim.Result, sim.Comparison, sim.Sweep, sim.PipelineSchedule])
def test_all_that_a_type_offers_is_documented(kind: type) -> None:
    methods = (type(len), type(inspect.getdoc), property, classmethod)
    offered = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    assert [name for name, one in offered.items() if isinstance(one, methods) and not inspect.getdoc(one)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulate'"):
        sim.simulate  # noqa: B018


def test_importing_it_loads_nothing_else() -> None:
    """Isolated and without site, which may have loaded much itself."""
    path = str(PACKAGE.parent)
    code = f"import sys; sys.path.insert(0, {path!r}); old = set(sys.modules); import simulator; "
    assert set(alone(code + "print(*set(sys.modules) - old)", "-I", "-S")) <= {"simulator", "types"}


ROOM = (
    "import simulator as sim, simulator.run.dispatch as d; from simulator import run; ",
    "import simulator.run, simulator as sim; import simulator.run.dispatch as d; from simulator import run; ",
    "from simulator.run.dispatch import simulate; import simulator as sim; d, run = sim.run.dispatch, sim.run; ",
    "from unittest import mock\nwith mock.patch('simulator.run.dispatch.simulate') as fake: pass\n"
    "import simulator as sim, simulator.run as run, simulator.run.dispatch as d; ",
)


@pytest.mark.parametrize("first", ROOM)
def test_run_is_a_function_and_a_room(first: str) -> None:
    code = (
        f"{first}import inspect, sys; "
        "print(inspect.isfunction(sim.run), run is sim.run, d.__name__, sim.run.dispatch is d, "
        "inspect.ismodule(sys.modules['simulator.run']), d.simulate.__name__)"
    )
    assert alone(code) == ["True", "True", "simulator.run.dispatch", "True", "True", "simulate"]


def test_loading_the_room_does_not_load_the_interface() -> None:
    code = "import simulator.run.dispatch, sys; print('simulator.run' in sys.modules, 'simulator.api' in sys.modules)"
    assert alone(code) == ["True", "False"]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "read"])
def test_help_is_of_the_function_and_names_every_argument(name: str) -> None:
    function = getattr(sim, name)
    said = pydoc.plain(pydoc.render_doc(function))
    assert said.startswith(f"Python Library Documentation: function {name} ")
    assert all(f"* `{argument}`" in said for argument in inspect.signature(function).parameters)
    assert repr(function).startswith(f"<function {name} ")


def test_a_star_import_gives_the_names() -> None:
    code = "from simulator import *; print(*sorted(name for name in globals() if not name.startswith('_')))"
    assert set(alone(code)) == NAMES


def test_it_is_marked_as_typed() -> None:
    assert (Path(sim.__file__).parent / "py.typed").exists()


@pytest.mark.slow
def test_type_checkers_see_the_names(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "user.py").write_text(
        "import simulator as sim\n"
        "from simulator.run.dispatch import simulate\n"
        'result = sim.run("quickstart", {"training.micro_batch": 2})\n'
        "reveal_type(result)\n"
        "reveal_type(sim.compare(result, result))\n",
        encoding="utf-8",
    )
    options = ["--follow-imports=silent", "--no-incremental", "--no-error-summary"]
    said, complaint, _ = api.run([*options, str(tmp_path / "user.py")])
    assert said.count("note: Revealed type is") == 2, said + complaint
    assert "simulator.api.result.Result" in said
    assert "simulator.api.result.Comparison" in said
    assert "error" not in said
