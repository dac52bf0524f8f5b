"""Sentences and rows of ranked layouts that all their pages share."""

from simulator import units
from simulator.report.text import wording
from simulator.report.text.plain import clean
from simulator.results.documents.layouts import LayoutsDocument, LeastNeeded, RankedLayout


def about(document: LayoutsDocument) -> list[str]:
    """What was asked, in lines."""
    system, batch = document.system, f"batch {document.global_batch:,} of {document.sequence_length:,} tokens"
    where = document.machines[0] if len(document.machines) == 1 else f"{len(document.machines)} clusters"
    lines = [f"{system.model} on {where}, {system.stack} · {batch}"]
    wanted = ["least time" if document.by == "time" else "least money"]
    if document.tokens is not None:
        wanted.append(f"{wording.tokens(document.tokens)} tokens")
    if document.days is not None:
        wanted.append(f"within {document.days:g} days")
    if document.budget_usd is not None:
        wanted.append(f"for {units.format(document.budget_usd, 'money')} at most")
    lines.append(f"wanted: {', '.join(wanted)}")
    if document.fixed:
        fixed = (f"{name} {', '.join(map(str, values))}" for name, values in document.fixed.items())
        lines.append(f"given: {'; '.join(fixed)}")
    return lines


def headline(document: LayoutsDocument) -> str:
    """The answer in a sentence."""
    if not document.layouts:
        if document.least:
            return "No layout keeps the limits. " + " ".join(least(one) for one in document.least)
        return "No layout fits into memory." if document.counts.memory else "There is no such layout."
    best = document.layouts[0]
    on = f" on {best.machine}" if len(document.machines) > 1 else ""
    step = units.format(best.step_time_s, "time")
    return f"{clean(best.name)}{clean(on)}: {step} a step, MFU {wording.percent(best.mfu)}."


def least(one: LeastNeeded) -> str:
    """What it takes at least."""
    value = units.format(one.value, "money") if one.what == "cost_usd" else f"{units.plain(one.value)} days"
    kept = f" {one.limits}" if one.limits else ""
    return f"It takes at least {value}{kept}: {clean(one.layout)} on {clean(one.machine)}."


def counted(document: LayoutsDocument) -> list[str]:
    """Where the candidates went."""
    counts = document.counts
    said = [
        (
            counts.refused,
            "refused: the model, the software or the cluster has no such layout, or the price is not known",
        ),
        (counts.memory, "infeasible: more memory than a device has"),
        (counts.days, "infeasible: too long"),
        (counts.budget, "infeasible: too dear"),
        (counts.compute, "pruned by the compute roof: no faster than the best, were nothing sent"),
        (counts.communication, "pruned by the roof with communication"),
        (counts.bubble, "pruned by the bubble"),
        (counts.unshared, "pruned by the step with nothing shared"),
        (counts.failed, "failed: the simulator is wrong"),
        (counts.beaten, "priced and behind"),
        (counts.leaders, f"priced and shown, {counts.simulated:,} of them simulated event by event"),
    ]
    reused = f" ({counts.looked_up:,} from the cache)" if counts.looked_up else ""
    large = f", of which {counts.ledger:,} are too large by the whole ledger of memory" if counts.ledger else ""
    taken = f"{counts.priced:,} within all bounds taken up to be priced{reused}{large}"
    return [*(f"{number:,} {what}" for number, what in said if number), taken]


def titles(document: LayoutsDocument) -> tuple[str, ...]:
    """Heads of the columns after the layout."""
    whole = ("days",) if document.tokens is not None else ()
    carbon = ("CO2e",) if document.grid is not None else ()
    per = "" if document.tokens is not None else "a step "
    return ("step", "expected", "MFU", "memory", *whole, f"{per}cost", f"{per}energy", *carbon, "sure")


def cells(document: LayoutsDocument, one: RankedLayout) -> tuple[str, ...]:
    """A row of figures."""
    low, high = one.step_time_low_s, one.step_time_high_s
    whole = (units.plain(one.days),) if one.days is not None else ()
    carbon = (_known(one.carbon_kg, "carbon"),) if document.grid is not None else ()
    return (
        units.format(one.step_time_s, "time"),
        "-" if low is None or high is None else f"{units.format(low, 'time')} to {units.format(high, 'time')}",
        wording.percent(one.mfu),
        f"{one.peak_memory_bytes / 1e9:.1f} of {one.memory_bytes / 1e9:.1f} GB",
        *whole,
        _known(one.cost_usd, "money"),
        _known(one.energy_j, "energy"),
        *carbon,
        "" if one.confidence is None else f"{100 * one.confidence:.0f} %",
    )


def _known(value: float | None, dimension: str) -> str:
    return "-" if value is None else units.format(value, dimension)


def layout(document: LayoutsDocument, one: RankedLayout) -> str:
    """The layout's name, with its cluster where there are several."""
    return f"{clean(one.name)} on {clean(one.machine)}" if len(document.machines) > 1 else clean(one.name)


def remarks(document: LayoutsDocument) -> list[str]:
    """What the columns mean."""
    what = "faster" if document.by == "time" else "cheaper"
    said = [
        f"sure: how sure it is that the first layout is {what} than this one, from how published runs like them err"
    ]
    if document.grid is not None:
        said.append(
            f"CO2e: energy of the devices at {1e3 * (document.grid_kg_per_kwh or 0):.0f} g/kWh, {document.grid}"
            f" ({document.grid_source}); neither cooling nor making them"
        )
    close = [one.name for one in document.layouts if one.memory_too_close]
    return said + [f"memory too close to call: {clean(name)}" for name in close]
