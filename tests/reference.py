"""A serving engine that looks at every sequence one by one, for tests: slow, plain, and apart from the package.

One replica of one stage without a prefix cache. Nothing is summed, leapt over or remembered: blocks are counted anew
from the tokens of each sequence, and every token of every request is written down. What the policies do is stated here
a second time, from their descriptions.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.serving.workload.generate import Workload
from tests.replicas import Price, Setting

COPY = 1
"""Ticks in which a token is copied to or from the host: 1,000 bytes at 1e15 bytes/s, see `replicas.replica`."""
WHOLE = ("orca", "static", "guaranteed")
"""Policies that take memory for prompt and answer when they admit."""
FULL = ("splitfuse", "vllm-v0", "prefill-first")
"""Policies that take memory for the whole prompt, however little of it they work on."""
APART = ("static", "vllm-v0", "prefill-first")
"""Policies whose iterations have either prompts or decodes."""
UNCUT = ("orca", "static", "guaranteed", "vllm-v0", "whole-prompts")
"""Policies that do not cut prompts."""


@dataclass(eq=False)
class Sequence:
    """A request."""

    number: int
    arrival: int
    prompt: int
    output: int
    priority: int
    cached: int = 0
    """Tokens of it in the cache."""
    tokens: list[int] = field(default_factory=list)
    """When each of its tokens came out."""
    scheduled: int = -1
    finish: int = -1
    preemptions: int = 0
    rejected: bool = False
    ghost: bool = False
    """Done, but still a row of its static batch."""

    @property
    def target(self) -> int:
        """Tokens that are to be in the cache before it decodes."""
        return self.prompt + len(self.tokens)

    @property
    def left(self) -> int:
        """Tokens still to be worked on before it decodes."""
        return self.target - self.cached


class Reference:
    """The requests served, as soon as it is made."""

    def __init__(self, workload: Workload, setting: Setting) -> None:
        columns = (workload.arrival, workload.prompt, workload.output, workload.priority)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.requests = [Sequence(i, *row) for i, row in enumerate(rows)]
        self.todo = deque(self.requests)
        self.waiting: list[Sequence] = []
        self.partial: list[Sequence] = []
        self.members: list[Sequence] = []
        self.swapped: list[Sequence] = []
        self.setting, self.price = setting, setting.price
        self.pauses: list[tuple[int, int, int]] = []
        self.now = 0
        while self.todo or self.waiting or self.partial or self.members or self.swapped:
            self.come()
            self.iterate()

    def come(self) -> None:
        """Let requests come, and time pass where there is nothing to do."""
        if not (self.waiting or self.partial or self.members or self.swapped):
            self.now = max(self.now, self.todo[0].arrival)
        while self.todo and self.todo[0].arrival <= self.now:
            one = self.todo.popleft()
            tokens = one.prompt + one.output
            one.rejected = self.blocks(tokens) + self.setting.watermark > self.setting.blocks
            self.waiting += [] if one.rejected else [one]

    # Memory

    def blocks(self, tokens: int) -> int:
        """Blocks of so many tokens."""
        return -(-tokens // self.setting.block_size)

    def held(self, one: Sequence) -> int:
        """Blocks of a sequence under way."""
        if self.setting.policy in WHOLE:
            return self.blocks(one.prompt + one.output)
        if self.setting.policy in FULL and one in self.partial:
            return self.blocks(one.target)
        return self.blocks(one.cached)

    @property
    def free(self) -> int:
        """Blocks that nobody uses."""
        return self.setting.blocks - sum(self.held(one) for one in (*self.partial, *self.members))

    @property
    def growth(self) -> int:
        """Blocks that one more token of each member takes."""
        if self.setting.policy in WHOLE:
            return 0
        return sum(self.blocks(one.cached + 1) - self.blocks(one.cached) for one in self.members)

    def preempt(self) -> int:
        """Take the memory of who came last; ticks of copies."""
        decodes = not self.partial
        one = (self.members if decodes else self.partial).pop()
        one.preemptions += 1
        kept = sum(other.cached for other in self.swapped)
        if decodes and kept + one.cached <= self.setting.swap:
            self.swapped.insert(0, one)
            return one.cached * COPY
        one.cached = 0
        self.waiting.insert(0, one)
        return 0

    def make_room(self) -> tuple[int, bool]:
        """(ticks of copies, whether somebody lost its memory or still waits on the host)."""
        ticks, preempted = 0, False
        while self.growth > self.free:
            ticks += self.preempt()
            preempted = True
        while self.swapped and not preempted and len(self.members) + len(self.partial) < self.setting.most:
            one = self.swapped[0]
            if self.growth + self.blocks(one.cached + 1) + self.setting.watermark > self.free:
                break
            self.members.append(self.swapped.pop(0))
            ticks += one.cached * COPY
            self.resumed(one)
        return ticks, preempted or bool(self.swapped)

    def resumed(self, one: Sequence) -> None:
        """It goes on after a pause."""
        if one.tokens[-1] < self.now:
            self.pauses.append((one.number, one.tokens[-1], self.now))

    # What to work on

    def order(self) -> list[Sequence]:
        """Waiting requests in the order in which they are looked at."""
        keys: dict[str, Callable[[Sequence], tuple[int, ...]]] = {
            "shortest-first": lambda one: (one.left, one.number),
            "priority": lambda one: (one.priority - self.aged(one), one.arrival, one.number),
        }
        key = keys.get(self.setting.policy)
        return sorted(self.waiting, key=key) if key else list(self.waiting)

    def aged(self, one: Sequence) -> int:
        """Classes by which waiting has raised a request."""
        return (self.now - one.arrival) // self.setting.ageing if self.setting.ageing else 0

    def budget(self) -> int:
        """Tokens of prompts that the next iteration may work on."""
        policy, budget = self.setting.policy, self.setting.budget
        if policy in ("orca", "static"):
            return 1 << 40
        if policy in APART:
            return budget
        if policy == "sarathi" and budget > self.setting.tile:
            budget = budget // self.setting.tile * self.setting.tile
        return budget - len(self.members)

    def decide(self, closed: bool) -> list[tuple[Sequence, int]]:
        """Pieces of prompts of the next iteration."""
        if self.setting.policy == "static" and (self.members or self.partial):
            return []
        budget, free = self.budget(), self.free - self.growth
        chunks: list[tuple[Sequence, int]] = []
        for one in self.partial:
            enough = self.held(one) >= self.blocks(one.target)
            room = one.left if enough else (self.held(one) + free) * self.setting.block_size - one.cached
            chunk = min(one.left, budget, room)
            if chunk <= 0:
                return chunks
            free -= max(0, self.blocks(one.cached + chunk) - self.held(one))
            chunks.append((one, chunk))
            budget -= chunk
        places = self.setting.most - len(self.members) - len(self.partial)
        return chunks if closed else chunks + self.admitted(budget, free - self.setting.watermark, places, not chunks)

    def admitted(self, budget: int, free: int, places: int, alone: bool) -> list[tuple[Sequence, int]]:
        """Waiting requests that join."""
        chunks: list[tuple[Sequence, int]] = []
        for one in self.order():
            if budget <= 0 or len(chunks) == places:
                break
            chunk = min(one.left, budget)
            uncut_alone = alone and not chunks and one.left > self.setting.budget
            if chunk < one.left and self.setting.policy in UNCUT:
                if not uncut_alone:
                    break
                chunk = one.left
            needed = self.blocks(chunk)
            if self.setting.policy in WHOLE:
                needed = self.blocks(one.prompt + one.output)
            elif self.setting.policy in FULL:
                needed = self.blocks(one.left)
            if needed > free:
                if self.setting.policy == "shortest-first":
                    continue
                break
            free -= needed
            chunks.append((one, chunk))
            budget -= chunk
        return chunks

    # An iteration

    def iterate(self) -> None:
        """Make room, choose, and let the time of an iteration pass."""
        if not (self.waiting or self.partial or self.members or self.swapped):
            return
        extra, closed = self.make_room()
        chunks = self.decide(closed and bool(self.members or self.partial))
        if not chunks and not self.members:
            assert len(self.partial) > 1
            self.preempt()
            return
        for one, _ in chunks:
            if one in self.waiting:
                self.waiting.remove(one)
                self.partial.append(one)
                one.scheduled = self.now if one.scheduled < 0 else one.scheduled
        apart = chunks and self.setting.policy in APART
        decodes = [] if apart else self.members
        self.now += extra + self.lasts(chunks, decodes)
        for one in list(decodes):
            one.cached += 1
            if not one.ghost:
                self.emit(one)
        for one, chunk in chunks:
            one.cached += chunk
            if not one.left:
                self.partial.remove(one)
                self.first(one)
        self.leave()

    def lasts(self, chunks: list[tuple[Sequence, int]], decodes: list[Sequence]) -> int:
        """Ticks of an iteration."""
        price: Price = self.price
        tokens = sum(chunk for _, chunk in chunks) + len(decodes)
        sampled = sum(one.left == chunk for one, chunk in chunks) + len(decodes)
        alive = sum(not one.ghost for one in decodes)
        ticks = price.row * tokens + price.sample * sampled + price.overhead
        ticks += price.each * (len(decodes) if alive else 0) + price.each * len(chunks)
        ticks += sum(price.pair * chunk * (one.cached + chunk) for one, chunk in chunks)
        if decodes:
            context = sum(one.cached + 1 for one in decodes)
            if context <= price.edge:
                ticks += price.base + price.read * context
            else:
                ticks += price.base + len(decodes) + 2 * price.read * context
        return ticks

    def first(self, one: Sequence) -> None:
        """A prompt is done, and with it a token out."""
        if one.tokens:
            self.resumed(one)
        one.tokens.append(self.now)
        if len(one.tokens) == one.output:
            one.finish = self.now
        else:
            self.members.append(one)

    def emit(self, one: Sequence) -> None:
        """A decode gave a token."""
        one.tokens.append(self.now)
        one.ghost = len(one.tokens) == one.output

    def leave(self) -> None:
        """Who is done goes, in a static batch only when all are."""
        if self.setting.policy == "static" and not all(one.ghost for one in self.members):
            return
        for one in [one for one in self.members if one.ghost]:
            one.finish = self.now
            self.members.remove(one)
