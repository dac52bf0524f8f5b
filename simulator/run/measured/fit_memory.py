"""What a row leaves open and the memory decides: the micro batch, and what gives way where a run does not fit.

The rules are the same for every row, none looks at the measured value, and what they choose is listed as assumed.
"""

from typing import Any

from simulator.errors import InputError
from simulator.interop.rows.schedules import stage_layers
from simulator.run.simulate import run
from simulator.specs.scenario import Scenario
from simulator.training import flops, memory
from simulator.training.arranged import arranged_job
from simulator.training.job import Job


def choose_micro_batch(scenario: Scenario, assumed: list[str]) -> Scenario:
    """The largest power of two up to 8 that leaves 4 microbatches a stage and fits in 90 % of the memory."""
    best = scenario
    for micro in (1, 2, 4, 8):
        candidate = scenario.model_copy(
            update={"training": scenario.training.model_copy(update={"micro_batch": micro})}
        )
        try:
            job = arranged_job(candidate)
        except InputError:
            continue
        if micro > 1 and (job.microbatches < 4 * job.pp * (job.pp > 1) or not _fits(candidate, job)):
            break
        best = candidate
    assumed.append(f"micro_batch {best.training.micro_batch}")
    return best


MODULES: tuple[tuple[str, ...], ...] = (
    (),
    ("norm", "activation"),
    ("norm", "activation", "latent"),
    ("norm", "experts"),
)
"""Parts of layers with experts that are recomputed together, cheapest first (Megatron-Core's `recompute_modules`)."""


def choose_modules(scenario: Scenario, assumed: list[str]) -> Scenario:
    """Where parts of layers are said to be recomputed and not which: the cheapest that make it fit; those that spare
    most where none does."""
    candidates = [_recomputing(scenario, modules) for modules in MODULES]
    jobs = [arranged_job(candidate) for candidate in candidates]
    fitting = (place for place, job in enumerate(jobs) if _fits(candidates[place], job, 1.0))
    least = min(range(len(jobs)), key=lambda place: memory.peak_memory(jobs[place]))
    place = next(fitting, least)
    if modules := MODULES[place]:
        assumed.append(f"{' and '.join(modules)} computed again, the cheapest that fit")
    return candidates[place]


def _recomputing(scenario: Scenario, modules: tuple[str, ...]) -> Scenario:
    training = scenario.training.model_copy(update={"recompute_modules": modules})
    return scenario.model_copy(update={"training": training})


def choose_chunks(scenario: Scenario, least: int, free: bool, assumed: list[str]) -> Scenario:
    """Model chunks of a pipeline rank: of those of equal layers that fit in the memory, the fastest.

    `least` is 2 where the schedule is said to be interleaved; `free` says that what does not fit may give way to the
    memory, so that chunks which need less of that can win. Of runs of which none fits the fastest is kept.
    """
    parallel, layers = scenario.training.parallel, scenario.model.layers
    most = -(-layers // parallel.pp)
    possible = []
    for chunks in (count for count in range(least, most + 1) if most % count == 0):
        changes = {
            "parallel": parallel.model_copy(update={"vpp": chunks}),
            "stages": stage_layers(layers, parallel.pp * chunks, []),
        }
        candidate = scenario.model_copy(update={"training": scenario.training.model_copy(update=changes)})
        given: list[str] = []
        try:
            candidate = made_to_fit(candidate, given) if free else candidate
            possible.append((_fits(candidate, arranged_job(candidate), 1.0), chunks, given, candidate))
        except InputError:  # fewer microbatches than the schedule needs
            continue
    if not possible:
        return scenario
    timed = [found for found in possible if found[0]] or possible
    _, chunks, given, best = min(timed, key=lambda found: _estimated(found[-1])) if len(timed) > 1 else timed[0]
    assumed += [f"vpp {chunks}, the fastest that fits", *given]
    return best


def _estimated(scenario: Scenario) -> int:
    """Ticks of a step with closed forms, as a user would estimate it: what meets on links is left to the run itself."""
    return run(scenario, fold="tiers", share_links=False).timeline.makespan


def _fits(scenario: Scenario, job: Job, share: float = 0.9) -> bool:
    """Whether a run needs at most a share of the device's memory, and of the host's where it is known."""
    node = scenario.cluster.node
    if node.host_memory is not None and job.offload_layers:
        kept = sum(memory.fullest_host(job, node.devices).values())
        if kept > share * node.host_memory.value:
            return False
    return memory.peak_memory(job) <= share * node.accelerator.memory.capacity.value


def made_to_fit(scenario: Scenario, assumed: list[str]) -> Scenario:
    """What users do out of memory: give up as little time as makes it fit.

    Where the host's link takes a layer's share faster than the device could compute the layer, activations of the
    fewest layers that suffice wait in the host's memory; else the fewest layers are recomputed. A run that neither
    makes fit stays as it is. Where scores are kept in memory, recomputing them alone comes before whole layers.
    """
    job = arranged_job(scenario)
    if _fits(scenario, job, 1.0):
        return scenario
    training = scenario.training.model_copy(update={"recompute": "selective"})
    scores = scenario.model_copy(update={"training": training})
    if job.recompute == "none" and job.attention == "unfused" and _fits(scores, arranged_job(scores), 1.0):
        assumed.append("recompute selective, which fits")
        return scores
    for key in ("offload_layers", "recompute_layers"):
        fixed = {"recompute": "full"} if key == "recompute_layers" else {}
        found = _fewest_layers(scenario, key, fixed)
        if found is not None and (key == "recompute_layers" or _copied_in_time(found)):
            count = getattr(found.training, key)
            assumed.append(f"{key} {count} of {max(job.chunks)} a stage, the fewest that fit")
            return found
    return scenario


def _fewest_layers(scenario: Scenario, key: str, fixed: dict[str, Any]) -> Scenario | None:
    """The scenario with the smallest value of `key` that fits in the memory, None where none does."""
    most = max(arranged_job(scenario).chunks)
    for count in range(1, most + 1):
        training = scenario.training.model_copy(update={key: count, **fixed})
        candidate = scenario.model_copy(update={"training": training})
        try:
            if _fits(candidate, arranged_job(candidate), 1.0):
                return candidate
        except InputError:
            return None
    return None


REACHED = 2 / 3
"""Share of the peak at which layers run in published steps at best (16 bits on Hopper and Blackwell)."""


def _copied_in_time(scenario: Scenario) -> bool:
    """Whether offloaded activations cross the host's link in less time than the layers take at `REACHED`."""
    job, peaks = arranged_job(scenario), scenario.cluster.node.accelerator.peak
    peak = peaks.get(job.counted, peaks.get("bf16"))  # type: ignore[call-overload]
    if not peak or not job.host_link:
        return False
    work = {kind: job.micro_batch * flops.layer_forward_flops(job, kind) / (job.tp * job.cp) for kind in job.kinds}
    return all(memory.copy_time(job, kind) <= found / (REACHED * peak.value) for kind, found in work.items())
