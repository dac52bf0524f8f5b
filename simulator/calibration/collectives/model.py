"""The closed form of collectives over all measured rows at once, with the figures of a profile as variables."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd

from simulator import collectives, fabric
from simulator.calibration.collectives.figures import BOUNDS, OWN
from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.choice import ruled
from simulator.collectives.demand import demand_of
from simulator.collectives.placement import placements
from simulator.collectives.rate import PASSES
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile, Environment, Scopes
from simulator.specs.resolve import load_spec

BETWEEN = ("nvls_tree", "hierarchical", "hierarchical_tree")
"""Algorithms that always cross nodes."""


@cache
def _fabric(cluster: str, nodes: int) -> fabric.Fabric:
    return fabric.build(load_spec(Cluster, cluster).model_copy(update={"nodes": int(nodes)}))


def _group(row: Any) -> tuple[fabric.Fabric, np.ndarray[Any, Any]]:
    """The ranks of a row: the first ones of each node; of a message to the next rank one that sends and one that gets
    it, on two nodes where there are several."""
    machine = _fabric(row.cluster, row.nodes)
    held = machine.numbering.per_node[0]
    if row.op == "send":
        return machine, np.array([0, held if row.nodes > 1 else 1])
    return machine, (np.arange(row.nodes)[:, None] * held + np.arange(row.ranks // row.nodes)).ravel()


def predicted(rows: pd.DataFrame, profile: CollectiveProfile) -> np.ndarray[Any, Any]:
    """Seconds as the simulator prices them."""
    seconds = []
    for row in rows.itertuples():
        machine, group = _group(row)
        told = getattr(row, "environment", "")
        library = profile.model_copy(update={"environment": Environment.model_validate_json(told)}) if told else profile
        cost = collectives.cost_of(str(row.op), group, _number(row.size), machine, library, str(row.algorithm))
        seconds.append(cost.slowest / 1e12)
    return np.array(seconds)


def _number(cell: Any) -> float:
    return float(cell)


def _names(profile: CollectiveProfile, op: str, forced: str) -> tuple[str, ...]:
    return (forced.partition("/")[0],) if forced != "auto" else profile.algorithms[op]  # type: ignore[index]


def runs(row: Any, profile: CollectiveProfile) -> bool:
    """Whether an algorithm of the library, or the one that a row forces, can do its operation on its ranks."""
    machine, group = _group(row)
    layout, _ = next(placements(group[None], machine))
    return any(ALGORITHMS.get(name)(str(row.op), layout) for name in _names(profile, str(row.op), str(row.algorithm)))


@cache
def _told(name: str, environment: str) -> CollectiveProfile:
    """A shipped profile, told something by its environment (as JSON)."""
    told = Environment.model_validate_json(environment)
    return load_spec(CollectiveProfile, name).model_copy(update={"environment": told})


def _chooser(row: Any, profile: CollectiveProfile) -> CollectiveProfile:
    """The profile by whose tables a row's library chose: another one's where rows of several are fitted together."""
    name, environment = getattr(row, "profile", None), getattr(row, "environment", None)
    if isinstance(environment, str) and environment:
        return _told(str(name), environment)
    return load_spec(CollectiveProfile, str(name)) if isinstance(name, str) and name else profile


def _taken(row: Any, profile: CollectiveProfile) -> str:
    """What the library's tuner takes, or the algorithm of its rules, or what the row forces with its protocol, whatever
    the figures; empty where none of them says."""
    if "/" in str(row.algorithm):
        return str(row.algorithm)
    profile = _chooser(row, profile)
    tuner = profile.tuner if row.nodes == 1 or (profile.tuner and profile.tuner.across_nodes) else None
    known = {f"{option.algorithm}/{option.protocol}" for option in tuner.options} if tuner else set()
    machine, group = _group(row)
    if row.algorithm == "auto" and any(rule.operation == row.op for rule in profile.rules):
        own = profile.algorithms[row.op]
        able = {f"{name}/{protocol}" for name in own for protocol in profile.protocols_of(name)} | set(own)
        return ruled(str(row.op), int(row.ranks), int(row.nodes), _number(row.size), profile, able)
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
        self.features = {name: np.full((9, len(rows)), np.nan) for name in sorted(names)}
        for place, row in enumerate(rows.itertuples()):
            for name in _names(profile, str(row.op), str(row.algorithm)):
                self.features[name][:, place] = self._features(row, name)
        self.taken = [_taken(row, profile) for row in rows.itertuples()]
        self.pieces = np.nan_to_num(rows.op.map(PASSES).to_numpy(float) * (rows.ranks.to_numpy() - 1), nan=np.inf)

    def part(self, wanted: np.ndarray[Any, Any]) -> "Model":
        """The same over some of the rows."""
        found = Model.__new__(Model)
        found.rows, found.profile = self.rows[wanted].reset_index(drop=True), self.profile
        found.features = {name: each[:, wanted] for name, each in self.features.items()}
        found.taken = [taken for taken, mine in zip(self.taken, wanted, strict=True) if mine]
        found.pieces = self.pieces[wanted]
        return found

    @cached_property
    def candidates(self) -> "list[_Candidate]":
        """Algorithms under protocols, each with the rows that it is a choice for."""
        found = []
        lone = (self.rows.nodes > 1).to_numpy() & (self.on_node == 1)
        for name, features in self.features.items():
            ring = name == "ring" or bool(np.nanmax(features[7], initial=0.0))
            for protocol, spec in self.profile.protocols_of(name).items():
                able = np.array([taken in ("", name, f"{name}/{protocol}") for taken in self.taken], bool)
                for scopes in dict.fromkeys((spec.of(ring), spec.of(ring, lone=True))):
                    path = protocol if scopes is spec else f"{protocol}.trees"
                    mine = able & np.where(lone, spec.of(ring, lone=True) is scopes, spec.of(ring) is scopes)
                    rows = np.flatnonzero(mine & ~np.isnan(features[0]))
                    if len(rows):
                        found.append(_Candidate(path, scopes, rows, features[:, rows]))
        return found

    def _features(self, row: Any, name: str) -> list[float]:
        """Hops, link seconds of a byte (inside nodes, between), whether nodes are crossed, wire beyond the known,
        whether it is a ring, and whether a switch adds up."""
        machine, group = _group(row)
        layout, _ = next(placements(group[None], machine))
        phases = ALGORITHMS.get(name)(str(row.op), layout)
        if phases is None:
            return [np.nan] * 9
        total = np.zeros(9)
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
            total[8] = max(total[8], float(phase.switched))
        return list(total)

    def seconds(self, figures: dict[str, float]) -> np.ndarray[Any, Any]:
        """Time of what the library's tuner takes, where it has none the shortest, given all figures by path."""
        best = np.full(len(self.rows), np.inf)
        for each in self.candidates:
            rows = each.rows
            seconds = each.seconds(figures, self.sizes[rows], self.on_node[rows], self.pieces[rows])
            best[rows] = np.minimum(best[rows], seconds)
        seen: np.ndarray[Any, Any] = np.maximum(best + self._host("call"), self._host("issue"))
        return seen

    @cached_property
    def sizes(self) -> np.ndarray[Any, Any]:
        """Bytes of each row."""
        return self.rows["size"].to_numpy(float)

    @cached_property
    def on_node(self) -> np.ndarray[Any, Any]:
        """Ranks on each node of a row."""
        return np.asarray(self.rows.ranks // self.rows.nodes, float)

    def _host(self, what: str) -> np.ndarray[Any, Any]:
        """Seconds by which the host shows in each row: that every call adds, or that no call is shorter than."""
        if what not in self._hosts:
            shown = self.rows[what].fillna(0.0).to_numpy(float) if what in self.rows else np.zeros(len(self.rows))
            self._hosts[what] = shown
        return self._hosts[what]

    @cached_property
    def _hosts(self) -> dict[str, np.ndarray[Any, Any]]:
        return {}


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An algorithm under a protocol, and what it asks of the fabric in the rows that may run so."""

    path: str
    scopes: Scopes
    rows: np.ndarray[Any, Any]
    features: np.ndarray[Any, Any]
    """As of `Model._features`, a column for each of these rows."""

    def seconds(
        self,
        figures: dict[str, float],
        size: np.ndarray[Any, Any],
        on_node: np.ndarray[Any, Any],
        pieces: np.ndarray[Any, Any],
    ) -> np.ndarray[Any, Any]:
        """Time of each of these rows."""
        hops_in, hops_out, busy_in, busy_out, crosses, wire_in, wire_out, ring, switched = self.features
        scopes, across = self.scopes, crosses > 0
        inner, outer = (
            {k: figures.get(f"{self.path}.{s}.{k}", 0.0) for k in BOUNDS if k != OWN} for s in ("scale_up", "scale_out")
        )
        launch, fraction, full = (np.where(across, outer[k], inner[k]) for k in ("launch", "fraction", "bytes"))
        own = 1 + np.where(switched > 0, 0.0, figures[OWN] / pieces)
        moving = np.maximum(busy_in * own / inner["efficiency"], busy_out / outer["efficiency"])
        each_in, each_out = (s.fill is not None and s.fill.each for s in (scopes.scale_up, scopes.scale_out))
        full = np.where(np.where(across, each_out, each_in), full * on_node, full)
        moving = moving * (size + fraction * np.minimum(size, full))
        waits = wire_in + wire_out + hops_in * _hop(inner, size) + hops_out * _hop(outer, size)
        flows = np.where(across, 1 - scopes.scale_out.stored, 1 - scopes.scale_up.stored) * ring
        waits = np.maximum(waits - flows * moving * hops_in / np.maximum(hops_in + hops_out, 1e-9), 0.0)
        return np.asarray(launch + waits + moving)


def _hop(scope: dict[str, float], size: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Seconds of a hop of messages of each size."""
    grown = np.sqrt(np.minimum(1.0, size / scope["piece_bytes"])) if scope["piece_bytes"] else 0.0
    return np.asarray(scope["latency"] + scope["wait"] * grown)
