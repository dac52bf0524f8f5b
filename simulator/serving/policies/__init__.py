"""Batching policies by name, one file each: which prompts an iteration works on, and whether it decodes.

A policy takes a read-only view of a batch and returns a decision; it moves nothing itself.
"""

from simulator.serving.policies import (
    deadline,
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
)
from simulator.serving.policies.base import POLICIES, Policy, Rules

__all__ = ["POLICIES", "Policy", "Rules"]

_KNOWN = (
    deadline,
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
)
