"""Why a run cannot be carried out, in the words that all pages and tables share."""

from typing import Literal

from simulator.results.result import HostMemory, MemoryUse, Result
from simulator.results.service import REJECTED

Obstacle = Literal["out of memory", "all requests rejected"]


def obstacle(result: Result) -> Obstacle:
    """What makes an infeasible result one: memory, unless there were requests and none could ever run."""
    if result.service is not None and bool((result.service.requests.status == REJECTED).all()):
        return "all requests rejected"
    return "out of memory"


def nothing_served(result: Result) -> bool:
    """Whether there were requests and all of them were rejected, so that no figure of the service is known."""
    return not result.feasible and obstacle(result) == "all requests rejected"


def remarks(result: Result) -> tuple[str, ...]:
    """The warnings but the one that `reason` tells."""
    told = None if result.feasible else reason(result)
    return tuple(text for text in result.warnings if text != told)


def reason(result: Result) -> str:
    """The same with figures: `needs 46.9 GB of 40.0 GB`, or why requests are rejected."""
    if obstacle(result) == "all requests rejected":
        return next((text for text in result.warnings if "rejected" in text), "every request is rejected")
    if not result.memory:
        return "the model does not fit"
    worst = max(result.memory, key=filled)
    host = host_full(result)
    if worst.peak <= worst.capacity and host is not None:
        return f"the devices of a node keep {host.peak / 1e9:,.1f} GB in a host of {host.capacity / 1e9:,.1f} GB"
    if worst.peak <= worst.capacity:
        size = f"{worst.peak / 1e9:.1f} GB of {worst.capacity / 1e9:.1f} GB are taken without it"
        return f"`serving.kv_cache` leaves no room for keys and values, or asks for more `blocks` than fit; {size}"
    return f"needs {worst.peak / 1e9:.1f} GB of {worst.capacity / 1e9:.1f} GB"


def host_full(result: Result) -> HostMemory | None:
    """The host whose memory does not suffice, None where it does or nothing is kept there."""
    host = result.host
    return host if host is not None and host.peak > host.capacity else None


def filled(use: MemoryUse | HostMemory) -> float:
    """Peak over capacity; infinite where there is no capacity."""
    return use.peak / use.capacity if use.capacity else float("inf")
