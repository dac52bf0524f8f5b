"""Collective operations as plans of transfers, and what they cost."""

from simulator.collectives.phase import Phase
from simulator.collectives.plan import OPERATIONS, Plan, activities, duration, plan, steps
from simulator.collectives.pricing import Cost, cost, price

__all__ = ["OPERATIONS", "Cost", "Phase", "Plan", "activities", "cost", "duration", "plan", "price", "steps"]
