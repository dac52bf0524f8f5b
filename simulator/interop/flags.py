"""A scenario that trains as arguments of Megatron-LM, or as a job file of torchtitan."""

from collections.abc import Callable

from simulator.errors import InputError, Problem
from simulator.interop.megatron.write import arguments_of
from simulator.interop.torchtitan.write import job_of
from simulator.specs.scenario import AnyScenario, Scenario

WRITERS: dict[str, Callable[[Scenario], str]] = {"megatron": arguments_of, "torchtitan": job_of}
"""What writes the flags of a program."""


def flags(scenario: AnyScenario, program: str) -> str:
    """The flags of a program for a scenario; InputError for what they cannot say."""
    if not isinstance(scenario, Scenario):
        raise InputError(Problem(f"{program} trains, and this scenario does not"))
    return WRITERS[program](scenario)
