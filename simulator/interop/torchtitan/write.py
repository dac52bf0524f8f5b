"""A scenario that trains as a job file of torchtitan, the other way round of `translate`."""

from collections.abc import Iterator

from simulator.errors import InputError, Problem
from simulator.interop.torchtitan.translate import CONTEXT, FLAVORS, SCHEDULES
from simulator.specs import load_spec
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario


def job_of(scenario: Scenario) -> str:
    """A job file in TOML; InputError for what torchtitan has no key for."""
    family, flavor = _flavor(scenario.model)
    sections = {
        "job": [f'description = "{scenario.name.replace(chr(34), chr(39))}"'],
        "model": [f'name = "{family}"', f'flavor = "{flavor}"'],
        "training": list(_training(scenario)),
        "parallelism": list(_parallelism(scenario)),
        "activation_checkpoint": [f'mode = "{_recompute(scenario)}"'],
    }
    return "\n\n".join("\n".join([f"[{name}]", *lines]) for name, lines in sections.items()) + "\n"


def _flavor(model: Model) -> tuple[str, str]:
    """The family and the flavor whose shipped model this one is."""
    for family, flavors in FLAVORS.items():
        for flavor, name in flavors.items():
            if load_spec(Model, f"models/{name}").name == model.name:
                return family, flavor
    hint = f"known: {', '.join(name for flavors in FLAVORS.values() for name in flavors.values())}"
    raise InputError(Problem(f"torchtitan has no flavor for {model.name}", path="model", hint=hint))


def _training(scenario: Scenario) -> Iterator[str]:
    training, dp = scenario.training, scenario.training.parallel.dp or 1
    pipelined = training.parallel.pp > 1
    yield f"local_batch_size = {training.global_batch // dp if pipelined else training.micro_batch}"
    yield f"global_batch_size = {training.global_batch}"
    yield f"seq_len = {training.sequence_length}"


def _parallelism(scenario: Scenario) -> Iterator[str]:
    training, parallel = scenario.training, scenario.training.parallel
    zero = scenario.stack.zero if parallel.zero is None else parallel.zero
    dp, wanted = parallel.dp or 1, 2 if parallel.pp > 1 else 3
    if dp > 1 and zero not in (0, wanted):
        hint = f"choose `--only zero=0,{wanted}`"
        raise InputError(Problem(f"torchtitan shards as ZeRO-{wanted} here, not {zero}", path=_ZERO, hint=hint))
    replicas = parallel.dp if not zero else 1
    yield f"data_parallel_replicate_degree = {replicas}"
    yield f"data_parallel_shard_degree = {dp if zero else 1}"
    yield f"tensor_parallel_degree = {parallel.tp}"
    yield f"pipeline_parallel_degree = {parallel.pp}"
    yield f"context_parallel_degree = {parallel.cp}"
    if parallel.cp > 1:
        words = {kind: word for word, kind in CONTEXT.items()}
        kind = parallel.cp_kind or scenario.stack.cp_kind
        if kind not in words:
            raise InputError(Problem(f"torchtitan has no `cp_kind` `{kind}`", path="training.parallel.cp_kind"))
        yield f'context_parallel_rotate_method = "{words[kind]}"'
    if scenario.model.experts:
        yield f"expert_parallel_degree = {parallel.ep}"
        yield f"expert_tensor_parallel_degree = {parallel.etp or parallel.tp}"
    if parallel.pp > 1:
        yield from _schedule(scenario, training.schedule or ("interleaved-1f1b" if parallel.vpp > 1 else "1f1b"))


_ZERO = "training.parallel.zero"


def _schedule(scenario: Scenario, name: str) -> Iterator[str]:
    parallel, words = scenario.training.parallel, {own: word for word, own in SCHEDULES.items()}
    if name not in words:
        raise InputError(Problem(f"torchtitan has no schedule `{name}`", path="training.schedule"))
    yield f'pipeline_parallel_schedule = "{words[name]}"'
    yield f"pipeline_parallel_microbatch_size = {scenario.training.micro_batch}"
    yield f"pipeline_parallel_layers_per_stage = {scenario.model.layers // (parallel.pp * parallel.vpp)}"
    yield "pipeline_parallel_first_stage_less_layers = 0"
    yield "pipeline_parallel_last_stage_less_layers = 0"


def _recompute(scenario: Scenario) -> str:
    """Modes that keep or drop whole layers; torchtitan's selective one keeps other things."""
    word = scenario.training.recompute or scenario.stack.recompute
    if word == "selective" or scenario.training.recompute_layers or scenario.training.offload_layers:
        raise InputError(
            Problem("torchtitan keeps or recomputes whole layers here", path="training.recompute", hint="none or full")
        )
    return word
