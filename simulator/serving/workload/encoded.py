"""What of a request an encoder reads, and what the decoder begins with (T5, BART, Whisper).

A model whose encoder reads a fixed number of rows (`encoder_rows`: sound filled up to 30 s) leaves prompts to the
decoder; that of any other reads the prompt, and the decoder begins with `decoder_start` tokens. Either way rows of the
encoder count as tokens of the prompt, whose keys and values cross attention reads.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.specs.model import Model

if TYPE_CHECKING:
    from simulator.serving.workload.generate import Workload


def encoded(drawn: "Workload", model: Model | None) -> "Workload":
    """Requests with the rows that the encoder of a model reads, as part of their prompts; unchanged without one."""
    if model is None or model.encoder_layers is None:
        return drawn
    fixed, more = model.encoder_rows, model.decoder_start
    rows = drawn.prompt if fixed is None else np.full(len(drawn), fixed, np.int64)
    return replace(drawn, prompt=drawn.prompt + (more if fixed is None else fixed), encoded=rows)
