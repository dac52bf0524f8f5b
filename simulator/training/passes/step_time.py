"""How long one step of a job takes, to hold orders of its passes against each other.

The step is priced, folded and built as every step is, with all that runs beside passes and shares the device with it.
Left out: links that operations of different kinds share, and noise.
"""

from simulator.cost import Device
from simulator.engine.executor import execute
from simulator.fabric.sharing import max_min
from simulator.program.maxplus import unshared
from simulator.training.chains import StepCosts
from simulator.training.communication import Network
from simulator.training.job import Job
from simulator.training.passes.program import build_program
from simulator.training.tiers.nodes import nodes_of

FOLDED_ABOVE = 64
"""Chains above which all are taken as the slowest."""


def step_ticks(job: Job, device: Device, network: Network, beside: int) -> int:
    """Ticks of a step of a job with `beside` devices a node."""
    fold = "exact" if len(network.chains) <= FOLDED_ABOVE else "tiers"
    classes = StepCosts(job, device, network).classes(fold)
    nodes = None if job.offload is None else nodes_of(classes.members, classes.ranks, beside)
    tape = build_program(job, classes.costs, classes.rendezvous, nodes=nodes).tape
    return (execute(tape, max_min) if job.shares or job.offload is not None else unshared(tape)).makespan
