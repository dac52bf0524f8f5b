"""Which algorithms and protocols a library may choose from: `NCCL_ALGO`, `NCCL_PROTO` and `NCCL_NVLS_ENABLE`.

Words are those of NCCL, in any case: a list such as `Ring,Tree` allows what it names, `^Tree` all but that. Since NCCL
2.24 a list may be for one operation: `allreduce:tree;allgather:ring`. Sends and all-to-alls have neither. An operation
that is left with nothing is refused, as NCCL does. Source: NVIDIA/nccl src/graph/tuning.cc (parseList).
"""

from collections.abc import Collection, Mapping
from functools import lru_cache

from simulator.errors import InputError, Problem, nearest
from simulator.specs.libraries.collectives import CollectiveProfile, Environment

ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "ring": ("ring",),
    "tree": ("tree",),
    "nvls": ("nvls", "nvls_sharp"),
    "nvlstree": ("nvls_tree",),
    "pat": ("pat",),
    "collnetdirect": ("collnet_direct",),
    "collnetchain": ("collnet_chain",),
}
"""Words of `NCCL_ALGO` and the algorithms here."""
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "ll": ("LL",),
    "ll128": ("LL128",),
    "simple": ("Simple", "NVLS", "NVLS tree", "NVLS SHARP", "PAT", "CollNetDirect", "CollNetChain"),
}
"""Words of `NCCL_PROTO` and the protocols here; what the switches do is under Simple."""
OPERATIONS = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "broadcast": "broadcast",
}
"""Operations that have algorithms, and NCCL's words for them."""


def in_environment(profile: CollectiveProfile, operation: str) -> CollectiveProfile:
    """The profile with what its `environment` leaves for an operation; InputError where that is nothing."""
    environment = profile.environment
    if environment is None or operation not in OPERATIONS:
        return profile
    return _restricted(_Held(profile), operation)


class _Held:
    """A profile that hashes by identity, kept alive by the cache."""

    def __init__(self, profile: CollectiveProfile) -> None:
        self.profile = profile

    def __hash__(self) -> int:
        return id(self.profile)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.profile is self.profile


@lru_cache(maxsize=256)
def _restricted(held: _Held, operation: str) -> CollectiveProfile:
    profile = held.profile
    environment = profile.environment or Environment()
    kept = _kept(environment.NCCL_ALGO, "NCCL_ALGO", ALGORITHMS, operation)
    if environment.NCCL_NVLS_ENABLE == 0:
        kept -= {*ALGORITHMS["nvls"], *ALGORITHMS["nvlstree"]}
    under = _kept(environment.NCCL_PROTO, "NCCL_PROTO", PROTOCOLS, operation)
    known = {protocol for names in PROTOCOLS.values() for protocol in names}
    protocols = {name: spec for name, spec in profile.protocols.items() if name not in known or name in under}
    own = profile.algorithms[operation]  # type: ignore[index]
    names = tuple(
        name for name in own if name in kept and any(protocol in protocols for protocol in profile.protocols_of(name))
    )
    if not names:
        asked = ", ".join(f"{key}={value}" for key, value in environment.model_dump(exclude_defaults=True).items())
        raise InputError(Problem(f"{asked} leaves no algorithm for {operation}", hint=f"it has {', '.join(own)}"))
    tuner = profile.tuner
    if tuner is not None:
        options = tuple(o for o in tuner.options if o.algorithm in names and o.protocol in protocols)
        tuner = tuner.model_copy(update={"options": options})
    algorithms = profile.algorithms | {operation: names}
    return profile.model_copy(update={"protocols": protocols, "algorithms": algorithms, "tuner": tuner})


def _kept(text: str, variable: str, words: Mapping[str, Collection[str]], operation: str) -> set[str]:
    """Names that a variable leaves for an operation."""
    every = {name for names in words.values() for name in names}
    for part in text.split(";"):
        scope, colon, listed = part.rpartition(":")
        if colon and scope.strip().lower() != OPERATIONS[operation]:
            continue
        barred = listed.strip().startswith("^")
        named = [word.strip().lower() for word in listed.strip().removeprefix("^").split(",") if word.strip()]
        for word in named:
            if word not in words:
                hint = nearest(word, words) or ", ".join(words)
                raise InputError(Problem(f"{variable}={text[:80]}: unknown word `{word[:40]}`", hint=hint))
        found = {name for word in named for name in words[word]}
        if named:
            return every - found if barred else found
    return every
