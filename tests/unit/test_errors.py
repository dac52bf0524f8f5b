"""Exceptions: exit codes and the one form of a message."""

import pickle

from simulator.errors import DeadlockError, InfeasibleError, InputError, Problem, SimulatorError, nearest


def test_exit_codes() -> None:
    codes = {SimulatorError: 3, InputError: 2, DeadlockError: 2, InfeasibleError: 4}
    assert {kind: kind.exit_code for kind in codes} == codes


def test_a_problem_is_one_line_with_place_path_and_hint() -> None:
    problem = Problem("unknown key `tpp`", "s.yaml", 3, 7, "training.parallel.tpp", "did you mean `tp`?")
    assert str(problem) == "s.yaml:3:7: training.parallel.tpp: unknown key `tpp`; did you mean `tp`?"
    assert str(Problem("is empty", "s.yaml")) == "s.yaml: is empty"
    assert str(Problem("two\n  lines")) == "two lines"


def test_an_input_error_prints_every_problem() -> None:
    error = InputError(Problem("one", "a.yaml", 1, 1), "two")
    assert str(error) == "a.yaml:1:1: one\ntwo"
    assert [problem.message for problem in error.problems] == ["one", "two"]


def test_errors_cross_processes() -> None:
    error = DeadlockError(Problem("stuck", path="rank 3"), "two")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is DeadlockError
    assert copy.problems == error.problems


def test_nearest_name() -> None:
    assert nearest("selen", ["selene", "frontier"]) == "did you mean `selene`?"
    assert nearest("SELENE", ["selene", "frontier"]) == "did you mean `selene`?"
    assert nearest("xyz", ["selene", "frontier"]) == "known: `frontier`, `selene`"
    assert nearest("xyz", [f"cluster-{i}" for i in range(40)]) == ""
    assert nearest("xyz", []) == ""
