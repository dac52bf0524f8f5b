"""What is asked of a serving system: when requests come, how long they are, what they share, what they are promised."""

from functools import partial
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from simulator import units
from simulator.specs.base import Count, Fraction, Percentage, PositiveFraction, Rate, Seconds, Spec
from simulator.specs.distribution import Counts, Distribution

MOST_TOKENS = 100_000_000
"""A prompt or an answer is never longer."""

RateOrNone = Annotated[float, BeforeValidator(partial(units.parse, dimension="rate")), Field(ge=0)]


class Gamma(Spec):
    """Gamma-distributed gaps: bursty below 1, regular above, Poisson at 1, as `vllm bench serve --burstiness`."""

    rate: Rate
    """Mean requests per second."""
    burstiness: float = Field(gt=0)
    """Shape of the gamma distribution; the coefficient of variation of the gaps is its inverse square root."""


class RateStep(Spec):
    """A stretch of constant rate."""

    duration: Annotated[Seconds, Field(gt=0)]
    """How long."""
    rate: RateOrNone
    """Mean requests per second (Poisson); 0: none come."""


class ClosedLoop(Spec):
    """A fixed number of users; each waits for the answer, thinks, and asks again."""

    clients: Count
    """Users at work."""
    think: Distribution | None = None
    """Seconds from an answer to the next question, and before the first one; none where left out."""
    rate: Rate | None = Field(default=None, exclude_if=lambda rate: rate is None)
    """Mean requests that fall due a second (Poisson). One that is due goes to a user who is free or waits for one, and
    its times count from then (`vllm bench serve --request-rate 10 --max-concurrency 256`). None: users ask at once."""


class Arrivals(Spec):
    """When requests come; one of the keys. Where none is given: at the times of the trace, or else all at once."""

    poisson: Rate | None = None
    """Poisson arrivals: mean requests per second."""
    gamma: Gamma | None = None
    """Gamma-distributed gaps."""
    constant: Rate | None = None
    """Equal gaps: requests per second."""
    varying: tuple[RateStep, ...] | None = Field(default=None, min_length=1)
    """A rate that changes over time (Poisson within each step), repeated from the start when it ends."""
    closed_loop: ClosedLoop | None = None
    """Users that wait for their answers."""
    at_once: Literal[True] | None = None
    """All at the start, whatever the trace says."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(f'`{name}`' for name in given)}")
        if self.varying is not None and not any(step.rate for step in self.varying):
            raise ValueError("one of the steps of `varying` has a rate above 0")
        return self

    @property
    def given(self) -> bool:
        """Whether they say when requests come."""
        return any(getattr(self, name) is not None for name in type(self).model_fields)


class Lengths(Spec):
    """How long prompts and answers are."""

    folder: ClassVar[str] = "workloads/requests"

    name: str = ""
    """What workload it stands for."""
    prompt: Counts
    """Tokens of a prompt; rounded, at least 1."""
    output: Counts
    """Tokens of an answer; rounded, at least 1."""
    correlation: float = Field(default=0.0, ge=-1, le=1)
    """Spearman's rank correlation of prompt and answer (Gaussian copula)."""
    source: str = ""
    """What it was fitted to."""


class Images(Spec):
    """Images of a request; `model.vision` makes tokens of the prompt of them, beside those that `lengths` gives."""

    count: Distribution = Distribution.model_construct(fixed=1.0)
    """Images of a request; rounded, may be 0."""
    width: Counts
    """Pixels from left to right; rounded, at least 1."""
    height: Counts
    """Pixels from top to bottom; rounded, at least 1."""


class Tools(Spec):
    """Steps of an agent: turns that a tool asks for in the place of a person."""

    share: Percentage
    """Share of the later turns that follow a tool's answer."""
    wait: Distribution
    """Seconds that the tool takes, from an answer of the model to the next turn."""


class Sessions(Spec):
    """Conversations: each turn repeats what was said before and adds to it.

    `arrivals` then says when conversations begin, `count` how many turns there are in all.
    """

    turns: Counts
    """Turns of a conversation; rounded, at least 1. `lengths` gives what each turn adds."""
    think: Distribution
    """Seconds from an answer to the next turn."""
    tools: Tools | None = Field(default=None, exclude_if=lambda tools: tools is None)
    """Turns of an agent that follow a tool; none where left out."""


class SharedPrefix(Spec):
    """Tokens that many prompts begin with (system prompts, documents); they are part of the prompt."""

    tokens: Distribution
    """Length of such a prefix; prompts that are shorter are made one token longer than it."""
    groups: Count = 1
    """How many different ones there are."""
    zipf: float = Field(default=0.0, ge=0)
    """Exponent of their popularity; 0: all alike."""


