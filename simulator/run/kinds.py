"""The kinds of scenario: what a study asks of a run that trains and of one that serves, one object each.

A kind follows from the type of a scenario (`kind_of`), from the name that a Result carries (`KINDS`), or from the
sections of a resolved scenario (`kind_of_fields`); nothing else has to know which kinds there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.results.metrics import mean
from simulator.results.result import Result
from simulator.results.serving.request_time import mean_request_time
from simulator.specs.files.roots import chosen
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

if TYPE_CHECKING:
    from simulator.specs.scenario import AnyRun, JobsScenario, Scenario, ServingScenario
    from simulator.specs.workflow import Workflow


@dataclass(frozen=True, slots=True)
class ScenarioKind:
    """One kind of scenario."""

    name: str
    """As Results carry it."""
    section: str
    """The section of a scenario that makes it one of this kind."""
    does: str
    """Verb of a message: a scenario that `does`."""
    options: tuple[str, ...]
    """Options of `dispatch.simulate` that have a meaning."""
    simulate: Callable[..., Result]
    """(scenario, progress=, options) to its Result."""
    evaluate: Callable[[Any], Result]
    """The same for one of many points: without events where the max-plus sweep gives the same, files read once."""
    whole: str
    """The figure that the parts of its time sum to."""
    speed: str
    """The figure by which runs are held against each other."""
    best: str
    """The figure by which points of a sweep are ranked."""
    headline: tuple[str, str]
    """(figure, unit behind it) that says in one word how fast a run is."""
    requests: bool
    """Whether it has single requests, which `--detail` writes."""
    better: bool
    """Whether `study.sensitivity` says what better machines would give."""
    columns: frozenset[str]
    """Figures of a comparison's page besides those of every kind."""
    jobs: Callable[[Any], "dict[str, ScenarioKind]"]
    """The kinds of the jobs of a scenario by their names; none where it is one job itself."""
    parts: Callable[[Result], dict[str, float]]
    """Seconds of the whole by what they consist of, on average over devices or requests."""
    devices: Callable[[Result], int]
    """Devices that a run takes."""
    group: Callable[[Any, Cluster], int]
    """Devices of a (scenario, cluster) that talk to each other."""
    precision: Callable[[Any], str]
    """The number format that decides the kernels of a scenario."""

    @property
    def spec(self) -> "type[AnyRun]":
        """What a user writes."""
        return chosen({self.section: None})

    @property
    def layout(self) -> str:
        """Path of the parallel sizes in a scenario."""
        return f"{self.section}.parallel"


def kind_of(scenario: "AnyRun") -> ScenarioKind:
    """The kind of a scenario or of a workflow."""
    return next(kind for kind in KINDS.values() if kind.section in type(scenario).model_fields)


def kind_of_fields(scenario: Mapping[str, Any]) -> ScenarioKind:
    """The kind of a resolved scenario by its sections; training where none tells."""
    return next((kind for kind in KINDS.values() if kind.section in scenario), TRAINING)


# ---- training ------------------------------------------------------------------------------------------------------


def _train(scenario: "Scenario", executor: Any = None, **options: Any) -> Result:
    from simulator.run.simulate import simulate

    return simulate(scenario, executor=executor or "simpy", **options)


def _train_quickly(scenario: "Scenario") -> Result:
    from simulator.run.simulate import finished, run

    profile = load_spec(CollectiveProfile, scenario.cluster.collectives)
    return finished(run(scenario, profile=profile, recording=False), advising=False)


def _parts_of_step(result: Result) -> dict[str, float]:
    return mean(result.breakdown, [c.ranks for c in result.classes]) if result.breakdown else {}


TRAINING = ScenarioKind(
    name="training",
    section="training",
    does="trains",
    options=("fold", "executor", "kept"),
    simulate=_train,
    evaluate=_train_quickly,
    whole="step_time_s",
    speed="tokens_per_s",  # steps may be of other sizes
    best="tokens_per_s",
    headline=("step_time_s", ""),
    requests=False,
    better=True,
    columns=frozenset({"energy_j", "cost_usd"}),
    jobs=lambda _: {},
    parts=_parts_of_step,
    devices=lambda result: sum(c.ranks for c in result.classes),
    group=lambda _, cluster: cluster.devices,
    precision=lambda scenario: scenario.training.precision or scenario.stack.precision,
)


# ---- serving -------------------------------------------------------------------------------------------------------


