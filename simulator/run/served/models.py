"""From a run over several models to its record: attempts of requests, and what their pools took."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Service
from simulator.results.serving.model_routing import UNKNOWN, ModelUse
from simulator.results.serving.service import held_seconds
from simulator.serving.fleet.models import COLUMNS, LAST

if TYPE_CHECKING:
    from simulator.run.serve import ServingRun

Ints = NDArray[np.int64]


def model_use(run: "ServingRun", row: Ints) -> ModelUse | None:
    """Attempts of requests, whose rows in the record are `row`; None without several models."""
    choice, spec = run.models, run.scenario.serving.models
    if choice is None or spec is None:
        return None
    names = [system.name for system in run.systems]
    table = np.frombuffer(choice.rows, np.int64).reshape(-1, len(COLUMNS)).T.copy()
    request, pool, sent, scheduled, end, prompt, output, kept = table
    kind = np.zeros(len(row), np.int64)
    kind[row] = choice.kind
    return ModelUse(
        pools=tuple(names),
        models=tuple(system.model.name if system.model is not None else "" for system in run.systems),
        classes=tuple(one.name for one in spec.classes),
        accuracy=tuple(one.accuracy.get(name, UNKNOWN) for one in spec.classes for name in names),
        judge=choice.judge,
        judged=tuple(int(after != LAST) for after in choice.following),
        difficulty=kind,
        request=row[request],
        pool=pool,
        sent=sent,
        scheduled=scheduled,
        end=end,
        prompt=prompt,
        output=output,
        kept=kept,
    )


def with_amounts(
    run: "ServingRun", service: Service, prices: Mapping[str, float | None], energy: Sequence[float | None]
) -> Service:
    """A service with what the pools of its models took: device time, money and energy, of which `energy` says joules by
    replica."""
    use = service.models
    if use is None:
        return service
    pools = [number for number, system in enumerate(run.systems) for _ in range(system.replicas)]
    devices = np.zeros(len(run.systems))
    for pool, replica, held in zip(pools, service.replicas, held_seconds(service), strict=True):
        devices[pool] += replica.devices * held
    kinds = [prices.get(system.node.accelerator.name) for system in run.systems]
    cost = [seconds * price for seconds, price in zip(devices.tolist(), kinds, strict=True) if price is not None]
    joules = np.zeros(len(run.systems))
    for pool, one in zip(pools, energy, strict=True):
        joules[pool] += np.nan if one is None else one
    known = bool(np.isfinite(joules).all())
    use = replace(
        use,
        devices=tuple(devices.tolist()),
        cost=tuple(cost) if len(cost) == len(kinds) else (),
        energy=tuple(joules.tolist()) if known else (),
    )
    return replace(service, models=use)
