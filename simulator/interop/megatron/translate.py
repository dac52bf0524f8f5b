"""Arguments of Megatron-LM's training programs as a scenario.

Names, defaults and what they imply are those of Megatron-LM, megatron/training/arguments.py (core 0.6 to 0.12): a gated
MLP is 8/3 hidden wide unless said otherwise, vocabularies are padded to a multiple of 128 tp, without `--bf16` or
`--fp16` everything is fp32. Those of older versions and of Megatron-DeepSpeed that mean the same are known too.
"""

from collections.abc import Mapping
from math import ceil

from simulator.interop.arguments import Arguments, typed
from simulator.interop.draft import Draft, printable
from simulator.interop.machine import Machine, Said, place
from simulator.interop.megatron import experts, graphs, optimizers, schedules
from simulator.interop.megatron.files import read_arguments
from simulator.interop.megatron.windows import windows

NEEDED = frozenset({"num_layers", "hidden_size", "encoder_num_layers"})
"""Without one of these it is no model."""

_TELLING = """
num_attention_heads seq_length seq_len encoder_seq_length max_position_embeddings micro_batch_size
global_batch_size tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size cp_comm_type
expert_model_parallel_size num_layers_per_virtual_pipeline_stage num_virtual_stages_per_pipeline_rank
virtual_pipeline_model_parallel_size ffn_hidden_size num_query_groups group_query_attention kv_channels swiglu
vocab_size padded_vocab_size make_vocab_size_divisible_by sequence_parallel use_distributed_optimizer bf16 fp16
fp8_format recompute_granularity recompute_method recompute_num_layers recompute_activations num_experts nnodes
num_nodes nproc_per_node train_iters train_samples disable_bias_linear untie_embeddings_and_output_weights
normalization position_embedding_type overlap_grad_reduce overlap_param_gather attention_backend
"""
KNOWN = NEEDED | frozenset(_TELLING.split())
"""Names that tell Megatron's command from others, and that a user may set."""

REFUSED = {
    "hybrid_override_pattern": "layers that are not all attention are not modelled",
    "is_hybrid_model": "layers that are not all attention are not modelled",
    "decoder_num_layers": "models with an encoder are not modelled",
    "pipeline_model_parallel_layout": "a written-out pipeline layout is not read",
}
"""Arguments that make it another job than can be simulated."""

LATENT = (
    ("kv_lora_rank", "kv_lora_rank", 32),
    ("qk_head_dim", "qk_nope_head_dim", 128),
    ("qk_pos_emb_head_dim", "qk_rope_head_dim", 64),
    ("v_head_dim", "v_head_dim", 128),
)
"""Arguments of latent attention, the model's fields, and Megatron's defaults."""

LEFT_OUT = {
    "overlap_param_gather_with_optimizer_step": "see training.optimizer.layerwise; Megatron gathers the first chunk so",
    "rampup_batch_size": "the batch is the full one from the first step on",
    "squared_relu": "the activation counts as GeLU does",
    "cpu_offloading": "see training.offload.activations",
    "main_params_dtype": "copies of the parameters count as the stack keeps them",
    "optimizer_cpu_offload": "see training.offload.optimizer; the optimizer runs on the device",
    "attention_dropout": "whether dropout runs is the stack's",
    "hidden_dropout": "whether dropout runs is the stack's",
    "add_qkv_bias": "biases of query, key and value alone are not simulated",
    "qk_layernorm": "normalised queries and keys are not simulated",
}
"""Arguments with an effect that a scenario cannot say."""

TOKENIZERS = {
    "GPT2BPETokenizer": (50_257, "the GPT-2 vocabulary"),
    "Llama2Tokenizer": (32_000, "the Llama 2 vocabulary"),
    "Llama3Tokenizer": (128_256, "the Llama 3 vocabulary"),
    "BertWordPieceLowerCase": (30_522, "the BERT vocabulary"),
}
"""Entries of the vocabulary that a tokenizer brings (sizes as their authors publish them)."""

