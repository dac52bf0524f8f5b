"""Why the cost or the energy of a run is not known, and which key makes it so."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def unpriced(scenario: Mapping[str, Any]) -> list[str]:
    """Devices of a resolved scenario whose price is not known, each once; none where it says nothing of devices."""
    return _without(scenario, "price")


def unpowered(scenario: Mapping[str, Any]) -> list[str]:
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


def _without(scenario: Mapping[str, Any], key: str) -> list[str]:
    known = [one for one in map(_accelerator, _clusters(scenario)) if one.get("name")]
    return list(dict.fromkeys(str(one["name"]) for one in known if one.get(key) is None))


def _clusters(scenario: Mapping[str, Any]) -> Iterator[Any]:
    serving = scenario.get("serving")
    pools = serving.get("pools") if isinstance(serving, Mapping) else None
    own = [pool.get("cluster") for pool in pools or () if isinstance(pool, Mapping)]
    yield from own
    if not own or None in own:
        yield scenario.get("cluster")


def _accelerator(cluster: Any) -> Mapping[str, Any]:
    at = cluster
    for key in ("node", "accelerator"):
        at = at.get(key) if isinstance(at, Mapping) else None
    return at if isinstance(at, Mapping) else {}
