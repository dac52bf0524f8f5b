"""The devices of a workflow's pools: parts of the cluster, one after the other."""

from collections.abc import Mapping

from simulator.errors import InputError, Problem
from simulator.specs.workflow import OneStage, Workflow

Devices = tuple[int, ...]


def devices_of(workflow: Workflow) -> dict[str, Devices]:
    """The devices of each pool; InputError where the cluster has too few.

    Pools of whole nodes begin at a node.
    """
    numbering = workflow.cluster.numbering
    found: dict[str, Devices] = {}
    taken = 0
    for name, pool in workflow.pools.items():
        if pool.nodes is not None:
            first = 0 if taken == 0 else numbering.node_of(taken - 1) + 1
            last = first + pool.nodes
            here = [one for node in range(first, min(last, numbering.all_nodes)) for one in numbering.devices_of(node)]
            missing = last > numbering.all_nodes
        else:
            count = pool.devices or 0
            here = list(range(taken, min(taken + count, numbering.all_devices)))
            missing = len(here) < count
        if missing:
            left = numbering.all_devices - taken
            message = (
                f"pool `{name}` does not fit: {left:,} of the cluster's {numbering.all_devices:,} devices are left"
            )
            raise InputError(Problem(message, path=f"pools.{name}", hint="raise `cluster.nodes`, or give pools less"))
        found[name] = tuple(here)
        taken = here[-1] + 1
    return found


def of_stage(stage: OneStage, pools: Mapping[str, Devices]) -> Devices:
    """All devices of a stage, each once."""
    return tuple(sorted({device for pool in stage.pools for device in pools[pool]}))