def _serve(scenario: "ServingScenario", **options: Any) -> Result:
    from simulator.run.serve import serve

    return serve(scenario, **options)


def _serve_once(scenario: "ServingScenario") -> Result:
    return _serve(scenario, intervals=False)


def _parts_of_request(result: Result) -> dict[str, float]:
    return mean_request_time(result.service) if result.service is not None else {}


def _devices_of_replicas(result: Result) -> int:
    return sum(replica.devices for replica in result.service.replicas) if result.service is not None else 0


def _largest_replica(scenario: "ServingScenario", _: Cluster) -> int:
    serving = scenario.serving
    layouts = [pool.parallel or serving.parallel for pool in serving.pools] or [serving.parallel]
    return max(layout.devices * layout.sharers for layout in layouts)


SERVING = ScenarioKind(
    name="serving",
    section="serving",
    does="serves",
    options=("leap",),
    simulate=_serve,
    evaluate=_serve_once,
    whole="mean_e2el_ms",
    speed="mean_e2el_ms",
    best="output_throughput",
    headline=("output_throughput", " output tokens/s"),
    requests=True,
    better=False,
    columns=frozenset(),
    jobs=lambda _: {},
    parts=_parts_of_request,
    devices=_devices_of_replicas,
    group=_largest_replica,
    precision=lambda scenario: scenario.serving.precision.weights or "bf16",
)

# ---- several jobs --------------------------------------------------------------------------------------------------


def _run_jobs(scenario: "JobsScenario", fold: Any = None, **options: Any) -> Result:
    from simulator.run.jobs.simulate import simulate_jobs

    return simulate_jobs(scenario, fold=fold, **options)


def _parts_of_jobs(result: Result) -> dict[str, float]:
    """Seconds until the last job is done: before it works, what it takes alone, and what it waits for others."""
    last = max(result.jobs, key=lambda job: job.end_s)
    kind = KINDS[last.result.kind]
    steps = max(len(last.result.step_times), 1)
    work, alone = (
        figures["step_time_s"] * steps if kind is TRAINING else figures.get("duration", 0.0)
        for figures in (last.result.metrics, last.alone)
    )
    return {"before": last.end_s - work, "alone": alone, "shared": work - alone}


def _kinds_of_jobs(scenario: "JobsScenario") -> dict[str, ScenarioKind]:
    return {job.name: TRAINING if "training" in type(job).model_fields else SERVING for job in scenario.jobs}


def _devices_of_jobs(result: Result) -> int:
    return len({device for job in result.jobs for device in job.devices})


JOBS = ScenarioKind(
    name="jobs",
    section="jobs",
    does="runs several jobs",
    options=("fold",),
    simulate=_run_jobs,
    evaluate=_run_jobs,
    whole="makespan_s",
    speed="makespan_s",
    best="worst_slowdown",
    headline=("worst_slowdown", " times as long as alone"),
    requests=False,
    better=False,
    columns=frozenset({"makespan_s", "worst_slowdown", "mean_slowdown", "shared_link_s"}),
    jobs=_kinds_of_jobs,
    parts=_parts_of_jobs,
    devices=_devices_of_jobs,
    group=lambda _, cluster: cluster.devices,
    precision=lambda scenario: "bf16",
)

# ---- workflows -----------------------------------------------------------------------------------------------------


def _run_workflow(workflow: "Workflow", **options: Any) -> Result:
    from simulator.run.workflow.outcome import run_workflow

    return run_workflow(workflow)


WORKFLOW = ScenarioKind(
    name="workflow",
    section="stages",
    does="is a workflow",
    options=(),
    simulate=_run_workflow,
    evaluate=_run_workflow,
    whole="makespan_s",
    speed="iteration_s",
    best="iteration_s",
    headline=("iteration_s", ""),
    requests=False,
    better=False,
    columns=frozenset({"makespan_s", "iteration_s", "idle_fraction"}),
    jobs=lambda _: {},
    parts=lambda result: dict(result.critical_path.by_operation),
    devices=lambda result: sum(one.ranks for one in result.classes),
    group=lambda _, cluster: cluster.devices,
    precision=lambda _: "bf16",
)

KINDS: dict[str, ScenarioKind] = {kind.name: kind for kind in (TRAINING, SERVING, JOBS, WORKFLOW)}
"""Every kind by its name, in the order in which they are named."""
