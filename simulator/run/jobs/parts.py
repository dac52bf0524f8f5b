"""Several jobs as scenarios of their own."""

from typing import Any

from simulator.run.jobs.placing import Devices, place
from simulator.specs.hardware import Cluster
from simulator.specs.jobs import AnyJob, JobsScenario, ServingJob, TrainingJob
from simulator.specs.scenario import OneScenario, Scenario, ServingScenario


def parts(scenario: JobsScenario) -> tuple[OneScenario, ...]:
    """Each job on its devices; InputError for those that cannot be placed."""
    both = zip(scenario.jobs, place(scenario), strict=True)
    return tuple(
        as_training(job, devices, scenario) if isinstance(job, TrainingJob) else as_serving(job, scenario)
        for job, devices in both
    )


def as_training(job: TrainingJob, devices: Devices, scenario: JobsScenario) -> Scenario:
    """A job that trains as a scenario of its own, on its part of the cluster."""
    cluster = _part(scenario.cluster, devices)
    own: dict[str, Any] = {"stack": job.stack, "training": job.training, "fold": job.fold}
    return Scenario.model_construct(cluster=cluster, **own, **_common(job, scenario))


def as_serving(job: ServingJob, scenario: JobsScenario) -> ServingScenario:
    """A job that serves as a scenario of its own, on all of the cluster."""
    own: dict[str, Any] = {"stack": job.stack, "serving": job.serving, "requests": job.requests}
    own |= {"slo": job.slo, "leap": job.leap}
    return ServingScenario.model_construct(cluster=scenario.cluster, **own, **_common(job, scenario))


def _common(job: AnyJob, scenario: JobsScenario) -> dict[str, Any]:
    known = {"version": 1, "name": job.name, "description": "", "model": job.model}
    return {**known, "seed": scenario.seed, "published": job.published}


def _part(cluster: Cluster, devices: Devices) -> Cluster:
    """The nodes of some devices, as many on each."""
    nodes = len({device // cluster.node.devices for device in devices})
    node = cluster.node.model_copy(update={"devices": len(devices) // nodes})
    return cluster.model_copy(update={"node": node, "nodes": nodes})
