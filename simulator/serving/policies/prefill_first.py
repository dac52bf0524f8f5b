"""Prompts first, cut to the budget, as SGLang does by default; the tokens of other requests wait meanwhile."""

from simulator.serving.policies.base import POLICIES
from simulator.serving.policies.vllm_v0 import VllmV0


@POLICIES.add("prefill-first")
class PrefillFirst(VllmV0):
    """As `vllm-v0`, but a prompt longer than the budget is cut over several iterations."""

    chunked = True
    spans = False
