"""What is known of every request, as plain lists: one place that replicas, routers and the Result read and write."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.serving.workload.generate import NEVER, Workload

FINISHED, REJECTED, IN_FLIGHT, FAILED = 0, 1, 2, 3
"""What became of a request."""


@dataclass(slots=True)
class Ledger:
    """Requests by number. Times are ticks, NEVER where nothing happened yet."""

    arrival: list[int]
    prompt: list[int]
    """Tokens of the prompt."""
    output: list[int]
    """Tokens to come out."""
    priority: list[int]
    """Class, 0 the most urgent."""
    prefix: Sequence[Sequence[int]] | None
    """Identities of the blocks that a prompt begins with, see `Workload`."""
    prefix_block: int
    """Tokens of such a block."""
    ttft_slo: int = 0
    """Ticks from an arrival to the first token that an objective allows; 0 where there is none."""
    tenant: Sequence[int] = ()
    """Who asks for each; empty where nobody is told apart."""
    weights: Sequence[float] = ()
    """Share of the service of each tenant."""
    scheduled: list[int] = field(init=False)
    """Start of the first iteration that worked on it."""
    first_token: list[int] = field(init=False)
    finish: list[int] = field(init=False)
    remaining_tokens: list[int] = field(init=False)
    """Tokens of the prompt (after a preemption also of what came out before) that are still to be worked on."""
    cached: list[int] = field(init=False)
    """Tokens that a prefix cache held."""
    done: list[int] = field(init=False)
    """Tokens that came out."""
    preemptions: list[int] = field(init=False)
    replica: list[int] = field(init=False)
    """The replica that decodes it, -1 for none."""
    status: list[int] = field(init=False)
    pauses: list[tuple[int, int, int]] = field(init=False, default_factory=list)
    """(request, from, to): no tokens although the first was out, because of a preemption."""

    def __post_init__(self) -> None:
        """Nothing has happened yet."""
        n = len(self.prompt)
        self.scheduled, self.first_token, self.finish = [NEVER] * n, [NEVER] * n, [NEVER] * n
        self.remaining_tokens = self.prompt[:]
        self.cached, self.done, self.preemptions = [0] * n, [0] * n, [0] * n
        self.replica, self.status = [-1] * n, [IN_FLIGHT] * n

    def __len__(self) -> int:
        return len(self.prompt)

    def tenant_of(self, request: int) -> int:
        """Who asks for a request; 0 where nobody is told apart."""
        return self.tenant[request] if self.tenant else 0

    def weight_of(self, tenant: int) -> float:
        """Share of the service of a tenant."""
        return self.weights[tenant] if self.weights else 1.0


def open_ledger(workload: Workload, ttft_slo: int = 0) -> Ledger:
    """The ledger of a workload; `ttft_slo` is the ticks from an arrival to the first token that an objective allows."""
    return Ledger(
        arrival=workload.arrival.tolist(),
        prompt=workload.prompt.tolist(),
        output=workload.output.tolist(),
        priority=workload.priority.tolist(),
        prefix=workload.prefix,
        prefix_block=workload.prefix_block,
        ttft_slo=ttft_slo,
    )
