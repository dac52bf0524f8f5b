"""Why a run cannot be carried out, in the words that all pages and tables share."""

from collections.abc import Iterable
from typing import Literal

from simulator.results.result import HostMemory, JobRecord, MemoryUse, Result
from simulator.results.serving.service import REJECTED

NO_FIT = " does not fit: "
"""What the warning of a stage that does not fit its devices says after its name."""

Infeasibility = Literal["out of memory", "all requests rejected", "no replica starts"]

NEVER_STARTS = "no replica ever starts"
"""What the warning of a fleet that never starts begins with."""


def infeasibility(result: Result) -> Infeasibility:
    """What makes an infeasible result one: memory, unless there were requests and none could ever run; of several jobs
    what makes the first of them so."""
    if (job := _first(result)) is not None:
        return infeasibility(job.result)
    if any(text.startswith(NEVER_STARTS) for text in result.warnings):
        return "no replica starts"
    if result.service is not None and bool((result.service.requests.status == REJECTED).all()):
        return "all requests rejected"
    return "out of memory"


def nothing_served(result: Result) -> bool:
    """Whether there were requests and all of them were rejected, so that no figure of the service is known."""
    return not result.feasible and not result.jobs and infeasibility(result) != "out of memory"


def remarks(result: Result) -> tuple[str, ...]:
    """The warnings but the one that `reason` tells."""
    note = None if result.feasible else reason(result)
    return tuple(text for text in result.warnings if text != note)


def reason(result: Result) -> str:
    """The same with figures: `needs 46.9 GB of 40.0 GB`, or why requests are rejected; of several jobs named."""
    if (job := _first(result)) is not None:
        return f"{job.name}: {reason(job.result)}"
    if infeasibility(result) == "no replica starts":
        return next(text for text in result.warnings if text.startswith(NEVER_STARTS))
    if infeasibility(result) == "all requests rejected":
        return next((text for text in result.warnings if "rejected" in text), "every request is rejected")
    if not result.memory:
        return next((text for text in result.warnings if NO_FIT in text), "the model does not fit")
    worst = max(result.memory, key=filled)
    host = host_full(result)
    if worst.peak <= worst.capacity and host is not None:
        where = "on drives" if host is result.nvme else "in a host"
        return f"the devices of a node keep {host.peak / 1e9:,.1f} GB {where} of {host.capacity / 1e9:,.1f} GB"
    if worst.peak <= worst.capacity:
        size = f"{worst.peak / 1e9:.1f} GB of {worst.capacity / 1e9:.1f} GB are taken without it"
        return f"`serving.kv_cache` leaves no room for keys and values, or asks for more `blocks` than fit; {size}"
    return f"needs {worst.peak / 1e9:.1f} GB of {worst.capacity / 1e9:.1f} GB"


def _first(result: Result) -> JobRecord | None:
    """The first of several jobs that cannot be carried out."""
    return next((job for job in result.jobs if not job.result.feasible), None)


def host_full(result: Result) -> HostMemory | None:
    """The host whose memory, or else whose drives, do not suffice; None where they do or nothing is kept there."""
    tiers = (use for use in (result.host, result.nvme) if use is not None)
    return next((use for use in tiers if use.peak > use.capacity), None)


CLOSE = "memory too close to call"
"""What every page says of a run whose fit is within the error of simulated memory; its warning begins with it."""


def close_call(memory: Iterable[MemoryUse], error: float, rows: int, spare: str = "") -> str:
    """The warning where the fullest device is within an error of its capacity, above or below; else empty.

    `spare` is a kind of memory that takes what the others leave, so that it decides nothing.
    """
    needs = [(use.peak - use.at_peak.get(spare, 0.0), use.capacity) for use in memory if use.capacity > 0]
    need, capacity = max(needs, key=lambda one: one[0] / one[1], default=(0.0, 1.0))
    if not rows or abs(need / capacity - 1) > error:
        return ""
    size = f"{need / 1e9:.1f} of {capacity / 1e9:.1f} GB"
    return f"{CLOSE}: {size}, and simulated memory is off by {100 * error:.1f} % on average ({rows} published runs)"


def undecided(warnings: Iterable[str]) -> bool:
    """Whether a run's warnings say that its memory is too close to call."""
    return any(text.startswith(CLOSE) for text in warnings)


def filled(use: MemoryUse | HostMemory) -> float:
    """Peak over capacity; infinite where there is no capacity."""
    return use.peak / use.capacity if use.capacity else float("inf")
