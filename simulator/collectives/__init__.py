"""Collective operations as plans of transfers, and what they cost."""

from simulator.collectives.closed_form import CollectiveCost, cost, cost_of
from simulator.collectives.phase import Phase
from simulator.collectives.plan import OPERATIONS, Plan, activities, duration, plan, steps

__all__ = [
    "OPERATIONS",
    "CollectiveCost",
    "Phase",
    "Plan",
    "activities",
    "cost",
    "cost_of",
    "duration",
    "plan",
    "steps",
]
