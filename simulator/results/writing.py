"""Files that appear whole or not at all: written beside their place, then moved onto it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, cast

from simulator.errors import InputError, Problem

_TRIES = 100


def check_writable(path: str | Path) -> None:
    """InputError if `replacing(path)` could not begin: a folder, a missing folder, no permission, a read-only disk.

    Leaves nothing behind.
    """
    target = _target(path)
    _check_kind(target, path)
    if not _is_regular(target):
        return
    with _explained(path):
        handle, temporary = _temporary(target)
        handle.close()
        os.unlink(temporary)


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file to write; it takes the place of `path` when the block ends and vanishes if the block raises.

    Symbolic links are followed and the mode of an existing file is kept. Devices and pipes (`/dev/null`) are written
    directly, for they cannot be replaced. Raises InputError where the system refuses.
    """
    target = _target(path)
    _check_kind(target, path)
    with _explained(path):
        if not _is_regular(target):
            with open(target, "wb") as device:
                yield device
            return
        handle, temporary = _temporary(target)
        try:
            with handle:
                yield handle
                _settle(handle)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def write(path: str | Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all; InputError where the system refuses."""
    with replacing(path) as file:
        file.write(encoded(text))


def encoded(text: str) -> bytes:
    """A text in UTF-8; half a surrogate pair, which no UTF-8 has, as `\\ud800`, which JSON reads as the same."""
    return text.encode(errors="backslashreplace")


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(Problem(f"cannot be written: {error.strerror or error}", file=str(path))) from error


def _target(path: str | Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:  # a null byte, a loop of links
        why = "no file name has such characters" if isinstance(error, UnicodeError) else error
        raise InputError(Problem(f"is no usable path: {why}", file=repr(str(path)))) from error


def _is_regular(target: Path) -> bool:
    return target.is_file() or not target.exists()


def _check_kind(target: Path, path: str | Path) -> None:
    """Refuse what cannot be opened for writing, or only against the will of its owner."""
    if not str(path):
        raise InputError(Problem("an output needs a file name"))
    if target.is_dir():
        raise InputError(Problem("is a folder", file=str(path), hint="write the name of a file in it"))
    if not target.parent.is_dir():
        raise InputError(Problem("its folder does not exist", file=str(path), hint=f"create `{target.parent}` first"))
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError(Problem("cannot be written: it is write-protected", file=str(path)))


def _temporary(target: Path) -> tuple[BinaryIO, Path]:
    """A new file in the same folder, with the mode that the target has or would get."""
    for attempt in range(_TRIES):
        name = target.with_name(f".{target.name[:64]}.{os.getpid()}.{attempt}")
        with suppress(FileExistsError):
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
            if target.exists():
                os.chmod(name, target.stat().st_mode & 0o777)
            return cast(BinaryIO, os.fdopen(descriptor, "wb")), name
    raise InputError(Problem("cannot be written: too many unfinished files beside it", file=str(target)))


def _settle(handle: IO[bytes]) -> None:
    """Put the bytes on the disk before the name points at them."""
    handle.flush()
    os.fsync(handle.fileno())
