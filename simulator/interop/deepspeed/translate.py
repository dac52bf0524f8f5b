"""A configuration of DeepSpeed (`ds_config.json`) as a scenario.

It says how states are sharded, in what formats and in which batches, and neither model nor sequence length: these are
given beside it. Keys and defaults are those of the DeepSpeed configuration reference (2025) and of
deepspeed/runtime/{config,constants}.py and deepspeed/runtime/zero/config.py of version 0.16.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from simulator import units
from simulator.errors import InputError, nearest
from simulator.interop.draft import Draft, printable
from simulator.interop.machine import Machine, place
from simulator.interop.settings import Settings
from simulator.specs.text.yaml_text import Node, compose

OWN = ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "gradient_accumulation_steps")
"""Keys by which such a file is recognised."""
OPTIMIZERS = {
    "adam": "adam",
    "adamw": "adam",
    "lion": "lion",
    "muon": "muon",
    "sgd": "sgd-momentum",
}
"""Ours by DeepSpeed's names, without case."""
FORMATS = {"fp32": "fp32", "fp16": "fp16", "bf16": "bf16"}
PLACES = {"cpu": "host", "nvme": "nvme"}
"""Tiers of memory by `offload_optimizer.device` and `offload_param.device`."""
LEFT_OUT = {
    "zero_optimization.zero_hpz_partition_size": "parameters are gathered from all ranks that share them",
    "zero_optimization.zero_quantized_weights": "parameters are gathered in the format that they are kept in",
    "zero_optimization.zero_quantized_gradients": "gradients are reduced in the format that they are kept in",
    "zero_optimization.mics_shard_size": "states are sharded over all data-parallel ranks",
    "zero_optimization.stage3_param_persistence_threshold": "small parameters are sharded as large ones are",
    "activation_checkpointing.cpu_checkpointing": "only with --set recompute=full, which is what it stands beside",
    "activation_checkpointing.partition_activations": "what is kept is not cut over tensor-parallel ranks",
    "activation_checkpointing.number_checkpoints": "--set recompute=full recomputes every layer",
    "sparse_attention.mode": "attention is causal and full",
    "compression_training.weight_quantization": "weights are not compressed",
    "progressive_layer_drop.enabled": "all layers run",
}
"""Keys with an effect that a scenario does not say."""
BUCKET = 500_000_000
"""Elements of a gradient bucket by default (zero/config.py, reduce_bucket_size)."""
TRAINER = "auto"
"""What Hugging Face's trainer fills in."""


def is_deepspeed(text: str) -> bool:
    """Whether a JSON text has the keys of a DeepSpeed configuration."""
    return any(f'"{key}"' in text for key in OWN)


def draft_of(text: str, file: str, machine: Machine, given: Mapping[str, str]) -> Draft:
    """The scenario that a configuration describes; its problems are in the draft.

    `given` sets dotted keys, `model`, `sequence_length`, `stack` and `recompute` among them. Raises InputError where
    it is no configuration, or where there is no such cluster.
    """
    draft = Draft(file, "configuration of DeepSpeed")
    settings = _read(text, file, draft, given)
    draft.put("version", 1)
    draft.put("name", f"{file.rpartition('/')[2]} (DeepSpeed)")
    tp = settings.whole("tensor_parallel.autotp_size", default=1)
    cp = settings.whole("sequence_parallel_size", default=1)
    dp = place(draft, machine, tp * cp, None, f"tp {tp} x cp {cp}") or 1
    stage = _stage(settings)
    _job(settings, stage)
    _batch(settings, dp)
    draft.put("training.parallel.tp", tp, settings.note("tensor_parallel.autotp_size"))
    if cp > 1:
        draft.put("training.parallel.cp", cp, settings.note("sequence_parallel_size"))
        draft.put("training.parallel.cp_kind", "ulysses", "DeepSpeed's sequence parallelism")
    draft.put("training.parallel.dp", dp, "devices / (tp x cp)")
    draft.put("training.parallel.zero", stage, settings.note("zero_optimization.stage", "zero_optimization"))
    _overlap(settings, stage, _formats(settings))
    _optimizer(settings)
    _offload(settings)
    settings.leave(LEFT_OUT, (False, None))
    return draft


