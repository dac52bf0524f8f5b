"""Properties are tried on the same examples in every run, whatever the machine, the order of tests and the folder."""

import signal
import threading

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.internal.constants_ast import Constants

from tests.effort import register

register()
settings.load_profile("tests")


class Repeatable(HypothesisProvider):
    """Draws no literals of the modules that happen to be loaded: these differ with the tests that ran before."""

    _local_constants = Constants()


def pytest_configure(config: pytest.Config) -> None:
    if threading.current_thread() is threading.main_thread():
        # A shell's background job ignores Ctrl-C, and so would every command that a test starts and interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--hypothesis-profile") != "explore":
        AVAILABLE_PROVIDERS["hypothesis"] = Repeatable
