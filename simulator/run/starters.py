"""Scenarios to start from: they run as they are, and their comments name the keys that people change first."""

from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.results.writing import write

TRAINING = """\
# A training run to start from. It runs as it is: clustersim run {file}
# `clustersim explain {file}` shows every value with where it comes from; `clustersim profiles` lists what can be named.
version: 1
name: Llama 3 8B on two nodes of H100
cluster: {extends: clusters/dgx-h100, nodes: 2}   # `clustersim profiles clusters`; any key may be changed here
model: models/llama-3-8b                          # `clustersim profiles models`, or the path of a config.json
stack: megatron-core                              # the software: fsdp, nemo, megatron-lm-2022, deepspeed ...
training:
  global_batch: 128        # sequences of an optimizer step
  micro_batch: 1           # sequences that pass through a stage at once
  sequence_length: 8192    # tokens
  parallel:
    tp: 2                  # tensor parallelism: devices that share a layer
    pp: 2                  # pipeline stages
    # vpp: 2               # model chunks of each stage, for `schedule: interleaved-1f1b`
    # dp: 4                # replicas; devices / (tp x pp) where left out
    # zero: 1              # sharded over replicas: 0 nothing, 1 optimizer, 2 and gradients, 3 and parameters (FSDP)
    # sequence_parallel: true
  schedule: 1f1b           # gpipe, 1f1b, interleaved-1f1b, or a CSV file of your own
  recompute: none          # none, selective (attention scores), full (whole layers)
  # recompute_layers: 4    # with `full`: of each stage; all where left out
  # precision: fp8         # bf16, fp16, fp32, fp8, mxfp8, nvfp4, ...; the stack's where left out
  # tokens: 1e12           # of the whole run, for its time, energy and cost
  # steps: 100             # several steps, with
  # noise: {jitter: 2 %}   #   what makes them differ
# published:               # figures to compare with
#   - {metric: mfu, value: 40 %, source: "where it was published"}
"""

SERVING = """\
# A serving system to start from. It runs as it is: clustersim run {file}
# `clustersim explain {file}` shows every value with where it comes from; `clustersim profiles` lists what can be named.
version: 1
name: Llama 3.1 8B chat on one node of H100
cluster: {extends: clusters/dgx-h100, nodes: 1}   # `clustersim profiles clusters`; any key may be changed here
model: models/llama-3.1-8b                        # `clustersim profiles models`, or the path of a config.json
stack: vllm                                       # sglang, tensorrt-llm, tgi, llama.cpp ...
serving:
  replicas: 2              # copies of the model
  parallel: {tp: 1}        # devices of a copy; `pp` spreads its layers
  router: least-outstanding   # round-robin, random, shortest-queue, power-of-two, prefix-aware
  # batching: {policy: sarathi, token_budget: 2048, max_sequences: 256}   # the stack's where left out
  # kv_cache: {prefix_caching: block, memory_share: 0.9}
  # precision: {weights: fp8, activations: fp8, kv: fp8}
  # context: 16384         # longest prompt and answer together
requests:
  arrivals: {poisson: 8 /s}   # or gamma: {rate: 8 /s, burstiness: 0.5}, closed_loop: {clients: 64} ...
  lengths: azure-conversation # sharegpt, burstgpt ..., or {prompt: {fixed: 1024}, output: {fixed: 128}}
  count: 1000
  # trace: requests.csv       # recorded requests in place of `arrivals` and `lengths`
slo: {ttft: 1 s, tpot: 50 ms}    # what is promised to each request; goodput counts those that keep it
"""

STARTERS = {"training": TRAINING, "serving": SERVING}
"""Texts by kind of scenario; `{file}` is the name that the user gave."""


def starter(kind: str, file: str | None = None) -> str:
    """The text of a scenario of one of `STARTERS` that will be kept in `file`."""
    shown = file if file and file.isprintable() else "scenario.yaml"
    return STARTERS[kind].replace("{file}", shown)


def write_new(path: str, text: str, force: bool = False) -> None:
    """Write a text whole or not at all; InputError where a file is there already, unless `force`."""
    if not force and Path(path).exists():
        raise InputError(Problem("is there already", file=path, hint="write another name, or --force to replace it"))
    write(path, text)
