"""Device memory on the page: the ledger at the worst moment and, where it does not fit, what would help."""

from collections.abc import Iterable
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.axes import PP, TP
from simulator.report.text import wording
from simulator.report.text.blocks import grid, heading, notes
from simulator.report.text.plain import clean
from simulator.results.infeasibility import filled, host_full, reason
from simulator.results.result import HostMemory, MemoryUse, Result
from simulator.results.summary import class_names
from simulator.scenario_fields import chosen, devices, replicas, whole

_BAR = 50
_NOTABLE = 0.05  # shares of the peak below which a kind is not worth a hint


def memory(result: Result) -> Iterable[RenderableType]:
    """Peak of the fullest device by kind, with bars in shares of its capacity."""
    if not result.memory:
        return
    fullest = max(result.memory, key=filled)
    yield heading(f"Device memory at its peak, {place_of(result, fullest)}")
    yield ledger(fullest)
    yield from _host(result)
    low, high = min(use.peak for use in result.memory), max(use.peak for use in result.memory)
    if low < high:
        yield Text(f"peaks of all classes: {units.format(low, 'bytes')} to {units.format(high, 'bytes')}", "dim")


def out_of_memory(result: Result) -> Iterable[RenderableType]:
    """The classes that need more than their device has, the ledger of the worst, and hints."""
    over = sorted((use for use in result.memory if use.peak > use.capacity), key=filled, reverse=True)
    if not over and host_full(result) is not None:
        yield Text.assemble(("OUT OF MEMORY  ", "bold red"), (clean(reason(result)), "bold"))
        yield from _host(result)
        yield from notes("What would help", for_host(result.scenario), "cyan")
        return
    if not over:
        yield Text.assemble(("INFEASIBLE  ", "bold red"), (clean(reason(result)), "bold"))
        yield from notes("What would help", for_rejected(result), "cyan")
        return
    worst = over[0]
    size = f"{units.format(worst.peak, 'bytes')} of {units.format(worst.capacity, 'bytes')}"
    yield Text.assemble(("OUT OF MEMORY  ", "bold red"), (f"{place_of(result, worst)} needs {size}", "bold"))
    if len(result.memory) > 1:
        ranks = sum(result.classes[use.device_class].ranks for use in over)
        all_ranks = sum(c.ranks for c in result.classes)
        yield Text(f"{ranks:,} of {wording.plural(all_ranks, 'rank')} exceed their memory", "dim")
    yield heading("The ledger at that moment")
    yield ledger(worst)
    yield from _host(result)
    yield from notes("What would help", hints(worst, result.scenario), "cyan")


def _host(result: Result) -> Iterable[RenderableType]:
    """The memory of the fullest host, where something is kept there."""
    if result.host is not None:
        yield heading("Memory of the fullest host, which the devices of its node share")
        yield ledger(result.host)
    if result.nvme is not None:
        yield heading("NVMe drives of the fullest node, which its devices share")
        yield ledger(result.nvme)


def for_host(scenario: dict[str, Any]) -> list[str]:
    """Changes of a scenario whose hosts are too small for what their devices keep there."""
    if scenario.get("training", {}).get("offload") is not None:
        return [
            "less of it: training.offload.activations.layers, share or tokens; training.offload.optimizer.share",
            "the other tier: `to: nvme` or `to: host`; or more nodes, over which ZeRO spreads states",
        ]
    now = whole(scenario, "training.offload_layers", 0)
    return [
        f"fewer training.offload_layers (now {now} a stage); training.recompute=full computes layers again instead",
        "fewer microbatches in flight: a smaller training.parallel.pp, or a larger training.parallel.tp",
    ]


def for_rejected(result: Result) -> list[str]:
    """Changes of a scenario whose requests are all rejected; those alone that can help against the reason."""
    said = reason(result)
    found = []
    if "serving.context" in said:
        now = whole(result.scenario, "serving.context", 0)
        found.append(
            f"a larger serving.context (now {now:,} tokens), as far as the model goes"
            if now
            else "serving.context, where the model takes longer sequences than its configuration says"
        )
    if "cache" in said or not found:
        found.append("serving.parallel.tp or a higher serving.kv_cache.memory_share: the cache is too small")
    return [*found, "shorter requests.lengths"]


def ledger(use: MemoryUse | HostMemory) -> RenderableType:
    """Bytes by kind, the largest first, and their sum beside the capacity."""
    table = grid("left", "right", "right", "left")
    scale = max(use.capacity, use.peak)
    room = _BAR - max(max(map(len, use.at_peak), default=0) - len("activations"), 0)  # long names leave less for bars
    for kind, size in sorted(use.at_peak.items(), key=lambda item: -item[1]):
        if size > 0:
            row = clean(kind), units.format(size, "bytes"), wording.percent(_share(size, use.capacity))
            table.add_row(*row, Text(wording.bar(size / scale, room), "cyan"))
    fits = use.peak <= use.capacity
    total = f"of {units.format(use.capacity, 'bytes')}"
    bar = _against(use.capacity / scale, use.peak / scale, room)
    peak = Text(units.format(use.peak, "bytes"), "bold")
    table.add_row(
        Text("together", "bold"),
        peak,
        wording.percent(filled(use)),
        bar.append(f"  {total}", "dim" if fits else "red"),
    )
    return table


