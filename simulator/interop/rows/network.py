"""Published times of collectives: all-reduces, gathers, scatters, all-to-alls and sends as nccl-tests count them.

What rows leave open is filled in by rules, the same for every row: the ranks lie evenly on their nodes, a peak
bandwidth without a size is that of 16 GiB, a peak between nodes whose ranks are not printed that of four nodes. Of
times out of place and in place the shorter one is taken. An algorithm is pinned where the row says that it ran.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from simulator.interop.rows.accelerators import card, of_die
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.suspicious import check_timed
from simulator.interop.rows.words import Machine, operation, vocabulary
from simulator.specs.libraries.collectives import Environment

OPERATIONS: Mapping[str, str] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "sendrecv": "shift",
    "send": "send",
    "send_recv": "send",
}
"""Operations of rows; nccl-tests' sendrecv passes a message on to the next rank while one comes in."""
SHORT = 1 << 26
"""Bytes below which a host may show."""
LARGEST, NODES = 16 << 30, 4
"""Bytes and nodes of a peak that states neither."""
SOCKETS = re.compile(r"tcp(?!xo)|\bsockets\b")
"""Words of nodes that talk TCP; cards do it themselves under GPUDirect-TCPXO, as RDMA."""
CONSTANT = "nccl_model_constant"
"""Rows that hold what NCCL plans with (`src/graph/tuning.cc`), which the `tuner` of profiles has."""


@dataclass(frozen=True, slots=True)
class Harness:
    """How a benchmark issues collectives, where its host shows in short times."""

    source: str
    """Start of the sources that use it."""
    what: str
    """In words."""
    call: float = 0.0
    """Seconds that every call adds to the time on the devices."""
    issue: tuple[tuple[str, float], ...] = ()
    """(start of the accelerator's id, seconds a device) where one thread issues all devices of a node in turn: calls
    follow each other no faster."""
    devices: int | None = None
    """That one thread issues; None: all ranks."""

    def seconds(self, row: "NetworkRow", ours: float) -> float:
        """What the benchmark sees of a collective that takes `ours` seconds on the devices."""
        device = row.accelerator_id or ""
        each = next((seconds for start, seconds in self.issue if device.startswith(start)), 0.0)
        return max(ours + self.call, each * (self.devices or row.num_ranks or 1))


HARNESSES = (
    Harness(
        "ml-engineering",
        "20 us of PyTorch's call (events, another stream), as its times to 8 MiB exceed nccl-tests' on two devices",
        call=20e-6,
    ),
    Harness(
        "Azure AI benchmarking guide",
        "one process issues 8 devices (nccl-tests -g 8), 5.3 us each on A100, 3.2 us on H100 by its flat times",
        issue=(("a100", 5.3e-6), ("h100", 3.2e-6)),
    ),
)
"""Benchmarks whose scripts are published and whose hosts show; others run nccl-tests with a process a device unless
their rows say otherwise."""
ONE_PROCESS = re.compile(r"\b[Oo]ne process (?:of|drives|issues) (\d{1,2}) devices\b", re.ASCII)
"""Words of rows whose benchmark launches on several devices from one thread (`nccl-tests -g 8`)."""
ISSUE = (
    ("a100", 5.3e-6),
    ("v100", 5.3e-6),
    ("a40", 5.3e-6),
    ("h100", 3.2e-6),
    ("h200", 3.2e-6),
    ("rtx-", 3.2e-6),
    ("l40s", 3.2e-6),
    ("mi3", 4.6e-6),
)
"""(start of the accelerator's id, seconds of a launch of such a thread): of A100 and H100 by the flat times of Azure's
guide, hosts of the same years alike; of Instinct by those of alibaba/rtp-llm on MI355X, 37 us for eight devices under
all-reduce and all-to-all alike."""
ENGINES = (
    ("vllm", re.compile(r"\bvllm\b.*\b(?:custom|all-?reduce)", re.IGNORECASE)),
    ("sglang", re.compile(r"\bsgl(?:ang|-kernel)\b.*\b(?:custom|all-?reduce)", re.IGNORECASE)),
    ("trtllm", re.compile(r"\b(?:tensorrt-llm|trt-?llm)\b.*\b(?:custom|all-?reduce)", re.IGNORECASE)),
)
"""Serving engines by the words of a row's library, where their own kernels sum over devices."""
RACK = 72
"""GPUs of an NVL72, one domain of NVLinks."""
COUNTS = {"one": 1, "two": 2, "three": 3, "four": 4, "eight": 8}
DOMAINS = re.compile(r"\b(\d{1,4}|" + "|".join(COUNTS) + r") (?:NVL72|NVLink|scale-up) (?:domains|racks)\b", re.ASCII)
"""How many domains the ranks lie on, as rows write it."""
APART = re.compile(r"MNNVL (?:is )?(?:off|disabled)|without MNNVL|different NVLink domains", re.IGNORECASE)
"""Words of rows whose hosts reach each other through cards only, though they are of racks."""
CARDS = re.compile(
    r"(?<![\w-])(\d{1,3}|(?i:one|two|four|eight))(?: ?x ?| (?:[A-Za-z][\w-]{0,30}[ ,(]{1,2}){0,5})"
    r"(\d{2,3}) ?Gb(?:it)?/s\b(?! per (?:host|GPU)| an? (?:GPU|device|host)\b)",
    re.ASCII,
)
"""Cards of a node as rows write them: `8x400 Gb/s per node`, `2 ConnectX-5 of 100 Gbit/s`, `8 cards a node (100 Gbit/s
EDR)`; those of a host are not a node's where a rack is one."""
UNNAMED, UNNAMED_NODES = (
    re.compile(r"(?:unspecified|unnamed|unknown|not (?:stated|named)|any)?", re.IGNORECASE),
    "dgx-h100",
)
"""Words of accelerators that are none, and the cluster whose nodes stand in where cards between nodes are stated."""
ONE_CARD = re.compile(r"(?<!\d)(\d{2,4}) ?Gb(?:it)?(?:/s|ps|E)\b", re.ASCII)
"""The rate of a card where no number of cards stands before it."""
ALGORITHMS = {
    "ring": "ring",
    "tree": "tree",
    "nvls": "nvls",
    "nvlstree": "nvls_tree",
    "nvls_tree": "nvls_tree",
    "nvls + ib sharp": "nvls_sharp",
}


