"""The requests of a serving run as columns: drawn from what `Requests` describes, or taken from a trace.

Every random choice draws from a stream of its own (`simulator.random`): arrivals, prompts, outputs, prefixes, prefix
lengths, turns, think, pauses, tools, priorities, tenants, images and their sides. So a run with more of one keeps all
others as they were.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.serving.workload import arrivals, chunks, conversations, images, sharing, tenants
from simulator.serving.workload.encoded import encoded
from simulator.serving.workload.lengths import lengths
from simulator.serving.workload.sharing import BLOCK, Blocks
from simulator.specs.distributions import Floats, Integers
from simulator.specs.model import Model
from simulator.specs.model.vision import Vision
from simulator.specs.requests import ClosedLoop, Requests, RetrievedChunks

NEVER = -1
"""No arrival of its own, no request that it follows."""
ANY = -2
"""Whichever request finishes releases the next such one."""


class Trace(Protocol):
    """Columns of a recorded trace, one row a request, in the order of arrival."""

    @property
    def arrival_s(self) -> NDArray[np.float64] | None:
        """Seconds from the first request, rising; None where the file has no times."""

    @property
    def prompt(self) -> NDArray[np.int64]:
        """Tokens of the prompts."""

    @property
    def output(self) -> NDArray[np.int64]:
        """Tokens of the answers."""

    @property
    def hashes(self) -> tuple[tuple[int, ...], ...] | None:
        """Identities of the prompts' blocks."""

    @property
    def hash_block(self) -> int:
        """Tokens of such a block."""

    @property
    def session(self) -> NDArray[np.int64] | None:
        """Conversation of each request; below 0: none."""

    @property
    def priority(self) -> NDArray[np.int64] | None:
        """Priority classes."""

    @property
    def images(self) -> tuple[tuple[tuple[int, int], ...], ...] | None:
        """(width, height) in pixels of the images of each request."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the file leaves open and how it was filled in."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of the file was left out or put in order."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests as columns, one row a request, rows with a time of arrival in its order. Times are picoseconds."""

    arrival: Integers
    """When it arrives; NEVER for a request that the end of another one releases."""
    prompt: Integers
    """Tokens of the prompt, at least 1."""
    output: Integers
    """Tokens of the answer, at least 1."""
    priority: Integers
    """Priority class, 0 the most urgent."""
    follows: Integers
    """Row of the request whose finish releases this one; ANY: any finish releases the next such row; NEVER: none."""
    delay: Integers
    """Picoseconds from that finish to the arrival."""
    prefix: tuple[Blocks, ...] | None = None
    """Identities of consecutive blocks of the request's tokens from the start of the prompt (a tuple or a range); equal
    identities at equal places, after equal ones, are equal tokens. They may go on into the answer where a later turn
    repeats it; the last block of a trace's prompt may be partial. None where nothing is shared."""
    prefix_block: int = BLOCK
    """Tokens of such a block."""
    assumptions: tuple[str, ...] = ()
    """What was filled in, in the trace too."""
    warnings: tuple[str, ...] = ()
    """What of the trace was left out or put in order."""
    session: Integers | None = None
    """Conversation of each request; below 0: none. None where there are no conversations."""
    images: tuple[tuple[int, ...], ...] | None = None
    """Patches of each image of each request, whose tokens are part of the prompt; None where no request has any."""
    chunks: tuple[tuple[int, ...], ...] | None = None
    """Retrieved chunks that each prompt begins with; None where there are none."""
    encoded: Integers | None = None
    """Rows of the prompt that an encoder reads, before those of the decoder; None where the model has none."""
    due: Integers | None = None
    """When a request comes at the earliest that the end of another one releases; None where any may come at once."""
    tenant: Integers | None = None
    """Index into `requests.tenants` of each request; None where tenants are not distinguished."""

    def __len__(self) -> int:
        """Requests."""
        return len(self.prompt)

    @property
    def first(self) -> int:
        """When the first request arrives that has a time of its own; 0 where none has."""
        timed = self.arrival != NEVER
        return int(self.arrival.min(where=timed, initial=np.iinfo(np.int64).max)) if timed.any() else 0


