"""A name for the state of the program, so that what was computed with another state is not shown."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = ("simulator", "hardware_profiles", "workloads", "scenarios")


def fingerprint(root: Path = ROOT) -> str:
    """Sixteen hexadecimal digits over names and contents of the simulator's code and data."""
    digest = sha256()
    for path in _files(root):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _files(root: Path) -> Iterable[Path]:
    found = (path for folder in PROGRAM for path in (root / folder).rglob("*"))
    return sorted(path for path in found if path.is_file() and path.suffix != ".pyc")
