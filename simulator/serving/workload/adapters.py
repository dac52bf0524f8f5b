"""Which adapter each request asks for, and prefixes that requests of different adapters do not share."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.serving.workload.sharing import Blocks, Joined
from simulator.specs.adapters import Adapters
from simulator.specs.distributions import Integers, zipf

if TYPE_CHECKING:
    from simulator.serving.workload.generate import Workload

BASE = -1
"""The model without an adapter."""


def assigned(workload: "Workload", spec: Adapters, seed: int, tenants: int = 0) -> Integers:
    """The adapter of each request, from 0; BASE for none. All turns of a conversation have one.

    InputError where adapters are those of tenants and there are none.
    """
    count = len(workload)
    random = stream(seed, "adapters")
    if spec.by_tenant:
        if workload.tenant is None:
            message = "adapters of tenants need `requests.tenants`"
            raise InputError(Problem(message, path="serving.adapters.by_tenant", hint="list them, or leave it out"))
        if spec.count < tenants:
            message = f"{tenants} tenants have {spec.count} adapters"
            raise InputError(Problem(message, path="serving.adapters.count", hint=f"write {tenants} or more"))
        found = workload.tenant.astype(np.int64)
    else:
        found = zipf(spec.zipf, 1, spec.count, random.random(count)) - 1
    if spec.base_share:
        found = np.where(random.random(count) < spec.base_share, BASE, found)
    if workload.session is not None:
        talks = workload.session >= 0
        found[talks] = found[workload.session[talks] % count]
    return found


def apart(workload: "Workload", adapters: Integers) -> "Workload":
    """The workload with identities of prefixes that differ by adapter, as keys and values do."""
    if workload.prefix is None:
        return workload
    span = 1 + max((max(blocks) for blocks in workload.prefix if len(blocks)), default=0)
    shifts = ((adapters + 1) * span).tolist()
    return replace(workload, prefix=tuple(map(_shifted, workload.prefix, shifts)))


def _shifted(blocks: Blocks, by: int) -> Blocks:
    if isinstance(blocks, range):
        return range(blocks.start + by, blocks.stop + by)
    if isinstance(blocks, Joined):
        return Joined(*(range(part.start + by, part.stop + by) for part in (blocks.head, blocks.tail)))
    return tuple(identity + by for identity in blocks)
