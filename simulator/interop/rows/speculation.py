"""Speculation of published serving rows, whose authors say what drafts and never what is accepted.

The draft length is that of the recipe's name (`mtp3`), or of the benchmark's scripts (InferenceX, single-node scripts
of DeepSeek-R1 with `mtp` in their name, history to 2026-05-05): three tokens under TensorRT-LLM, one with attention in
data parallel; two under SGLang. The acceptance is an assumption, the same for every row: the first token 81 to 82.3 %
on DeepSeek-R1 (vLLM pull request 12755); later ones so that seven drafted tokens give 3.2 a step, as was measured of
the module as published (Hugging Face nebius/MTP-DeepSeek-V3-0324, temperature 0).
"""

import re
from typing import TYPE_CHECKING

from simulator.interop.rows.jsonl import Refused
from simulator.specs.speculation import Speculation

if TYPE_CHECKING:
    from simulator.interop.rows.serving import ServingRow

FIRST, LATER = 0.82, 0.64
"""Acceptance of the first drafted token, and of each after it where those before it were accepted."""
SOURCE = "vllm-project/vllm pull request 12755; Hugging Face nebius/MTP-DeepSeek-V3-0324"
SCRIPTED = ((r"tensorrt", 3), (r"sglang", 2))
"""Draft length by words of the engine."""
WITH_RANKS = 1
"""Draft length of TensorRT-LLM with attention in data parallel."""


def speculation(row: "ServingRow", assumed: list[str]) -> Speculation | None:
    """How a row drafts; None where it does not. Raises Refused where it does not say enough."""
    if row.spec_decoding in (None, "none"):
        return None
    if row.spec_decoding != "mtp":
        raise Refused(f"speculative decoding `{row.spec_decoding}`")
    length = _length(row, assumed)
    rates = (FIRST, *(LATER,) * (length - 1))
    said = ", ".join(f"{100 * rate:.0f} %" for rate in rates)
    assumed.append(f"drafted tokens are accepted with {said}, as published of DeepSeek's module, not of the row")
    return Speculation(kind="mtp", draft_length=length, acceptance=rates, source=SOURCE)


def _length(row: "ServingRow", assumed: list[str]) -> int:
    """Tokens that are drafted for a sequence."""
    if said := re.search(r"mtp(\d)(?!\d)", row.recipe or ""):
        return int(said[1])
    length = next((tokens for words, tokens in SCRIPTED if re.search(words, row.engine.lower())), None)
    if length is None:
        raise Refused("how many tokens are drafted is not stated")
    if "tensorrt" in row.engine.lower() and _ranks(row) > 1:
        length = WITH_RANKS
    assumed.append(f"draft length {length}, as in the benchmark's scripts")
    return length


def _ranks(row: "ServingRow") -> int:
    """Ranks that hold whole requests, of the engine that decodes."""
    own = (row.parallelism or {}).get("decode", row.parallelism or {})
    found = own.get("attention_dp") if isinstance(own, dict) else None
    return found if isinstance(found, int) else 1
