"""Properties are tried on the same examples in every run, whatever the machine, the order of tests and the folder.

What is compiled is kept, for the hundreds of processes that tests start, and what is loaded is no garbage.
"""

import gc
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.internal.constants_ast import Constants

from tests.effort import register

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
register()
settings.load_profile("tests")


SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines()[1:])
"""Names of single cases that take long."""


class Repeatable(HypothesisProvider):
    """Draws no literals of the modules that happen to be loaded: these differ with the tests that ran before."""

    _local_constants = Constants()


def pytest_configure(config: pytest.Config) -> None:
    if threading.current_thread() is threading.main_thread():
        # A shell's background job ignores Ctrl-C, and so would every command that a test starts and interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--hypothesis-profile") != "explore":
        AVAILABLE_PROVIDERS["hypothesis"] = Repeatable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Single cases that take long are slow tests, as those are that say so where they stand."""
    for item in items:
        if item.nodeid in SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Half a million objects of libraries, modules and tests stay: no later search for garbage looks at them, and a
    simulation, which makes many objects and few cycles, is not searched every 700 of them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