def generate(
    requests: Requests, seed: int, trace: Trace | None = None, block: int = BLOCK, model: Model | None = None
) -> Workload:
    """The requests of a run; equal arguments always give equal columns. InputError where they cannot be had.

    `block` is the number of tokens for which what prompts share has identities, unless the trace has hashes of its own;
    the `model` makes tokens of images, and has an encoder read prompts.
    """
    if trace is not None:
        drawn = _recorded(requests, seed, trace, block)
    elif requests.sessions is not None:
        drawn = _conversing(requests, seed, block)
    else:
        drawn = _single(requests, seed, block)
    vision = None if model is None else model.vision
    drawn = encoded(_seeing(drawn, requests, seed, trace, vision), model)
    if requests.tenants:
        return tenants.assigned(drawn, requests.tenants, seed)
    if not requests.priorities:
        return drawn
    chances = stream(seed, "priorities").random(len(drawn))
    classes = np.searchsorted(np.cumsum(requests.priorities[:-1]), chances, side="right")
    return replace(drawn, priority=classes.astype(np.int64))


def _single(requests: Requests, seed: int, block: int) -> Workload:
    """Requests that know nothing of each other."""
    if requests.lengths is None or requests.count is None:
        raise InputError(Problem("neither a trace nor lengths and a count are given", path="requests"))
    prompt, output = lengths(requests.lengths, requests.count, seed)
    return _shared(requests, seed, _arriving(requests, seed, None, prompt, output), block)


def _seeing(drawn: Workload, requests: Requests, seed: int, trace: Trace | None, vision: Vision | None) -> Workload:
    """Requests with the images that they or the trace have, whose tokens come after those of the prompt."""
    recorded = None if trace is None or trace.images is None else trace.images[: len(drawn)]
    sizes = recorded if requests.images is None else images.drawn(requests.images, len(drawn), seed)
    if sizes is None:
        return drawn
    if trace is not None and (trace.hashes is not None or trace.session is not None):
        problem = "images of requests whose trace says what prompts share are not simulated"
        raise InputError(Problem(problem, path="requests.images", hint="leave these columns, or images, out"))
    if vision is None:
        problem = "requests have images, and the model has no `vision` that would read them"
        hint = "take a model with one, as models/qwen2-vl-7b, or write `model: {extends: ..., vision: {...}}`"
        raise InputError(Problem(problem, path="requests.images", hint=hint))
    patches = tuple(tuple(images.patches(*size, vision) for size in own) for own in sizes)
    tokens = [sum(images.tokens(each, vision) for each in own) for own in patches]
    return replace(drawn, prompt=drawn.prompt + np.array(tokens, np.int64), images=patches)


def _shared(requests: Requests, seed: int, workload: Workload, block: int) -> Workload:
    """Let prompts begin with what their groups share, or with retrieved chunks."""
    if requests.chunks is not None:
        return _retrieving(requests.chunks, seed, workload, block)
    if requests.shared_prefix is None:
        return workload
    groups = sharing.groups(requests.shared_prefix, len(workload), seed)
    prompt, note = sharing.lengthened(workload.prompt, groups.shared)
    return replace(
        workload,
        prompt=prompt,
        prefix=sharing.of_members(groups, block),
        prefix_block=block,
        assumptions=workload.assumptions + note,
    )


def _retrieving(spec: RetrievedChunks, seed: int, workload: Workload, block: int) -> Workload:
    """Let prompts begin with retrieved chunks."""
    own = chunks.drawn(spec, len(workload), seed)
    prompt, note = sharing.lengthened(workload.prompt, np.full(len(workload), spec.each * spec.tokens))
    found = replace(workload, prompt=prompt, assumptions=workload.assumptions + note)
    return replace(found, prefix=chunks.identities(own, spec.tokens, block), prefix_block=block, chunks=own)


def _arriving(requests: Requests, seed: int, recorded: Floats | None, prompt: Integers, output: Integers) -> Workload:
    """Requests of these lengths at the times that are asked for."""
    count, idle = len(prompt), tuple[str, ...]()
    follows, delay, due = _all(NEVER, count), _all(0, count), None
    loop = requests.arrivals.closed_loop
    if loop is not None:
        arrival, follows, delay, due = _looping(loop, count, seed)
        if loop.clients > count:
            what = "requests" if requests.sessions is None else "conversations"
            idle = (
                f"{loop.clients:,} clients are more than the {count:,} {what}: {loop.clients - count:,} of them"
                " never ask; raise `requests.count` to load the system as they would",
            )
    elif recorded is not None and not requests.arrivals.given:
        arrival = arrivals.ticks(recorded / requests.speed, "requests.trace")
    else:
        arrival = arrivals.ticks(arrivals.times(requests.arrivals, count, seed), "requests.arrivals")
    return Workload(arrival, prompt, output, _all(0, count), follows, delay, warnings=idle, due=due)


