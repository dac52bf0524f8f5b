"""Routers with state: conversations stay on their replica, hashes on a ring, prompts follow equal prefixes.

`session` is the sticky session of balancers. `consistent-hash` puts replicas onto a ring (Karger et al., STOC 1997)
with bounded loads (Mirrokni, Thorup, Zadimoghaddam, SODA 2018), as Envoy and HAProxy have it. `cache-aware` keeps an
approximate tree of what was sent where, as SGLang's router does: it sees no cache, and follows the load where replicas
differ much (its balance thresholds).
"""

from bisect import bisect_left
from collections.abc import Sequence

from simulator.serving.fleet.router import ROUTERS, Choice, least_outstanding
from simulator.serving.replica.replica import Replica

POINTS = 64
"""Of each replica on the ring."""
BOUND = 1.25
"""Times the mean load that a replica on the ring takes."""
MATCH = 0.5
"""Share of a prompt that must have been sent to a replica for it to follow (SGLang's `cache_threshold`)."""
IMBALANCE, EXCESS = 32, 1.1
"""Requests, and times the least, by which the fullest replica may exceed the idlest before load alone decides."""
MOST_KNOWN = 1 << 20
"""Blocks that the tree remembers; the oldest are forgotten."""
_MASK = (1 << 64) - 1


def place(replicas: Sequence[Replica], number: int) -> int:
    """The place of a replica by its number; -1 where it takes no requests."""
    if number < len(replicas) and replicas[number].number == number:
        return number
    return next((i for i, replica in enumerate(replicas) if replica.number == number), -1)


@ROUTERS.add("session")
def session(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """Turns of a conversation go where it began while that replica is there; others as by `least-outstanding`."""
    key = -1 if choice.session is None else choice.session[request]
    if key >= 0 and (found := place(replicas, choice.homes.get(key, 1 << 60))) >= 0:
        return found
    found = least_outstanding(replicas, request, choice)
    if key >= 0:
        choice.homes[key] = replicas[found].number
    return found


@ROUTERS.add("consistent-hash")
def consistent_hash(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """By the hash of the conversation, else of the prompt's first block, else of the request: the next replica on a
    ring that has less than 1.25 times the mean load."""
    if choice.ring[0] != choice.version or not choice.ring[1]:
        choice.ring = _ring(replicas, choice.version)
    _, points, places = choice.ring
    most = BOUND * (sum(replica.outstanding for replica in replicas) + 1) / len(replicas)
    at = bisect_left(points, _hash(_key(request, choice) ^ 0x5BD1E995))
    for step in range(len(points)):
        found = places[(at + step) % len(points)]
        if replicas[found].outstanding + 1 <= most:
            return found
    return places[at % len(points)]


@ROUTERS.add("cache-aware")
def cache_aware(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """To where at least half of the prompt was sent before, unless loads differ much; else as by
    `least-outstanding`."""
    chain = choice.prefix[request] if choice.prefix is not None else ()
    known, homes = _known(chain, choice.homes), choice.homes
    found = -1
    if chain and known >= MATCH * len(chain):
        found = place(replicas, homes[chain[known - 1]])
    if found >= 0:
        least = replicas[least_outstanding(replicas, request, choice)].outstanding
        own = replicas[found].outstanding
        if own - least > IMBALANCE and own > EXCESS * least:
            found = -1
    if found < 0:
        found = least_outstanding(replicas, request, choice)
    number = replicas[found].number
    for identity in chain[known if known and homes[chain[known - 1]] == number else 0 :]:
        homes.pop(identity, None)
        homes[identity] = number
    while len(homes) > MOST_KNOWN:
        del homes[next(iter(homes))]
    return found


def _known(chain: Sequence[int], homes: dict[int, int]) -> int:
    """Blocks from the start that were sent somewhere; what is remembered of a chain begins at its start."""
    low, high = 0, len(chain)
    while low < high:
        middle = (low + high + 1) // 2
        if chain[middle - 1] in homes:
            low = middle
        else:
            high = middle - 1
    return low


def _key(request: int, choice: Choice) -> int:
    if choice.session is not None and choice.session[request] >= 0:
        return choice.session[request]
    if choice.prefix is not None and len(choice.prefix[request]):
        return choice.prefix[request][0]
    return request


def _ring(replicas: Sequence[Replica], version: int) -> tuple[int, list[int], list[int]]:
    """(version, points, place of the replica at each), rising; a replica has the same points whichever others are
    there."""
    hashed = ((_hash(one.number * POINTS + i), at) for at, one in enumerate(replicas) for i in range(POINTS))
    points = sorted(hashed)
    return version, [point for point, _ in points], [at for _, at in points]


def _hash(value: int) -> int:
    """64 mixed bits (splitmix64, Steele, Lea and Flood, OOPSLA 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
