"""Limits that `trtllm-bench` gives the engine where none are stated, from memory and mean lengths of its requests.

It reckons how many requests the caches of all devices hold, takes that for the most sequences of each rank, and as many
tokens as an iteration has when one prompt joins for each answer that ends, both rounded up (TensorRT-LLM 0.17 to 1.x,
tensorrt_llm/bench/build/tuning.py, `calc_engine_setting`, `finetune_setting`). Where it has no rule for the format of
the weights (build.py, `TUNED_QUANTS`), as for MXFP4, the engine's defaults stay. An iteration has room for a whole
prompt beside all sequences (benchmark/utils/general.py).

It takes latent attention for keys and values of all heads, 25 times of what is cached; NVIDIA's tables of DeepSeek-R1
on B200 are above what such small batches reach, so that the defaults are taken for these as well: an assumption.
"""

from math import ceil
from typing import NamedTuple

from simulator.model.parameters import total_parameters
from simulator.specs.model import Model
from simulator.specs.serving import NumberFormats

BYTES = {"fp8": 1.0, "fp4": 0.5}
"""Of a number, as it reckons them, by format; 2 else."""
PACKED = 9 / 16
"""Stored elements of a parameter in NVFP4: two to a byte, and a scale for sixteen."""
MOST_SEQUENCES, MOST_TOKENS = 4096, 32_768
"""Before they are rounded up."""
LEAST_SEQUENCES, LEAST_TOKENS = 64, 2048
STEPS_OF_SEQUENCES = ((256, 32), (1024, 128))
STEPS_OF_TOKENS = ((4096, 256), (8192, 512))
"""(values below this, in steps of so many), and the steps of larger ones."""
LARGE_SEQUENCES, LARGE_TOKENS = 256, 1024


class Devices(NamedTuple):
    """Those of an engine."""

    memory: float
    """Bytes of one."""
    ranks: int
    """Tensor-parallel ones, attention ranks included."""
    stages: int


def ruled(model: Model, formats: NumberFormats) -> bool:
    """Whether it has a rule for the format of the weights: NVFP4, 8 and 16 bits, alike in all layers."""
    alike = formats.experts in (None, formats.weights) and formats.weights != "int4"
    return alike and model.attention != "mla"


def limits(
    model: Model, formats: NumberFormats, devices: Devices, lengths: tuple[int, int], share: float
) -> tuple[int, int]:
    """(most sequences of a rank, most tokens of its iterations) for requests of a length, with `share` of the memory
    that weights leave for the cache."""
    weights = total_parameters(model) * BYTES.get(formats.weights or "", 2.0)
    weights *= PACKED if formats.weights == "fp4" else 1.0
    left = max(devices.memory * devices.ranks * devices.stages - weights, 0.0)
    size = model.head_dim
    token = 2.0 * model.layers * max(devices.ranks, model.kv_heads) * size * BYTES.get(formats.kv or "", 2.0)
    requests = min(left * share / (token * sum(lengths)), MOST_SEQUENCES) / devices.stages
    most = _rounded(requests, LEAST_SEQUENCES, STEPS_OF_SEQUENCES, LARGE_SEQUENCES)
    tokens = min(requests * (1 + lengths[0] / lengths[1]), MOST_TOKENS)
    return most, _rounded(tokens, LEAST_TOKENS, STEPS_OF_TOKENS, LARGE_TOKENS)


def _rounded(value: float, least: int, steps: tuple[tuple[int, int], ...], beyond: int) -> int:
    step = next((step for end, step in steps if value < end), beyond)
    return max(least, step * ceil(value / step))


def requests(prompt: int, answer: int) -> int:
    """Requests of NVIDIA's tables for such lengths (docs/source/performance/perf-overview.md, 0.17 to 1.x)."""
    tokens = prompt + answer
    return 30_000 if tokens <= 256 else 3_000 if tokens < 3_000 else 1_500 if tokens < 10_000 else 1_000
