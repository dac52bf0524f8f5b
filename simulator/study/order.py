"""The best order of nodes for a training, as a document."""

import numpy as np

import simulator
from simulator.errors import InputError, Problem
from simulator.results.documents.order import BusiestPair, OrderDocument
from simulator.run.kinds import kind_of
from simulator.run.order.search import Found, search
from simulator.run.simulate import run
from simulator.specs.network import Pairs
from simulator.specs.network.measured import read_pairs
from simulator.specs.resolve import dump, load_scenario
from simulator.specs.scenario import Scenario
from simulator.study.header import scenario_fields


def best_order(file: str, overrides: tuple[str, ...] = ()) -> OrderDocument:
    """The order that is found for a scenario, whatever `placement` it states; InputError where it does not train."""
    loaded = load_scenario(file, overrides).scenario
    if not isinstance(loaded, Scenario):
        raise InputError(Problem(f"this scenario {kind_of(loaded).does}, and orders are of trainings", file=file))
    found = search(loaded, lambda own: run(own, recording=False))
    fields, keys = scenario_fields(dump(loaded)), loaded.cluster.network.more
    names = read_pairs(keys.matrix).names if isinstance(keys, Pairs) else ()
    before, after = _busiest(found)
    return OrderDocument(
        name=loaded.name,
        system=", ".join(fields[key] for key in ("model", "devices", "layout") if key in fields),
        nodes=found.nodes,
        called=tuple(names[node] for node in found.nodes) if names else (),
        default_step_s=found.default_s,
        step_s=found.best_s,
        default_busy_s=found.busy_s[0],
        busy_s=found.busy_s[1],
        default_pair=before,
        pair=after,
        orders=found.looked_at,
        simulations=found.simulated,
        seed=loaded.seed,
        version=simulator.__version__,
    )


def _busiest(found: Found) -> tuple[BusiestPair | None, BusiestPair | None]:
    """The busiest pair of the phase that takes longest, in order and in the order that was found."""
    if found.traffic is None:
        return None, None
    pairs = []
    for order in (np.arange(len(found.nodes)), np.array(found.nodes)):
        src, dst = found.traffic.slowest(found.rates, order)[0]
        ends = int(order[src]), int(order[dst])
        pairs.append(BusiestPair(ends, float(found.rates[ends])))
    return pairs[0], pairs[1]
