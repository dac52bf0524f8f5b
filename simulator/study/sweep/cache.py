"""Outcomes that are kept between sweeps, in one SQLite file: what was simulated once is not simulated again.

Each outcome is written as it comes, in a transaction of its own, so that a sweep that is killed loses only what was
being simulated. The write-ahead log lets several processes use one file; it needs a local disk.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from stat import S_IFDIR, S_IFREG, S_ISDIR, S_ISREG
from time import monotonic, sleep
from types import TracebackType
from typing import Any, get_args

from simulator.errors import InputError, Problem
from simulator.study.sweep.evaluate import Outcome, Status

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

VERSION = 1
"""Version of the file's form."""
_APPLICATION = 0x636C7377  # "clsw": what tells our files from other databases
_WAIT_S = 30.0  # how long to wait for another process that writes
_AT_ONCE = 500  # keys asked for in one query
_MOST_ASIDE = 1000
_PAUSE_S = 0.02


class Cache:
    """An open cache; use it in a `with` block. Only the process that opened it may use it."""

    def __init__(self, path: str | Path) -> None:
        """Open or create the file; InputError where that is not possible or it is something else.

        A cache of another version is set aside under a new name, which `set_aside` then tells.
        """
        self.path = Path(path)
        self.set_aside: Path | None = None
        """Where a cache of another version was moved."""
        _check_place(self.path)
        with explained(self.path), _alone(self.path.parent):
            self._file = _connected(self.path)
            version = _version(self._file, self.path)
            if version not in (None, VERSION):
                self.set_aside = _moved(self._file, self.path)
                self._file.close()
                self._file = _connected(self.path)
            if version != VERSION:
                _create(self._file)
            _log_ahead(self._file)

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def known(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """The outcomes that are there of these keys; InputError where the file cannot be read."""
        wanted = list(keys)
        found: dict[str, Outcome] = {}
        with explained(self.path):
            for first in range(0, len(wanted), _AT_ONCE):
                some = wanted[first : first + _AT_ONCE]
                query = f"SELECT key, outcome FROM outcomes WHERE key IN ({','.join('?' * len(some))})"
                found |= {key: _outcome(text) for key, text in self._file.execute(query, some)}
        return found

    def keep(self, key: str, outcome: Outcome) -> None:
        """Write one outcome; InputError where that is not possible. The first of two of one key stays."""
        text = json.dumps(asdict(outcome), separators=(",", ":"))
        with explained(self.path):
            self._file.execute("INSERT OR IGNORE INTO outcomes (key, outcome) VALUES (?, ?)", (key, text))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the database and of the system as InputError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", None) or ""
        words = {
            "SQLITE_FULL": "the disk is full",
            "SQLITE_READONLY": "it is write-protected",
            "SQLITE_CANTOPEN": "it cannot be opened",
            "SQLITE_NOTADB": "it is no cache of sweeps",
            "SQLITE_CORRUPT": "it is damaged",
            "SQLITE_BUSY": "another process does not let go of it",
        }
        said = next((text for name, text in words.items() if code.startswith(name)), str(error))
        raise _unusable(path, said) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _unusable(path, "it is damaged") from error


def _unusable(path: Path, why: str) -> InputError:
    hint = "name another file for the cache, or keep none (on the command line `--cache FILE`, `--no-cache`)"
    return InputError(Problem(f"cannot be used as a cache: {why}", file=str(path), hint=hint))


def _check_place(path: Path) -> None:
    """Say what is wrong with the place itself in better words than the database has.

    Looks at the path once: another process may rename the file between two looks.
    """
    try:
        kind = path.stat().st_mode if path.name else S_IFDIR
    except OSError:  # nothing there, or nothing that may be looked at, which the database says
        kind = S_IFREG
    if S_ISDIR(kind):
        raise _unusable(path, "it is a folder")
    if not path.parent.is_dir():
        raise _unusable(path, f"the folder `{path.parent}` does not exist")
    if not S_ISREG(kind):
        raise _unusable(path, "it is no regular file")


def _connected(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
    file.execute("PRAGMA synchronous=NORMAL")  # a crash of the machine may cost the last outcomes, never the file
    return file


def _version(file: sqlite3.Connection, path: Path) -> int | None:
    """The version of a cache, None of a new file; InputError for a database that is something else."""
    (application,) = file.execute("PRAGMA application_id").fetchone()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION:
        return int(version)
    if application or version or file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        file.close()
        raise _unusable(path, "it is another database")
    return None


def _create(file: sqlite3.Connection) -> None:
    """Make the tables, unless another process was faster."""
    file.execute("BEGIN IMMEDIATE")
    if file.execute("PRAGMA application_id").fetchone()[0] == 0:
        file.execute("CREATE TABLE outcomes (key TEXT PRIMARY KEY, outcome TEXT NOT NULL) WITHOUT ROWID")
        file.execute(f"PRAGMA user_version={VERSION}")
        file.execute(f"PRAGMA application_id={_APPLICATION}")
    file.execute("COMMIT")


def _log_ahead(file: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, which stays switched; SQLite does not wait for others here, so try again."""
    until = monotonic() + _WAIT_S
    while True:
        try:
            file.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = (getattr(error, "sqlite_errorname", None) or "").startswith("SQLITE_BUSY")
            if not busy or monotonic() > until:
                raise
            sleep(_PAUSE_S)


def _moved(file: sqlite3.Connection, path: Path) -> Path:
    """Rename a cache of another version, as its only user."""
    file.execute("PRAGMA journal_mode=DELETE")  # takes what the log holds into the file; refused while others use it
    file.execute("BEGIN EXCLUSIVE")
    version = file.execute("PRAGMA user_version").fetchone()[0]
    names = (path.with_name(f"{path.name}.version-{version}{end}") for end in _endings())
    aside = next(name for name in names if not name.exists())
    os.rename(path, aside)
    return aside


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time opens a cache of a folder.

    SQLite finds the journals of a file by its path: a process with a renamed one open would take the journal of the new
    one for its own, and roll back into the one what the other writes. Where files cannot be locked (Windows), an open
    one cannot be renamed either.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # which lets go of the lock


def _endings() -> Iterator[str]:
    yield ""
    yield from (f"-{number}" for number in range(2, _MOST_ASIDE))


def _outcome(text: str) -> Outcome:
    """The outcome of a row; ValueError, TypeError or KeyError for one that no sweep has written."""
    kept: dict[str, Any] = json.loads(text)
    metrics, texts = kept["metrics"], [kept["reason"], *kept["warnings"]]
    if kept["status"] not in get_args(Status) or not all(isinstance(one, str) for one in texts):
        raise ValueError("no outcome of a point")
    if metrics is not None:
        metrics = {name: None if value is None else _finite(value) for name, value in metrics.items()}
    elif kept["status"] == "ok":
        raise ValueError("a point without figures")
    return Outcome(kept["status"], kept["reason"], metrics, tuple(kept["warnings"]))


def _finite(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise ValueError("no finite number")
    return float(value)
