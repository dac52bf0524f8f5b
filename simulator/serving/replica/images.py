"""Images of requests on a replica: each is encoded once, with the first piece of its request's prompt.

What an encoder made is kept until the prompt is in the cache, so a request that is preempted does not wait for it again
on the same replica; one that comes back after a failure does (vLLM's encoder cache).
"""

from collections.abc import Sequence

from simulator.serving.costs.beside.vision import VisionCost
from simulator.serving.policies.base import Chunks


class ImageEncoder:
    """The encoder of a replica."""

    __slots__ = ("cost", "encoded", "images", "of")

    def __init__(self, cost: VisionCost, of: Sequence[tuple[int, ...]]) -> None:
        """Nothing is encoded; `of` are the patches of the images of each request."""
        self.cost, self.of = cost, of
        self.encoded: set[int] = set()
        """Requests whose images are."""
        self.images = 0
        """How many images were, those of a request that began again after a failure twice."""

    def ticks(self, chunks: Chunks) -> int:
        """Ticks of encoding what an iteration on these pieces of prompts needs first."""
        found: list[int] = []
        for request, _ in chunks:
            if self.of[request] and request not in self.encoded:
                self.encoded.add(request)
                found += self.of[request]
        self.images += len(found)
        return self.cost.ticks(found)

    def forget(self) -> None:
        """What was encoded is lost."""
        self.encoded.clear()
