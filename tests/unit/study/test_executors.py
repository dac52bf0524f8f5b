"""Work on many items, in this process and in several, which end with the one that started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulator.study.executors import cores, each
from tests.effort import PATIENCE_S

ROOT = Path(__file__).parents[3]


def square(number: int) -> tuple[int, int]:
    """A number's square, and who worked it out."""
    return number * number, os.getpid()


@pytest.mark.parametrize(("jobs", "items", "here"), [(1, 5, True), (2, 5, False), (8, 1, True), (8, 0, True)])
def test_results_come_in_order_and_are_counted(jobs: int, items: int, here: bool) -> None:
    """One item, or one process, needs no worker."""
    told: list[int] = []
    found = list(each(square, range(items), jobs, told.append))
    assert [value for value, _ in found] == [number * number for number in range(items)]
    assert told == list(range(1, items + 1))
    assert all((worker == os.getpid()) == here for _, worker in found)


def test_there_is_at_least_one_core() -> None:
    assert cores() >= 1


SLEEPERS = """
import os, time
from simulator.study.executors import each
def work(number):
    os.write(1, f'{os.getpid()}\\n'.encode())  # in one piece
    time.sleep(3600)
list(each(work, range(4), jobs=2))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent_however_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    """Who reads what they print waits for all of them to let go of it."""
    script = tmp_path / "sleepers.py"
    script.write_text(SLEEPERS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(how)
    try:
        parent.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        raise
    assert parent.returncode == -how


COMMANDS = {
    "validate": ("validate",),
    "plan": ("plan", "scenarios/serving/quickstart.yaml", "+slo={ttft: 1 s}", "--vary", "serving.parallel.tp=1,2,4"),
    "check": ("check", "scenarios/training", "--baseline", "tests/golden"),
}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc")
@pytest.mark.parametrize(
    ("command", "how"), [*((command, signal.SIGKILL) for command in COMMANDS), ("validate", signal.SIGINT)]
)
def test_a_command_that_is_stopped_leaves_no_worker(command: str, how: signal.Signals) -> None:
    """Killed, or interrupted with everything that it started, as a terminal does."""
    asked = [sys.executable, "-m", "simulator", *COMMANDS[command], "--jobs", "2"]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    running = subprocess.Popen(asked, cwd=ROOT, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]
    until = time.monotonic() + PATIENCE_S
    while len(processes_of(running.pid, busy_s=0.2)) < 3 and time.monotonic() < until:
        time.sleep(0.02)  # a signal to what is just being forked may get lost
    (os.kill if how is signal.SIGKILL else os.killpg)(running.pid, how)
    try:
        error = running.communicate(timeout=PATIENCE_S)[1]
    finally:
        for process in processes_of(running.pid):
            os.kill(process, signal.SIGKILL)
    assert running.returncode == (-9 if how is signal.SIGKILL else 130)
    assert error.endswith("" if how is signal.SIGKILL else "clustersim: interrupted\n")


def processes_of(session: int, busy_s: float = 0.0) -> list[int]:
    """The processes of a session that took so much time of a processor, by /proc."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of, *fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it just ended
            continue
        if int(of) == session and state != "Z" and int(fields[7]) >= busy_s * os.sysconf("SC_CLK_TCK"):
            found.append(int(place.parent.name))
    return found
