"""What was made of files is kept as long as the same files would be read again, and say the same."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import NamedTuple

from simulator.specs import catalog

SETTLED = 2_000_000_000
"""Nanoseconds after which another change of a file shows in its time."""


class Reference(NamedTuple):
    """A name in a file and the file that it meant: another one where one comes to lie in its way."""

    name: str
    rooms: tuple[str, ...]
    beside: Path | None
    """Folder of the referring file."""
    path: Path
    """The file."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Files that were read, and how one led to another."""

    files: tuple[Path, ...]
    references: tuple[Reference, ...]
    stamps: tuple[tuple[int, int] | None, ...]
    """What tells the files from earlier ones of the same names."""

    def holds(self) -> bool:
        """Whether reading again would read the same."""
        return self.stamps == tuple(map(_stamp, self.files)) and all(
            catalog.find(each.name, each.rooms, each.beside) == each.path for each in self.references
        )


def reading(files: Iterable[Path], references: Iterable[Reference]) -> Reading | None:
    """What has just been read; None where one of the files is so young that it may change and look the same."""
    found = Reading(tuple(files), tuple(references), tuple(map(_stamp, files)))
    now = time_ns()
    settled = all(stamp is not None and now - stamp[0] > SETTLED for stamp in found.stamps)
    return found if settled else None


def _stamp(path: Path) -> tuple[int, int] | None:
    """When a file was changed, and its size; None where it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
