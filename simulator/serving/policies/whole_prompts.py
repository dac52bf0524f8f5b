"""vLLM's V1 scheduler without chunked prefill, as it runs models with an encoder: prompts join whole."""

from simulator.serving.policies.base import POLICIES
from simulator.serving.policies.vllm_v1 import VllmV1


@POLICIES.add("whole-prompts")
class WholePrompts(VllmV1):
    """As `vllm-v1`, but a prompt that has no room in what decodes leave of the budget waits."""

    chunked = False
    spans = True
