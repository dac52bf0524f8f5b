"""Collective operations as plans of transfers, and what they cost."""

from simulator.collectives.phase import Phase
from simulator.collectives.plan import Plan, activities, duration, plan, steps
from simulator.collectives.pricing import OPERATIONS, Cost, price

__all__ = ["OPERATIONS", "Cost", "Phase", "Plan", "activities", "duration", "plan", "price", "steps"]
