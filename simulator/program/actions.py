"""What a pipeline rank does, one instruction at a time, in the text form of PyTorch's pipeline schedules.

`2F0` is the forward pass of microbatch 0 through stage 2, `2B0` its backward pass, `2I0` and `2W0` the halves of it
(gradient of the input, gradient of the weights), `2S0` and `2T0` the scores of the part of the vocabulary that the rank
of stage 2 holds and their gradients, `1SEND_F3` sends the output of stage 1 for microbatch 3 on, `2RECV_F3` takes it;
`0UNSHARD`, `0RESHARD`, `0REDUCE_GRAD` handle sharded parameters and gradients of a stage, and `(0F7;7B3)OVERLAP_F_B`
runs two passes side by side.  Source of the language: PyTorch 2.x,
torch/distributed/pipelining/schedules.py; S and T are of arXiv:2411.05288.
"""

import re
from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """What an instruction does; the numbers are the codes of `Schedule.kind`."""

    F = 0
    """Forward pass."""
    B = 1
    """Backward pass, both gradients."""
    I = 2  # noqa: E741 - the field's name
    """Backward pass, gradient of the input."""
    W = 3
    """Backward pass, gradient of the weights."""
    S = 4
    """Scores of the rank's part of the vocabulary."""
    T = 5
    """Gradients of those scores."""
    SEND_F = 6
    """Send activations to the next stage."""
    RECV_F = 7
    """Receive activations from the stage before."""
    SEND_B = 8
    """Send gradients to the stage before."""
    RECV_B = 9
    """Receive gradients from the next stage."""
    UNSHARD = 10
    """Gather the parameters of a stage."""
    RESHARD = 11
    """Drop what UNSHARD gathered."""
    REDUCE_GRAD = 12
    """Reduce the gradients of a stage over the data-parallel ranks."""
    OVERLAP_F_B = 13
    """A forward and a backward pass side by side; see `Action.parts`."""
    C0 = 14
    """All ranks get the output of the last stage; without a text form, as it follows from S."""
    C1 = 15
    """All ranks sum what they know of the scores after S."""
    C2 = 16
    """All ranks sum the gradient of the last stage's output after T."""


COMPUTE = (Kind.F, Kind.B, Kind.I, Kind.W, Kind.S, Kind.T)
"""Passes through a stage, and those over the rank's part of the vocabulary."""
VOCABULARY = (Kind.S, Kind.T)
"""Passes over a part of the vocabulary."""
BARRIERS = (Kind.C0, Kind.C1, Kind.C2)
"""What ranks do together around these, beside other passes."""
COMMUNICATION = (Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B)
"""Transfers between stages."""
NO_MICROBATCH = -1
"""Microbatch of an instruction that concerns a stage as a whole."""
_WITH_MICROBATCH = frozenset((*COMPUTE, *COMMUNICATION))
LARGEST = 1_000_000
"""Stages and microbatches are numbered below this."""

_PLAIN = re.compile(r"(\d{1,7})(F|B|I|W|S|T|SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD)(\d{0,7})")
_KINDS = {kind.name: kind for kind in Kind}
_NAMES = [kind.name for kind in Kind]
_PARTS = re.compile(r"\(([^()]*)\)OVERLAP_F_B")


class Action(NamedTuple):
    """One instruction of a rank."""

    stage: int
    """Stage (model chunk) that it concerns; -1 for OVERLAP_F_B."""
    kind: Kind
    microbatch: int = NO_MICROBATCH
    parts: "tuple[Action, ...]" = ()
    """The passes that OVERLAP_F_B runs side by side."""

    def __str__(self) -> str:
        """The text form, for example `2F0`."""
        if self.kind is Kind.OVERLAP_F_B:
            return f"({';'.join(map(str, self.parts))})OVERLAP_F_B"
        return f"{self.stage}{_NAMES[self.kind]}{self.microbatch if self.microbatch >= 0 else ''}"

    def passes(self) -> "tuple[Action, ...]":
        """The instruction itself, or the parts of OVERLAP_F_B."""
        return self.parts or (self,)


def parse(text: str) -> Action:
    """Read one instruction; ValueError says what is wrong with it and what one looks like."""
    text = text.strip()
    overlap = _PARTS.fullmatch(text)
    if overlap:
        return _parse_overlap(text, overlap[1])
    match = _PLAIN.fullmatch(text)
    if not match:
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise ValueError(f"`{shown}` is no instruction; write stage, kind, microbatch, for example `2F0` or `1SEND_F3`")
    stage, kind, microbatch = int(match[1]), _KINDS[match[2]], match[3]
    if not microbatch and kind in _WITH_MICROBATCH:
        raise ValueError(f"`{text}` lacks its microbatch; write for example `{text}0`")
    number = int(microbatch) if microbatch else NO_MICROBATCH
    if max(stage, number) >= LARGEST:
        raise ValueError(f"`{text}` is out of range: stages and microbatches are below {LARGEST}")
    return Action(stage, kind, number)


def _parse_overlap(text: str, inside: str) -> Action:
    """Read `(0F7;7B3)OVERLAP_F_B`."""
    parts = tuple(parse(part) for part in inside.split(";"))
    if len(parts) < 2 or any(part.kind not in COMPUTE for part in parts):
        raise ValueError(f"`{text[:40]}` must overlap two passes or more, for example `(0F7;7B3)OVERLAP_F_B`")
    return Action(-1, Kind.OVERLAP_F_B, NO_MICROBATCH, parts)
