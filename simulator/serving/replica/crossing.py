"""Requests of a model with an encoder on a replica: the encoder before a prompt, and decodes with rows of it to read.

A prompt is the rows of the encoder and what the decoder begins with; both lie in blocks of the cache from its one
iteration on until the request leaves. One that lost its memory passes the encoder again. Its last page is shared by the
rows of the encoder and the tokens of the decoder, which engines keep in pages of their own: a page a request at most.
"""

from typing import TYPE_CHECKING

from simulator.serving.costs.beside.encoder import EncoderCost
from simulator.serving.costs.crossed import CrossedAttention
from simulator.serving.policies.base import Chunks
from simulator.serving.policies.view import view
from simulator.serving.replica.batch import Work
from simulator.serving.replica.decodes import Decodes
from simulator.serving.replica.fast_forward import DecodeLine
from simulator.serving.replica.ledger import Column, Ledger
from simulator.serving.replica.stages import Stages

if TYPE_CHECKING:
    from simulator.serving.costs.iteration import StageCost
    from simulator.serving.replica.replica import Replica


class Encoder:
    """The encoder of a replica."""

    __slots__ = ("cost", "of", "rows")

    def __init__(self, cost: EncoderCost, of: Column) -> None:
        """`of` are the rows of each request."""
        self.cost, self.of = cost, of
        self.rows = 0
        """How many it encoded, those of a request that lost its memory again."""

    def ticks(self, chunks: Chunks) -> int:
        """Ticks of encoding the prompts of an iteration, which are whole."""
        found = [self.of[request] for request, _ in chunks]
        self.rows += sum(found)
        return self.cost.ticks(found)

    def forget(self) -> None:
        """Nothing is kept beside the cache."""


class CrossingWork(Work):
    """Of prompts, the rows that pass the decoder."""

    __slots__ = ("_of",)

    def __init__(self, of: Column) -> None:
        """Nothing; `of` are the rows of each request that only its encoder passes."""
        super().__init__()
        self._of = of

    def begin(self, chunks: Chunks, remaining: Column, padded: bool = False) -> None:
        """See `Work.begin`."""
        super().begin(chunks, remaining, padded)
        self.tokens -= sum(self._of[request] for request, _ in chunks)


class CrossingStages(Stages):
    """The one stage of a replica."""

    __slots__ = ("encoder",)

    def __init__(self, costs: "tuple[StageCost, ...]", ledger: Ledger, encoder: Encoder) -> None:
        """Free."""
        super().__init__(costs, ledger, 1)
        self.encoder = encoder

    def prompts(self, cost: "StageCost", chunks: Chunks) -> int:
        """Ticks of the attention of rows of decoders that begin, each to itself and to its encoder's."""
        of = self.encoder.of
        return cost.prompts([(chunk - of[request], of[request]) for request, chunk in chunks])

    def alone(self, remaining: int, budget: int) -> int:
        """Ticks of a prompt of so many tokens in an iteration of its own, most of which its encoder reads."""
        del budget
        cost = self.costs[0]
        rows = max(remaining - 1, 1)
        return self.encoder.cost.ticks((rows,)) + cost.rows(1, 1) + cost.host(1) + cost.prompt(1, rows)


class CrossingDecodes(Decodes):
    """Members of a batch whose decoders read rows of encoders."""

    __slots__ = ("_of", "crossed", "line")

    def __init__(self, like: Decodes, of: Column) -> None:
        """None, in the blocks of `like`; `of` are the rows of each request."""
        super().__init__(like.blocks, like.grows, 0)
        self._of = of
        self.crossed = 0
        """Rows of encoders that they read, all together; `context` counts them too."""
        self.line = CrossingLine(self)
        """What their attention takes, for as long as they stay the same."""

    def join(self, request: int, since: int) -> None:
        """See `Decodes.join`."""
        super().join(request, since)
        self.crossed += self._of[request]
        self.line.sequences = CHANGED

    def leave(self, request: int, length: int) -> None:
        """See `Decodes.leave`."""
        super().leave(request, length)
        self.crossed -= self._of[request]
        self.line.sequences = CHANGED

    def dismiss(self) -> list[int]:
        """See `Decodes.dismiss`."""
        self.crossed, self.line.sequences = 0, CHANGED
        return super().dismiss()


class CrossingLine(DecodeLine):
    """Ticks of both kernels of attention: those of the encoders' rows stay as they are while members do."""

    __slots__ = ("_decodes",)

    def __init__(self, decodes: CrossingDecodes) -> None:
        """Of no sequences."""
        super().__init__()
        self._decodes = decodes

    def at(self, cost: "StageCost", sequences: int, context: int) -> int:
        """See `DecodeLine.at`."""
        attention = cost.attention
        assert isinstance(attention, CrossedAttention)
        lines = attention.beside(sequences, self._decodes.crossed)
        for self.limit, self.base, self.slope in lines:
            if context <= self.limit:
                break
        self.sequences = sequences
        return self.base + self.slope * context


CHANGED = -1
"""No number of sequences, so that the next iteration asks for the line again."""


def attach(replica: "Replica", cost: EncoderCost, of: Column) -> None:
    """Give an idle replica an encoder; `of` are the rows that it reads of each request."""
    encoder = replica.encoder = Encoder(cost, of)
    replica.stages = CrossingStages(replica.stages.costs, replica.ledger, encoder)
    for batch in replica.batches:
        decodes = batch.decodes = CrossingDecodes(batch.decodes, of)
        batch.line, batch.work = decodes.line, CrossingWork(of)
        batch.view = view(batch)
