"""Model states of a rank by where they live: on the device, or elsewhere with buffers on the device."""

from simulator.specs.tiers.offload import Offload

SUBGROUPS = 2
"""Subgroups that are on the device at once where it updates what lives elsewhere: one is worked on, one travels."""
BUFFERS = 2
"""Layers whose activations or gradients are on their way at once."""


def split(
    offload: Offload | None,
    states: dict[str, float],
    largest: dict[str, float],
    updated: float,
    accumulates: bool,
) -> tuple[dict[str, float], dict[str, float]]:
    """(bytes on the device, bytes elsewhere) by kind, of the `states` of a rank.

    `largest` are bytes of the parameters and of the gradients of the largest layer, `updated` the parameters that its
    optimizer updates; `accumulates` says that gradients are summed on the device before they travel.
    """
    here, away = dict(states), dict[str, float]()
    if offload is None:
        return here, away
    if offload.optimizer is not None:
        part = offload.optimizer
        away = {name: part.share * states[name] for name in ("optimizer", "gradients")}
        here["optimizer"] -= away["optimizer"]
        if not accumulates:
            buffers = BUFFERS * largest["gradients"]
            here["gradients"] = min(states["gradients"], states["gradients"] - away["gradients"] + buffers)
        if part.update != "cpu" and updated:
            each = (states["optimizer"] + states["gradients"]) / updated
            here["subgroups on their way"] = SUBGROUPS * min(float(part.subgroup), part.share * updated) * each
    if offload.parameters is not None:
        away["parameters"] = states["parameters"]
        buffers = (offload.parameters.ahead + 1) * largest["parameters"]
        here["parameters"] = min(states["parameters"], buffers)
    return here, away
