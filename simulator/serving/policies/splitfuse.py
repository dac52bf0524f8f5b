"""DeepSpeed-FastGen's Dynamic SplitFuse: every pass filled to the same number of tokens (arXiv:2401.08671)."""

from simulator.serving.policies.base import POLICIES
from simulator.serving.policies.vllm_v1 import VllmV1


@POLICIES.add("splitfuse")
class SplitFuse(VllmV1):
    """Running sequences first, then prompts: long ones cut, short ones put together to meet the budget exactly.

    The decisions are those of `vllm-v1`; what differs is memory: blocks of a whole prompt are taken at once.
    """

    reserve = "prompt"
