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
        as_training(job, devices, scenario) if isinstance(job, TrainingJob) else as_serving(job, devices, scenario)
        for job, devices in both
    )


def as_training(job: TrainingJob, devices: Devices, scenario: JobsScenario) -> Scenario:
    """A job that trains as a scenario of its own, on its part of the cluster."""
    cluster = part_of(scenario.cluster, devices)
    own: dict[str, Any] = {"stack": job.stack, "training": job.training, "fold": job.fold}
    return Scenario.model_construct(cluster=cluster, **own, **_common(job, scenario))


def as_serving(job: ServingJob, devices: Devices, scenario: JobsScenario) -> ServingScenario:
    """A job that serves as a scenario of its own, on all of the cluster."""
    serving, cluster = job.system, scenario.cluster
    if cluster.more_nodes and devices and not job.names_nodes:
        kind = cluster.partitions[cluster.numbering.kind_of(devices[0])]
        serving = serving.model_copy(update={"partition": kind.name})
    own: dict[str, Any] = {"stack": job.stack, "serving": serving, "requests": job.requests}
    own |= {"slo": job.slo, "leap": job.leap}
    return ServingScenario.model_construct(cluster=cluster, **own, **_common(job, scenario))


def _common(job: AnyJob, scenario: JobsScenario) -> dict[str, Any]:
    known = {"version": 1, "name": job.name, "description": "", "model": job.model}
    return {**known, "seed": scenario.seed, "published": job.published}


def part_of(cluster: Cluster, devices: Devices) -> Cluster:
    """The nodes of some devices, of one kind and as many devices on each."""
    numbering = cluster.numbering
    nodes = len({numbering.node_of(device) for device in devices})
    own = cluster.only(numbering.kind_of(devices[0]))
    node = own.node.model_copy(update={"devices": len(devices) // nodes})
    return own.model_copy(update={"node": node, "nodes": nodes})