def _all(value: int, count: int) -> Integers:
    """A column of one value, to read only, which takes no memory."""
    return np.broadcast_to(np.int64(value), count)


def _looping(loop: ClosedLoop, count: int, seed: int) -> tuple[Integers, Integers, Integers, Integers | None]:
    """(arrival, follows, delay, due) of users that wait for their answers."""
    delay = arrivals.ticks(arrivals.thinking(loop, count, seed), "requests.arrivals.closed_loop.think")
    first = min(loop.clients, count)
    arrival, follows = np.full(count, NEVER), np.full(count, ANY)
    due = None if loop.rate is None else arrivals.due(loop.rate, count, seed)
    begin = delay[:first] if due is None else np.maximum(delay[:first], due[:first])
    arrival[:first], follows[:first] = np.sort(begin), NEVER
    delay[:first] = 0
    return arrival, follows, delay, due


def _conversing(requests: Requests, seed: int, block: int) -> Workload:
    """Turns of conversations, those of one conversation after each other."""
    turns = conversations.turns(requests, seed, block)
    opening = turns.opening
    starts = _arriving(requests, seed, None, turns.prompt[opening], turns.output[opening])
    arrival, follows, delay = np.full(len(turns.prompt), NEVER), np.arange(-1, len(turns.prompt) - 1), turns.pause
    arrival[opening], delay[opening] = starts.arrival, starts.delay
    follows[opening], due = starts.follows, None
    if starts.due is not None:
        due = np.zeros(len(arrival), np.int64)
        due[opening] = starts.due
    if requests.arrivals.closed_loop is not None:  # a user goes on with the conversation after next, as it were
        clients, last = requests.arrivals.closed_loop.clients, turns.closing
        follows[opening[clients:]] = last[: max(0, len(opening) - clients)]
    return Workload(
        arrival,
        turns.prompt,
        turns.output,
        np.zeros(len(arrival), np.int64),
        follows,
        delay,
        turns.prefix,
        block,
        turns.assumptions,
        starts.warnings,
        turns.session,
        due=due,
    )


def _recorded(requests: Requests, seed: int, trace: Trace, block: int) -> Workload:
    """The first requests of a trace; `arrivals`, `lengths` and `priorities` replace what it says."""
    count = _wanted(requests, len(trace.prompt))
    if requests.lengths is None:
        prompt, output = trace.prompt[:count], trace.output[:count]
    else:
        prompt, output = lengths(requests.lengths, count, seed)
    times = None if trace.arrival_s is None else trace.arrival_s[:count]
    drawn = _arriving(requests, seed, times, prompt, output)
    priority = drawn.priority if trace.priority is None else trace.priority[:count]
    drawn = replace(drawn, priority=priority, assumptions=trace.assumptions, warnings=trace.warnings)
    known = requests.lengths is None and not (trace.hashes is None and trace.session is None)
    if known and requests.shared_prefix is not None:
        problem = "the trace says itself what its prompts share"
        raise InputError(Problem(problem, path="requests.shared_prefix", hint="leave it out"))
    if not known:
        return _shared(requests, seed, drawn, block)
    if trace.hashes is not None:
        return replace(drawn, prefix=trace.hashes[:count], prefix_block=trace.hash_block)
    return drawn if trace.session is None else _continued(drawn, trace.session[:count], block)


def _continued(drawn: Workload, session: Integers, block: int) -> Workload:
    """Requests of recorded conversations: what repeats the earlier turn and its answer shares their blocks."""
    prefix, notes = conversations.recorded(session, drawn.prompt, drawn.output, block)
    return replace(
        drawn, prefix=prefix, prefix_block=block, assumptions=drawn.assumptions + notes, session=session.copy()
    )


def _wanted(requests: Requests, recorded: int) -> int:
    if requests.count is not None and requests.count > recorded:
        problem = f"the trace holds {recorded:,} requests, fewer than the {requests.count:,} that are asked for"
        raise InputError(Problem(problem, path="requests.count", hint="leave `count` out to take all of them"))
    return recorded if requests.count is None else requests.count
