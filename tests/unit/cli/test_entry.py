import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator import __version__
from simulator.cli import main
from simulator.cli.commands import COMMANDS, command
from simulator.errors import DeadlockError, InfeasibleError, InputError, Problem, SimulatorError
from tests.effort import PATIENCE_S
from tests.unit.cli.conftest import QUICKSTART, ROOT

Capture = pytest.CaptureFixture[str]


def run(*arguments: str, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "simulator", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "exit codes" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str, capsys: Capture) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: clustersim {name}" in text
    assert "examples:\n  clustersim" in text
    assert command(name).SUMMARY
    assert main(["help", name]) == 0
    assert capsys.readouterr().out == text


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"clustersim {__version__}\n"


def test_nothing_typed_shows_the_help_and_is_no_success(capsys: Capture) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "there is no command `rnu`; did you mean `run`?"),
        (["my.yaml"], "did you mean `clustersim run my.yaml`?"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate; see `clustersim --help`"),
        (["run"], "the following arguments are required: FILE; see `clustersim run --help`"),
        (["run", "a.yaml", "--fold", "twice"], "invalid choice: 'twice'"),
        (["run", "a.yaml", "--fold", "exact", "--no-fold"], "not allowed with argument"),
        (["run", "a.yaml", "--qui"], "unrecognized arguments: --qui"),
        (["run", "a.yaml", "--json"], "expected one argument"),
        (["run", "no-such-file.yaml"], "no-such-file.yaml"),
        (["explain", "\x1b[31mevil"], "evil"),
        (["run", "a\0b"], "clustersim:"),
        (["run", QUICKSTART, "training.parallel.tpp=2"], "did you mean `tp`"),
        (["schema", "scenrio"], "did you mean `scenario`"),
        (["profiles", "selen"], "did you mean `selene`"),
    ],
)
def test_what_a_user_mistypes_is_one_line_and_exit_2(arguments: list[str], message: str, capsys: Capture) -> None:
    assert main(arguments) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error
    assert len(error.splitlines()) == 1
    assert "\x1b" not in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            InputError(Problem("is wrong", "a.yaml", 3, 4, "x.y", "write 5")),
            2,
            "clustersim: a.yaml:3:4: x.y: is wrong; write 5\n",
        ),
        (
            InputError("one", "two"),
            2,
            "clustersim: scenarios/quickstart.yaml: one\nclustersim: scenarios/quickstart.yaml: two\n",
        ),
        (DeadlockError("lane 1 waits"), 2, "clustersim: scenarios/quickstart.yaml: lane 1 waits\n"),
        (InfeasibleError("no size reaches it"), 4, "clustersim: no size reaches it\n"),
        (MemoryError(), 3, "clustersim: this machine has too little memory for the simulation\n"),
        (KeyboardInterrupt(), 130, "clustersim: interrupted\n"),
    ],
)
def test_exit_codes(error: BaseException, code: int, message: str, simulated, capsys: Capture) -> None:  # type: ignore[no-untyped-def]
    simulated(error)
    assert main(["run", QUICKSTART]) == code
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize(
    "error", [KeyError("x"), SimulatorError("impossible"), RecursionError("deep"), AssertionError()]
)
def test_our_own_mistakes_are_one_line(error: Exception, simulated, capsys: Capture) -> None:  # type: ignore[no-untyped-def]
    simulated(error)
    assert main(["run", QUICKSTART]) == 3
    out, text = capsys.readouterr()
    assert out == ""
    assert text.startswith(f"clustersim: internal error, please report it: {type(error).__name__}")
    assert len(text.splitlines()) == 1
    assert "conftest.py:" in text


def test_traceback_on_demand(simulated, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("CLUSTERSIM_DEBUG", "1")
    simulated(KeyError("x"))
    assert main(["run", QUICKSTART]) == 3
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_as_a_process() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"clustersim {__version__}\n", "")


def test_reader_that_went_away() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run("schema", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_full_output() -> None:
    with open("/dev/full", "w") as full:
        done = run("schema", stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr == "clustersim: standard output: cannot be written: No space left on device\n"


def test_output_that_knows_no_unicode() -> None:
    done = run("profiles", "clusters", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()


@pytest.mark.skipif(sys.platform == "win32", reason="no shell")
def test_closed_output() -> None:
    shell = f"'{sys.executable}' -m simulator --version >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], cwd=ROOT, timeout=PATIENCE_S, check=False).returncode == 0


HEAVY = {"numpy", "networkx", "matplotlib", "scipy", "rich", "pandas"}


def imported(*arguments: str) -> set[str]:
    """Modules that a command leaves behind."""
    called = f"main({list(arguments)!r})"
    script = f"import sys\nfrom simulator.cli import main\n{called}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE_S, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["explain", QUICKSTART], ["schema"]])
def test_nothing_heavy_is_imported_for_light_work(arguments: list[str]) -> None:
    found = imported(*arguments)
    assert not HEAVY & {name.partition(".")[0] for name in found}
    if "--help" in arguments:
        assert not {"pydantic", "yaml"} & found


def test_a_training_imports_nothing_of_what_serves() -> None:
    found = imported("run", QUICKSTART, "--quiet")
    assert "simulator.training.job" in found
    assert not {name for name in found if name.startswith("simulator.serving")}
    assert "numpy.ma" not in found
    assert not OF_OTHER_KINDS & found


OF_OTHER_KINDS = {f"simulator.specs.{name}" for name in ("serves", "serving", "requests", "fleet", "jobs", "workflow")}
"""Specs that a file which trains has no use for."""


@pytest.mark.parametrize(
    ("file", "needed"),
    [
        (QUICKSTART, set()),
        ("scenarios/serving/quickstart.yaml", {"serves", "serving", "requests", "fleet"}),
        ("scenarios/jobs/placement.yaml", {"serves", "serving", "requests", "fleet", "jobs"}),
    ],
)
def test_only_the_specs_of_the_kind_of_a_file_are_loaded(file: str, needed: set[str]) -> None:
    code = f"from simulator.specs import load_scenario; import sys; load_scenario({file!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = OF_OTHER_KINDS & set(done.stdout.split())
    assert loaded == {f"simulator.specs.{name}" for name in needed}
