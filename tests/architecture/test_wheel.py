"""The wheel carries everything: in a fresh environment and an empty folder, names and scenarios are found.

Dependencies are taken from the running environment, so that nothing is downloaded.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from simulator import __version__
from tests.architecture.source import PACKAGE
from tests.effort import PATIENCE_S

SCENARIO = "scenarios/quickstart.yaml"


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints; its messages, if it fails."""
    found = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False, timeout=4 * PATIENCE_S
    )
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-4000:]
    return found.stdout


def install(folder: Path) -> Path:
    """`bin` of a fresh environment below a folder, in which the wheel is installed."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    alone = ("--no-deps", "--no-index")
    run(*pip, "wheel", *alone, "--no-build-isolation", "--wheel-dir", folder, PACKAGE.parent, cwd=folder)
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
    python = folder / "env" / "bin" / "python"
    run(*pip, "--python", python, "install", "--no-compile", *alone, next(folder.glob("clustersim-*.whl")), cwd=folder)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "dependencies.pth").write_text("\n".join(sorted(here)), encoding="utf-8")
    return python.parent


@pytest.mark.wheel
def test_an_installed_wheel_works_in_an_empty_folder(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="the wheel is built with the hatchling of the development environment")
    (tmp_path / "built").mkdir()
    binaries = install(tmp_path / "built")
    empty = tmp_path / "empty"
    empty.mkdir()
    code = "import simulator; from simulator.specs import data_root; print(simulator.__version__, data_root())"
    version, root = run(binaries / "python", "-c", code, cwd=empty).split()
    assert version == __version__
    assert Path(root).is_relative_to(binaries.parent)
    assert "selene" in run(binaries / "clustersim", "profiles", "clusters", cwd=empty)
    assert "hardware_profiles/accelerators/" in run(binaries / "clustersim", "explain", SCENARIO, cwd=empty)
    result = json.loads(run(binaries / "clustersim", "run", SCENARIO, "--json", "-", cwd=empty))
    assert result["metrics"]["step_time_s"] > 0
    assert list(empty.iterdir()) == []
