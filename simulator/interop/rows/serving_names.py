"""What the words of published serving rows stand for: accelerators, models, engines, number formats."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from simulator.interop.rows.accelerators import card
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.stated.formats import BLOCKS, known, of_name, stated
from simulator.interop.rows.words import Engine, vocabulary
from simulator.specs import data_root, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Lengths
from simulator.specs.serving import ServingStack

BLACKWELL = ("b200", "gb200", "b300", "gb300", "rtx-pro-6000", "rtx-pro-5000", "rtx-pro-5000-72gb", "rtx-5090")
"""Accelerators that engines know since early 2025."""
SINCE = {"tensorrt-llm": "0.17", "vllm": "0.8"}
"""First versions that know them (release notes of TensorRT-LLM 0.17; vLLM 0.8), by the newest stack of the engine."""
BEFORE = {
    "tensorrt-llm-0.5": "tensorrt-llm",
    "tensorrt-llm-0.8": "tensorrt-llm",
    "tensorrt-llm-0.9": "tensorrt-llm",
    "tensorrt-llm-0.12": "tensorrt-llm",
    "tensorrt-llm-triton": "tensorrt-llm",
    "vllm-0.2": "vllm",
    "vllm-0.5": "vllm",
    "vllm-v0": "vllm",
    "vllm-v0-rocm": "vllm",
    "vllm-v0-blocks": "vllm",
}
"""The newest stack of an engine by its older ones."""

ROCM_V0 = re.compile(r"^v?0\.(8|9\.[01])\b|2025-0(3-(1[89]|[23])|4|5|6-0)")
"""Versions, or days, of vLLM whose V1 engine was off by default on ROCm (vllm-project/vllm pull request 19440, of
2025-06-10, turns it on; before, `_is_v1_supported_oracle` fell back to V0 there)."""

CALLED = ("offline_throughput", "static_batch_throughput", "decode_throughput")
"""Kinds of rows whose engine is called from a program."""

VARIANT = re.compile(
    r"(-(instruct|chat|base|hf|it|pt|thinking|reasoning|code|terminus|exp|preview|kv|v0\.\d|2\d0[1-9]|2\d1[0-2]"
    r"|0[1-9][0-3]\d|1[0-2][0-3]\d|1m|\d{1,3}k|latest|sft|dpo|text|moe|quantized(\.w\d+a\d+)?|gguf|i?q[2-8](-[0-9k](-[sml])?|-xxs|-xs|-nl)?"
    r"|(fp8|nvfp4|fp4|mxfp4|mxfp8|int4|int8|w4a16|w8a8|w8a16|w4a8|awq|gptq|bf16|fp16|4bit|8bit|bnb|block|dynamic|static)(-v\d)?"
    r"|(17b-)?\d+e))+$"
)
"""Ends of names that say how a model was tuned or stored, and not its shape."""
LONGEST = 200
"""Characters of a name that are read."""
RELEASE = re.compile(r"-v\d+(\.\d+)*(?=-|$)")
"""Releases of a tuning (`vicuna-13b-v1.5`), which are tried last: of some names they are the model's own."""
CUT = re.compile(r"-(cut-to|reduced-to|with-mtp|proxy|\d+-layers?|truncated).*$")
"""Ends of names of models with fewer layers, which the row states, or with modules beside them."""
MAKERS = re.compile(r"^(meta-(?=llama|opt)|(nvidia|microsoft|google|mistralai|openai|ibm|facebook)-)")
"""Starts of names that say who made a model."""

VERSIONED = (
    *("tensorrt-llm", "tensorrt-llm-0.5", "tensorrt-llm-0.9"),
    *("vllm", "vllm-serve", "vllm-offline", "vllm-async", "vllm-0.2", "vllm-0.5", "vllm-v0"),
)
"""Stacks of engines that have several: which one a row without a version ran is assumed."""


@cache
def cluster(accelerator: str) -> Cluster:
    """The machine with an accelerator; raises Refused where no profile has it."""
    name, _ = card(accelerator)
    clusters = vocabulary().serving.clusters
    if name is None or name not in clusters:
        raise Refused(f"accelerator `{accelerator}`")
    return load_spec(Cluster, clusters[name])


@cache
def model(name: str) -> Model:
    """The model of a name; raises Refused where no profile stands for it."""
    models = vocabulary().serving.models
    if name in models:
        return load_spec(Model, models[name])
    shape = next((found for found in _shapes(name[:LONGEST]) if _is_profile(found)), None)
    if shape is None:
        raise Refused(f"model `{name}`")
    found, plain = load_spec(Model, shape), _plain(name[:LONGEST])
    tuned = next((one.tokens for one in vocabulary().serving.contexts if re.fullmatch(one.words, plain)), None)
    return found if tuned is None else found.model_copy(update={"max_sequence": tuned})


def _shapes(name: str) -> Iterator[str]:
    """Names of profiles that a model's name may mean: itself and what is alike, then those without what says how it was
    tuned or stored."""
    whole = CUT.sub("", MAKERS.sub("", _plain(name)))
    for shape in (whole, VARIANT.sub("", whole), VARIANT.sub("", RELEASE.sub("", whole))):
        yield shape
        for one in vocabulary().serving.alike:
            if found := re.fullmatch(one.words, shape):
                yield found.expand(one.name)


def _plain(name: str) -> str:
    """Small letters, with hyphens between the words, without the owner."""
    return re.sub(r"[ _:()]+", "-", name.rpartition("/")[2].lower()).strip("-")


