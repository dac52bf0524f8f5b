"""The stack that runs a published training row: its framework's, of the release and the kernels that the row states."""

import re
from itertools import chain
from typing import TYPE_CHECKING

from simulator.interop.rows import accelerators
from simulator.interop.rows import training_names as names
from simulator.interop.rows.accelerators import plain
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.schedules import schedule
from simulator.interop.rows.stated import kernels
from simulator.interop.rows.stated.sharding import optimizer, sharding
from simulator.interop.rows.words import Named, vocabulary
from simulator.specs import load_spec
from simulator.specs.training import Stack

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row


GENERATIONS = {"megatron-core": ("megatron-core-0.8",), "nemo": ("nemo-2023", "nemo-2024")}
"""Stacks of earlier releases, by the stack of the family."""
BEFORE_HOPPER = {"nemo-2023": "megatron-lm-2022", "megatron-core-0.8": "megatron-core"}
"""Stacks of rows on earlier chips, by what their release has on Hopper. Transformer Engine came with Hopper: NeMo of
2022 and 2023 ran Megatron-LM's own layers; kernels of Hopper's first years are slow, those of Ampere were settled."""
LATER = {"megatron-deepspeed": "megatron-deepspeed-2023", "deepspeed": "transformers-deepspeed"}
"""Stacks of rows of 2023 and after, by those of DeepSpeed's first years, whose ZeRO-3 fetched tensor by tensor."""
_RELEASES = (
    (re.compile(r"mlperf training v?(\d+\.\d+)"), (("3.1", 0),)),
    (re.compile(r"nemo v?(2\d\.\d\d)"), (("23.12", 0), ("24.07", 1))),
    (re.compile(r"nemo (20\d\d)"), (("2023", 0),)),
    (re.compile(r"(?<!\w)core r?v?(0\.\d+)"), (("0.8", 0),)),
)
"""Releases as rows say them (MLPerf Training, containers of NeMo, Megatron-Core), with the last one of each earlier
stack of the family."""


def generation(family: str, words: str) -> str:
    """The stack of a family that words state a release of, or name a document of; the family's own where they state
    the present one, several that differ, or none."""
    text = re.sub(r"[-_/\s]+", " ", words.lower())
    text = " ".join([text, *(one.name for one in vocabulary().training.releases if re.search(one.words, text))])
    found = [(said[1], last) for pattern, last in _RELEASES if (said := pattern.search(text))]
    stacks = {next((i for end, i in last if _release(said) <= _release(end)), None) for said, last in found}
    known, index = GENERATIONS.get(family, ()), next(iter(stacks), None)
    return known[index] if len(stacks) == 1 and index is not None and index < len(known) else family


def _release(version: str) -> tuple[int, ...]:
    """A version as numbers."""
    return tuple(map(int, version.split(".")))


_HOSTS = re.compile(
    r"(?<!\w)(pytorch|torch|accelerate|hugging ?face|hf|transformers|lightning|trainer|unsloth|xtuner|modalities|verl)"
    r"(?!\w)"
)
"""Frameworks under which the sharding decides what runs."""


_OWN = re.compile(
    r"(?<!\w)(own|custom|plain|vanilla|raw|hand ?written) (pytorch|torch|(training )?code|cuda kernels)(?!\w)"
    r"|(pytorch|torch) (training )?(loop|script)s?(?!\w)"
)
"""Programs of one's own, which call PyTorch and nothing else."""
_BARE = re.compile(r"(pytorch|torch)(?!\w)")
"""The start of what names PyTorch before anything else."""


def family(framework: str | None, shard: str | None = None, copied: bool = False) -> Named | None:
    """The stack that a framework's name belongs to; None where none does. `copied` says that each device holds a model
    as far as sizes of parallelism tell."""
    known, text = _listed(framework), plain(framework or "")
    if known is not None or not _HOSTS.search(text):
        return known
    if shard:
        return _listed("ddp" if sharding(shard).zero == 0 else f"{framework} {shard}")
    alone = _listed("ddp") if _OWN.search(text) or (copied and _BARE.match(text)) else None
    return alone and alone.model_copy(update={"stands_in": True})