class NetworkRow(BaseModel):
    """One published collective; keys as in the measurement files, unknown ones are kept aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    id: str
    source: str
    op: str
    accelerator: str | None = None
    accelerator_id: str | None = None
    num_ranks: int | None = Field(default=None, ge=1, le=1_000_000)
    num_nodes: int | None = Field(default=None, ge=1, le=1_000_000)
    library: str | None = None
    library_version: str | None = None
    algo: str | None = None
    proto: str | None = None
    size_bytes: float | None = Field(default=None, gt=0)
    metrics: dict[str, float]
    interconnect: dict[str, str] = {}
    num_domains: int | None = Field(default=None, ge=1, le=1_000_000)
    environment: dict[str, str | int | float] = {}
    params: dict[str, Any] = {}
    notes: str | None = None

    @field_validator("op")
    @classmethod
    def _known_operation(cls, words: str) -> str:
        return operation(words)

    @property
    def device(self) -> str:
        """Kind of accelerator."""
        return self.accelerator_id or self.accelerator or "not stated"

    @property
    def devices(self) -> int | None:
        """Ranks of the collective."""
        return self.num_ranks

    @property
    def model(self) -> str:
        """The operation and its bytes."""
        return self.op

    @property
    def nodes(self) -> int:
        """How many nodes, as `map_network` takes them."""
        return _nodes(self, self.num_ranks or 8 * NODES)

    @property
    def band(self) -> str:
        """The size of the buffer, for tables."""
        size = self.size_bytes if self.size_bytes is not None else float(LARGEST)
        bands = ((1 << 16, "below 64 KiB"), (1 << 20, "64 KiB to 1 MiB"), (1 << 26, "1 to 64 MiB"))
        return next((name for most, name in bands if size < most), "from 64 MiB")

    @property
    def half(self) -> str:
        """Which side of 1 MiB the buffer of a collective is on, for tables."""
        if self.op not in OPERATIONS:
            return "copies"
        return "below 1 MiB" if (self.size_bytes or LARGEST) < 1 << 20 else "from 1 MiB"


@dataclass(frozen=True, slots=True)
class MappedCollective:
    """A row as one collective of a group."""

    row: NetworkRow
    cluster: str
    ranks: int
    nodes: int
    operation: str
    size_bytes: float
    algorithm: str
    """As of `collectives.plan`."""
    measured_s: float
    metric: str
    """What the row publishes."""
    assumed: tuple[str, ...]
    harness: Harness | None = None
    """None where the host does not show."""
    environment: Environment | None = None
    """What the row says that the library was told; None: nothing of consequence."""
    cards: tuple[int, float] | None = None
    """Cards of a node and bytes/s of each, where the row says them; None: those of the cluster."""
    sockets: bool = False
    """Whether nodes talk TCP."""
    engine: str = ""
    """The serving engine whose own kernels ran (`engines` of profiles); empty: the library's."""


