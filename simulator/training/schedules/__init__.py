"""Pipeline schedules: in which order a rank runs the passes of its stages, one file a family.

A maker takes a `Pipeline` and returns a `Schedule`. What the orders cost and keep is in docs/models/pipeline.md.
"""

from simulator.training.schedules.aliases import own_name
from simulator.training.schedules.asynchronous import pipedream_2bw
from simulator.training.schedules.automatic import NAME as AUTO
from simulator.training.schedules.automatic import auto, frugal, homes, named, searched
from simulator.training.schedules.base import SCHEDULES, ChunksError, Maker, Pipeline
from simulator.training.schedules.files import read_schedule
from simulator.training.schedules.forward_only import forward_only
from simulator.training.schedules.looped import breadth_first, depth_first, hanayo
from simulator.training.schedules.one_forward import SIZES_ONLY, gpipe, interleaved, one_f_one_b
from simulator.training.schedules.skipping import skippipe
from simulator.training.schedules.sliced import seq1f1b
from simulator.training.schedules.two_ways import chimera, dualpipe, dualpipev
from simulator.training.schedules.v_shape import v_half, v_min, zb_v
from simulator.training.schedules.vocabulary import interlaced, vocab_1, vocab_2
from simulator.training.schedules.zero_bubble import zb_h1, zb_h2

__all__ = [
    "AUTO",
    "SCHEDULES",
    "SIZES_ONLY",
    "ChunksError",
    "Maker",
    "Pipeline",
    "auto",
    "breadth_first",
    "chimera",
    "depth_first",
    "dualpipe",
    "dualpipev",
    "forward_only",
    "frugal",
    "gpipe",
    "hanayo",
    "homes",
    "interlaced",
    "interleaved",
    "named",
    "one_f_one_b",
    "own_name",
    "pipedream_2bw",
    "read_schedule",
    "searched",
    "seq1f1b",
    "skippipe",
    "v_half",
    "v_min",
    "vocab_1",
    "vocab_2",
    "zb_h1",
    "zb_h2",
    "zb_v",
]