def _listed(framework: str | None) -> Named | None:
    """The first entry of the vocabulary whose words a framework's name has."""
    text = re.sub(r"([a-z])\.(?=\s|$)", r"\1", plain(framework or "").replace("megatron lm core", "megatron core"))
    stacks = vocabulary().training.stacks
    return next((known for known in stacks if re.search(rf"(?<!\w)({known.words})(?!\w)", text)), None)


_UNCOMPILED = re.compile(r"(no|not|without|w o) (torch\.?compil\w*|compil\w*)|torch\.?compile ?= ?(false|off|0)")
_EAGER = re.compile(r"(?<!\w)(?<!implementation=)(?<!implementation )eager(?!ly)(?! att)(?!\w)")
"""Words of a model that runs as it is written; of attention the same word means something else."""


def compiled(*texts: str | None) -> bool:
    """Whether the words of a row say that PyTorch compiles the model."""
    said = " ; ".join(_UNCOMPILED.sub(" ", plain(text or "")) for text in texts)
    return bool(re.search(r"(?<![a-z])(torch\.? ?compil\w*|inductor|thunder)(?![a-z])", said))


def eager(*texts: str | None) -> bool:
    """Whether the words of a row say that PyTorch does not compile the model."""
    said = " ; ".join(plain(text or "") for text in texts)
    return not compiled(*texts) and bool(_UNCOMPILED.search(said) or _EAGER.search(said))


COMPILED = {
    "fsdp": "fsdp-compiled",
    "fsdp-eager": "fsdp-compiled",
    "kempnerforge": "kempnerforge-compiled",
    "pytorch-ddp": "pytorch-ddp-compiled",
    "pytorch-ddp-eager": "pytorch-ddp-compiled",
}
"""Stacks of PyTorch whose blocks are compiled, by the eager one."""
EAGER = {"pytorch-ddp-compiled": "pytorch-ddp-eager", "nanochat": "pytorch-ddp-eager"}
"""Stacks of programs that compile unless a row says otherwise, and what they are without."""


def adapters(row: "Row") -> str:
    """Words of what the framework of a row adapts unless it is told otherwise; empty where that is not known."""
    text, known = plain(row.framework or ""), vocabulary().training.adapters
    return next((one.name for one in known if re.search(rf"(?<!\w)({one.words})(?!\w)", text)), "")


def stack_name(row: "Row") -> str:
    """The profile of the stack that a row's framework belongs to; raises Refused where there is none."""
    name = _name(row)
    before_hopper = accelerators.profile(row.device, row.intra_node).startswith(("a100", "a800", "v100"))
    if name in GENERATIONS:
        found = generation(name, f"{row.framework} {row.source}")
        return BEFORE_HOPPER.get(found, found) if before_hopper else found
    if name in LATER and _is_later(row) and "deepspeed" in plain(row.framework or ""):
        return LATER[name]
    if name != "megatron-lm-2021":
        return name
    year = re.search(r"20[12]\d", row.source)
    if not before_hopper:
        return "megatron-core"  # what runs on later chips came after the cores were taken apart (2023)
    later = int(year.group()) > 2021 if year else bool(row.sequence_parallel) or row.recompute == "selective"
    later = later or bool(re.search(r"llama|baichuan|qwen|mistral", row.model.lower()))  # models of 2023 and after
    return "megatron-lm-2022" if later else name


def _copied(row: "Row") -> bool:
    """Whether each device of a row holds a model as far as it says: there is one, or all are data-parallel ranks."""
    return row.devices == 1 or (row.dp == row.devices and not row.ep)


def _name(row: "Row") -> str:
    """The stack of a row's framework, compiled or not, whatever its release."""
    known = family(row.framework, row.shard, _copied(row))
    if known is None:
        raise Refused(f"framework `{row.framework}`")
    if known.name == "nemo" and by_user(row):
        return "megatron-core"
    if compiled(row.framework, row.flags):
        return COMPILED.get(known.name, known.name)
    return EAGER.get(known.name, known.name) if eager(row.framework, row.flags) else known.name


