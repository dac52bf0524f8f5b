"""Futures as they end, and Ctrl-C while they do."""

import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from simulator.study.finished import Finished
from simulator.study.sweep.evaluate import Outcome


@pytest.fixture(autouse=True)
def first_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled by the first thread")


def ended(number: int) -> "Future[int]":
    future: Future[int] = Future()
    future.set_result(number)
    return future


def test_futures_come_as_they_end() -> None:
    finished, early, late = Finished[int](), Future[int](), Future[int]()
    finished.add(late)
    finished.add(early)
    early.set_result(1)
    late.set_result(2)
    assert (finished.next(), finished.next(), finished.next(timeout_s=0.01)) == (early, late, None)


def test_a_cancelled_future_has_ended() -> None:
    finished, future = Finished[int](), Future[int]()
    finished.add(future)
    assert future.cancel()
    assert finished.next(timeout_s=1) is future


def test_ctrl_c_is_raised_where_futures_are_waited_for() -> None:
    finished = Finished[int]()
    with pytest.raises(KeyboardInterrupt), finished.interrupted():
        finished.add(ended(1))
        signal.raise_signal(signal.SIGINT)
        before = finished.next()
        assert before is not None and before.result() == 1
        finished.next()
        pytest.fail("not reached")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_after_the_last_is_not_lost() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), Finished[int]().interrupted():
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached


def test_an_error_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError), Finished[int]().interrupted():
        signal.raise_signal(signal.SIGINT)
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_callers_own_handler_stays() -> None:
    told: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: told.append(number))
    try:
        with Finished[int]().interrupted():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert told == [signal.SIGINT]


def test_on_another_thread_signals_are_left_alone() -> None:
    def work() -> str:
        with Finished[int]().interrupted():
            return "done"

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == "done"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a timer")
def test_a_sweep_interrupted_at_any_moment_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred moments; with `concurrent.futures.wait` some left locks behind, and the sweep never ended."""
    from simulator.study.sweep import sweep

    monkeypatch.setattr(sweep, "evaluate", lambda document, _: document)
    monkeypatch.setattr("simulator.study.fingerprint.program", lambda: "")
    documents = {str(number): str(number) for number in range(100_000)}
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    try:
        for moment in range(1, 101):
            interrupt(sweep._outcomes, documents, moment * 2e-4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupt(outcomes: Callable[..., Iterator[object]], documents: dict[str, str], after_s: float) -> None:
    finished = Finished[Outcome]()
    with ThreadPoolExecutor(2) as pool, pytest.raises(KeyboardInterrupt), finished.interrupted():
        coming = outcomes(documents, pool, finished)
        next(coming)
        signal.setitimer(signal.ITIMER_REAL, after_s)
        deque(coming, maxlen=0)
