"""Earliest deadline first: the request whose first token is due soonest goes next."""

from collections.abc import Iterable

from simulator.serving.policies.base import POLICIES
from simulator.serving.policies.view import View
from simulator.serving.policies.vllm_v1 import VllmV1


@POLICIES.add("deadline")
class Deadline(VllmV1):
    """As `vllm-v1`, but by the time left until the first token is due, less what the prompt itself will take.

    Requests that are late already come after those that can still be in time.
    """

    time_invariant = False

    def order(self, view: View) -> Iterable[int]:
        """By latest start that still meets the objective; missed ones last, by arrival."""
        arrival, now = view.arrival, view.now

        def rank(request: int) -> tuple[bool, int, int]:
            start = arrival(request) + view.ttft_slo - view.alone(request)
            return start < now, start if start >= now else arrival(request), request

        return sorted(view.waiting, key=rank)
