"""When each token of each request came out, reconstructed from what the replicas did.

A request gets a token at the end of every iteration of its replica that decodes, from its first token to its last, but
for its pauses. A pause ends with a token where the prompt was computed again, and at the begin of an iteration where
the cache came back from the host; how many tokens it got tells which. Where its cache moved to another replica its
tokens are those of the last iterations before it finished. In a static batch the last token may come before the request
finishes, with the longest answer of its batch. Where batches overlap in the stages of a pipeline, its next iteration is
the first that begins after its last token. Where all this gives another number of tokens than the request got
(iterations that decode several tokens at once), or of several batches does not end with its last one, they are spread
evenly between its first and its last.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Replica, RequestRecords, Service
from simulator.results.serving import iterations as of

Ints = NDArray[np.int64]


def token_times(service: Service) -> Iterator[tuple[int, Ints]]:
    """(request, moments of its tokens in picoseconds) for every request that got one, replica by replica."""
    requests = service.requests
    paused: dict[int, list[tuple[int, int]]] = {}
    for request, begin, end in service.pauses.tolist():
        paused.setdefault(request, []).append((begin, end))
    begun = requests.first_token >= 0
    moved = np.zeros(len(begun), np.bool_)
    if service.transfers is not None:
        moved[service.transfers.request] = True
    for number, replica in enumerate(service.replicas):
        steps = _Steps(replica)
        for request in np.flatnonzero(begun & (requests.replica == number)).tolist():
            yield request, _checked(steps, requests, request, paused.get(request, ()), bool(moved[request]))
    for request in np.flatnonzero(begun & (requests.replica < 0)).tolist():
        yield request, _even(requests, request)


class _Steps:
    """Begin and end of the iterations of a replica that decode, in the order of their ends."""

    def __init__(self, replica: Replica) -> None:
        row, start, end = of.written_out(replica.iterations)
        decodes = np.flatnonzero(replica.iterations.decodes[row] > 0)
        order = decodes[np.argsort(end[decodes], kind="stable")]
        self.start, self.end = start[order], end[order]
        self.prompts = np.unique(end[replica.iterations.prompt_tokens[row] > 0])
        self.overlap = of.overlap(replica.iterations)
        self.several = replica.batches > 1

    def between(self, first: int, last: int) -> Ints:
        """Ends after `first` up to `last`; where iterations overlap, of those that follow each other."""
        low, high = np.searchsorted(self.end, (first, last), side="right").tolist()
        if not self.overlap:
            return self.end[low:high]
        found = []
        while low < high and (begins := np.flatnonzero(self.start[low:high] >= first)).size:
            low += int(begins[0])
            first = int(self.end[low])
            found.append(first)
            low += 1
        return np.array(found, np.int64)


def _checked(
    steps: _Steps, requests: RequestRecords, request: int, pauses: Sequence[tuple[int, int]], moved: bool
) -> Ints:
    """Moments of the tokens of a request, as many as it got."""
    tokens = int(requests.generated[request])
    first, last = int(requests.first_token[request]), int(requests.finish[request])
    ends = steps.between(first, last if last >= 0 else np.iinfo(np.int64).max)
    if pauses:
        ends = _resumed(steps, ends, np.array(pauses, np.int64), tokens - 1)
    ends = ends[max(len(ends) - tokens + 1, 0) :] if moved and last >= 0 else ends[: tokens - 1]
    strayed = steps.several and last >= 0 and len(ends) and ends[-1] != last
    if len(ends) != tokens - 1 or strayed:
        return _even(requests, request)
    return np.append(first, ends)


def _resumed(steps: _Steps, ends: Ints, pauses: Ints, wanted: int) -> Ints:
    """Without what came out in pauses, and with the tokens that ended them."""
    for begin, end in pauses.tolist():
        ends = ends[(ends <= begin) | (ends > end)]
    again = pauses[:, 1]
    missing = wanted - len(ends)
    if missing < len(again):  # some came back from the host
        again = again[np.isin(again, steps.prompts)] if missing else again[:0]
    return np.sort(np.concatenate([ends, again]))


def _even(requests: RequestRecords, request: int) -> Ints:
    """Tokens at equal distances, of one that is still in flight only the first."""
    tokens = int(requests.generated[request])
    first, last = int(requests.first_token[request]), int(requests.finish[request])
    if last < 0 or tokens < 2:
        return np.array([first], np.int64)
    return first + (last - first) * np.arange(tokens) // (tokens - 1)
