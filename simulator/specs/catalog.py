"""Where named data lies: the working folder first, then what is installed with the package.

The data folders stand beside `simulator/` in a checkout and inside the package in a wheel; `data_root` is the one
place that knows.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from simulator.errors import LONGEST_WORD, InputError, Problem, nearest
from simulator.specs.base import Spec

_SUFFIXES = (".yaml", ".yml")


@cache
def data_root() -> Path:
    """Folder that holds `hardware_profiles/`, `workloads/` and `scenarios/` as they were installed."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "data"
    return inside if inside.is_dir() else package.parent


def names(kind: type[Spec]) -> list[str]:
    """Names of the files of a kind in the working folder and in the installed data, sorted, folders below it included.

    Empty for a spec that has no data room of its own.
    """
    return _names((kind.folder,)) if kind.folder is not None else []


def find(reference: str, rooms: tuple[str, ...], beside: Path | None = None) -> Path | None:
    """The file that a reference of one of these data rooms means, or None.

    A reference with a slash or with the suffix `.yaml` is tried as a path from the folder `beside` (that of the
    referring file) and from the working folder. `clusters/selene`, or only `selene`, is looked up in the room, in the
    working folder and then in the installed data.
    """
    found = next((path for path in _candidates(reference, rooms, beside) if _exists(path)), None)
    return None if found is None else Path(found)


def entrance(given: str | Path, rooms: tuple[str, ...]) -> Path:
    """The file that a user means by a path or a name; InputError naming the nearest one where there is none."""
    path = Path(given)
    if _exists(path) and not path.is_dir():
        return path
    found = find(str(given), rooms)
    if found is not None:
        return found
    if rooms and not _exists(path):
        problem = unknown(str(given), rooms)
        others = (path.with_suffix(suffix) for suffix in _SUFFIXES if path.suffix in _SUFFIXES)
        if other := next(filter(_exists, others), None):
            problem = replace(problem, hint=f"did you mean `{other}`?")
        raise InputError(problem)
    return path


_EXAMPLES = 6
"""Names of a data room that a refusal lists."""
_ROOMS = {"workloads/requests": "file of request lengths"}
"""What files of a room are called where its folder does not say it."""


def unknown(reference: str, rooms: tuple[str, ...]) -> Problem:
    """The problem of a reference that `find` does not find."""
    room = rooms[0]
    what = Path(room).name.removesuffix("s")
    known = _names(rooms)
    some = ", ".join(f"`{name}`" for name in known[:_EXAMPLES])
    more = f" and {len(known) - _EXAMPLES} more" if len(known) > _EXAMPLES else ""
    where = " or ".join(f"{one}/" for one in rooms)
    bare = _bare(reference, room)
    near = _alike(bare, known) if room == "scenarios" else nearest(bare, known)
    hint = near or f"write the path of a file, or a name in {where}: {some}{more}"
    return Problem(f"there is no {_ROOMS.get(room, what)} `{reference[:80]}`", hint=hint)


def _alike(name: str, known: list[str]) -> str:
    """A hint that names the scenario whose name is closest, its folder looked at or not: `serving/whisper` for
    `whisper-large-v3`. What a scenario is called says nothing of what is modelled."""
    from difflib import get_close_matches

    plain = name.removesuffix(".yaml").removesuffix(".yml").casefold()
    folded = {one.casefold(): one for one in known}
    ends = {one.rpartition("/")[2]: one for one in reversed(folded)}
    begins = [ends[end] for end in ends if len(end) > _WORD and plain.rpartition("/")[2].startswith(end)]
    short = [ends[end] for end in get_close_matches(plain.rpartition("/")[2], ends, n=1, cutoff=0.6)]
    near = next(iter(begins or get_close_matches(plain, folded, n=1, cutoff=0.75) or short), None)
    return f"did you mean `{folded[near]}`?" if near is not None and len(plain) <= LONGEST_WORD else ""


_WORD = 3
"""Letters of a scenario's name that say too little to be meant by a longer one."""


def shown(path: Path) -> str:
    """A file's name in messages and origins: from the data root or the working folder, if it lies below one of them."""
    written = str(path)
    for base in (str(data_root()), os.getcwd()):
        if written == base or (path.is_absolute() and written.startswith(os.path.join(base, ""))):
            return written[len(os.path.join(base, "")) :] or os.curdir
    return written


def _names(rooms: tuple[str, ...]) -> list[str]:
    found = set[str]()
    for room in rooms:
        for top in {os.path.join(base, room, "") for base in (os.getcwd(), data_root())}:
            files = (os.path.join(folder, file)[len(top) :] for folder, _, held in os.walk(top) for file in held)
            found.update(Path(file).with_suffix("").as_posix() for file in files if file.endswith(_SUFFIXES))
    return sorted(found)


def _candidates(reference: str, rooms: tuple[str, ...], beside: Path | None) -> Iterator[str]:
    files = (reference,) if reference.endswith(_SUFFIXES) else tuple(reference + suffix for suffix in _SUFFIXES)
    here = os.getcwd()
    if "/" in reference or reference.endswith(_SUFFIXES):
        bases = (here,) if beside is None else (str(beside), here)
        yield from (os.path.normpath(os.path.join(base, file)) for base in bases for file in files)
    for base in (here, str(data_root())):
        for room in rooms:
            yield from (os.path.normpath(os.path.join(base, room, _bare(file, room))) for file in files)


def _bare(reference: str, room: str) -> str:
    """The name inside its room: `selene` for `clusters/selene` and for `hardware_profiles/clusters/selene`."""
    for prefix in (room, Path(room).name):
        if reference.startswith(prefix + "/"):
            return reference.removeprefix(prefix + "/")
    return reference


_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP, errno.ENAMETOOLONG}
"""Why a file cannot be looked at that is not there. Of others that cannot be, reading them will say why."""


def _exists(path: Path | str) -> bool:
    try:
        os.stat(path)
    except OSError as error:
        return error.errno not in _ABSENT
    except ValueError:  # no file has such a name
        return False
    return True