def _is_profile(name: str) -> bool:
    return bool(re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,60}", name)) and _profile(name).is_file()


def _profile(name: str) -> Path:
    return data_root() / Model.folder / f"{name}.yaml"


def stack_name(engine: str, version: str | None) -> str:
    """The profile that an engine and its version belong to; raises Refused where there is none."""
    known_as = _engine(engine, version)
    if known_as is None or known_as.name is None:
        raise Refused(f"engine `{engine}`")
    return known_as.name


def on_device(stack_of: str, version: str | None, accelerator: str) -> str:
    """The stack, or on AMD's devices that of vLLM's V0 engine there, also where a release that had both took it."""
    old = stack_of == "vllm-v0" or (stack_of == "vllm" and ROCM_V0.search(version or ""))
    return "vllm-v0-rocm" if old and _amd(accelerator) else stack_of


def _amd(accelerator: str) -> bool:
    return (card(accelerator)[0] or "").startswith("mi")


def with_blocks(stack_of: str, model_name: str, precision: dict[str, Any], accelerator: str) -> str:
    """The stack, or where weights are in fp8 with a scale for each block the one with that engine's kernels for it."""
    words = stated(precision) or of_name(model_name) or "bf16"
    blocks = bool(BLOCKS.search(model_name)) and known(words)[0] == "fp8"
    if stack_of == "sglang-blocks" and blocks:
        return "sglang-blocks-rocm" if _amd(accelerator) else stack_of
    if stack_of == "sglang-blocks":
        return "sglang"
    if stack_of not in ("vllm-v0", "vllm-v0-rocm") or not blocks:
        return stack_of
    return "vllm-v0-blocks-rocm" if _amd(accelerator) else "vllm-v0-blocks"


def served(stack_of: str, kind: str, engine: str, version: str | None, model_name: str) -> str:
    """The stack of an engine behind its own server, or as workers of a pool, by that of its runs without one.

    TensorRT-LLM's server runs the PyTorch flow by default from 1.0 on, where it is asked for (`--backend pytorch`) and
    for DeepSeek's models before that too: their folder (examples/models/core/deepseek_v3) has no conversion to engines.
    """
    alone = kind == "online_serving"
    if stack_of == "tensorrt-llm-pytorch":
        asked = "pytorch" in engine.lower() or DEEPSEEK.search(model_name)
        flow = (version or "").startswith("1.") or asked
        return "tensorrt-llm-serve" if alone and flow else "tensorrt-llm"
    return "vllm-serve" if alone and stack_of == "vllm" else stack_of


def of_neuron(accelerator: str) -> bool:
    """Whether an accelerator is one of AWS's Neuron devices, for which engines have kernels of their own."""
    return (card(accelerator)[0] or "").startswith(("trainium", "inferentia"))


def with_flow(stack_of: str, model_name: str) -> str:
    """The stack, or TensorRT-LLM's PyTorch flow where its releases have nothing else for the model, for the reason that
    `served` gives. Engines of its preview branch are told by settings."""
    return "tensorrt-llm-pytorch" if stack_of == "tensorrt-llm" and DEEPSEEK.search(model_name) else stack_of


def called(stack_of: str, kind: str) -> str:
    """The stack, or that of vLLM's V1 engine called from a program."""
    return "vllm-offline" if stack_of == "vllm" and kind in CALLED else stack_of


def stands_in(engine: str, version: str | None) -> bool:
    """Whether the stack of an engine is that of another engine."""
    known_as = _engine(engine, version)
    return known_as is not None and known_as.stands_in


def captures(engine: str, version: str | None) -> bool:
    """Whether an engine runs captured graphs where its stack does."""
    known_as = _engine(engine, version)
    return known_as is None or known_as.captures


def _engine(engine: str, version: str | None) -> Engine | None:
    """The entry of an engine and its version, which its name may have in it."""
    said = re.search(r"\bv?(\d+\.\d+\S*)", engine)
    release = ((said[1] if said and not _dated(version) else version) or "").lower().strip().removeprefix("v")
    known = (one for one in vocabulary().serving.stacks if re.search(one.engine, _joined(engine)))
    return next((one for one in known if re.search(one.version, release)), None)


def _dated(version: str | None) -> bool:
    """Whether a version is one rather than missing or a day."""
    return bool(version) and not re.match(r"20\d\d-", version or "")


def _joined(engine: str) -> str:
    """Small letters, with hyphens wherever words are joined."""
    return re.sub(r"[\s_-]+", "-", engine.strip().lower()).replace("tensor-rt", "tensorrt")


def supporting(stack_of: str, accelerator: str, assumed: list[str]) -> str:
    """The stack, or the newest of its engine where it is older than the accelerator."""
    newest = BEFORE.get(stack_of)
    if newest is None or card(accelerator)[0] not in BLACKWELL:
        return stack_of
    assumed.append(f"engine version {SINCE[newest]} or later, the first that knows the accelerator")
    return newest


@cache
def stack(name: str) -> ServingStack:
    """A stack profile."""
    return load_spec(ServingStack, name)


@cache
def lengths(name: str) -> Lengths:
    """A distribution of lengths."""
    return load_spec(Lengths, name)


DEEPSEEK = re.compile(r"deepseek-(v3|r1)(?!-distill)", re.I)
"""Models of that shape."""
