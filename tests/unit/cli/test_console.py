import io
from time import monotonic
from types import SimpleNamespace

import pytest

from simulator.cli import console
from simulator.cli.progress import progress
from simulator.errors import InputError
from tests.effort import PATIENCE_S


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def replace_streams(monkeypatch: pytest.MonkeyPatch, stream: io.TextIOBase | None) -> None:
    """Give the modules under test other streams; pytest puts its own back into `sys` between fixture and test."""
    streams = SimpleNamespace(stdout=stream, stderr=stream)
    monkeypatch.setattr("simulator.cli.console.sys", streams)
    monkeypatch.setattr("simulator.cli.progress.sys", streams)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    replace_streams(monkeypatch, stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def test_colours_on_a_terminal_that_wants_them(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert console.coloured()
    monkeypatch.setenv("TERM", "dumb")
    assert not console.coloured()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not console.coloured()


def test_no_colours_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_streams(monkeypatch, io.StringIO())
    assert not console.coloured()
    assert console.width() == 100


@pytest.mark.parametrize(("columns", "width"), [(20, 60), (80, 80), (300, 100)])
def test_width_follows_the_terminal_within_bounds(
    columns: int, width: int, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "fileno", lambda: 1)
    monkeypatch.setattr("os.get_terminal_size", lambda descriptor: type("Size", (), {"columns": columns}))
    assert console.width() == width


def test_streams_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_streams(monkeypatch, None)
    console.write("text")
    console.flush()
    console.complain("text")
    assert not console.coloured()


def test_closed_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    stream.close()
    replace_streams(monkeypatch, stream)
    with pytest.raises(InputError, match="standard output"):
        console.write("text")
    console.complain("text")


def test_what_an_encoding_lacks_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    replace_streams(monkeypatch, io.TextIOWrapper(raw, encoding="latin-1"))
    console.write("█▓ 5 · é\n")
    console.flush()
    assert raw.getvalue() == b"#= 5 - ?\n"


def test_complaints_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    console.complain("one\x1b[2J\ntwo\ttabs")
    assert capsys.readouterr().err == "one?[2J\ntwo tabs\n"


def test_progress_shows_and_removes_itself(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.cli.progress._DELAY_S", 0.001)
    monkeypatch.setattr("simulator.cli.progress._INTERVAL_S", 0.001)
    with progress("working"):
        begin = monotonic()
        while "working" not in terminal.getvalue() and monotonic() < begin + PATIENCE_S:
            pass
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_quick_work_shows_no_progress(terminal: Terminal) -> None:
    with progress("working"):
        pass
    with progress("working", quiet=True):
        pass
    assert terminal.getvalue() == ""


def test_progress_stays_quiet_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    replace_streams(monkeypatch, stream)
    monkeypatch.setattr("simulator.cli.progress._DELAY_S", 0.0)
    with progress("working"):
        pass
    assert stream.getvalue() == ""


def test_progress_lets_errors_through(terminal: Terminal) -> None:
    with pytest.raises(KeyError), progress("working"):
        raise KeyError
