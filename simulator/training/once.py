"""Answers that follow from a job alone, worked out once: stages ask for the same again and again."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from simulator.training.job import Job

P = ParamSpec("P")
T = TypeVar("T")


def once_a_job(function: Callable[Concatenate[Job, P], T]) -> Callable[Concatenate[Job, P], T]:
    """The function with its answers kept in the job, for each set of arguments as they are written.

    Arguments are hashable, and answers not to be changed.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def asked(job: Job, /, *arguments: P.args, **named: P.kwargs) -> T:
        key = (name, arguments, *named.items())
        answers = job.answers
        if key not in answers:
            answers[key] = function(job, *arguments, **named)
        return cast("T", answers[key])

    return asked
