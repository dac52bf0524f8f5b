"""A scenario that trains as arguments of Megatron-LM, the other way round of `translate`."""

from collections.abc import Iterator

from simulator.errors import InputError, Problem
from simulator.interop.megatron.schedules import IN_A_V
from simulator.interop.megatron.translate import CONTEXT, POSITIONS, SHARDING
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario

OWN = ("1f1b", "interleaved-1f1b")
"""Schedules of Megatron-LM itself; those of `schedules` are of its forks."""
_WORD = {zero: word for word, zero in SHARDING.items()}


def arguments_of(scenario: Scenario) -> str:
    """Arguments of a training program, one a line; InputError for what there is no argument for."""
    lines = [*_place(scenario), *_model(scenario.model, scenario), *_layout(scenario), *_memory(scenario)]
    return "\n".join([f"# {scenario.name}", *lines]) + "\n"


def _place(scenario: Scenario) -> Iterator[str]:
    cluster, training = scenario.cluster, scenario.training
    yield f"--nnodes {cluster.nodes}"
    yield f"--nproc-per-node {cluster.node.devices}"
    yield f"--micro-batch-size {training.micro_batch}"
    yield f"--global-batch-size {training.global_batch}"
    yield f"--seq-length {training.sequence_length}"


def _layout(scenario: Scenario) -> Iterator[str]:
    training, parallel, stack = scenario.training, scenario.training.parallel, scenario.stack
    yield f"--tensor-model-parallel-size {parallel.tp}"
    yield f"--pipeline-model-parallel-size {parallel.pp}"
    if parallel.vpp > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {parallel.vpp}"
    yield from _schedule(training.schedule or ("interleaved-1f1b" if parallel.vpp > 1 else "1f1b"))
    if parallel.cp > 1:
        yield f"--context-parallel-size {parallel.cp}"
        words = {kind: word for word, kind in CONTEXT.items()}
        yield f"--cp-comm-type {_known(words, parallel.cp_kind or stack.cp_kind, 'training.parallel.cp_kind')}"
    if scenario.model.experts:
        yield f"--expert-model-parallel-size {parallel.ep}"
        yield f"--expert-tensor-parallel-size {parallel.etp or parallel.tp}"
    zero = stack.zero if parallel.zero is None else parallel.zero
    if zero > 1:
        yield f"--use-megatron-fsdp\n--data-parallel-sharding-strategy {_WORD[str(zero)]}"
    elif zero:
        yield "--use-distributed-optimizer"
    spread = stack.sequence_parallel if parallel.sequence_parallel is None else parallel.sequence_parallel
    if parallel.tp > 1 and (spread or scenario.model.experts):
        yield "--sequence-parallel"
    if _switch(training.overlap_gradients, stack.overlap_gradients):
        yield "--overlap-grad-reduce"
    if zero and _switch(training.overlap_parameters, stack.overlap_parameters):
        yield "--overlap-param-gather"


def _switch(given: bool | None, usual: bool) -> bool:
    return usual if given is None else given


def _schedule(name: str) -> Iterator[str]:
    setups = {schedule: word for word, schedule in IN_A_V.items()}
    if name in setups:
        yield f"--zero-bubble-v-schedule\n--zero-bubble-v-schedule-mem-setup {setups[name]}"
    elif name == "zb-h1":
        yield "--enable-zero-bubble"
    elif name not in OWN:
        hint = f"choose one of {', '.join((*OWN, 'zb-h1', *setups))}"
        raise InputError(Problem(f"Megatron-LM has no schedule `{name}`", path="training.schedule", hint=hint))


def _memory(scenario: Scenario) -> Iterator[str]:
    training = scenario.training
    again = training.recompute or scenario.stack.recompute
    if again == "full":
        layers = training.recompute_layers
        yield f"--recompute-granularity full\n--recompute-method {'block' if layers else 'uniform'}"
        yield f"--recompute-num-layers {layers or 1}"
    elif again == "selective":
        yield "--recompute-granularity selective"
    if training.offload_layers:
        raise InputError(
            Problem("`offload_layers` is not written as flags", path="training.offload_layers", hint="leave it out")
        )
    precision = training.precision or scenario.stack.precision
    if precision in ("bf16", "fp16"):
        yield f"--{precision}"


def _model(model: Model, scenario: Scenario) -> Iterator[str]:
    """Arguments of a plain decoder; of others a line that says that they are the model's own."""
    if model.pattern or model.kv_lora_rank is not None or model.linear is not None or model.encoder_layers is not None:
        yield "# arguments of the model itself are not written: it has layers of its own"
        return
    yield f"--num-layers {model.layers}"
    yield f"--hidden-size {model.hidden}"
    yield f"--num-attention-heads {model.heads}"
    yield f"--ffn-hidden-size {model.ffn}"
    yield f"--kv-channels {model.head_dim}"
    if model.kv_heads != model.heads:
        yield f"--group-query-attention\n--num-query-groups {model.kv_heads}"
    if model.gated_ffn:
        yield "--swiglu"
    yield f"--vocab-size {model.vocabulary}\n--make-vocab-size-divisible-by 1"
    positions = {kind: word for word, kind in reversed(POSITIONS.items())}
    yield f"--position-embedding-type {_known(positions, model.position, 'model.position')}"
    yield f"--normalization {'RMSNorm' if model.norm == 'rmsnorm' else 'LayerNorm'}"
    yield f"--max-position-embeddings {max(model.max_sequence or 0, scenario.training.sequence_length)}"
    if not model.biases:
        yield "--disable-bias-linear"
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights"
    if model.experts:
        yield f"--num-experts {model.experts}\n--moe-router-topk {model.top_k}"
        yield f"--moe-ffn-hidden-size {model.expert_ffn or model.ffn}"


def _known(words: dict[str, str], value: str, path: str) -> str:
    if value not in words:
        raise InputError(
            Problem(f"Megatron-LM has no word for `{value}`", path=path, hint=f"one of {', '.join(words)}")
        )
    return words[value]
