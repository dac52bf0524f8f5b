"""Words of libraries that exchange tokens with experts: whose figures hold, and which way they do it.

What is made of the machine's own collectives (`alltoall`, `hierarchical`, `allgather`) runs under its profile;
libraries with kernels of their own have profiles in hardware_profiles/collectives.
"""

from collections.abc import Mapping

from simulator.errors import InputError, Problem
from simulator.specs.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

OF_COLLECTIVES: Mapping[str, str] = {"alltoall": "direct", "hierarchical": "two_level", "allgather": "all_gather"}
"""Words of what is made of collectives, and the exchange that each stands for."""


def library_of(word: str, machine: CollectiveProfile) -> tuple[CollectiveProfile, str]:
    """(profile, algorithm) for `cost_of`, given the word of a library and the profile of the machine's collectives.

    InputError for a word that is neither of `OF_COLLECTIVES` nor the name of a profile that dispatches.
    """
    if word in OF_COLLECTIVES:
        return machine, OF_COLLECTIVES[word]
    return _profile(word), "auto"


def way_of(word: str) -> str:
    """The exchange that the word of a library stands for; InputError as of `library_of`."""
    return OF_COLLECTIVES[word] if word in OF_COLLECTIVES else _profile(word).algorithms["dispatch"][0]


def _profile(word: str) -> CollectiveProfile:
    profile = load_spec(CollectiveProfile, word)
    if "dispatch" not in profile.algorithms:
        known = ", ".join(OF_COLLECTIVES)
        raise InputError(Problem(f"the library `{word}` dispatches no tokens", hint=f"write {known}, or deepep"))
    return profile
