import os
from pathlib import Path

from simulator.machine_code import is_kept


def test_code_is_kept_where_it_is_younger_than_its_file(tmp_path: Path) -> None:
    file, other, index = (
        tmp_path / name for name in ("machine.py", "kernel.py", "__pycache__/machine.run-3.py311.nbi")
    )
    index.parent.mkdir()
    for path in (file, other):
        path.touch()
        os.utime(path, (300, 300))
    assert not is_kept(str(file))
    for modified, kept in ((200, False), (400, True)):
        index.touch()
        os.utime(index, (modified, modified))
        assert is_kept(str(file)) == kept
    assert not is_kept(str(other))
