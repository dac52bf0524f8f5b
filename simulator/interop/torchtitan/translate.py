"""Job files of torchtitan (TOML) as a scenario.

Keys and defaults are those of torchtitan, torchtitan/config/job_config.py (2025), and of its older versions where they
mean the same. A flavor is a row of the table in torchtitan/models/NAME/__init__.py; the shapes are those of the
published models, so the models that are shipped stand for them.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from simulator.errors import InputError, Problem, nearest
from simulator.interop.draft import Draft, printable
from simulator.interop.machine import Machine, Said, place
from simulator.interop.settings import Settings
from simulator.interop.torchtitan import experts, optimizers

FLAVORS = {
    "llama3": {"8B": "llama-3.1-8b", "70B": "llama-3.1-70b", "405B": "llama-3.1-405b"},
    "llama2": {"7B": "llama-2-7b", "13B": "llama-2-13b", "70B": "llama-2-70b"},
    "qwen3": {
        "0.6B": "qwen3-0.6b",
        "1.7B": "qwen3-1.7b",
        "4B": "qwen3-4b",
        "8B": "qwen3-8b",
        "14B": "qwen3-14b",
        "32B": "qwen3-32b",
        **experts.FLAVORS["qwen3"],
    },
    **{family: flavors for family, flavors in experts.FLAVORS.items() if family != "qwen3"},
}
"""Shipped model of each flavor of each family (torchtitan/models/*/__init__.py: dim, n_layers, n_heads, n_kv_heads,
ffn_dim_multiplier, multiple_of)."""

SCHEDULES = {
    "1F1B": "1f1b",
    "GPipe": "gpipe",
    "Interleaved1F1B": "interleaved-1f1b",
    "LoopedBFS": "breadth-first",
    "InterleavedZeroBubble": "zb-h1",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipev",
}
IN_A_V = ("ZBVZeroBubble", "DualPipeV")
LOOPED = ("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", *IN_A_V)
CONTEXT = {"allgather": "all-gather", "alltoall": "zigzag"}
"""Kinds of context parallelism by `context_parallel_rotate_method`; `alltoall` passes keys on rank by rank."""
RECOMPUTE = {"none": "none", "selective": "selective", "full": "full"}
LEFT_OUT = {
    "training.enable_cpu_offload": "see training.offload; parameters and optimizer stay on the device",
    "parallelism.fsdp_reshard_after_forward": "the default is taken",
    "parallelism.disable_loss_parallel": "the output head is cut over tensor-parallel ranks",
}
"""Keys with an effect that a scenario cannot say."""
COMPILE = ("compile.enable", "training.compile")
"""Keys by which blocks are compiled, older ones last."""
_SECTION = re.compile(r"\s*\[([\w.\s\"']+)\]")
_KEY = re.compile(r"\s*([\w-]+)\s*=")


def draft_of(text: str, file: str, machine: Machine, given: Mapping[str, str]) -> Draft:
    """The scenario that a job file describes; its problems are in the draft.

    `given` sets dotted keys. Raises InputError where it is no TOML or no job of torchtitan, or where there is no such
    cluster.
    """
    draft = Draft(file, "job of torchtitan")
    settings = _read(text, file, draft, given)
    if not any(key.startswith(("model.", "training.")) for key in settings.values):
        hint = "a job file has [model] and [training]; say what it is: --format megatron"
        raise InputError(Problem("no job of torchtitan was found", file, hint=hint))
    described = settings.get("job.description")
    title = described if isinstance(described, str) and described.strip() else file.rpartition("/")[2]
    draft.put("version", 1)
    draft.put("name", f"{title} (torchtitan)")
    _refuse(settings)
    tp = settings.whole(*_degree("tensor"), default=1)
    pp = settings.whole(*_degree("pipeline"), default=1)
    cp = settings.whole(*_degree("context"), default=1)
    dp = _place(settings, machine, tp, pp, cp)
    layers = _model(settings)
    stack = "fsdp-compiled" if settings.get(*COMPILE) is True else "fsdp-eager"
    draft.assume("stack", stack, "PyTorch FSDP2, compiled where the job is; `clustersim profiles stacks` lists others")
    _batch(settings, pp, dp)
    _layout(settings, tp, pp, dp, cp)
    _experts(settings, layers, tp, cp, dp)
    _overlap(settings, tp)
    _memory(settings, layers, _schedule(settings, pp, layers))
    _numbers(settings)
    name, early = settings.get("optimizer.name"), settings.get("optimizer.early_step_in_backward") is True
    optimizers.optimizer(draft, name, early, settings.note("optimizer.name"), settings.lines.get("optimizer.name"))
    settings.leave(LEFT_OUT, (False, "default"))
    return draft


def _read(text: str, file: str, draft: Draft, given: Mapping[str, str]) -> Settings:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(Problem(f"no TOML: {error}", file, hint="is the file complete?")) from None
    except RecursionError:
        raise InputError(Problem("no TOML: values are nested too deep", file, hint="is the file complete?")) from None
    except ValueError:  # an integer that Python does not read
        found = max(re.finditer(r"[\d_]+", text), key=lambda one: len(one[0]))
        line = text.count("\n", 0, found.start()) + 1
        raise InputError(Problem(f"a number of {len(found[0])} digits is too long", file, line)) from None
    values = dict(_flat(tree))
    settings = Settings(draft, values, {key: line for key, line in _lines(text) if key in values}, "torchtitan")
    settings.set(given)
    return settings


def _flat(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values by dotted key; what lies deeper than tables are nested in job files stays together."""
    for name, value in tree.items():
        if not isinstance(value, dict):
            yield name, value
        for inner, entry in value.items() if isinstance(value, dict) else ():
            yield f"{name}.{inner}", entry


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """(dotted key, line) of the keys of the tables."""
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _SECTION.match(line)) is not None:
            section = match[1].strip() + "."
        elif (match := _KEY.match(line)) is not None:
            yield section + match[1], number


def _degree(axis: str) -> tuple[str, ...]:
    """Keys of the size of an axis, older ones last."""
    return tuple(f"{section}.{axis}_parallel_degree" for section in ("parallelism", "training", "experimental"))


def _refuse(settings: Settings) -> None:
    for key in ("experimental.pipeline_parallel_split_points", "parallelism.pipeline_parallel_split_points"):
        if settings.get(key):
            settings.wrong(f"{key} is not read", "write training.stages by hand", key)
    if settings.get("parallelism.pipeline_parallel_schedule_csv"):
        hint = "name the file in training.schedule by hand"
        settings.wrong("a schedule as CSV is not read along", hint, "parallelism.pipeline_parallel_schedule_csv")


def _place(settings: Settings, machine: Machine, tp: int, pp: int, cp: int) -> int:
    """The data-parallel size; the file's where it gives one."""
    replicas = settings.whole(*_replicate(), default=1)
    shards = settings.whole(*_shard(), default=-1, least=-1)
    said = None
    if shards > 0 or (replicas > 1 and shards != -1):
        world = replicas * max(shards, 1) * tp * pp * cp
        said = Said(world, f"dp {replicas * max(shards, 1)} x {_product(tp, pp, cp)}", exact=True)
    block = tp * pp * cp * (replicas if shards == -1 else 1)
    named = _product(tp, pp, cp) + (f" x {replicas} replicas" if replicas > 1 and shards == -1 else "")
    dp = place(settings.draft, machine, block, said, named)
    if dp is None:
        return 1
    dp *= replicas if shards == -1 else 1
    if said is not None and dp != replicas * max(shards, 1):
        message = (
            f"data_parallel_replicate_degree {replicas} x data_parallel_shard_degree {shards} is not the {dp} of the"
        )
        hint = f"--set {settings.key(*_shard())}=-1 derives it, or leave out --nodes"
        settings.wrong(f"{message} devices", hint, *_shard())
    return dp


def _product(tp: int, pp: int, cp: int) -> str:
    return f"tp {tp} x pp {pp}" + (f" x cp {cp}" if cp > 1 else "")


def _context(settings: Settings, cp: int) -> None:
    """How sequences are cut over devices: PyTorch gathers keys and values, or passes them around."""
    keys = "parallelism.context_parallel_rotate_method", "experimental.context_parallel_rotate_method"
    word = str(settings.get(*keys) or "allgather")
    if cp == 1:
        return
    settings.draft.put("training.parallel.cp", cp, settings.note(*_degree("context")))
    if word not in CONTEXT:
        settings.wrong(f"context_parallel_rotate_method `{printable(word[:60])}` is not known", "", *keys)
    settings.draft.put("training.parallel.cp_kind", CONTEXT.get(word), settings.note(*keys))


def _shard() -> tuple[str, ...]:
    return (
        "parallelism.data_parallel_shard_degree",
        "training.data_parallel_shard_degree",
        "training.data_parallel_degree",
    )


def _replicate() -> tuple[str, ...]:
    return "parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree"


def _model(settings: Settings) -> str:
    """Write the model's name and return it."""
    draft = settings.draft
    family, flavor = str(settings.get("model.name") or ""), str(settings.get("model.flavor") or "")
    known = FLAVORS.get(family)
    if known is None:
        settings.wrong(f"the model `{printable(family[:60])}` is not known", nearest(family, FLAVORS), "model.name")
    elif flavor not in known:
        hint = nearest(flavor, known) or f"known: {', '.join(known)}"
        hint += "; --set model.flavor=... takes another one"
        settings.wrong(f"the flavor `{printable(flavor[:60])}` of {family} is not known", hint, "model.flavor")
    else:
        note = f"{family}, flavor {flavor} (torchtitan/models/{family}/__init__.py)"
        draft.put("model", f"models/{known[flavor]}", note)
        return known[flavor]
    return ""


def _batch(settings: Settings, pp: int, dp: int) -> None:
    """Batch sizes."""
    draft = settings.draft
    local = settings.whole("training.local_batch_size", "training.batch_size", default=8)
    batch = settings.whole("training.global_batch_size", default=-1, least=-1)
    split = settings.whole(
        "parallelism.pipeline_parallel_microbatch_size", "experimental.pipeline_parallel_microbatch_size", default=1
    )
    local_note = settings.note("training.local_batch_size", "training.batch_size")
    older = settings.get("experimental.pipeline_parallel_microbatches")
    if pp > 1 and isinstance(older, int) and 1 <= older <= local:
        split = local // older
    micro = split if pp > 1 else local
    if batch == -1:
        draft.put("training.global_batch", local * dp, f"{local} ({local_note}) x dp {dp}: no global_batch_size")
    else:
        draft.put("training.global_batch", batch, settings.note("training.global_batch_size"))
        if pp > 1 and batch > local * dp:
            draft.left_out.append("gradient accumulation: the pipeline does not drain between local batches")
    if pp > 1:
        draft.put("training.micro_batch", micro, settings.note("parallelism.pipeline_parallel_microbatch_size"))
    else:
        draft.put("training.micro_batch", micro, local_note)
    sequence = settings.whole("training.seq_len", default=2048)
    draft.put("training.sequence_length", sequence, settings.note("training.seq_len"))
    steps = settings.whole("training.steps", default=10_000)
    tokens = float(steps * sequence * (batch if batch > 0 else local * dp))
    draft.put("training.tokens", tokens, f"of the whole run: {settings.note('training.steps')}")


def _layout(settings: Settings, tp: int, pp: int, dp: int, cp: int) -> None:
    draft = settings.draft
    replicas = settings.whole(*_replicate(), default=1)
    draft.put("training.parallel.tp", tp, settings.note(*_degree("tensor")))
    draft.put("training.parallel.pp", pp, settings.note(*_degree("pipeline")))
    draft.put("training.parallel.dp", dp, f"replicated x sharded: devices / ({_product(tp, pp, cp)})")
    _context(settings, cp)
    if tp > 1:
        draft.put("training.parallel.sequence_parallel", True, "torchtitan's tensor parallelism always cuts sequences")
    if dp // replicas > 1 and dp > 1:
        zero = 2 if pp > 1 else 3
        reason = (
            "FSDP keeps parameters between forward and backward pass where there is a pipeline" if pp > 1 else "FSDP"
        )
        draft.put("training.parallel.zero", zero, f"{reason}: {settings.note(*_shard())}")
        if replicas > 1:
            draft.put("training.parallel.shard_size", dp // replicas, settings.note(*_replicate()))
    elif dp > 1:
        draft.put("training.parallel.zero", 0, f"replicated only: {settings.note(*_replicate())}")


def _overlap(settings: Settings, tp: int) -> None:
    keys = [f"{section}.enable_async_tensor_parallel" for section in ("parallelism", "experimental")]
    if settings.get(*keys) and tp > 1:
        settings.draft.put("training.overlap_tensor", "steps", settings.note(*keys))


def _experts(settings: Settings, model: str, tp: int, cp: int, dp: int) -> None:
    """The mesh of the experts, the dispatcher of rows, and how a flavor differs from the shipped model."""
    ep = settings.whole(*_degree("expert"), default=1)
    etp = settings.whole(*_degree("expert_tensor"), default=1)
    backend = str(settings.get("parallelism.expert_parallel_comm_backend") or "standard")
    if not model or model not in experts.MIXTURES:
        return
    flavor, sequence = str(settings.get("model.flavor")), settings.whole("training.seq_len", default=2048)
    if (differs := experts.unlike(flavor, model, sequence)) is not None:
        settings.draft.left_out.append(differs)
    shards = dp // settings.whole(*_replicate(), default=1)
    cut = experts.mesh(ep, etp, tp)
    if (wrong := experts.unfit(ep, etp, tp, cp, shards)) is not None:
        settings.wrong(*wrong, *_degree("expert"))
    if backend not in experts.BACKENDS:
        message = f"expert_parallel_comm_backend `{printable(backend[:40])}` is not known"
        settings.wrong(message, nearest(backend, experts.BACKENDS), "parallelism.expert_parallel_comm_backend")
    settings.draft.put("training.parallel.ep", ep, settings.note(*_degree("expert")))
    settings.draft.put("training.parallel.etp", cut, settings.note(*_degree("expert_tensor")))
    note = settings.note("parallelism.expert_parallel_comm_backend")
    settings.draft.put("training.dispatcher", experts.BACKENDS.get(backend), note)


def _schedule(settings: Settings, pp: int, model: str) -> int:
    """The schedule, and the layers of each stage where they differ; returns the number of stages (model chunks)."""
    draft = settings.draft
    keys = "parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"
    word = str(settings.get(*keys) or "1F1B")
    first = settings.whole("parallelism.pipeline_parallel_first_stage_less_layers", default=1, least=0)
    last = settings.whole("parallelism.pipeline_parallel_last_stage_less_layers", default=1, least=0)
    each = settings.whole("parallelism.pipeline_parallel_layers_per_stage", default=-1, least=-1)
    if pp == 1:
        return pp
    folded = {name.casefold(): name for name in SCHEDULES}
    if word.casefold() not in folded:
        hint = f"write it as CSV and name the file in training.schedule; {nearest(word, SCHEDULES)}"
        settings.wrong(f"the schedule `{printable(word[:60])}` is not simulated by name", hint, *keys)
        return pp
    word = folded[word.casefold()]
    layers = layers_of(model)
    if layers is None:
        return pp
    stages = pp * (2 if word in LOOPED else 1)
    if each > 0:
        stages = ceil((layers + first + last) / each)
    if stages % pp or (word not in LOOPED and stages != pp) or (word in IN_A_V and stages != 2 * pp):
        message = f"{layers} layers in stages of {each} are {stages} stages, which {pp} ranks cannot share under {word}"
        settings.wrong(message, "", "parallelism.pipeline_parallel_layers_per_stage")
        return pp
    if stages > pp:
        draft.put("training.parallel.vpp", stages // pp, f"{stages} stages on {pp} ranks, {word}")
    draft.put("training.schedule", SCHEDULES[word], settings.note(*keys))
    sizes = split(layers, stages, first, last)
    if min(sizes) < 0:
        settings.wrong(
            f"{layers} layers do not make {stages} stages", "choose a smaller pipeline", *_degree("pipeline")
        )
    elif len(set(sizes)) > 1:
        note = f"first stage {first} and last stage {last} layers fewer, as torchtitan splits"
        draft.put("training.stages", sizes, note)
    return stages


def layers_of(model: str) -> int | None:
    """Layers of a shipped model; None where there is no name."""
    if not model:
        return None
    from simulator.specs import load_spec
    from simulator.specs.model import Model

    return load_spec(Model, f"models/{model}").layers


def split(layers: int, stages: int, first: int, last: int) -> list[int]:
    """Layers of each stage: embedding and head count as `first` and `last` layers, the first stages get what is over.

    Source: torchtitan, torchtitan/distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part.
    """
    share, over = divmod(layers + first + last, stages)
    sizes = [share + (stage < over) for stage in range(stages)]
    sizes[0] -= first
    sizes[-1] -= last
    return sizes


def _memory(settings: Settings, model: str, stages: int) -> None:
    """Activation checkpointing; `stages` are the model's chunks over all ranks."""
    draft = settings.draft
    mode = str(settings.get("activation_checkpoint.mode") or "selective")
    option = str(settings.get("activation_checkpoint.selective_ac_option") or "2")
    note = settings.note("activation_checkpoint.mode")
    if mode not in RECOMPUTE:
        hint = f"known: {', '.join(RECOMPUTE)}"
        settings.wrong(
            f"activation_checkpoint.mode `{printable(mode[:40])}` is not simulated", hint, "activation_checkpoint.mode"
        )
    elif mode == "selective" and option.isdigit() and len(option) < 6 and int(option) > 0:
        every = int(option)
        layers = (layers_of(model) or every) // stages
        if every > 1 and layers // every:
            draft.put("training.recompute", "full", f"every {every}. layer: selective_ac_option {option}")
            draft.put("training.recompute_layers", layers // every, f"of the {layers} layers of a stage")
        else:
            draft.put("training.recompute", "full" if every == 1 else "none", f"selective_ac_option {option}")
    else:
        draft.put("training.recompute", "full" if mode == "selective" else RECOMPUTE[mode], note)
        if mode == "selective":
            origin = settings.note("activation_checkpoint.selective_ac_option")
            draft.put("training.recompute_keeps", ["every-second-product", "attention", "reductions"], origin)
            shapes = settings.get("activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns")
            if shapes not in (None, [], ["moe.router.gate"]):
                draft.left_out.append(
                    "per_op_sac_force_recompute_mm_shapes_by_fqns: only `moe.router.gate`, the default"
                )


def _numbers(settings: Settings) -> None:
    """Number formats."""
    draft = settings.draft
    converters = settings.get("model.converters")
    words = converters if isinstance(converters, list) else str(converters or "").split(",")
    eight = any("float8" in str(word) for word in words)
    older = settings.get("float8.enable_float8_linear", "float8.enable_float8") is True
    if eight or older:
        origin = settings.note("model.converters", "float8.enable_float8_linear")
        named = settings.get("quantize.linear.float8.recipe_name", "float8.recipe_name")
        rows = str(named or "").startswith("rowwise")  # else torchao finds the largest values of each tensor anew
        draft.put("training.precision", "fp8-rowwise" if rows else "fp8-current", origin)
        return
    word = str(settings.get("training.mixed_precision_param") or "bfloat16")
    formats = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
    if word not in formats:
        settings.wrong(f"mixed_precision_param `{printable(word[:40])}` is not known", nearest(word, formats))
        return
    draft.put("training.precision", formats[word], settings.note("training.mixed_precision_param"))
    reduced = str(settings.get("training.mixed_precision_reduce") or "float32")
    draft.put("training.reduce_precision", formats.get(reduced), settings.note("training.mixed_precision_reduce"))
