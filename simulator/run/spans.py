"""When every operation of a step ran, on which lane of which device."""

import numpy as np

from simulator.engine.tape import Timeline
from simulator.program import codes as d
from simulator.results.result import Spans
from simulator.training.passes.program import Program


def spans_of(program: Program, timeline: Timeline, pp: int) -> Spans:
    """Every operation with its device, and which of them hand data to another device."""
    columns, tape = program.columns, program.tape
    lanes = tuple((chain * pp + rank, name) for chain, rank, name in program.lanes)
    later = np.repeat(np.arange(len(tape)), np.diff(tape.after_start))
    device = np.array([lane[0] for lane in lanes])[columns.lane]
    sent = np.isin(columns.kind[tape.after], (d.SEND_FORWARD, d.SEND_BACKWARD)) & (device[later] != device[tape.after])
    return Spans(
        start=timeline.start,
        end=timeline.end,
        lane=columns.lane.astype(np.int32),
        name=columns.kind.astype(np.int32),
        stage=columns.stage.astype(np.int32),
        microbatch=columns.microbatch.astype(np.int32),
        lanes=lanes,
        names=d.KINDS,
        flows=np.stack([tape.after[sent], later[sent]], axis=1),
    )