def _against(capacity: float, peak: float, width: int) -> Text:
    """The sum as a bar: up to the capacity in one mark, beyond it in another, room left as a thin line."""
    inside, beyond = wording.stacked([min(peak, capacity), max(peak - capacity, 0.0)], width)
    room = width - inside - beyond
    return Text.assemble(
        ("█" * inside, "green" if not beyond else "yellow"), ("▓" * beyond, "red"), ("─" * room, "dim")
    )


def hints(use: MemoryUse, scenario: dict[str, Any]) -> list[str]:
    """Changes of the scenario that shrink what is large, as overrides to type; `scenario` is the resolved one."""
    if "serving" in scenario:
        return _for_replicas(use, scenario)
    several = (devices(scenario) or 2) > 1
    found: list[str] = []
    for kind in sorted(use.at_peak, key=lambda kind: -use.at_peak[kind]):
        if use.at_peak[kind] >= _NOTABLE * use.peak:
            size = units.format(use.at_peak[kind], "bytes")
            found += [f"{kind} ({size}): {text}" for text in _remedies(kind, scenario)]
    if not several:
        return [*found, "more devices (cluster.nodes), or a device with more memory"]
    now = ", ".join(f"{axis} {whole(scenario, f'training.parallel.{axis}', 1)}" for axis in (PP.name, TP.name))
    if _mostly_vocabulary(scenario):
        cut = f"raise training.parallel.tp (now {now}), which cuts the vocabulary too: pp leaves it on one stage"
        plain = scenario["training"].get("schedule") in (None, "1f1b") and not whole(
            scenario, "training.parallel.zero", 0
        )
        return [*found, cut, *["cut it over stages: training.schedule=vocab-2"] * plain]
    return [
        *found,
        f"fewer or thinner layers on a device: raise training.parallel.pp or tp (now {now}), or add devices",
    ]


def _mostly_vocabulary(scenario: dict[str, Any]) -> bool:
    """Whether the table of the vocabulary is larger than all layers of a pipeline stage."""
    sizes = ("vocabulary", "hidden", "layers", "ffn")
    vocabulary, hidden, layers, ffn = (whole(scenario, f"model.{name}", 0) for name in sizes)
    layer = 4 * hidden * hidden + 3 * hidden * ffn
    stages = whole(scenario, "training.parallel.pp", 1)
    return stages > 1 and vocabulary * hidden * stages > layers * layer


def _for_replicas(use: MemoryUse, scenario: dict[str, Any]) -> list[str]:
    """What makes room on the devices of a replica."""
    tp = whole(scenario, "serving.parallel.tp", 1)
    found = [f"raise serving.parallel.tp or pp (now tp {tp}), so that a device holds less of the model"]
    weights = use.at_peak.get("weights", 0.0)
    if weights >= _NOTABLE * use.peak:
        size = units.format(weights, "bytes")
        found.append(f"weights ({size}): serving.precision.weights=fp8 or int4 makes them smaller")
    if use.at_peak.get("activations", 0.0) >= _NOTABLE * use.peak:
        found.append("activations: a smaller serving.batching.token_budget or max_sequences")
    return [*found, "a device with more memory"]


def _remedies(kind: str, scenario: dict[str, Any]) -> Iterable[str]:
    """What shrinks one kind of memory on the devices that there are."""
    micro = whole(scenario, "training.micro_batch", 1)
    if micro > 1 and ("activation" in kind or "working" in kind):
        yield f"training.micro_batch={micro // 2} instead of {micro}"
    if "activation" in kind:
        yield from _for_activations(scenario)
    sharded = chosen(scenario, "parallel.zero", 0)
    for state, stage in (("optimizer", 1), ("gradient", 2), ("parameter", 3)):
        if state in kind and replicas(scenario) != 1 and sharded in range(stage):
            yield f"training.parallel.zero={stage} spreads it over the data-parallel ranks"


def _for_activations(scenario: dict[str, Any]) -> Iterable[str]:
    recompute = chosen(scenario, "recompute", "none")
    fused = chosen(scenario, "attention", "fused") == "fused"
    if recompute == "none" and not fused:
        yield "training.recompute=selective (attention scores) or full (whole layers) computes them again instead"
    elif recompute == "none":
        yield "training.recompute=full computes whole layers again instead"
    elif recompute == "selective":
        yield "training.recompute=full keeps only the input of each layer"
    if whole(scenario, "training.parallel.tp", 1) > 1 and not chosen(scenario, "parallel.sequence_parallel", False):
        yield "training.parallel.sequence_parallel=true cuts what tensor parallelism leaves whole"


def _share(size: float, capacity: float) -> float:
    return size / capacity if capacity else float("inf")


def place_of(result: Result, use: MemoryUse) -> str:
    """A class of ranks in words: `stage 0 (rank 0 and 7 others)`."""
    place = result.classes[use.device_class]
    name = clean(class_names(result.classes)[use.device_class])
    others = f" and {place.ranks - 1:,} others" if place.ranks > 1 else ""
    return f"{name} (rank {place.example:,}{others})"