def _read(text: str, file: str, draft: Draft, given: Mapping[str, str]) -> Settings:
    root = compose(text, file)
    if not isinstance(root.value, dict):
        raise InputError(root.place.problem("the file holds no mapping", hint="name a ds_config.json"))
    flat = list(_flat(root))
    lines = {key: line for key, _, line in flat}
    settings = Settings(draft, {key: value for key, value, _ in flat}, lines, "DeepSpeed")
    settings.set(given)
    for key, value in list(settings.values.items()):
        if value == TRAINER:
            del settings.values[key]
            if key in OWN:
                draft.ignored.append(f"{key}: auto (give it: --set {key}=...)")
    return settings


def _flat(root: Node, above: str = "", depth: int = 3) -> Iterator[tuple[str, Any, int]]:
    """(dotted key, value, line) of the scalars and lists of sections, down to those of `offload_param`."""
    for name, node in root.children().items():
        line = root.keys[name].line or 0
        if isinstance(node.value, dict) and depth > 1:
            yield from _flat(node, f"{above}{name}.", depth - 1)
        else:
            yield f"{above}{name}", None if isinstance(node.value, dict) else node.value, line


def _stage(settings: Settings) -> int:
    """The stage of ZeRO; an old configuration has `true` in place of the section, which is the first stage."""
    if settings.get("zero_optimization") is True:
        return 1
    value = settings.get("zero_optimization.stage")
    if value is not None and (isinstance(value, bool) or value not in (0, 1, 2, 3)):
        message = f"zero_optimization.stage is 0, 1, 2 or 3, not `{printable(str(value)[:40])}`"
        settings.wrong(message, "", "zero_optimization.stage")
        return 0
    return int(value or 0)


def _job(settings: Settings, stage: int) -> None:
    """What the file does not say: model, sequence length, software."""
    draft = settings.draft
    model, sequence = settings.get("model"), settings.get("sequence_length", "max_length", "seq_length")
    if model is None:
        draft.wrong("a configuration of DeepSpeed names no model", "give it: --set model=llama-3.1-8b")
    else:
        name = str(model)
        draft.put("model", name if "/" in name else f"models/{name}", settings.note("model"))
    if stack := settings.get("stack"):
        draft.put("stack", str(stack), settings.note("stack"))
    else:
        nearest_one = "fsdp" if stage == 3 else "pytorch-ddp"
        reason = "`deepspeed` is its version 0.3 of 2021, `megatron-deepspeed` BigScience's of 2022"
        draft.assume("stack", nearest_one, f"the nearest to today's; {reason}")
    if sequence is None:
        draft.wrong("a configuration of DeepSpeed says no sequence length", "give it: --set sequence_length=4096")
    else:
        length = settings.whole("sequence_length", "max_length", "seq_length", default=1)
        draft.put("training.sequence_length", length, settings.note("sequence_length", "max_length", "seq_length"))
    if recompute := settings.get("recompute"):
        draft.put("training.recompute", str(recompute), settings.note("recompute"))
    else:
        reason = "the program, not this file, switches checkpointing on; --set recompute=full does here"
        draft.assume("training.recompute", "none", reason)


