"""From a file to a search: what is checked before anything is simulated."""

from collections.abc import Sequence

from simulator.errors import InputError, Problem
from simulator.interop import traces
from simulator.serving.policies import POLICIES
from simulator.specs.scenario import ServingScenario
from simulator.study.frontier.options import Base
from simulator.study.frontier.tally import Settings
from simulator.study.plan.layouts import candidate
from simulator.study.plan.load import load
from simulator.study.plan.plan import slo_of

SEQUENCES = (64, 256, 1024)
CHUNKS = (1024, 2048, 8192)
SIZES = (200, 400, 800, 1600, 3200)
"""Requests of the runs."""
SIMULATIONS = 200


def start(
    file: str,
    overrides: Sequence[str],
    sequences: Sequence[int] | None = None,
    chunks: Sequence[int] | None = None,
    only: str | None = None,
    simulations: int | None = None,
) -> tuple[ServingScenario, Base, Settings]:
    """The scenario of a file, what candidates have in common, and how to search.

    InputError for a scenario that does not serve, promises nothing, has no rate of arrivals that could be varied, or
    cuts no prompts into chunks.
    """
    scenario = candidate(file, tuple(overrides)).scenario
    slo_of(scenario)
    load(scenario)
    _check(scenario)
    base = Base(file, tuple(overrides), _sizes(scenario), tuple(sequences or SEQUENCES), tuple(chunks or CHUNKS))
    if max(base.chunks) < min(base.sequences):
        message = f"chunks of {max(base.chunks)} tokens have no room for {min(base.sequences)} sequences that decode"
        raise InputError(Problem(message, path="--chunks", hint="write larger chunks or fewer sequences"))
    settings = Settings(simulations or SIMULATIONS, apart=only != "aggregated", together=only != "disaggregated")
    return scenario, base, settings


def _check(scenario: ServingScenario) -> None:
    """What the closed forms hold for."""
    serving = scenario.serving
    policy = serving.batching.policy or scenario.stack.policy
    if not POLICIES.get(policy, "serving.batching.policy").chunked:
        message = f"`--frontier` searches sizes of chunks, and `{policy}` cuts no prompts into any"
        raise InputError(Problem(message, path="serving.batching.policy", hint="write `vllm-v1` or `prefill-first`"))
    if scenario.model.encoder_layers is not None:
        message = f"`--frontier` searches sizes of chunks, and the encoder of {scenario.model.name} sees whole prompts"
        raise InputError(Problem(message, path="model.encoder_layers", hint="plan with `--vary` in its place"))
    if serving.overlap.batches.startswith("nano"):
        message = "`--frontier` has no bound for kernels of nano-batches beside each other"
        raise InputError(Problem(message, path="serving.overlap.batches", hint="leave it out, or plan with `--vary`"))
    if any(pool.partition or pool.cluster for pool in serving.pools) or scenario.cluster.more_nodes:
        message = "`--frontier` searches one kind of devices"
        raise InputError(Problem(message, path="serving.pools", hint="list layouts of several kinds with `--vary`"))


def _sizes(scenario: ServingScenario) -> tuple[int, ...]:
    """Requests of the runs, no more than a trace has."""
    requests = scenario.requests
    if requests.trace is None:
        return SIZES
    most = len(traces.read(requests.trace).prompt)
    return tuple(dict.fromkeys(min(size, most) for size in SIZES))
