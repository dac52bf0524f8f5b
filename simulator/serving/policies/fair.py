"""The virtual token counter: tenants get equal service, or service by their weights, whatever they ask for.

A tenant's counter grows by the tokens that it is served over its weight: those of a prompt when it is admitted, those
of an answer, twice each, as they come out. The tenant with the least is next, its requests in order of arrival. One
that comes back after having nothing waiting is lifted to the least of those that wait, so that idling saves nothing.
Source: Sheng et al., Fairness in Serving Large Language Models, OSDI 2024 (arXiv:2401.00588), algorithm 2.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from simulator.serving.policies.base import POLICIES, Decision, Rules
from simulator.serving.policies.view import View
from simulator.serving.policies.vllm_v1 import VllmV1

PROMPT, ANSWER = 1.0, 2.0
"""What a token of a prompt and one of an answer count (the weights of the paper)."""


@POLICIES.add("fair")
class Fair(VllmV1):
    """As `vllm-v1`, but waiting requests are looked at by the counters of their tenants."""

    time_invariant = False

    def __init__(self, rules: Rules) -> None:
        """No tenant has been served."""
        super().__init__(rules)
        self.counters: dict[int, float] = {}
        self._waited: set[int] = set()
        """Tenants that waited at the last look."""
        self._last = 0.0
        """Counter of the tenant that was admitted last."""
        self._seen: dict[int, int] = {}
        """Tokens of running requests that are counted already."""

    def decide(self, view: View) -> Decision:
        """Count what came out since the last look, lift tenants that come back, then as `vllm-v1`."""
        for request in (*self._seen,):
            self._count(view, request)
        self._lift({view.tenant(request) for request in view.waiting})
        return super().decide(view)

    def order(self, view: View) -> Iterable[int]:
        """The first request of the tenant with the least counter; it counts when the next one is asked for."""
        return self._by_counter(view)

    def _by_counter(self, view: View) -> Iterator[int]:
        queues: dict[int, deque[int]] = {}
        for request in view.waiting:
            queues.setdefault(view.tenant(request), deque()).append(request)
        while queues:
            tenant = min(queues, key=lambda one: (self.counters.get(one, 0.0), one))
            request = queues[tenant].popleft()
            tokens = view.remaining(request)
            yield request
            if request not in self._seen:
                self._seen[request] = 0
                self._add(view, tenant, PROMPT * tokens)
            self._last = self.counters[tenant]
            if not queues[tenant]:
                del queues[tenant]

    def _count(self, view: View, request: int) -> None:
        """Tokens of an answer that came out since the last look."""
        out = view.generated(request)
        if out > self._seen[request]:
            self._add(view, view.tenant(request), ANSWER * (out - self._seen[request]))
            self._seen[request] = out
        if view.ended(request):
            del self._seen[request]

    def _add(self, view: View, tenant: int, tokens: float) -> None:
        self.counters[tenant] = self.counters.get(tenant, 0.0) + tokens / view.weight(tenant)

    def _lift(self, waiting: set[int]) -> None:
        stayed = [self.counters.get(tenant, 0.0) for tenant in waiting & self._waited]
        least = min(stayed) if stayed else self._last
        for tenant in waiting - self._waited:
            self.counters[tenant] = max(self.counters.get(tenant, 0.0), least)
        self._waited = waiting
