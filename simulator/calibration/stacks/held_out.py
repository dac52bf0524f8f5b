"""Rows that have something in common, to be left out of a fit together: scale, architecture, device, axes.

What a fit without them says of them is how far a stack's numbers carry to what it has not seen. Leaving out one source
says less: other sources often have the same sizes, devices and layouts. Rows that are in no fit (8 or 4 bits,
Blackwell) have groups of their own (`beyond`): what fits say of them that take 16 bits on Ampere and Hopper.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from simulator.axes import CP, EP, PP, TP
from simulator.interop.rows.training_names import numbers
from simulator.run.measured.training import Mapped

Groups = Mapping[str, frozenset[str]]
"""Identifiers of rows by what they have in common."""
BANDS = (8, 64, 512)
"""Devices up to which a band of scale goes."""
BLACKWELL = ("B200", "B300", "GB200", "GB300")
"""Beginnings of devices' names; none of them is in a fit of training stacks."""
LONG = 16384
"""Tokens from which on a sequence is long."""


def groups_of(rows: Iterable[Mapped], key: Callable[[Mapped], Iterable[str]] | None = None) -> Groups:
    """Rows by each of the words that a key gives them, by default by what they are."""
    found: dict[str, set[str]] = defaultdict(set)
    for mapped in rows:
        for word in (key or kinds_of)(mapped):
            found[word].add(mapped.row.id)
    return {word: frozenset(found[word]) for word in sorted(found)}


def kinds_of(mapped: Mapped) -> list[str]:
    """What a row is, in words."""
    row, model = mapped.row, mapped.scenario.model
    cut = [f"cut along {axis.name}" for axis in (TP, CP, EP, PP) if (getattr(row, axis.name) or 1) > 1]
    is_so = {
        "grouped queries": model.kv_heads < model.heads,
        "mixtures of experts": model.experts is not None,
        "dense": model.experts is None,
        "long sequences": row.seq_len >= LONG,
        "not cut": not cut,
    }
    first = [f"devices: {scale(row.devices)}", f"stack: {mapped.stack}", f"device: {row.device}"]
    return [*first, *cut, *(word for word, so in is_so.items() if so)]


def beyond(mapped: Mapped) -> list[str]:
    """What a row has that no fit, or hardly one, has seen: groups of all rows, those too that are only scored."""
    form = numbers(mapped.row.precision).precision
    is_so = {
        "8-bit products": form.startswith(("fp8", "mxfp8", "int8")),
        "4-bit products": form.endswith("fp4"),
        "latent attention": mapped.scenario.model.attention == "mla",
        "Blackwell": mapped.row.device.startswith(BLACKWELL),
    }
    return [word for word, so in is_so.items() if so]


def scale(devices: int) -> str:
    """The band of a number of devices."""
    for low, high in zip((0, *BANDS), BANDS, strict=False):
        if devices <= high:
            return f"{low + 1} to {high}"
    return f"more than {BANDS[-1]}"