_BRIDGE = re.compile(r"(?<!\w)megatron ?bridge(?!\w)")
_BENCHMARKS = re.compile(
    r"^megatron bridge ;|(?<!\w)(performance summar\w+|perf(ormance)? (recipes?|benchmarks?)|pretrain performance"
    r"|scripts performance|dgxc benchmarking|nvidia\w*( \w+)? (recipes?|benchmarks?)|mlperf\w*|training results"
    r"|nemo container)(?!\w)"
)
"""Words of NVIDIA's published benchmarks of Megatron-Bridge, which name the container of their release in the table."""


def by_user(row: "Row") -> bool:
    """Whether a row is of a run of its author's own with Megatron-Bridge, and not of NVIDIA's benchmarks of it.

    Recipes of the library set what Megatron-Core has by default: gradients summed and reduced in fp32, rows sent by
    all-to-all exchanges, no virtual stages (NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/recipes, of Qwen3-30B-A3B
    at 3594df9: `grad_reduce_in_fp32=True`, no `comm_overlap`; from 2026 on those of mixtures send rows by DeepEP or
    HybridEP, which a row has to say); those of `scripts/performance` set all of that.
    """
    said = " ; ".join(plain(str(text or "")) for text in (row.source, row.table, row.url, row.flags))
    return bool(_BRIDGE.search(plain(row.framework or ""))) and not _BENCHMARKS.search(said)


def _is_later(row: "Row") -> bool:
    """Whether a row of DeepSpeed is of 2023 and after: FlashAttention, or a chip that came with it."""
    older = accelerators.profile(row.device, row.intra_node).startswith(("a100", "a800", "v100", "mi250"))
    return not older or names.attention(row.attention, row.framework, row.flags) == "fused"


GRADIENTS = {
    ("megatron-lm-2021", "bf16"): 4,
    ("megatron-deepspeed", "bf16"): 4,
    ("megatron-core", "fp16"): 2,
    ("megatron-core-0.8", "fp16"): 2,
}
"""Bytes of a gradient as kept and reduced where they differ from the stack's: Megatron accumulates and reduces in fp32
where it trains in bf16, else in the format of the parameters (NVIDIA/Megatron-LM arguments.py,
`accumulate_allreduce_grads_in_fp32`; bigscience-workshop/Megatron-DeepSpeed, BF16_Optimizer)."""


def shards_bf16(row: "Row") -> bool:
    """Whether a row trains in bf16 by DeepSpeed, whose BF16_Optimizer gives each data-parallel rank its part of fp32
    parameters and moments without ZeRO too (deepspeedai/DeepSpeed deepspeed/runtime/bf16_optimizer.py)."""
    return "deepspeed" in plain(row.framework or "") and names.numbers(row.precision).precision == "bf16"


def with_gradients(stack: Stack, name: str, precision: str, assumed: list[str]) -> Stack:
    """The stack with gradients as it keeps them at a precision."""
    size = 4 if precision in ("fp32", "tf32") else GRADIENTS.get((name, precision), stack.gradient_bytes)
    if size == stack.gradient_bytes:
        return stack
    assumed.append(f"gradients in {8 * size} bits, as the framework keeps them with {precision}")
    return stack.model_copy(update={"gradient_bytes": size, "reduce_bytes": size})


_SIXTEEN = r"((bf|fp) ?16|b?float ?16)"
_PURE = re.compile(
    rf"(?<!\w)(?<!no )(?<!not )((pure|true|fully) {_SIXTEEN}|{_SIXTEEN} (pure|master)"
    rf"|(loaded|model|weights?|masters?( weights?)?)( is| are)?( kept| stored| loaded)? in (torch\.)?{_SIXTEEN}"
    rf"|{_SIXTEEN} (weights?|param\w*)( and)? (no|without) (mixed( precision)?|amp|autocast)"
    rf"|(torch|weight) dtype ?=? ?(torch\.)?{_SIXTEEN})(?!\w)"
)
_WIDE = re.compile(
    r"(?<!\w)(fp32|float32) (master|main|weights?|optim\w*|states?)|masters?( weights?)? in (fp32|float32)"
)
_NO_MASTER = re.compile(r"(?<!\w)(no|without|w o) (fp32 )?master (weights?|cop(y|ies)|param\w*)")
PURE = (
    *("fsdp", "fsdp-eager", "fsdp-compiled", "fsdp2", "kempnerforge", "kempnerforge-compiled"),
    *("transformers", "transformers-fsdp", "pytorch-ddp", "pytorch-ddp-eager", "pytorch-ddp-compiled", "maxtext"),
    *("picotron", "jax"),
)
"""Stacks whose optimizer works on parameters in whatever format they were made; those of Megatron and DeepSpeed keep
copies in fp32 of parameters in 16 bits."""


