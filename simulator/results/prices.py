"""Why the cost or the energy of a run is not known, and which key makes it so."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simulator.scenario_fields import Fields, at


def unpriced(scenario: Fields) -> list[str]:
    """Devices of a resolved scenario whose price is not known, each once; none where it says nothing of devices."""
    return _without(scenario, "price")


def unpowered(scenario: Fields) -> list[str]:
    """The same of devices whose electric power is not known."""
    return _without(scenario, "power")


def missing_price(devices: Iterable[str]) -> str:
    """What to write to learn the cost; empty where every price is known."""
    named = ", ".join(devices)
    return f"cost: no price of {named} is known; write `cluster.node.accelerator.price=2.50 USD/h`" if named else ""


def missing_power(devices: Iterable[str]) -> str:
    """What to write to learn the energy; empty where the power of every device is known."""
    named = ", ".join(devices)
    return f"energy: no power of {named} is known; write `cluster.node.accelerator.power.peak=400 W`" if named else ""


def _without(scenario: Fields, key: str) -> list[str]:
    known = [at({"of": cluster}, "of.node.accelerator") for cluster in _clusters(scenario)]
    known = [one for one in known if isinstance(one, Mapping) and one.get("name")]
    return list(dict.fromkeys(str(one["name"]) for one in known if one.get(key) is None))


def _clusters(scenario: Fields) -> Iterator[Any]:
    own = [pool.get("cluster") for pool in at(scenario, "serving.pools") or () if isinstance(pool, Mapping)]
    yield from own
    if not own or None in own:
        yield scenario.get("cluster")
