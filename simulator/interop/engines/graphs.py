"""The largest batch that an engine captures a graph for, as its command says it: one number, or all sizes.

SGLang's are sequences of an attention rank, vLLM's rows of an iteration, TensorRT-LLM's sequences: what `stack.graphs`
of each counts.
"""

import json
import re
from collections.abc import Mapping

from simulator.interop.arguments import MOST, Argument, Arguments
from simulator.interop.draft import printable
from simulator.interop.engines.commands import VLLM
from simulator.interop.engines.names import NAMES

CONFIG = "compilation_config"
"""vLLM's JSON, whose other keys are not read."""
LONGEST = 20_000
"""Characters of sizes that are read."""


def largest_graph(own: Arguments, engine: str) -> int | None:
    """The largest captured batch of a command; None where it says none. Problems go to the draft."""
    said = [argument for name in NAMES[engine]["graphs"] if (argument := own.given(name)) is not None]
    if engine == VLLM:
        said += _of_json(own.found)
    sizes = [size for argument in said for size in _sizes(own, argument)]
    return max(sizes, default=None)


def _sizes(own: Arguments, argument: Argument) -> list[int]:
    """The sizes of an argument; none where there are no graphs."""
    words = re.findall(r"[^\s,\[\]\"']+", " ".join(argument.values)[:LONGEST])
    if not words or not all(map(_is_size, words)):
        text = printable(" ".join(argument.values)[:40])
        own.draft.wrong(f"{argument.shown} takes sizes of batches, not `{text}`", line=argument.line)
        return []
    sizes = [int(word) for word in words if int(word)]
    if not sizes:
        own.draft.left_out.append(f"{argument.shown} 0: whether graphs are captured is the stack's")
    return sizes


def _is_size(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 30 and int(word) <= MOST


def _of_json(found: Mapping[str, Argument]) -> list[Argument]:
    """Sizes in vLLM's `--compilation-config`; the argument stays among those that are left out."""
    argument = found.get(CONFIG)
    if argument is None or argument.doubt:
        return []
    try:
        config = json.loads(" ".join(argument.values)[:LONGEST])
    except (ValueError, RecursionError):
        return []  # a level alone, or what the shell made of it
    said = config if isinstance(config, dict) else {}
    keys = ("max_cudagraph_capture_size", "cudagraph_capture_sizes")
    return [Argument(key, (str(said[key]),), argument.line) for key in keys if said.get(key)]