POSITIONS = {
    "learned_absolute": "learned",
    "rope": "rotary",
    "yarn": "rotary",
    "mrope": "rotary",
    "alibi": "alibi",
    "none": "none",
}
NORMS = {"LayerNorm": "layernorm", "layernorm": "layernorm", "RMSNorm": "rmsnorm", "rmsnorm": "rmsnorm"}
ATTENTION = {"flash": "fused", "fused": "fused", "auto": "", "unfused": "unfused", "local": "unfused"}
SHARDING = {"no_shard": "0", "optim": "1", "optim_grads": "2", "optim_grads_params": "3"}
CONTEXT = {"p2p": "zigzag", "all_gather": "all-gather", "a2a": "ulysses", "a2a+p2p": "usp"}
"""Kinds of context parallelism by `--cp-comm-type`."""
MOST_SAMPLES = 10**15
"""Sequences of the longest run."""
_DIVISIBLE = 128


def draft_of(text: str, file: str, machine: Machine, given: Mapping[str, str]) -> Draft:
    """The scenario that the arguments in a text describe; its problems are in the draft.

    `given` sets shell variables and arguments. Raises InputError where there are no arguments in it, or no such
    cluster.
    """
    draft = Draft(file, "arguments of Megatron-LM")
    found = read_arguments(text, file, given, KNOWN, NEEDED)
    arguments = Arguments(draft, found)
    draft.put("version", 1)
    draft.put("name", f"{file.rpartition('/')[2].partition('.')[0]} (Megatron-LM)")
    _refuse(arguments)
    tp = arguments.whole("tensor_model_parallel_size", "model_parallel_size") or 1
    pp = arguments.whole("pipeline_model_parallel_size") or 1
    cp = arguments.whole("context_parallel_size") or 1
    dp = place(draft, machine, tp * pp * cp, _said(arguments), _product(tp, pp, cp))
    layers = _model(arguments, tp)
    _stack(arguments)
    _batch(arguments, dp or 1)
    _layout(arguments, tp, pp, dp or 1, layers)
    _memory(arguments)
    _numbers(arguments)
    optimizers.optimizer(arguments)
    experts.sending(arguments)
    graphs.captured(arguments)
    for argument in arguments.rest():
        reason = LEFT_OUT.get(argument.name)
        if reason and not argument.doubt:
            draft.left_out.append(f"{argument.shown}: {reason}")
        else:
            draft.ignore(argument.name, argument.shown, arguments.asked | LEFT_OUT.keys(), typed)
    return draft


def _refuse(arguments: Arguments) -> None:
    for name, reason in REFUSED.items():
        if name in arguments.found and (argument := arguments.given(name)) and arguments.on(name):
            hint = "write the scenario by hand: clustersim init"
            arguments.draft.wrong(f"{argument.shown}: {reason}", hint, argument.line)


def _said(arguments: Arguments) -> Said | None:
    """The world size that the launcher's arguments or the file state."""
    if "world_size" in arguments.found and (world := arguments.whole("world_size")):
        return Said(world, arguments.note("world_size"))
    names = ("nnodes", "num_nodes"), ("nproc_per_node", "devices")
    doubtful = [name for row in names for name in row if name in arguments.found and arguments.found[name].doubt]
    if doubtful:
        arguments.taken.update(doubtful)
        return None
    per_node = arguments.found.get("nproc_per_node") or arguments.found.get("devices")
    if per_node is None or not (per_node.values and per_node.values[0].isdigit()):
        arguments.taken.update(("nproc_per_node", "devices", *names[0]))
        return None
    nodes, each = arguments.whole(*names[0]) or 1, arguments.whole(*names[1])
    return Said(nodes * each, f"{nodes} x {each}, line {per_node.line}") if each else None


