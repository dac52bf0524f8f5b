"""Passes over a schedule: communication in, communication out.

`add_communication` places sends and receives as PyTorch's pipelining does. A send follows the pass that made its
data. A receive is placed on its rank when the sender gets there, ranks taking turns, so that two neighbours list
their transfers in the same order and none waits for one that comes later.
"""

from collections.abc import Sequence

from simulator.errors import DeadlockError
from simulator.program.actions import COMMUNICATION, Action, Kind

Ranks = list[list[Action]]
Pass = tuple[int, Kind, int]

SHOWN = 20
"""Stuck ranks that a message names."""


def remove_communication(ranks: Sequence[Sequence[Action]]) -> Ranks:
    """The schedule without its sends and receives."""
    return [[action for action in actions if action.kind not in COMMUNICATION] for actions in ranks]


def add_communication(ranks: Sequence[Sequence[Action]]) -> Ranks:
    """The schedule with a send and a receive wherever neighbouring stages live on different ranks.

    Takes a schedule without communication (ValueError else). Raises DeadlockError where the order of the passes
    cannot be carried out.
    """
    if any(action.kind in COMMUNICATION for actions in ranks for action in actions):
        raise ValueError("the schedule has communication already: remove it first")
    turn = _Turns(ranks)
    while turn.left():
        if not turn.go_round():
            raise turn.stuck()
    return turn.placed


class _Turns:
    """Ranks take turns; each moves one instruction at a time into the new schedule."""

    def __init__(self, ranks: Sequence[Sequence[Action]]) -> None:
        """Nothing is placed yet."""
        self.ranks = ranks
        self.next = [0] * len(ranks)
        self.placed: Ranks = [[] for _ in ranks]
        self.here: list[set[Pass]] = [set() for _ in ranks]
        """What has run or arrived on each rank: passes, and receives as passes of the neighbouring stage."""
        places = enumerate(ranks)
        self.home = {(p.stage, p.microbatch): r for r, row in places for action in row for p in action.passes()}
        self.last = max((stage for stage, _ in self.home), default=-1)

    def left(self) -> bool:
        """Whether any rank has instructions left."""
        return any(done < len(actions) for done, actions in zip(self.next, self.ranks, strict=True))

    def go_round(self) -> bool:
        """Let every rank move one instruction if it can; whether any could."""
        moved = False
        for rank, actions in enumerate(self.ranks):
            if self.next[rank] < len(actions) and not self.missing(rank):
                self.move(rank, actions[self.next[rank]])
                moved = True
        return moved

    def missing(self, rank: int) -> list[Pass]:
        """The passes of other stages that the next instruction of a rank still lacks."""
        here = self.here[rank]
        needs = [self.need(part) for part in self.ranks[rank][self.next[rank]].passes()]
        return [need for need in needs if need and need not in here]

    def need(self, action: Action) -> Pass | None:
        """The pass of a neighbouring stage whose output an instruction takes; both backward kinds count as B."""
        if action.kind is Kind.F and action.stage > 0:
            return action.stage - 1, Kind.F, action.microbatch
        if action.kind in (Kind.B, Kind.I) and action.stage < self.last:
            return action.stage + 1, Kind.B, action.microbatch
        return None

    def move(self, rank: int, action: Action) -> None:
        """Place an instruction, and the transfers of what it made."""
        self.next[rank] += 1
        self.placed[rank].append(action)
        for part in action.passes():
            if part.kind is Kind.F:
                self.hand_over(rank, part, Kind.F, part.stage + 1, Kind.SEND_F, Kind.RECV_F)
            elif part.kind in (Kind.B, Kind.I):
                self.hand_over(rank, part, Kind.B, part.stage - 1, Kind.SEND_B, Kind.RECV_B)

    def hand_over(self, rank: int, part: Action, made: Kind, to: int, send: Kind, receive: Kind) -> None:
        """Make the output of a pass known to the stage that takes it."""
        taker = self.home.get((to, part.microbatch), rank)
        if taker != rank:
            self.placed[rank].append(Action(part.stage, send, part.microbatch))
            self.placed[taker].append(Action(to, receive, part.microbatch))
        self.here[taker].add((part.stage, made, part.microbatch))

    def stuck(self) -> DeadlockError:
        """Which operation waits for which."""
        lines = []
        for rank, actions in enumerate(self.ranks):
            if self.next[rank] < len(actions):
                needs = [f"{s}{k.name}{m} of rank {self.home.get((s, m), '?')}" for s, k, m in self.missing(rank)]
                lines.append(f"rank {rank}: next is {actions[self.next[rank]]}, which waits for {', '.join(needs)}")
        more = [f"and {len(lines) - SHOWN} more ranks"] if len(lines) > SHOWN else []
        return DeadlockError(f"deadlock: {len(lines)} of {len(self.ranks)} ranks wait for ever", *lines[:SHOWN], *more)
