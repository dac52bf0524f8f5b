"""The file in which outcomes are kept: other versions, other files, errors of the system, several processes."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.study.sweep import cache as caches
from simulator.study.sweep.cache import VERSION, Cache
from simulator.study.sweep.evaluate import Outcome
from tests.effort import PATIENCE_S

GOOD = Outcome("ok", "", {"mfu": 0.1 + 0.2, "step_time_s": None}, ("careful",))


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    with Cache(tmp_path / "cache") as cache:
        cache.keep("a", GOOD)
        cache.keep("a", Outcome("refused", "later"))
    with Cache(tmp_path / "cache") as cache:
        assert cache.known(["a", "b", *map(str, range(2000))]) == {"a": GOOD}
        assert cache.set_aside is None


def test_a_cache_of_another_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    aside = []
    for value in ("first", "second"):
        with Cache(path) as cache:
            cache.keep(value, GOOD)
            aside.append(cache.set_aside)
        with sqlite3.connect(path) as file:
            file.execute(f"PRAGMA user_version={VERSION + 1}")
        file.close()
    with Cache(path) as cache:
        assert cache.known(["first", "second"]) == {}
        aside.append(cache.set_aside)
    assert aside[0] is None
    assert [a.name for a in aside[1:] if a] == [f"cache.version-{VERSION + 1}", f"cache.version-{VERSION + 1}-2"]
    file = sqlite3.connect(aside[1] or "")
    assert file.execute("SELECT key FROM outcomes").fetchall() == [("first",)]
    file.close()


def test_another_version_that_is_in_use_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cache"
    Cache(path).__exit__(None, None, None)
    monkeypatch.setattr(caches, "_WAIT_S", 0.1)
    user = sqlite3.connect(path, isolation_level=None)
    user.execute(f"PRAGMA user_version={VERSION + 1}")
    user.execute("BEGIN IMMEDIATE")
    with pytest.raises(InputError, match="does not let go"):
        Cache(path)
    user.close()
    assert [p.name for p in tmp_path.iterdir() if "version" in p.name] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version: 1\nname: a scenario that must not be lost\n" * 50, "no cache of sweeps"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "cannot be used as a cache"),
    ],
)
def test_a_file_that_is_something_else_is_left_alone(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        Cache(path)
    assert path.read_bytes() == content


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    file = sqlite3.connect(tmp_path / "books")
    file.execute("CREATE TABLE books (title)")
    file.close()
    with pytest.raises(InputError, match="another database"):
        Cache(tmp_path / "books")


def test_places_where_none_can_be(tmp_path: Path) -> None:
    places = ((tmp_path, "is a folder"), (tmp_path / "no" / "cache", "does not exist"), ("/dev/null", "no regular"))
    for path, message in places:
        with pytest.raises(InputError, match=message):
            Cache(path)


def test_an_empty_file_becomes_one(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with Cache(tmp_path / "cache") as cache:
        cache.keep("a", GOOD)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be used as a cache"):
        Cache(tmp_path / "cache")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (sqlite3.OperationalError("attempt to write a readonly database"), "readonly"),
        (sqlite3.OperationalError("database or disk is full"), "disk is full"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(30, "Read-only file system"), "Read-only file system"),
    ],
)
def test_errors_of_the_system_are_said_in_a_line(
    error: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with pytest.raises(InputError, match=message) as found:
        Cache(tmp_path / "cache")
    assert "--no-cache" in str(found.value)


def test_a_damaged_row_is_said(tmp_path: Path) -> None:
    with Cache(tmp_path / "cache") as cache:
        cache._file.execute("INSERT INTO outcomes VALUES ('a', '{')")
        with pytest.raises(InputError, match="damaged"):
            cache.known(["a"])


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_file_that_another_process_renames_meanwhile_is_no_strange_file(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of two that set a cache aside does between the other's looks at the place and its lock."""
    path, stat, looks = tmp_path / "cache", os.stat, []

    def renamed(where: Any, *args: Any, **others: Any) -> os.stat_result:
        found = stat(where, *args, **others)
        if str(where) == str(path):
            looks.append(where)
            if len(looks) == after:
                path.rename(tmp_path / "aside")
        return found

    path.touch()
    monkeypatch.setattr(os, "stat", renamed)
    with Cache(path) as cache:
        assert cache.known(["a"]) == {}
    assert looks


NAMES = ("one", "two", "three")
WRITER = """
import sys
from simulator.study.sweep.cache import Cache
from simulator.study.sweep.evaluate import Outcome
for path in sys.stdin:
    with Cache(path.strip()) as cache:
        for number in range(20):
            cache.keep(f"{sys.argv[1]}-{number}", Outcome("ok", "", {"number": number}))
            cache.keep(f"shared-{number}", Outcome("ok", "", {"number": number}))
    print("written", flush=True)
"""


def of_another_version(path: Path) -> None:
    """A cache that a later version of the simulator wrote, with one outcome."""
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE outcomes (key TEXT)")
    file.execute("INSERT INTO outcomes VALUES ('mine')")
    file.execute(f"PRAGMA application_id={caches._APPLICATION}")
    file.execute(f"PRAGMA user_version={VERSION + 1}")
    file.commit()
    file.close()


def test_processes_that_write_at_once_lose_and_damage_nothing(tmp_path: Path) -> None:
    """All of them find a cache of another version, at the same moment: it is set aside once, as it was."""
    places: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}, "text": True}
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name], **places, **pipes) for name in NAMES]
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        of_another_version(folder / "cache")
        for writer in writers:
            print(folder / "cache", file=writer.stdin, flush=True)
        assert [writer.stdout.readline() for writer in writers if writer.stdout] == ["written\n"] * len(NAMES)
        with Cache(folder / "cache") as cache:
            assert len(cache.known(f"{name}-{n}" for name in (*NAMES, "shared") for n in range(20))) == 80
            assert cache._file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert {p.name for p in folder.iterdir()} == {"cache", f"cache.version-{VERSION + 1}"}
        aside = sqlite3.connect(folder / f"cache.version-{VERSION + 1}")
        assert aside.execute("SELECT key FROM outcomes").fetchall() == [("mine",)]
        aside.close()
    for writer in writers:
        writer.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize(
    "row",
    [
        "[" * 5000,
        "9" * 5000,
        "[]",
        '{"status": "fits", "reason": "", "metrics": {}, "warnings": []}',
        '{"status": "ok", "reason": "", "metrics": null, "warnings": []}',
        '{"status": "ok", "reason": "", "metrics": {"mfu": "much"}, "warnings": []}',
        '{"status": "ok", "reason": "", "metrics": {"mfu": 1e999}, "warnings": []}',
        '{"status": "ok", "reason": "", "metrics": [], "warnings": []}',
        '{"status": "ok", "reason": 3, "metrics": {}, "warnings": []}',
    ],
)
def test_a_row_that_no_sweep_wrote_is_damage(row: str, tmp_path: Path) -> None:
    with Cache(tmp_path / "cache") as cache:
        cache.keep("a", GOOD)
    with sqlite3.connect(tmp_path / "cache") as file:
        file.execute("UPDATE outcomes SET outcome = ?", (row,))
    file.close()
    with Cache(tmp_path / "cache") as cache, pytest.raises(InputError, match="it is damaged"):
        cache.known(["a"])