def _batch(settings: Settings, dp: int) -> None:
    """Two of the three sizes give the third: batch = micro batch x accumulation x data-parallel ranks."""
    draft = settings.draft
    whole, micro, steps = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
    said = {key: settings.whole(key, default=0) for key in (whole, micro, steps)}
    if not said[whole] and not said[micro]:
        draft.wrong(f"neither {whole} nor {micro} is given", f"--set {micro}=1")
        return
    accumulated = said[steps] or (said[whole] // (said[micro] * dp) if said[whole] and said[micro] else 1)
    each = said[micro] or said[whole] // (accumulated * dp)
    batch = said[whole] or each * accumulated * dp
    if each * accumulated * dp != batch:
        message = f"{whole} {batch} is not {micro} {each} x {steps} {accumulated} x {dp} data-parallel ranks"
        settings.wrong(message, f"DeepSpeed asks for that; --set {whole}={max(each, 1) * accumulated * dp}", whole)
        return
    derived = f"{micro} x {steps} x dp: {each} x {accumulated} x {dp}"
    draft.put("training.global_batch", batch, settings.note(whole) if said[whole] else derived)
    draft.put("training.micro_batch", each, settings.note(micro) if said[micro] else f"batch / ({steps} x dp)")


def _formats(settings: Settings) -> str:
    """Write the number formats; that of gradients on the wire."""
    draft = settings.draft
    used = next((name for name in ("bf16", "fp16") if settings.get(f"{name}.enabled", name) is True), "fp32")
    draft.put("training.precision", used, settings.note(f"{used}.enabled", used))
    for key, ours in (
        ("data_types.grad_accum_dtype", "training.gradient_precision"),
        ("communication_data_type", "training.reduce_precision"),
    ):
        word = settings.get(key)
        if word is None:
            draft.put(
                ours, used if ours.endswith("reduce_precision") else None, "DeepSpeed's default: that of products"
            )
        elif word in FORMATS:
            draft.put(ours, FORMATS[word], settings.note(key))
        else:
            shown = printable(str(word)[:40])
            settings.wrong(f"{key} `{shown}` is not known", nearest(str(word), FORMATS), key)
    reduced = settings.values.get("communication_data_type")
    return str(reduced) if reduced in FORMATS else used


def _overlap(settings: Settings, stage: int, reduced: str) -> None:
    """Buckets and what runs beside the passes; ZeRO-3 overlaps by default."""
    draft = settings.draft
    overlap = settings.get("zero_optimization.overlap_comm")
    overlap = stage == 3 if overlap is None else overlap is True
    draft.put("training.overlap_gradients", overlap, settings.note("zero_optimization.overlap_comm"))
    if stage == 3:
        draft.put("training.overlap_parameters", overlap, settings.note("zero_optimization.overlap_comm"))
        return
    elements = settings.get("zero_optimization.reduce_bucket_size")
    size = int(elements) if isinstance(elements, int | float) and 0 < elements <= 1e15 else BUCKET
    if elements is not None and size != elements:
        key = "zero_optimization.reduce_bucket_size"
        settings.wrong(f"{key} is a number of elements, not `{printable(str(elements)[:40])}`", "such as 5e8", key)
    note = f"{size:,} elements: {settings.note('zero_optimization.reduce_bucket_size')}"
    draft.put("training.bucket_size", f"{size * (4 if reduced == 'fp32' else 2)} B", note)


def _optimizer(settings: Settings) -> None:
    """The optimizer; without one in the file it is the program's, Adam here."""
    name = settings.get("optimizer.type")
    if name is None:
        return
    known = OPTIMIZERS.get(str(name).lower())
    if known is None:
        hint = f"known: {', '.join(OPTIMIZERS)}; --set optimizer.type=adam takes another one"
        settings.wrong(f"optimizer.type `{printable(str(name)[:40])}` is not simulated", hint, "optimizer.type")
        return
    settings.draft.put("training.optimizer.name", known, settings.note("optimizer.type"))


def _offload(settings: Settings) -> None:
    """What lives on hosts or drives: optimizer states (all of them, or a `ratio`), parameters, checkpoints."""
    for section, ours in (("offload_optimizer", "optimizer"), ("offload_param", "parameters")):
        key = f"zero_optimization.{section}.device"
        word = settings.get(key)
        if word in (None, "none"):
            continue
        if word not in PLACES:
            settings.wrong(f"{key} `{printable(str(word)[:40])}` is not known", nearest(str(word), PLACES), key)
        settings.draft.put(f"training.offload.{ours}.to", PLACES.get(str(word)), settings.note(key))
        if ours == "optimizer":
            _subgroups(settings)
    if settings.get("zero_optimization.cpu_offload") is True:
        settings.draft.put("training.offload.optimizer.to", "host", settings.note("zero_optimization.cpu_offload"))
        _subgroups(settings)
    if (
        settings.values.get("recompute") == "full"
        and settings.get("activation_checkpointing.cpu_checkpointing") is True
    ):
        note = settings.note("activation_checkpointing.cpu_checkpointing")
        settings.draft.put("training.offload.activations.to", "host", note)


def _subgroups(settings: Settings) -> None:
    """How much of the optimizer's states lives elsewhere, and in what portions it is updated."""
    share, size = "zero_optimization.offload_optimizer.ratio", "zero_optimization.sub_group_size"
    for key, ours, most in ((share, "share", 1.0), (size, "subgroup", 1e15)):
        value = settings.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            given = printable(str(value)[:40])
            settings.wrong(f"{key} is a number above 0, at most {units.plain(most, 6)}, not `{given}`", "", key)
            continue
        settings.draft.put(
            f"training.offload.optimizer.{ours}", value if ours == "share" else int(value), settings.note(key)
        )
