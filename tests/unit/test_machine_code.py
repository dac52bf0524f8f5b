import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.machine_code import is_kept
from tests.effort import PATIENCE_S
from tests.unit.cli.conftest import ROOT


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


def test_scipy_is_not_loaded_with_numba_and_works_with_it_afterwards() -> None:
    pytest.importorskip("scipy")
    text = """
import sys
import numpy as np
from simulator.serving.replica.looking import compiled
settle = compiled()[1]
settle(np.zeros((4, 1), np.int64), 1, np.arange(3), 1, 0, 1, False, 2)
assert "scipy.linalg" not in sys.modules
from numba import njit
assert np.allclose(njit(lambda a: a @ a)(np.eye(2)), np.eye(2))
assert np.allclose(njit(lambda a: np.linalg.inv(a))(np.eye(2)), np.eye(2))
assert "scipy.linalg" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


KEPT = """
import sys
from numba.core.cpu import CPUContext
from simulator.machine_code import compiled
from added import added
asked = []
refresh = CPUContext.refresh
CPUContext.refresh = lambda self: (asked.append(self), refresh(self))
function = compiled(added)
assert function is not None and function(2, 3) == 5
print(len(function.stats.cache_hits), len(function.stats.cache_misses), bool(asked))
assert function(2.5, 3.0) == 5.5
"""


def test_code_that_is_kept_is_loaded_without_what_compiling_needs(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    (tmp_path / "added.py").write_text("def added(one, other):\n    return one + other\n", encoding="utf-8")
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": path}
    said = [
        subprocess.run(
            [sys.executable, "-c", KEPT],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert said == [["0", "1", "True"], ["1", "0", "False"]]
