"""Settings of engines that rows state as options of their command lines, in any spelling (`--max-num-seqs 256`,
`max_num_seqs=256`, `gpu_memory_utilization: 0.85`)."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from simulator.specs.base import Spec

_NUMBERS: Mapping[str, str] = {
    "tokens": r"max num batched tokens|max num tokens|chunked prefill size|max prefill tokens",
    "sequences": r"max num seqs|max running requests|max batch size",
    "context": r"max model len|context len(?:gth)?|max seq len(?! to capture)",
    "graph_context": r"max seq len to capture|max context len to capture",
    "decode_steps": r"num scheduler steps|num continuous decode steps",
    "memory_share": r"gpu memory utili[sz]ation|mem fraction static|gpu mem(ory)? util",
    "free_share": r"(kv cache )?free gpu mem(ory)? fraction|cache max entry count",
}
"""Options with a number, by what they set: those of vLLM, SGLang, TensorRT-LLM and LMDeploy."""
_WHOLE = ("tokens", "sequences", "decode_steps", "context", "graph_context")
_OF_GRAPHS = r"cuda ?graph (?:config[.:\s{(\"']*(?:enable padding[\"']?\s*[=:]\s*\w+[,\s\"']*)?)?"
_GRAPHS = re.compile(
    rf"(?:{_OF_GRAPHS}max (?:bs|batch size)|max cuda ?graph capture size)[\"']?\s*[=:]?\s*(\d+)\b"
    rf"|(?:{_OF_GRAPHS}(?:bs|batch sizes|sizes)|cuda ?graph capture sizes)[\"']?\s*[=:]?\s*"
    r"[\[({]?\s*(\d+(?:[\s,]+\d+\b)*)"
)
"""Sizes of captured batches, the largest alone or all: SGLang's `--cuda-graph-max-bs` and `--cuda-graph-bs`, vLLM's
`--cuda-graph-sizes` (0.8.5 to 0.10), `cudagraph_capture_sizes` and `max_cudagraph_capture_size`, and of TensorRT-LLM
`cuda_graph_config` with `max_batch_size` or `batch_sizes`."""
_SWITCHES: Mapping[str, str] = {
    "cuts_prompts": r"(enable )?chunked prefill",
    "eager": r"(enforce eager|disable cuda graphs?|no cuda graphs?|cuda graphs? off|eager mode)",
}
LONGEST = 2000
"""Characters of options that are read."""
_OFF = r"( ?(=|:)? ?(false|off|0|no)\b)"
_CACHE = re.compile(r"kv cache d?type ?[=: ]? ?(fp8\w*|int8|int4|auto|bf16|fp16)")


class Options(Spec):
    """What a row tells its engine; None where it says nothing."""

    tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    """Of an iteration, at most."""
    sequences: int | None = Field(default=None, ge=1, le=10_000_000)
    """That run at once, at most."""
    decode_steps: int | None = Field(default=None, ge=1, le=10_000_000)
    """Decode iterations that are scheduled at once."""
    context: int | None = Field(default=None, ge=1, le=10_000_000)
    """Tokens of a prompt and its answer, at most."""
    graphs: int | None = Field(default=None, ge=1, le=10_000_000)
    """Sequences of the largest captured batch."""
    graph_context: int | None = Field(default=None, ge=1, le=10_000_000)
    """Tokens of the longest sequence in one."""
    memory_share: float | None = Field(default=None, gt=0, le=1)
    """Of the device's memory that weights, activations and cache take."""
    free_share: float | None = Field(default=None, gt=0, le=1)
    """Of what weights and activations leave."""
    cuts_prompts: bool | None = None
    """Whether prompts are cut."""
    eager: bool = False
    """Whether every kernel is launched by itself."""
    kv: str | None = None
    """Words on the format of keys and values."""


def options(words: str | None) -> Options:
    """Settings by the words of a row; those that make no sense are as if they were not there."""
    text = re.sub(r"[-_]+", " ", (words or "")[:LONGEST].lower())
    found: dict[str, Any] = {}
    if graphs := _GRAPHS.search(text):
        largest = max(map(int, re.findall(r"\d+", graphs[1] or graphs[2])))
        found |= {"graphs": largest} if 1 <= largest <= 1e7 else {}
        text = text[: graphs.start()] + text[graphs.end() :]
    for name, option in _NUMBERS.items():
        if stated := re.search(rf"(?:{option}) ?[=: ] ?(\d+(?:\.\d+)?)\b", text):
            value = float(stated.groups()[-1])
            whole = name in _WHOLE
            if value > 0 and ((whole and value == int(value) and value <= 1e7) or (not whole and value <= 1)):
                found[name] = int(value) if whole else value
    for name, option in _SWITCHES.items():
        if stated := re.search(rf"(?<!\w)(no |disable )?({option})(?! size){_OFF}?", text):
            denied = stated[0].startswith(("no chunked", "disable chunked")) or bool(re.search(rf"{_OFF}$", stated[0]))
            found[name] = not denied
    if cache := _CACHE.search(text):
        found["kv"] = cache[1]
    return Options.model_validate(found)
