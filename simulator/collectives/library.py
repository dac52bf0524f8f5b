"""Words of libraries that exchange tokens with experts: whose figures hold, and which way they do it.

What is made of the machine's own collectives (`alltoall`, `hierarchical`, `allgather`) runs under its profile;
libraries with kernels of their own have profiles in hardware_profiles/collectives.
"""

from collections.abc import Mapping
from pathlib import Path

from simulator.errors import InputError, Problem, nearest
from simulator.specs.catalog import find, names
from simulator.specs.libraries.collectives import CollectiveProfile
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


def unfit(word: str) -> Problem | None:
    """What is wrong with the word of a library, and what to write; None where it is one."""
    if word in OF_COLLECTIVES:
        return None
    if not Path(word).is_file() and find(word, (CollectiveProfile.folder,)) is None:
        return Problem(f"there is no exchange library `{word[:80]}`", hint=_instead(word))
    if "dispatch" not in load_spec(CollectiveProfile, word).algorithms:
        return Problem(f"the library `{word[:80]}` dispatches no tokens", hint=_instead(word))
    return None


def _instead(word: str) -> str:
    """The nearest of the words that dispatch, or all of them."""
    profiles = names(CollectiveProfile)
    own = [name for name in profiles if "dispatch" in load_spec(CollectiveProfile, name).algorithms]
    known = [*OF_COLLECTIVES, *own]
    return nearest(word.lower(), known) or f"write one of {', '.join(known)}"


def _profile(word: str) -> CollectiveProfile:
    if problem := unfit(word):
        raise InputError(problem)
    return load_spec(CollectiveProfile, word)
