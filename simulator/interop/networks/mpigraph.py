"""Output of mpiGraph: the bandwidth of every ordered pair of nodes, which the cluster file names and reads itself."""

import numpy as np

from simulator import units
from simulator.errors import InputError, Problem
from simulator.interop.networks import Read
from simulator.specs.hardware import Cluster
from simulator.specs.network.measured import parsed

_NOTABLE = 1.1
"""Times by which the two ways of a pair differ from which it is worth a line."""


def read(text: str, name: str, cluster: Cluster) -> Read:
    """The matrix as a network of kind `pairs`."""
    found = parsed(text, name)
    nics = cluster.node.nics
    if nics is None:
        raise InputError(Problem(f"nodes of `{cluster.name}` have no cards", name, hint="name another `--cluster`"))
    rates, nodes = found.rates, len(found.names)
    apart = ~np.eye(nodes, dtype=bool)
    low, high = (units.format(float(rate), "bandwidth") for rate in (rates[apart].min(), rates[apart].max()))
    assumed = [f"{nodes} nodes, pairs of {low} to {high}"]
    if not found.both:
        assumed.append("one matrix only: what the other ends saw is not in the file")
    ways = np.where(apart, rates, 1.0) / np.where(apart, rates.T, 1.0)
    if ways.max() > _NOTABLE:
        row, column = np.unravel_index(int(ways.argmax()), ways.shape)
        pair = f"`{found.names[row]}` to `{found.names[column]}`"
        assumed.append(f"the two ways of a pair differ: {pair} has {ways.max():.2f} times the way back")
    if nics.count > 1:
        assumed.append(
            f"a figure is of all {nics.count} cards of a node; of one card, as one task often uses: write `of: card`"
        )
    if float(rates[apart].max()) > nics.count * nics.bandwidth.value:
        assumed.append("some pairs were measured above what the cards of the cluster carry, which bounds them")
    return Read({"nodes": nodes, "network": {"kind": "pairs", "matrix": name}}, assumed)