def map_network(row: NetworkRow) -> MappedCollective:
    """What a row measured; raises Refused with the reason where that is not simulated."""
    if row.op == CONSTANT:
        raise Refused("a constant of NCCL's cost model, which plans and does not measure: profiles hold it (`tuner`)")
    if row.op not in OPERATIONS:
        raise Refused(f"operation `{row.op}` is no collective")
    if row.num_ranks == 1:
        raise Refused("key `num_ranks`: `1` is out of range; write 2 or more")
    assumed: list[str] = []
    unnamed = _is_unnamed(row)
    if unnamed:
        assumed.append("nodes of eight H100, whatever they are: the cards between them bound it")
    cluster = UNNAMED_NODES if unnamed else cluster_of(row)
    if not unnamed and (known := _machine(row)) and known.stands_in:
        assumed.append(f"`{cluster}` stands in for {row.device}")
    if row.num_ranks is None:
        if not row.interconnect.get("inter"):
            raise Refused("without num_ranks")
        assumed.append(f"{NODES} nodes of 8")
    ranks = row.num_ranks or 8 * NODES
    if row.size_bytes is None:
        assumed.append("a peak is that of 16 GiB")
    size = row.size_bytes or float(LARGEST)
    if row.size_bytes is not None:
        factor = bus_factor(OPERATIONS[row.op], ranks)
        check_timed(row.metrics, {"algbw_bytes_per_s": size, "busbw_bytes_per_s": size * factor})
    measured, metric = _measured(row, ranks, size)
    algorithm = _pinned(row)
    harness = _harness(row)
    if harness is not None and size < SHORT:
        assumed.append(harness.what)
    operation, told = OPERATIONS[row.op], _environment(row)
    cards, sockets = cards_of(row), SOCKETS.search(row.interconnect.get("inter", "").lower()) is not None
    if sockets or unnamed:
        cards = cards or _lone_card(row)
    if sockets:
        assumed.append("TCP between nodes: hops and the share of a card of the profile `ethernet`")
    return MappedCollective(
        row,
        cluster,
        ranks,
        row.nodes,
        operation,
        size,
        algorithm,
        measured,
        metric,
        tuple(assumed),
        harness,
        told,
        cards,
        sockets,
        _engine(row),
    )


def _engine(row: NetworkRow) -> str:
    """The serving engine whose own kernels a row measured; empty where a library ran."""
    if OPERATIONS[row.op] != "all_reduce":
        return ""
    return next((word for word, pattern in ENGINES if pattern.search((row.library or "")[:400])), "")


def _harness(row: NetworkRow) -> Harness | None:
    """How the benchmark of a row issues collectives; None where its host does not show."""
    known = next((known for known in HARNESSES if row.source.startswith(known.source)), None)
    said = ONE_PROCESS.search(row.notes or "")
    if known is not None or said is None or not int(said[1]):
        return known
    return Harness(
        "", f"one process issues {said[1]} devices (nccl-tests -g {said[1]})", issue=ISSUE, devices=int(said[1])
    )


def cards_of(row: NetworkRow) -> tuple[int, float] | None:
    """Cards of a node and bytes/s of each as a row writes them; None where it does not."""
    stated = CARDS.search(row.interconnect.get("inter", ""))
    count = _number(stated[1]) if stated else 0
    return (count, float(stated[2]) * 1e9 / 8) if stated and count and int(stated[2]) else None


def _number(words: str) -> int:
    return COUNTS.get(words.lower()) or int(words)


def _is_unnamed(row: NetworkRow) -> bool:
    """Whether a row is of the cards between nodes, of which it says nothing else."""
    named = UNNAMED.fullmatch((row.accelerator_id or row.accelerator or "").strip())
    return named is not None and (row.num_nodes or 2) > 1 and bool(cards_of(row) or one_card(row))


def _lone_card(row: NetworkRow) -> tuple[int, float]:
    if rate := one_card(row):
        return 1, rate
    raise Refused("TCP between nodes over cards that the row does not state: write `4x200 Gb/s`")


