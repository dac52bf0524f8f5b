"""Stages that train or generate as scenarios of their own."""

from collections.abc import Iterator
from typing import Any

from simulator.run.jobs.parts import part_of
from simulator.run.workflow.pools import Devices, devices_of, of_stage
from simulator.specs.scenario import OneScenario, Scenario, ServingScenario
from simulator.specs.workflow import ServingStage, TrainingStage, Workflow


def as_training(stage: TrainingStage, workflow: Workflow, on: Devices) -> Scenario:
    """A stage that trains, on its part of the cluster."""
    own: dict[str, Any] = {"stack": stage.stack, "training": stage.training, "fold": stage.fold}
    return Scenario.model_construct(cluster=part_of(workflow.cluster, on), **own, **_common(stage, workflow))


def as_serving(stage: ServingStage, workflow: Workflow) -> ServingScenario:
    """A stage that generates, on all of the cluster."""
    own: dict[str, Any] = {"stack": stage.stack, "serving": stage.serving, "requests": stage.requests}
    own |= {"slo": stage.slo, "leap": stage.leap, "cluster": workflow.cluster}
    return ServingScenario.model_construct(**own, **_common(stage, workflow))


def scenarios(workflow: Workflow) -> Iterator[OneScenario]:
    """Every stage that trains or generates; the workflow is one that `order.check` accepts."""
    pools = devices_of(workflow)
    for stage in workflow.stages:
        if isinstance(stage, TrainingStage):
            yield as_training(stage, workflow, of_stage(stage, pools))
        elif isinstance(stage, ServingStage):
            yield as_serving(stage, workflow)


def _common(stage: TrainingStage | ServingStage, workflow: Workflow) -> dict[str, Any]:
    known = {"version": 1, "name": stage.name, "description": "", "model": stage.model}
    return {**known, "seed": workflow.seed, "published": ()}
