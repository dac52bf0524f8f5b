"""Published times of dispatch and combine of mixtures of experts, as collectives of a library on a machine.

Benchmarks of DeepEP's kind publish a time, or a bandwidth for a number of bytes that is not what moved: inside a node
they count one copy for each rank that is reached, the own one too, and between nodes one for each node that is reached,
the own one too (so the figure can exceed the card). What rows leave open is filled in by rules, the same for every row:
256 experts, tokens in fp8 out and in bf16 back, and for kernels with a copy for each node the choice that DeepEP's
benchmark makes: groups are the nodes, of which a token takes the 4 with its best experts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from simulator.collectives import Routing, token_bytes
from simulator.interop.rows.jsonl import Refused

OPERATIONS: Mapping[str, str] = {"moe_dispatch": "dispatch", "moe_combine": "combine"}
"""Operations of rows."""
EXPERTS, LIMIT = 256, 4
HEADER = 16.0
"""Bytes of address that a low-latency message carries on its way out."""
FORMATS = {"moe_dispatch": "fp8", "moe_combine": "bf16"}
"""Where a row does not say."""
MACHINES: Mapping[str, str] = {
    "h800-sxm": "h800-cluster",
    "h200-sxm": "efa-p5en",
    "mi300x": "mi300x-cluster",
    "ascend-910c": "cloudmatrix384-dies",
}
"""Clusters by accelerator: all rows of H200 come from p5en instances."""
LIBRARIES: Mapping[tuple[str, str, str], str] = {
    ("DeepEP", "normal", ""): "deepep",
    ("DeepEP", "low_latency", "V1"): "deepep-low-latency",
    ("DeepEP", "low_latency", "V1 first release"): "deepep-first-low-latency",
    ("UCCL-EP", "normal", ""): "uccl-ep",
    ("UCCL-EP", "low_latency", ""): "uccl-ep-low-latency",
    ("MORI-EP", "normal", ""): "mori",
    ("MORI-EP", "low_latency", ""): "mori-low-latency",
    ("CANN EP", "cann_ep", ""): "cann",
}
"""Profiles by library, kernels and version (empty: any)."""
EFA = "-efa"
"""What the name of a profile ends in on EFA, where the library has kernels of its own for it."""


class ExchangeRow(BaseModel):
    """One published dispatch or combine; keys as in the measurement files, unknown ones are kept aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    id: str
    source: str
    op: str
    accelerator_id: str
    num_ranks: int = Field(ge=2, le=100_000)
    num_nodes: int | None = Field(default=None, ge=1, le=100_000)
    library: str
    library_version: str | None = None
    algo: str
    dtype: str | None = None
    params: dict[str, int | float | str]
    metrics: dict[str, float]
    interconnect: dict[str, str] = {}

    @property
    def device(self) -> str:
        """Kind of accelerator."""
        return self.accelerator_id

    @property
    def devices(self) -> int:
        """Ranks that exchange."""
        return self.num_ranks

    @property
    def model(self) -> str:
        """Whose shape it is."""
        return str(self.params.get("model", ""))


@dataclass(frozen=True, slots=True)
class MappedExchange:
    """A row as one collective."""

    row: ExchangeRow
    cluster: str
    nodes: int
    library: str
    operation: str
    routing: Routing
    size_bytes: float
    """Tokens x top-k x bytes of a token."""
    measured_s: float
    metric: str
    """What the row publishes."""
    assumed: tuple[str, ...]


def map_exchange(row: ExchangeRow) -> MappedExchange:
    """What a row measured; raises Refused with the reason where that is not simulated."""
    if row.op not in OPERATIONS:
        raise Refused(f"operation `{row.op}`")
    if row.accelerator_id not in MACHINES:
        raise Refused(f"no cluster of {row.accelerator_id}")
    if missing := [key for key in ("tokens_per_rank", "hidden", "top_k") if key not in row.params]:
        raise Refused(f"without {', '.join(missing)}")
    assumed = [f"{EXPERTS} experts"] if "experts" not in row.params else []
    form = row.dtype or FORMATS[row.op]
    if not row.dtype:
        assumed.append(f"tokens in {form}")
    token = token_bytes(int(row.params["hidden"]), form)
    routing = _routing(row, assumed)
    measured, metric = _measured(row, routing, token)
    header = HEADER if row.algo == "low_latency" and row.op == "moe_dispatch" else 0.0
    copies = float(row.params["tokens_per_rank"]) * routing.top_k
    return MappedExchange(
        row,
        MACHINES[row.accelerator_id],
        row.num_nodes or 1,
        _library(row),
        OPERATIONS[row.op],
        routing,
        copies * (token + header),
        measured,
        metric,
        tuple(assumed),
    )


def _library(row: ExchangeRow) -> str:
    for version in (row.library_version or "", ""):
        if (name := LIBRARIES.get((row.library, row.algo, version))) is not None:
            return name + EFA if "EFA" in str(row.interconnect) and row.library == "UCCL-EP" else name
    raise Refused(f"library {row.library} {row.library_version or ''} with {row.algo} kernels")


def _routing(row: ExchangeRow, assumed: list[str]) -> Routing:
    experts, top_k = int(row.params.get("experts", EXPERTS)), int(row.params["top_k"])
    nodes = row.num_nodes or 1
    if row.algo != "normal" or nodes <= LIMIT:
        return Routing(experts, top_k)
    assumed.append(f"tokens take {LIMIT} of {nodes} nodes")
    return Routing(experts, top_k, nodes, LIMIT)


def _measured(row: ExchangeRow, routing: Routing, token: float) -> tuple[float, str]:
    """Seconds, and the figure that they are taken from."""
    if (seconds := row.metrics.get("time_s")) is not None:
        return seconds, "time_s"
    nodes = row.num_nodes or 1
    names = ("rdma",) if nodes > 1 else ("nvlink", "xgmi")
    for name in (f"{name}_bandwidth_bytes_per_s" for name in names):
        if (rate := row.metrics.get(name)) is not None:
            parts = nodes if nodes > 1 else row.num_ranks
            return float(row.params["tokens_per_rank"]) * routing.distinct(parts) * token / rate, name
    raise Refused("neither a time nor a bandwidth whose bytes are known")
