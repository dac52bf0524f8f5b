"""A workflow as a Result, which a regression check keeps and a sweep ranks."""

from simulator.results.documents.workflow import WorkflowDocument
from simulator.results.infeasibility import NO_FIT
from simulator.results.result import CriticalPath, DeviceClass, Result, no_spans
from simulator.run.ground import ground
from simulator.run.workflow.simulate import simulate_workflow
from simulator.specs import dump
from simulator.specs.workflow import Workflow


def run_workflow(workflow: Workflow) -> Result:
    """Simulate a workflow; a device class is a pool, an operation of the critical path a stage."""
    found = simulate_workflow(workflow)
    lacking = (f"{stage.name}{NO_FIT}{stage.why}" for stage in found.stages if not stage.feasible)
    return Result(
        kind="workflow",
        name=found.name,
        metrics=dict(found.metrics),
        classes=tuple(DeviceClass(pool.name, pool.devices, pool.first) for pool in found.pools),
        breakdown=(),
        spans=no_spans(),
        memory=(),
        critical_path=CriticalPath(by_operation=_path(found)),
        warnings=(*lacking, *found.warnings),
        assumptions=found.assumptions,
        ground=ground(workflow),
        feasible=found.feasible,
        provenance=dict(found.provenance),
        scenario=dump(workflow),
    )


def _path(found: WorkflowDocument) -> dict[str, float]:
    """Seconds of the makespan by the stage on which the last run to end hung."""
    seconds = dict.fromkeys((run.stage for run in found.runs if run.critical), 0.0)
    for run in found.runs:
        if run.critical:
            seconds[run.stage] += run.end_s - run.begin_s
    return seconds
