"""The stack that runs a published training row: its framework's, of the release and the kernels that the row states."""

import re
from itertools import chain
from typing import TYPE_CHECKING

from simulator.interop.rows import accelerators
from simulator.interop.rows import training_names as names
from simulator.interop.rows.accelerators import plain
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.schedules import schedule
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
    r"(?<!\w)(own|custom|plain|vanilla|raw|hand ?written) (pytorch|torch)(?!\w)"
    r"|(pytorch|torch) (training )?(loop|script)s?(?!\w)"
)
"""Programs of one's own, which call PyTorch and nothing else."""


def family(framework: str | None, shard: str | None = None) -> Named | None:
    """The stack that a framework's name belongs to; None where none does."""
    known, text = _listed(framework), plain(framework or "")
    if known is not None or not _HOSTS.search(text):
        return known
    if shard:
        return _listed("ddp" if sharding(shard).zero == 0 else f"{framework} {shard}")
    alone = _listed("ddp") if _OWN.search(text) else None
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
}
"""Stacks of PyTorch whose blocks are compiled, by the eager one."""
EAGER = {"pytorch-ddp-compiled": "pytorch-ddp", "nanochat": "pytorch-ddp"}
"""Stacks of programs that compile unless a row says otherwise, and what they are without."""


def stack_name(row: "Row") -> str:
    """The profile of the stack that a row's framework belongs to; raises Refused where there is none."""
    name = _name(row)
    before_hopper = accelerators.profile(row.device, row.intra_node).startswith(("a100", "a800", "v100"))
    if name in GENERATIONS:
        found = generation(name, f"{row.framework} {row.source}")
        return BEFORE_HOPPER.get(found, found) if before_hopper else found
    if name == "megatron-deepspeed" and _is_later(row):
        return "megatron-deepspeed-2023"
    if name != "megatron-lm-2021":
        return name
    year = re.search(r"20[12]\d", row.source)
    if not before_hopper:
        return "megatron-core"  # what runs on later chips came after the cores were taken apart (2023)
    later = int(year.group()) > 2021 if year else bool(row.sequence_parallel) or row.recompute == "selective"
    later = later or bool(re.search(r"llama|baichuan|qwen|mistral", row.model.lower()))  # models of 2023 and after
    return "megatron-lm-2022" if later else name


def _name(row: "Row") -> str:
    """The stack of a row's framework, compiled or not, whatever its release."""
    known = family(row.framework, row.shard)
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
    """Whether a row of Megatron-DeepSpeed is of 2023 and after: FlashAttention, or a chip that came with it."""
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


def with_gradients(stack: Stack, name: str, precision: str, assumed: list[str]) -> Stack:
    """The stack with gradients as it keeps them at a precision."""
    size = 4 if precision in ("fp32", "tf32") else GRADIENTS.get((name, precision), stack.gradient_bytes)
    if size == stack.gradient_bytes:
        return stack
    assumed.append(f"gradients in {8 * size} bits, as the framework keeps them with {precision}")
    return stack.model_copy(update={"gradient_bytes": size, "reduce_bytes": size})


_PURE = re.compile(
    r"(?<!\w)(?<!no )(?<!not )((pure|true|fully) (bf ?16|bfloat ?16)|(bf ?16|bfloat ?16) (pure|master)"
    r"|(loaded|model|weights?|masters?( weights?)?)( is| are)?( kept| stored| loaded)? in (torch\.)?(bf ?16|bfloat ?16)"
    r"|(torch|weight) dtype ?=? ?(torch\.)?bfloat16)(?!\w)"
)
_WIDE = re.compile(
    r"(?<!\w)(fp32|float32) (master|main|weights?|optim\w*|states?)|masters?( weights?)? in (fp32|float32)"
)
_NO_MASTER = re.compile(r"(?<!\w)(no|without|w o) (fp32 )?master (weights?|cop(y|ies)|param\w*)")
PURE = (
    *("fsdp", "fsdp-eager", "fsdp-compiled", "fsdp2", "kempnerforge", "kempnerforge-compiled"),
    *("transformers", "transformers-fsdp", "pytorch-ddp", "pytorch-ddp-compiled", "maxtext"),
)
"""Stacks whose optimizer works on parameters in whatever format they were made; those of Megatron and DeepSpeed keep
copies in fp32 of parameters in 16 bits."""


def pure(row: "Row") -> bool:
    """Whether a row says that parameters are in bf16 and no copy in fp32 is kept; then all that an optimizer of
    PyTorch or Optax makes of them, gradients and moments, is in bf16 too (`torch.zeros_like(p)`)."""
    said = " ; ".join(plain(text or "") for text in (row.precision, row.flags, row.notes))
    return stack_name(row) in PURE and bool(_PURE.search(said)) and not _WIDE.search(said)


def stack(row: "Row", precision: str, assumed: list[str]) -> Stack:
    """The stack of a row with what its words say of kernels, of copies of parameters and of formats."""
    name = stack_name(row)
    found = with_gradients(load_spec(Stack, name), name, precision, assumed)
    if pure(row):
        assumed.append("parameters, gradients and moments in bf16, as the row says of parameters")
        sixteen = {"master_weights": False, "fp32_parameters": False, "gradient_bytes": 2, "reduce_bytes": 2}
        found = found.model_copy(update=sixteen)
    if _NO_MASTER.search(plain(row.flags or "")):
        found = found.model_copy(update={"master_weights": False})
    if kernel := names.attention_kernel(row.attention, row.flags):
        found = found.model_copy(update={"attention_kernel": kernel})
    if names.fused_layers(row.framework, row.flags):
        found = found.model_copy(update={"fused_norms": True})
    if family(row.framework, row.shard).stands_in:  # type: ignore[union-attr]  # or its name were refused
        assumed.append(f"framework `{row.framework}` as {name}, the most like it")
    return found


def moments(row: "Row") -> dict[str, str] | None:
    """The optimizer as the words of a row have it; None for Adam with moments in fp32."""
    said = optimizer(row.shard, row.flags)
    return {"name": "adam", "moments": "bf16"} if said is None and pure(row) else said


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
