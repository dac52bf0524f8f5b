"""Collective operations as plans of transfers, and what they cost."""

from simulator.collectives.closed_form import CollectiveCost, cost, cost_of
from simulator.collectives.library import library_of, unfit, way_of
from simulator.collectives.names import operation_of, remark_on
from simulator.collectives.occupied import Occupied
from simulator.collectives.phase import Phase
from simulator.collectives.plan import EXCHANGED, OPERATIONS, Plan, activities, check_operation, duration, plan, steps
from simulator.collectives.routing import TOKEN_FORMATS, Routing, token_bytes

__all__ = [
    "EXCHANGED",
    "OPERATIONS",
    "TOKEN_FORMATS",
    "CollectiveCost",
    "Occupied",
    "Phase",
    "Plan",
    "Routing",
    "activities",
    "check_operation",
    "cost",
    "cost_of",
    "duration",
    "library_of",
    "operation_of",
    "plan",
    "remark_on",
    "steps",
    "token_bytes",
    "unfit",
    "way_of",
]
