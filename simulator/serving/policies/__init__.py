"""Batching policies by name, one file each: which prompts an iteration works on, and whether it decodes.

A policy takes a read-only view of a batch and returns a decision; it moves nothing itself.
"""

from simulator.serving.policies import (
    deadline,
    fair,
    guaranteed,
    orca,
    prefill_first,
    priority,
    sarathi,
    shortest_first,
    splitfuse,
    static,
    vllm_v0,
    vllm_v1,
    whole_prompts,
)
from simulator.serving.policies.base import POLICIES, Decision, Policy, Rules
from simulator.serving.policies.view import View

__all__ = ["POLICIES", "Decision", "Policy", "Rules", "View"]

_KNOWN = (
    deadline,
    fair,
    guaranteed,
    orca,
    prefill_first,
    priority,
    sarathi,
    shortest_first,
    splitfuse,
    static,
    vllm_v0,
    vllm_v1,
    whole_prompts,
)