def one_card(row: NetworkRow) -> float | None:
    """Bytes/s of a card that a row names without a number of them (`100GbE`); None where it does not."""
    stated = ONE_CARD.search(row.interconnect.get("inter", ""))
    return float(stated[1]) * 1e9 / 8 if stated and int(stated[1]) else None


def _environment(row: NetworkRow) -> Environment | None:
    """Variables that leave a library less to choose from, and its release; other variables are only recorded."""
    told = {key: value for key, value in row.environment.items() if key in Environment.model_fields}
    if release := release_of(row.library, row.library_version):
        told["release"] = release
    if not told:
        return None
    try:
        return Environment.model_validate(told)
    except ValidationError as error:
        raise Refused(f"environment: {error.errors()[0]['msg']}") from None


def release_of(library: str | None, version: str | None) -> str:
    """The release of a row whose library chooses by tables of releases; empty where it states none."""
    stated = re.match(r"\d+(\.\d+){1,3}", version or "") if library == "NCCL" else None
    return stated[0] if stated else ""


def cluster_of(row: NetworkRow) -> str:
    """The cluster that stands for the machine of a row; raises Refused where none does."""
    if known := _machine(row):
        return known.cluster
    named, _ = card(row.device)
    if named is not None and (usual := vocabulary().serving.clusters.get(named)):
        return usual
    raise Refused(f"no cluster of {row.accelerator_id or row.accelerator or 'an accelerator that is not named'}")


def _machine(row: NetworkRow) -> Machine | None:
    """The first of the vocabulary's machines that has the device of a row, its words and its ranks a node."""
    inter = " ".join(row.interconnect.values()).lower()
    device, on_node = (
        of_die((row.accelerator_id or "").lower(), row.accelerator or ""),
        (row.num_ranks or 0) // row.nodes,
    )
    fits = (
        known
        for known in vocabulary().network
        if device.startswith(known.accelerator) and known.joined in inter and on_node >= known.ranks
    )
    return next(fits, None)


def _nodes(row: NetworkRow, ranks: int) -> int:
    """Nodes of a row; the racks of an NVL72 are nodes of one domain here, as full as they can be if it says no more."""
    if row.num_domains is not None:
        return row.num_domains
    if (row.accelerator_id or "").startswith(("gb200", "gb300")):
        return _domains(row) or -(-ranks // RACK)
    if row.num_nodes is not None:
        return row.num_nodes
    return NODES if row.num_ranks is None else -(-ranks // 8)


def _domains(row: NetworkRow) -> int | None:
    """Domains of NVLinks that a row of racks names; its hosts where NVLinks between them were off; None: neither."""
    words = " ".join(row.interconnect.values())
    if stated := DOMAINS.search(words):
        return max(_number(stated[1]), 1)
    off = APART.search(words) or str(row.environment.get("NCCL_MNNVL_ENABLE", "")) == "0"
    return row.num_nodes if off else None


def _pinned(row: NetworkRow) -> str:
    """The algorithm that a row says ran, with its protocol; `auto` where it says none, or a page says it of a card."""
    word, _, remark = (row.algo or "").lower().partition(" (")
    if "default" in remark or word not in ALGORITHMS:
        return "auto"
    protocol = f"/{row.proto}" if row.proto and ALGORITHMS[word] in ("ring", "tree") else ""
    return ALGORITHMS[word] + protocol


def _measured(row: NetworkRow, ranks: int, size: float) -> tuple[float, str]:
    """Seconds, and the figure that they are taken from."""
    times = [row.metrics[key] for key in ("time_s", "inplace_time_s") if row.metrics.get(key)]
    if times:
        return min(times), "time_s"
    for name in ("busbw_bytes_per_s", "reported_busbw_bytes_per_s"):
        if rate := row.metrics.get(name):
            return bus_factor(OPERATIONS[row.op], ranks) * size / rate, name
    if rate := row.metrics.get("algbw_bytes_per_s"):
        return size / rate, "algbw_bytes_per_s"
    raise Refused("neither a time nor a bandwidth")


def bus_factor(operation: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests define it (doc/PERFORMANCE.md)."""
    factors: dict[str, Any] = {"all_reduce": 2 * (ranks - 1) / ranks}
    factors |= dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all"), (ranks - 1) / ranks)
    return float(factors.get(operation.partition(":")[0], 1.0))
