"""One layout of a training: the twelve choices that a search makes, as a scenario and as overrides of one."""

from typing import Any, NamedTuple

from simulator.axes import CP, DP, EP, ETP, PP, TP
from simulator.specs.scenario import Scenario

AXES = (TP.name, PP.name, "vpp", CP.name, EP.name, ETP.name, DP.name, "zero")
"""Choices that are keys of `training.parallel`."""
KEYS = {
    **{name: f"training.parallel.{name}" for name in AXES},
    "schedule": "training.schedule",
    "micro_batch": "training.micro_batch",
    "recompute": "training.recompute",
    "offload": "training.offload_layers",
}
"""The key of a scenario that each choice is."""
NAMES = tuple(KEYS)


class Layout(NamedTuple):
    """How a model lies on devices and how its step runs."""

    tp: int
    pp: int
    vpp: int
    cp: int
    ep: int
    etp: int
    dp: int
    zero: int
    schedule: str
    micro_batch: int
    recompute: str
    offload: int
    """Layers of each chunk whose activations wait in the host's memory; 0 for none."""

    @property
    def name(self) -> str:
        """In words, without what is 1 or off."""
        sizes = [f"{axis} {size}" for axis, size in zip(AXES[:-1], self, strict=False) if size != 1 or axis in _ALWAYS]
        if self.ep == 1 and self.etp == self.tp and (own := f"etp {self.etp}") in sizes:
            sizes.remove(own)
        zero = [f"ZeRO-{self.zero}"] if self.zero else []
        order = [self.schedule] if self.pp > 1 else []
        again = [f"recompute {self.recompute}"] if self.recompute != "none" else []
        offload = [f"offload {self.offload} layers"] if self.offload else []
        return ", ".join([*sizes, *zero, f"micro batch {self.micro_batch}", *order, *again, *offload])

    def overrides(self, scenario: Scenario) -> tuple[str, ...]:
        """What turns a scenario into one with this layout."""
        return tuple(f"{KEYS[name]}={_text(value)}" for name, value in self.written(scenario).items())

    def written(self, scenario: Scenario) -> dict[str, int | str | None]:
        """The choices that are to be stated, by name: not those that are as the scenario has them without a word."""
        own = self.of(scenario).training
        found: dict[str, int | str | None] = dict(zip(NAMES, self, strict=True))
        found |= {ETP.name: own.parallel.etp, "offload": own.offload_layers}
        kept = {name: getattr(scenario.training.parallel, name) for name in ("vpp", CP.name, EP.name, ETP.name)}
        kept["offload"] = scenario.training.offload_layers
        return {name: value for name, value in found.items() if name not in kept or kept[name] != value}

    def of(self, scenario: Scenario) -> Scenario:
        """The scenario with this layout."""
        training = scenario.training
        sizes: dict[str, Any] = {axis: getattr(self, axis) for axis in AXES}
        if self.ep == 1 and self.etp == self.tp:
            sizes[ETP.name] = None
        parallel = training.parallel.model_copy(update=sizes)
        changed = {
            "parallel": parallel,
            "schedule": self.schedule,
            "micro_batch": self.micro_batch,
            "recompute": self.recompute,
            "offload_layers": self.offload or None,
        }
        return scenario.model_copy(update={"training": training.model_copy(update=changed)})


def _text(value: int | str | None) -> str:
    return "null" if value is None else str(value)


_ALWAYS = (TP.name, PP.name, DP.name)
