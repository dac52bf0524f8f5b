"""Tenants of requests: each request, or each conversation, belongs to one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.random import stream
from simulator.specs.requests import Tenant

if TYPE_CHECKING:
    from simulator.serving.workload.generate import Workload


def assigned(drawn: "Workload", tenants: Sequence[Tenant], seed: int) -> "Workload":
    """The requests with a tenant each, by their shares; all turns of a conversation have one. A tenant's priority is
    that of its requests."""
    count = len(drawn)
    bounds = np.cumsum([tenant.share for tenant in tenants[:-1]])
    of_each = np.searchsorted(bounds, stream(seed, "tenants").random(count), side="right").astype(np.int64)
    if drawn.session is not None:
        talks = drawn.session >= 0
        of_each[talks] = of_each[drawn.session[talks] % count]
    priority = np.array([tenant.priority for tenant in tenants], np.int64)
    return replace(drawn, tenant=of_each, priority=priority[of_each])
