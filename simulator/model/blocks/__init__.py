"""The blocks of a transformer, each a small file with one entry in a registry.

A block is a function that yields its operations in order. An attention kind takes the model, the cut and its layer's
window, and which `part` is asked for; an MLP kind takes the model and the cut. `ATTENTIONS.add("name")` makes a kind a
value of `attention` in the file of a model.
"""

from simulator.model.blocks import dense, grouped, latent, linear, mixture, nothing, state_space
from simulator.model.blocks.base import ATTENTIONS, KEYS, MLPS, QUERIES, WHOLE

__all__ = [
    "ATTENTIONS",
    "KEYS",
    "MLPS",
    "QUERIES",
    "WHOLE",
    "dense",
    "grouped",
    "latent",
    "linear",
    "mixture",
    "nothing",
    "state_space",
]
