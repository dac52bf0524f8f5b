"""The closed form of collectives over all measured rows at once, with the figures of a profile as variables."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from simulator import collectives, fabric
from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.choice import ruled
from simulator.collectives.demand import demand_of
from simulator.collectives.placement import placements
from simulator.collectives.rate import PASSES
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

BOUNDS = {
    "launch": (1e-6, 5e-4),
    "latency": (1e-7, 2e-4),
    "efficiency": (0.005, 1.0),
    "fraction": (0.01, 12.0),
    "bytes": (1e4, 3e9),
    "wait": (1e-7, 2e-4),
    "piece_bytes": (1e4, 3e9),
    "own_piece": (0.01, 1.5),
}
OWN = "own_piece"
BETWEEN = ("nvls_tree", "hierarchical", "hierarchical_tree")
"""Algorithms that always cross nodes."""


@cache
def _fabric(cluster: str, nodes: int) -> fabric.Fabric:
    return fabric.build(load_spec(Cluster, cluster).model_copy(update={"nodes": int(nodes)}))


def _group(row: Any) -> tuple[fabric.Fabric, np.ndarray[Any, Any]]:
    """The ranks of a row: the first ones of each node."""
    machine = _fabric(row.cluster, row.nodes)
    ranks = 2 if row.op == "send" and row.nodes == 1 else row.ranks // row.nodes
    return machine, (np.arange(row.nodes)[:, None] * machine.numbering.per_node[0] + np.arange(ranks)).ravel()


def predicted(rows: pd.DataFrame, profile: CollectiveProfile) -> np.ndarray[Any, Any]:
    """Seconds as the simulator prices them."""
    seconds = []
    for row in rows.itertuples():
        machine, group = _group(row)
        cost = collectives.cost_of(str(row.op), group, _number(row.size), machine, profile, str(row.algorithm))
        seconds.append(cost.slowest / 1e12)
    return np.array(seconds)


def _number(cell: Any) -> float:
    return float(cell)


def _names(profile: CollectiveProfile, op: str, forced: str) -> tuple[str, ...]:
    return (forced,) if forced != "auto" else profile.algorithms[op]  # type: ignore[index]


def _taken(row: Any, profile: CollectiveProfile) -> str:
    """What the library's tuner takes, or the algorithm of its rules, whatever the figures; empty where it has none."""
    tuner = profile.tuner if row.nodes == 1 or (profile.tuner and profile.tuner.across_nodes) else None
    known = {f"{option.algorithm}/{option.protocol}" for option in tuner.options} if tuner else set()
    machine, group = _group(row)
    if row.algorithm == "auto" and any(rule.operation == row.op for rule in profile.rules):
        return ruled(str(row.op), int(row.nodes), _number(row.size), profile, profile.algorithms[row.op])
    if not known or not {name.partition("/")[0] for name in known} & set(_names(profile, row.op, row.algorithm)):
        return ""
    [taken] = collectives.cost_of(row.op, group, row.size, machine, profile, row.algorithm).algorithms
    return taken if taken in known else ""


class Model:
    """The closed form over all rows at once: what `collectives.cost_of` does, with the figures as variables."""

    def __init__(self, rows: pd.DataFrame, profile: CollectiveProfile) -> None:
        """Collect hops and link times of every row and algorithm."""
        self.rows, self.profile = rows, profile
        names = {name for serving in profile.algorithms.values() for name in serving}
        self.features = {name: np.full((8, len(rows)), np.nan) for name in sorted(names)}
        for place, row in enumerate(rows.itertuples()):
            for name in _names(profile, str(row.op), str(row.algorithm)):
                self.features[name][:, place] = self._features(row, name)
        self.taken = [_taken(row, profile) for row in rows.itertuples()]
        self.pieces = np.nan_to_num(rows.op.map(PASSES).to_numpy(float) * (rows.ranks.to_numpy() - 1), nan=np.inf)

    def _features(self, row: Any, name: str) -> list[float]:
        """Hops, link seconds of a byte (inside nodes, between), whether nodes are crossed, wire beyond the known, and
        whether it is a ring."""
        machine, group = _group(row)
        layout, _ = next(placements(group[None], machine))
        phases = ALGORITHMS.get(name)(str(row.op), layout)
        if phases is None:
            return [np.nan] * 8
        total = np.zeros(8)
        for phase in phases:
            demand = demand_of(phase, group[None], machine)
            inner, outer = demand.alone(machine)
            wire = [
                max(0.0, float(w[0]) - f.value)
                for w, f in zip(demand.wire, (self.profile.wire.scale_up, self.profile.wire.scale_out), strict=True)
            ]
            hops = np.array([phase.inner, phase.outer])
            total[:4] += phase.repeat * np.array([*hops, inner[0], outer[0]])
            total[5:7] += phase.repeat * hops * wire
            total[4] = max(total[4], float(phase.outer > 0))
            total[7] = max(total[7], float(phase.rolling))
        return list(total)

    def seconds(self, figures: dict[str, float]) -> np.ndarray[Any, Any]:
        """Time of what the library's tuner takes, where it has none the shortest, given all figures by path."""
        best = np.full(len(self.rows), np.inf)
        size, on_node = self.rows["size"].to_numpy(float), (self.rows.ranks // self.rows.nodes).to_numpy(float)
        for name, (hops_in, hops_out, busy_in, busy_out, crosses, wire_in, wire_out, ring) in self.features.items():
            for protocol, spec in self.profile.protocols_of(name).items():
                scopes = spec.of(bool(np.nanmax(ring, initial=0.0)))
                path = protocol if scopes is spec else f"{protocol}.trees"
                inner, outer = (
                    {k: figures.get(f"{path}.{s}.{k}", 0.0) for k in BOUNDS if k != OWN}
                    for s in ("scale_up", "scale_out")
                )
                launch, fraction, full = (
                    np.where(crosses > 0, outer[k], inner[k]) for k in ("launch", "fraction", "bytes")
                )
                moving = np.maximum(busy_in / inner["efficiency"], busy_out / outer["efficiency"])
                fill = scopes.scale_out.fill if np.nanmax(crosses, initial=0.0) else scopes.scale_up.fill
                full = full * on_node if fill is not None and fill.each else full
                moving = moving * (size + fraction * np.minimum(size, full)) * (1 + figures[OWN] / self.pieces)
                waits = wire_in + wire_out + hops_in * _hop(inner, size) + hops_out * _hop(outer, size)
                flows = np.where(crosses > 0, 1 - scopes.scale_out.stored, 1 - scopes.scale_up.stored) * ring
                waits = np.maximum(waits - flows * moving * hops_in / np.maximum(hops_in + hops_out, 1e-9), 0.0)
                seconds = launch + waits + moving
                mine = [taken in ("", name, f"{name}/{protocol}") for taken in self.taken]
                best = np.where(mine, np.fmin(best, seconds), best)
        return best


def _hop(scope: dict[str, float], size: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Seconds of a hop of messages of each size."""
    grown = np.minimum(1.0, size / scope["piece_bytes"]) if scope["piece_bytes"] else 0.0
    return np.asarray(scope["latency"] + scope["wait"] * grown)