def pure(row: "Row") -> bool:
    """Whether a row says that parameters are in 16 bits and no copy in fp32 is kept; then all that an optimizer of
    PyTorch or Optax makes of them, gradients and moments, is in 16 bits too (`torch.zeros_like(p)`)."""
    said = " ; ".join(plain(text or "") for text in (row.precision, row.flags, row.notes))
    return stack_name(row) in PURE and bool(_PURE.search(said)) and not _WIDE.search(said)


def stack(row: "Row", precision: str, assumed: list[str]) -> Stack:
    """The stack of a row with what its words say of kernels, of copies of parameters and of formats."""
    name = stack_name(row)
    found = with_gradients(load_spec(Stack, name), name, precision, assumed)
    if pure(row):
        assumed.append("parameters, gradients and moments in 16 bits, as the row says of parameters")
        sixteen = {"master_weights": False, "fp32_parameters": False, "gradient_bytes": 2, "reduce_bytes": 2}
        found = found.model_copy(update=sixteen)
    if _NO_MASTER.search(plain(row.flags or "")):
        found = found.model_copy(update={"master_weights": False})
    if kernel := names.attention_kernel(row.attention, row.flags):
        found = found.model_copy(update={"attention_kernel": kernel})
    if names.fused_layers(row.framework, row.flags):
        found = found.model_copy(update={"fused_norms": True})
    if kernels.fused_loss(row.framework, row.flags):
        found = found.model_copy(update={"fused_loss": True, "fp32_logits": False})
    if kernels.fused_optimizer(row.framework, row.flags, row.notes):
        found = found.model_copy(update={"foreach_optimizer": False})
    if family(row.framework, row.shard, _copied(row)).stands_in:  # type: ignore[union-attr]  # or its name were refused
        assumed.append(f"framework `{row.framework}` as {name}, the most like it")
    return found


def moments(row: "Row") -> dict[str, str] | None:
    """The optimizer as the words of a row have it; None for Adam with moments in fp32."""
    said, name = optimizer(row.shard, row.flags), stack_name(row)
    return {"name": "adam", "moments": "bf16"} if said is None and (pure(row) or name == "picotron") else said


_PLAIN_STAGES = re.compile(
    r"(?<!\w)((no|without|w o|not) (vpp|virtual (pipeline\w*|stages?)|interleav\w*)|non ?interleaved"
    r"|(library|default|stock) recipes?)(?!\w)"
)
_INTERLEAVED_RECIPES = re.compile(r"(?<![a-z])(llama ?3(\.\d)? (70b|405b)|nemotron.*340b|gpt ?3 175b)")
"""Models whose recipes in the library of Megatron-Bridge have virtual stages."""


def may_interleave(row: "Row") -> bool:
    """Whether stages may hold several chunks: pipelines of Megatron whose schedule is not said to be the plain one, but
    in runs of Megatron-Bridge whose recipe has no virtual stages."""
    if (row.pp or 1) == 1 or stack_name(row) not in INTERLEAVED:
        return False
    named = schedule(row.schedule, row.pp or 1)
    return named == "interleaved-1f1b" or (named is None and not _says_plain(row) and not of_library(row))


def _says_plain(row: "Row") -> bool:
    """Whether free words say that stages are single chunks."""
    return any(_PLAIN_STAGES.search(plain(text or "")) for text in (row.framework, row.flags, row.notes))


def of_library(row: "Row") -> bool:
    """Whether a row's own run of Megatron-Bridge starts from a recipe without virtual stages, as most are
    (`virtual_pipeline_model_parallel_size = None` of all of Qwen's)."""
    return by_user(row) and not _INTERLEAVED_RECIPES.search(plain(row.model))


INTERLEAVED = (
    "megatron-lm-2021",
    "megatron-lm-2022",
    *GENERATIONS,
    *chain.from_iterable(GENERATIONS.values()),
)
"""Stacks that have the interleaved schedule."""