def _model(arguments: Arguments, tp: int) -> int:
    """The model's shape; returns its layers."""
    draft, note = arguments.draft, arguments.note
    draft.put("model.name", draft.settings["name"].value)
    layers = _required(arguments, "model.layers", "num_layers", "encoder_num_layers")
    hidden = _required(arguments, "model.hidden", "hidden_size")
    _required(arguments, "model.heads", "num_attention_heads")
    groups = arguments.whole("num_query_groups")
    if arguments.on("group_query_attention") or (groups and "group_query_attention" not in arguments.found):
        draft.put("model.kv_heads", groups or 1, note("num_query_groups", "group_query_attention"))
    elif groups:
        draft.ignored.append("--num-query-groups (without --group-query-attention)")
    draft.put("model.head_dim", arguments.whole("kv_channels"), note("kv_channels"))
    gates = ("swiglu", "geglu", "quick_geglu", "gated_linear_unit", "glu_activation")
    gated = sum(arguments.on(name) for name in gates) > 0
    ffn = arguments.whole("ffn_hidden_size")
    if ffn is None and gated and hidden:
        ffn = max(int(4 * hidden * 2 / 3) // 64 * 64, 64)
        draft.put("model.ffn", ffn, "8/3 hidden in multiples of 64, Megatron's default of a gated MLP")
    else:
        draft.put("model.ffn", ffn, note("ffn_hidden_size"))
    draft.put("model.gated_ffn", gated, note(*gates) or "no --swiglu")
    if arguments.on("multi_latent_attention"):
        _latent(arguments)
    windows(arguments, layers or 1)
    experts.mixture(arguments, layers or 1)
    if arguments.text("mtp_num_layers") not in (None, "0"):
        draft.put("model.mtp_layers", arguments.whole("mtp_num_layers"), note("mtp_num_layers"))
    _embedding(arguments, tp)
    _kind(arguments)
    return layers or 1


def _latent(arguments: Arguments) -> None:
    """Sizes of latent attention, with Megatron's defaults."""
    arguments.draft.put("model.attention", "mla", arguments.note("multi_latent_attention"))
    arguments.draft.put("model.q_lora_rank", arguments.whole("q_lora_rank"), arguments.note("q_lora_rank"))
    for name, field, default in LATENT:
        given = arguments.whole(name)
        note = arguments.note(name) if given else "Megatron's default"
        arguments.draft.put(f"model.{field}", given or default, note)


def _required(arguments: Arguments, key: str, *names: str) -> int | None:
    value = arguments.whole(*names)
    if value is None and not any(name in arguments.found for name in names):
        shown = f"--{names[0].replace('_', '-')}"
        arguments.draft.wrong(f"{shown} is missing", f"give it: --set {shown.lstrip('-')}=NUMBER")
    arguments.draft.put(key, value, arguments.note(*names))
    return value


def _embedding(arguments: Arguments, tp: int) -> None:
    """The vocabulary, padded as Megatron pads it."""
    draft = arguments.draft
    padded = arguments.whole("padded_vocab_size")
    step = (arguments.whole("make_vocab_size_divisible_by") or _DIVISIBLE) * tp
    size, origin = arguments.whole("vocab_size"), arguments.note("vocab_size")
    tokenizer = arguments.text("tokenizer_type")
    if size is None and padded is None:
        name = tokenizer or ("GPT2BPETokenizer" if "merge_file" in arguments.found else "")
        size, what = TOKENIZERS.get(name, (None, ""))
        if size is None:
            draft.wrong(
                "the size of the vocabulary is not among the arguments, for it is the tokenizer's",
                "give it: --set vocab-size=NUMBER",
            )
            return
        origin = what + (f", {arguments.note('tokenizer_type')}" if tokenizer else " (a file of merges is given)")
        draft.assumed.append(f"model.vocabulary: {size} entries ({origin})")
    if padded is not None:
        draft.put("model.vocabulary", padded, arguments.note("padded_vocab_size"))
    elif size is not None:
        draft.put("model.vocabulary", ceil(size / step) * step, f"{size} ({origin}), padded to a multiple of {step}")


def _kind(arguments: Arguments) -> None:
    """Positions, normalisation, biases, ties."""
    draft, note = arguments.draft, arguments.note
    position = arguments.choice(POSITIONS, "position_embedding_type")
    rotary = arguments.on("use_rotary_position_embeddings")
    origin = note("position_embedding_type", "use_rotary_position_embeddings")
    draft.put("model.position", "rotary" if rotary else position or "learned", origin or "Megatron's default")
    draft.put("model.norm", arguments.choice(NORMS, "normalization") or "layernorm", note("normalization") or "default")
    biased = not arguments.on("disable_bias_linear") and not arguments.off("add_bias_linear")
    draft.put("model.biases", biased, note("disable_bias_linear", "add_bias_linear") or "no --disable-bias-linear")
    untied = arguments.on("untie_embeddings_and_output_weights")
    untied = untied or arguments.off("share_embeddings_and_output_weights")
    tied_note = note("untie_embeddings_and_output_weights", "share_embeddings_and_output_weights")
    draft.put("model.tied_embeddings", not untied, tied_note or "no --untie-embeddings-and-output-weights")
    longest = arguments.whole("max_position_embeddings")
    draft.put("model.max_sequence", longest, note("max_position_embeddings"))


def _stack(arguments: Arguments) -> None:
    """The software profile: by the age of the arguments."""
    draft = arguments.draft
    old = {"checkpoint_activations", "activations_checkpoint_method", "DDP_impl", "checkpoint_num_layers"}
    if "deepspeed" in arguments.found:
        draft.assume("stack", "megatron-deepspeed", "--deepspeed is among the arguments")
    elif old & set(arguments.found):
        draft.assume("stack", "megatron-lm-2021", "its arguments are of that age")
    else:
        draft.assume("stack", "megatron-core", "`clustersim profiles stacks` lists others, such as megatron-lm-2022")


def _batch(arguments: Arguments, dp: int) -> None:
    draft, note = arguments.draft, arguments.note
    micro = arguments.whole("micro_batch_size")
    batch = arguments.whole("global_batch_size")
    if batch is None:
        reason = "micro batch x dp, Megatron's default"
        draft.assume("training.global_batch", (micro or 1) * dp, reason)
    else:
        draft.put("training.global_batch", batch, note("global_batch_size"))
    if micro is None:
        draft.assume("training.micro_batch", 1, "--micro-batch-size is missing")
    else:
        draft.put("training.micro_batch", micro, note("micro_batch_size"))
    sequence = _required(arguments, "training.sequence_length", "seq_length", "encoder_seq_length", "seq_len")
    steps, samples = arguments.whole("train_iters"), arguments.whole("train_samples", most=MOST_SAMPLES)
    sequences = samples or (steps or 0) * (batch or (micro or 1) * dp)
    if sequences and sequence:
        draft.put(
            "training.tokens", float(sequences * sequence), f"of the whole run: {note('train_samples', 'train_iters')}"
        )


def _layout(arguments: Arguments, tp: int, pp: int, dp: int, layers: int) -> None:
    draft, note = arguments.draft, arguments.note
    draft.put("training.parallel.tp", tp, note("tensor_model_parallel_size", "model_parallel_size") or "default")
    draft.put("training.parallel.pp", pp, note("pipeline_model_parallel_size") or "default")
    asked = schedules.asked_for(arguments) if pp > 1 else None
    vpp = 2 if asked in schedules.IN_A_V.values() else _chunks(arguments, pp, layers)
    if vpp > 1:
        names = "num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size", *schedules.NAMES
        draft.put("training.parallel.vpp", vpp, note("num_layers_per_virtual_pipeline_stage", *names))
    cp = arguments.whole("context_parallel_size") or 1
    draft.put("training.parallel.dp", dp, f"devices / ({_product(tp, pp, cp)})")
    _context(arguments, cp)
    experts.mesh(arguments, tp)
    if tp > 1:
        spread = arguments.on("sequence_parallel")
        draft.put("training.parallel.sequence_parallel", spread, note("sequence_parallel") or "no --sequence-parallel")
    zero = _zero(arguments)
    schedule = asked or ("interleaved-1f1b" if vpp > 1 else "1f1b")
    plain = "Megatron's schedule" + (" of several chunks a rank" if vpp > 1 else "")
    draft.put("training.schedule", schedule, note(*schedules.NAMES) if asked else plain)
    if schedule == "seq1f1b":
        draft.put("training.slices", schedules.slices(arguments), note(schedules.SPLITS))
    _stages(arguments, pp, vpp, layers)
    if zero < 3 and dp > 1:
        overlaps = (
            ("training.overlap_gradients", "overlap_grad_reduce"),
            ("training.overlap_parameters", "overlap_param_gather"),
        )
        for key, name in overlaps[: 2 if zero else 1]:
            shown = f"no --{name.replace('_', '-')}"
            draft.put(key, arguments.on(name), note(name) or shown)
    if arguments.on("tp_comm_overlap") and tp > 1:
        draft.put("training.overlap_tensor", "all", note("tp_comm_overlap"))
    if pp > 1:
        beside = vpp > 1 and not arguments.on("no_overlap_p2p_communication")
        draft.put("training.overlap_pipeline", beside, "Megatron overlaps sends of interleaved schedules only")
        if arguments.on("no_scatter_gather_tensors_in_pipeline"):
            draft.put("training.scatter_gather", False, note("no_scatter_gather_tensors_in_pipeline"))


def _product(tp: int, pp: int, cp: int) -> str:
    return f"tp {tp} x pp {pp}" + (f" x cp {cp}" if cp > 1 else "")


def _context(arguments: Arguments, cp: int) -> None:
    """How sequences are cut over devices."""
    names = "context_parallel_size", "cp_comm_type", "hierarchical_context_parallel_sizes"
    if cp == 1:
        arguments.taken.update(names)
        return
    draft, note = arguments.draft, arguments.note
    draft.put("training.parallel.cp", cp, note("context_parallel_size"))
    kind = arguments.choice(CONTEXT, "cp_comm_type")
    draft.put("training.parallel.cp_kind", kind or "zigzag", note("cp_comm_type") or "p2p, Megatron's default")
    if kind == "usp":
        heads = arguments.whole("hierarchical_context_parallel_sizes")
        draft.put("training.parallel.ulysses", heads, note("hierarchical_context_parallel_sizes"))


def _chunks(arguments: Arguments, pp: int, layers: int) -> int:
    """Model chunks a rank."""
    stages = arguments.whole("num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size")
    each = arguments.whole("num_layers_per_virtual_pipeline_stage")
    if pp == 1 or each is None:
        return stages or 1 if pp > 1 else 1
    if layers % (pp * each):
        message = f"{layers} layers do not divide into chunks of {each} on {pp} pipeline ranks"
        line = arguments.found["num_layers_per_virtual_pipeline_stage"].line
        arguments.draft.wrong(message, "choose a divisor of layers / pp", line)
        return 1
    return layers // (pp * each)


def _zero(arguments: Arguments) -> int:
    """The sharding, as ZeRO stage."""
    draft, note = arguments.draft, arguments.note
    full = [arguments.on(name) for name in ("use_torch_fsdp2", "use_megatron_fsdp", "use_custom_fsdp")]
    strategy = arguments.choice(SHARDING, "data_parallel_sharding_strategy")
    stage = arguments.text("zero_stage")
    if stage in ("0", "1", "2", "3"):
        zero, origin = int(stage), note("zero_stage")
    elif any(full) or strategy is not None:
        zero = int(strategy or 3)
        origin = note("data_parallel_sharding_strategy", "use_torch_fsdp2", "use_megatron_fsdp", "use_custom_fsdp")
    elif optimizers.owned(arguments):
        zero, origin = 1, f"each matrix has an owner: {note('optimizer')}"
    else:
        zero = int(arguments.on("use_distributed_optimizer"))
        origin = note("use_distributed_optimizer") or "no --use-distributed-optimizer"
    draft.put("training.parallel.zero", zero, origin)
    return zero


def _stages(arguments: Arguments, pp: int, vpp: int, layers: int) -> None:
    """Layers of each stage where first and last one differ."""
    first = arguments.whole("decoder_first_pipeline_num_layers")
    last = arguments.whole("decoder_last_pipeline_num_layers")
    begin = arguments.on("account_for_embedding_in_pipeline_split")
    end = arguments.on("account_for_loss_in_pipeline_split")
    if pp < 2 or not (first or last or begin or end):
        return
    if begin or end:
        share, over = divmod(layers + begin + end, pp)
        sizes = [share - begin, *[share] * (pp - 2), share - end]
    else:
        middle = pp - bool(first) - bool(last)
        share, over = divmod(layers - (first or 0) - (last or 0), middle) if middle else (0, 0)
        sizes = [*([first] if first else []), *[share] * middle, *([last] if last else [])]
    if over or sum(sizes) != layers or vpp > 1 or min(sizes) < 0:
        hint = "write training.stages by hand"
        arguments.draft.wrong(f"the uneven split of {layers} layers over {pp} x {vpp} stages is not understood", hint)
        return
    arguments.draft.put("training.stages", sizes, "uneven split of the pipeline")


def _memory(arguments: Arguments) -> None:
    """Recomputation."""
    draft, note = arguments.draft, arguments.note
    word = arguments.choice(
        {"full": "full", "selective": "selective"}, "recompute_granularity", "activations_checkpoint_granularity"
    )
    origin = note("recompute_granularity", "activations_checkpoint_granularity")
    old = arguments.text("activations_checkpoint_method") is not None or arguments.on("checkpoint_activations")
    if word is None and (old or arguments.on("recompute_activations")):
        word = "full" if old else "selective"
        origin = note("activations_checkpoint_method", "checkpoint_activations", "recompute_activations")
    draft.put("training.recompute", word or "none", origin or "no --recompute-granularity")
    method = arguments.text("recompute_method")
    count = arguments.whole("recompute_num_layers", "activations_checkpoint_num_layers")
    if word == "full" and count and method == "block":
        draft.put("training.recompute_layers", count, note("recompute_num_layers"))
    elif word == "full" and (count or 1) > 1:
        draft.left_out.append(f"--recompute-num-layers {count}: each layer is kept and recomputed on its own")
    if word == "selective":
        _modules(arguments)


MODULES = {"layernorm": "norm", "moe_act": "activation", "mla_up_proj": "latent", "moe": "experts"}
"""Words of `--recompute-modules` that a scenario has; `core_attn` alone is what selective recomputation is of."""


def _modules(arguments: Arguments) -> None:
    """What selective recomputation drops besides the scores of attention."""
    words = (arguments.text("recompute_modules") or "core_attn").split()
    known = [MODULES[word] for word in words if word in MODULES]
    arguments.draft.put("training.recompute_modules", known or None, arguments.note("recompute_modules"))
    other = [word[:40] for word in words if word not in MODULES and word != "core_attn"]
    if other:
        arguments.draft.left_out.append(f"--recompute-modules {printable(' '.join(other))}: kept here")


RECIPES = {"delayed": "fp8", "tensorwise": "fp8-current", "blockwise": "fp8-block", "mxfp8": "mxfp8"}
"""Our recipes by Megatron's `--fp8-recipe`."""


def _recipe(arguments: Arguments) -> str:
    """How 8 bits are scaled; Megatron's default where a recipe is its own."""
    said = arguments.text("fp8_recipe") or "delayed"
    if said not in RECIPES:
        arguments.draft.left_out.append(f"--fp8-recipe {said[:40]}: it is taken as delayed")
    return RECIPES.get(said, "fp8")


def _numbers(arguments: Arguments) -> None:
    """Number formats and attention."""
    draft, note = arguments.draft, arguments.note
    fp8 = arguments.text("fp8_format", "fp8") is not None or arguments.on("fp8_hybrid", "fp8_e4m3")
    bf16, fp16 = arguments.on("bf16"), arguments.on("fp16")
    fp4 = arguments.text("fp4_format", "fp4") is not None
    plain, said = ("bf16", ("bf16",)) if bf16 else ("fp16" if fp16 else "fp32", ("fp16",))
    word = "nvfp4" if fp4 else _recipe(arguments) if fp8 else plain
    narrow_words = ("fp8_format", "fp8", "fp8_hybrid", "fp8_e4m3", "fp8_recipe", "fp4_format", "fp4")
    draft.put("training.precision", word, note(*(narrow_words if fp4 or fp8 else said)) or "neither --bf16 nor --fp16")
    if (fp8 or fp4) and arguments.on("fp8_param_gather"):
        draft.put("training.quantized_parameters", True, note("fp8_param_gather"))
    narrow = arguments.on("grad_reduce_in_bf16")
    wide = arguments.on("accumulate_allreduce_grads_in_fp32")
    if bf16 or fp16:
        reduced = "bf16" if narrow else "fp32" if bf16 or wide else "fp16"
        origin = note("grad_reduce_in_bf16", "accumulate_allreduce_grads_in_fp32") or "Megatron's default"
        draft.put("training.reduce_precision", reduced, origin)
        optimizers.gradients(arguments, reduced)
    kind = arguments.choice(ATTENTION, "attention_backend")
    if arguments.on("use_flash_attn"):
        kind = "fused"
    draft.put("training.attention", kind or None, note("attention_backend", "use_flash_attn"))
