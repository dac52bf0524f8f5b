"""Settings of engines in published benchmarks, where the benchmark states them and its rows do not.

InferenceX (SemiAnalysis; scripts of its repository, history to 2026-05-05) gives engines limits by model, engine and
device. Nothing here was read off measured values.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

Tokens = Callable[[int, int], int]
"""Most tokens of an iteration, of (requests in flight, longest prompt)."""


class Settings(NamedTuple):
    """What an engine is told for some rows; None: its default."""

    source: str
    engine: str
    model: str
    device: str
    tokens: Tokens | None
    sequences: int | None = None
    """Most sequences at once; None: as many as are in flight."""
    experts: str | None = None
    """Kernels of mixtures of experts."""
    expert_rows: str | None = None
    """Format of the rows that they multiply."""

    @property
    def stack(self) -> str | None:
        """The stack that the scripts make of the engine: vLLM's `--async-scheduling`, TensorRT-LLM's `trtllm-serve`."""
        return {"vllm": "vllm-async", "tensorrt": SERVED}.get(self.engine)


def _fixed(tokens: int) -> Tokens:
    return lambda flying, prompt: tokens


def _fitting(flying: int, prompt: int) -> int:
    """TensorRT-LLM is built for a prompt beside one token of each other request."""
    return max(8192, flying + prompt + 64)


SERVED = "tensorrt-llm-serve"
BENCHMARK = "inferencex"
SETTINGS = (
    Settings(BENCHMARK, "vllm", "gpt-?oss", "b200", _fixed(8192), 512, "trtllm-gen", "fp8"),
    Settings(BENCHMARK, "vllm", "gpt-?oss", "", _fixed(8192)),
    Settings(BENCHMARK, "vllm", "minimax", "h100", lambda flying, prompt: 2 * prompt, 256),
    Settings(BENCHMARK, "vllm", "minimax", "", lambda flying, prompt: 2 * prompt),
    Settings(BENCHMARK, "vllm", "", "", None),
    Settings(BENCHMARK, "tensorrt", "llama", "", _fixed(16_384)),
    Settings(BENCHMARK, "tensorrt", "gpt-?oss", "b200", _fixed(20_000), 512, "trtllm-gen", "fp8"),
    Settings(BENCHMARK, "tensorrt", "gpt-?oss", "", _fixed(20_000)),
    Settings(BENCHMARK, "tensorrt", "deepseek", "b200", _fitting, None, "trtllm-gen"),
    Settings(BENCHMARK, "tensorrt", "", "", _fitting),
    Settings(BENCHMARK, "sglang", "", "h200", _fixed(32_768), 512),
    Settings(BENCHMARK, "sglang", "", "", _fixed(16_384), 512),
)
"""First match."""


def settings(source: str, engine: str, model: str, device: str) -> Settings | None:
    """What the benchmark's scripts say; None where it has none."""
    said = [text.lower() for text in (source, engine, model, device)]
    matches = (one for one in SETTINGS if all(re.search(word, text) for word, text in zip(one[:4], said, strict=True)))
    return next(matches, None)


def limits(one: Settings, flying: int, prompt: int) -> tuple[int | None, int]:
    """(most tokens of an iteration or the default, most sequences) for requests in flight and the longest prompt."""
    return one.tokens and one.tokens(flying, prompt), one.sequences or flying