class RetrievedChunks(Spec):
    """Pieces of text that prompts begin with, each one of many, in any order (retrieval-augmented generation); they are
    part of the prompt."""

    tokens: Count
    """Tokens of a chunk."""
    each: Annotated[int, Field(ge=1, le=1024)]
    """Chunks of a prompt, all different; prompts that are shorter are made one token longer than they are together."""
    of: Annotated[int, Field(ge=1, le=10_000_000)]
    """How many there are to choose from, at least twice those of a prompt."""
    zipf: float = Field(default=0.0, ge=0)
    """Exponent of their popularity; 0: all alike."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.of < 2 * self.each:
            raise ValueError(f"prompts with {self.each} chunks choose `of` at least twice as many, not of {self.of}")
        return self


class RateLimit(Spec):
    """A token bucket: it fills at a rate up to a size, and each request takes out of it."""

    rate: Rate
    """What comes in a second."""
    burst: Annotated[float, Field(ge=1)]
    """Most that it holds; it is full at the start."""
    by: Literal["requests", "tokens"] = "requests"
    """Whether a request takes 1, or the tokens of its prompt and answer."""
    over: Literal["reject", "wait"] = "reject"
    """What becomes of a request that the bucket does not hold: an error, or it waits its turn."""


class Tenant(Spec):
    """A tenant: a share of the requests, with objectives and limits of its own."""

    name: str
    """Name in reports."""
    share: PositiveFraction
    """Share of the requests (of conversations, where there are such); all sum to 1."""
    priority: Annotated[int, Field(ge=0, le=1000)] = 0
    """Class of its requests, 0 the most urgent, for policies that look at it."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Share of the service for the policy `fair`: twice the weight, twice the tokens."""
    slo: "Slo | None" = None
    """What it is promised; the scenario's where left out."""
    limit: RateLimit | None = None
    """How much it may ask."""


class Requests(Spec):
    """The workload of a serving run."""

    arrivals: Arrivals = Arrivals.model_construct()
    """When requests come."""
    lengths: Lengths | None = None
    """How long they are; a name is looked up in `workloads/requests`."""
    count: Count | None = None
    """How many are asked; the first ones of a trace, all of them where left out."""
    trace: str | None = None
    """File of requests (Azure, BurstGPT, Mooncake, ShareGPT, LLMServingSim, vLLM's details, plain CSV): arrivals and
    lengths come from it; `arrivals` and `lengths`, where given too, replace its."""
    speed: float = Field(default=1.0, gt=0)
    """Times of the trace are divided by this."""
    sessions: Sessions | None = None
    """Conversations instead of single questions."""
    shared_prefix: SharedPrefix | None = None
    """What prompts have in common."""
    images: Images | None = Field(default=None, exclude_if=lambda images: images is None)
    """Images of requests, each with its size, in place of those of a trace; none, or those of the trace (column
    `images`), where left out."""
    chunks: RetrievedChunks | None = Field(default=None, exclude_if=lambda chunks: chunks is None)
    """Retrieved texts that prompts begin with, in any order."""
    priorities: tuple[Fraction, ...] = ()
    """Share of requests of each priority class, most urgent first, for policies that look at it; sums to 1."""
    tenants: tuple[Tenant, ...] = Field(default=(), exclude_if=lambda tenants: not tenants)
    """Tenants that requests belong to, each with a share, a priority, objectives and limits; the page has a row for
    each."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.trace is None and self.lengths is None:
            raise ValueError("write `lengths` (how long requests are) or `trace` (a file of requests)")
        if self.trace is None and self.count is None:
            raise ValueError("write `count`, the number of requests")
        if self.trace is not None and self.sessions is not None:
            raise ValueError("`sessions` are made up and a `trace` is recorded: give one of them")
        if self.priorities and abs(sum(self.priorities) - 1) > 1e-9:
            raise ValueError(f"`priorities` are shares that sum to 1, not to {sum(self.priorities):g}")
        if self.images is not None and self.sessions is not None:
            raise ValueError(
                "`images` of `sessions`, whose turns repeat them, are not simulated: leave one of them out"
            )
        for key in ("shared_prefix", "sessions", "trace", "images"):
            if self.chunks is not None and getattr(self, key) is not None:
                raise ValueError(f"`chunks` say what prompts have in common: leave `{key}` out")
        self._check_tenants()
        return self

    def _check_tenants(self) -> None:
        if not self.tenants:
            return
        if self.priorities:
            raise ValueError("`tenants` have priorities of their own: leave `priorities` out")
        total = sum(tenant.share for tenant in self.tenants)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"`share` of all `tenants` sums to 1, not to {total:g}")
        names = [tenant.name for tenant in self.tenants]
        if len(set(names)) < len(names):
            raise ValueError("`tenants` have different names")


class Slo(Spec):
    """Objectives that each request is held to."""

    ttft: Seconds | None = None
    """Time to first token."""
    tpot: Seconds | None = None
    """Mean time per output token after the first."""
    e2e: Seconds | None = None
    """Time from arrival to the last token."""
    attainment: Percentage = 0.9
    """Share of the requests that must meet all of them."""


Tenant.model_rebuild()
