"""Published serving measurements as scenarios.

A row states what its authors state. What it leaves open (how many requests, formats of the cache, lengths of a named
workload) is filled in by the rules of this module, the same for every row, and listed as an assumption; a row that
needs what is not built is refused with the reason. No rule looks at the measured value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simulator.errors import InputError
from simulator.interop.rows import conversations, trtllm_bench
from simulator.interop.rows import serving_limits as limits
from simulator.interop.rows import serving_names as names
from simulator.interop.rows.accelerators import card
from simulator.interop.rows.jsonl import Line, Refused, parse_line
from simulator.interop.rows.pools import APART, ROLES, pools, router, spanning
from simulator.interop.rows.serving_settings import Case, Told, settings
from simulator.interop.rows.slices import slice_of
from simulator.interop.rows.speculation import speculation
from simulator.interop.rows.suspicious import check_serving
from simulator.specs.distribution import Distribution
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Arrivals, ClosedLoop, Lengths, Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, KvCache, Layout, NumberFormats, Overlap, Serving, ServingStack
from simulator.specs.speculation import Speculation

Length = Field(default=None, ge=0, le=10_000_000)
Number = Field(default=None, ge=1, le=10_000_000)
KINDS = (
    "offline_throughput",
    "static_batch_throughput",
    "online_serving",
    "single_stream_decode",
    "single_stream_prefill",
    "first_token_latency",
    "single_request_latency",
    "decode_throughput",
    "prefill_throughput",
    APART,
)
"""Kinds of rows that are simulated."""
ONLINE = ("online_serving", APART)
"""Kinds of rows of requests that come one after the other."""
SHORT = (64, 256)
"""(prompt, answer) tokens of a single stream where a row does not say, as chat programs show their rate."""
TUNED = ("tensorrt-llm", "tensorrt-llm-pytorch")
"""Stacks whose benchmark derives the limits of the engine from lengths and memory."""
MOST_AT_ONCE = 20_000
"""Requests of a batch at most."""
MOST_ONLINE = 2_000
"""Requests of an online row that are simulated at most."""


class ServingRow(BaseModel):
    """One published serving measurement; keys as in the measurement files, unknown ones are kept aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    id: str
    source: str
    kind: str
    model: str
    engine: str
    engine_version: str | None = None
    accelerator: str
    num_accelerators: int | None = Number
    num_nodes: int | None = Number
    parallelism: dict[str, Any] | None = None
    precision: dict[str, Any] | None = None
    input_len: int | None = Length
    output_len: int | None = Length
    max_output_len: int | None = Length
    batch_size: int | None = Number
    concurrency: int | None = Number
    recipe: str | None = None
    """What the benchmark calls the deployment."""
    arrivals: str | None = None
    length_range: list[float] | None = Field(default=None, min_length=2, max_length=2)
    spec_decoding: str | None = None
    complete: bool | None = None
    reason: str | None = None
    measured_on: str | list[str] | None = None
    """A day, or the days of measurements that the row merges."""
    request_rate_per_s: float | int | Literal["inf"] | None = None
    num_requests: int | None = Field(default=None, ge=1, le=1_000_000_000)
    max_num_seqs: int | None = Number
    engine_options: str | None = None
    workload: str | None = None
    notes: str | None = None
    metrics: dict[str, float | int | None]

    @property
    def device(self) -> str:
        """The accelerator, as the tables of errors list it."""
        return self.accelerator

    @property
    def devices(self) -> int | None:
        """How many of them."""
        return self.num_accelerators

    @property
    def day(self) -> str | None:
        """When it was measured, the first of several days."""
        return min(self.measured_on) if isinstance(self.measured_on, list) else self.measured_on

    @property
    def number_format(self) -> str:
        """The format of the weights in the words of the row."""
        found = (self.precision or {}).get("weights") or (self.precision or {}).get("compute") or "not stated"
        return str(found)


@dataclass(frozen=True, slots=True)
class MappedServing:
    """A row as a scenario."""

    row: ServingRow
    scenario: ServingScenario
    stack: str
    """Name of the stack's profile."""
    requests: int
    """Requests of the measured run; the scenario may have fewer."""
    steady: bool
    """Whether all requests come at once and the run may be cut short and continued in proportion."""
    tuned: bool
    """Whether the limits of the engine are still to be derived from lengths and memory."""
    assumed: tuple[str, ...]
    """What the row leaves open and how it was filled in."""


def is_serving(data: Mapping[str, Any]) -> bool:
    """Whether an object is a row of this form rather than one about training."""
    return isinstance(data.get("metrics"), dict) and "kind" in data and "primary_metric" not in data


def kind_of(line: Line) -> str | None:
    """The kind of a row as far as its keys tell; None where they do not."""
    try:
        data = parse_line(line)
    except Refused:
        return None
    return "serving" if is_serving(data) else "training" if "primary_metric" in data else None


def draft_serving(row: ServingRow) -> MappedServing:
    """The scenario of a row as far as it says; raises Refused with the reason where it cannot be simulated."""
    check_serving(row)
    _check_supported(row)
    assumed: list[str] = []
    try:
        return _mapped(row, assumed)
    except (InputError, ValidationError) as error:
        raise Refused(" ".join(str(error).split())) from None


def _check_supported(row: ServingRow) -> None:
    if row.kind not in KINDS:
        raise Refused(f"kind `{row.kind}`")
    reasons = {
        f"the row is not complete: {row.reason or 'without a reason'}": row.complete is False,
        f"arrivals `{row.arrivals}`": row.arrivals not in (None, CLOSED_LOOP),
        f"lengths between {row.length_range} of those stated": not 0 < min(row.length_range or (1,)) <= 1,
        "lengths are ambiguous": " or " in (row.workload or ""),
        "prefixes are shared in a way that is not stated": "shared-prefix" in (row.workload or ""),
        "measured values are missing": not any(row.metrics.values()),
        "several nodes, and how many prompts they work on is not stated": (row.num_nodes or 1) > 1
        and row.kind in UNBOUNDED
        and row.batch_size is None,
    }
    found = [reason for reason, applies in reasons.items() if applies]
    if found:
        raise Refused("; ".join(found))


NANO = Overlap(batches="nano", first_share=0.375, reading_share=0.4, sending_share=0.2)
"""Nano-batches beside each other: the first of 768 rows of 2,048, and shares of multiprocessors, as NanoFlow's authors
have them (arXiv:2408.12757)."""
UNBOUNDED = ("prefill_throughput", "decode_throughput")
"""Kinds of rows of as many requests as a benchmark chose."""
CLOSED_LOOP = "closed loop"
"""Word of `arrivals`: `concurrency` requests are in flight all the time."""
RACK = 32
"""Devices from which a node of ours is a rack, whose trays others call nodes."""
ROUNDS = 10
"""Requests of a closed loop for each one in flight, where a row does not say."""
EAGER = re.compile(r"(enforce[-_]eager|disable[-_]cuda[-_]graph)(?!=false)", re.I)
"""Options of vLLM and of SGLang that launch every kernel of an iteration by itself."""
BURST = "1e6 /s"
"""Rate of a client that sends all requests at once, which pass the front end of the engine one after the other."""
AXES = {
    "tensor_parallel": "tp",
    "tensor_parallel_size": "tp",
    "pipeline_parallel": "pp",
    "pipeline_parallel_size": "pp",
    "data_parallel": "dp",
    "data_parallel_size": "dp",
    "expert_parallel": "ep",
    "moe_ep": "ep",
    "decode_context_parallel_size": "dcp",
}
"""Other names of the keys of `parallelism`."""


def _spread(row: ServingRow) -> dict[str, int]:
    """Parallel sizes by our names; raises Refused for an axis or a size that is not known."""
    found: dict[str, int] = {}
    for key, size in (row.parallelism or {}).items():
        name = AXES.get(key.lower(), key.lower())
        if size is None:
            continue
        if isinstance(size, bool) or not isinstance(size, int):
            raise Refused(f"key `parallelism.{key}`: `{str(size)[:40]}` is not a whole number")
        if name not in ("tp", "pp", "dp", "ep", "dcp", "attention_dp", "moe_tp") and size != 1:
            raise Refused(f"parallelism `{key}`")
        found[name] = max(size, found.get(name, size))
    return found


def _mapped(row: ServingRow, assumed: list[str]) -> MappedServing:
    model = names.model(row.model)
    version = row.engine_version or row.day
    stack_name = names.on_device(names.stack_name(row.engine, version), version, row.accelerator)
    stack_name = names.supporting(stack_name, row.accelerator, assumed)
    said = _said(row)
    stack_name = said.stack or names.with_blocks(stack_name, row.model, row.precision or {}, row.accelerator)
    stack_name = names.served(stack_name, row.kind, row.engine_version, row.model) if row.kind in ONLINE else stack_name
    if names.stands_in(row.engine):
        assumed.append(f"engine `{row.engine}` as {stack_name}, the most like it")
    if row.engine_version is None and not re.search(r"\d\.\d", row.engine) and stack_name in names.VERSIONED:
        assumed.append(f"engine version as of `{stack_name}`")
    if card(row.accelerator)[1]:
        assumed.append(f"accelerator `{row.accelerator}` taken as {card(row.accelerator)[0]}")
    stack, precision = _told(row, said, names.stack(stack_name), stack_name, assumed)
    cluster = _machine(row)
    lengths = _lengths(row, model, assumed)
    count, steady = _count(row, lengths, assumed)
    placed: dict[str, Any]
    if row.kind == APART:
        told: dict[str, Told] = {role: _said(row, role) for role in ROLES}
        placed = {"pools": pools(row, round(lengths.prompt.most), told, assumed), "first_token": "decode"}
        placed |= router(row, placed["pools"], told["prefill"], assumed)
        cluster = spanning(cluster, placed["pools"])
    else:
        layout, replicas = _layout(row, stack)
        if layout.devices * replicas > cluster.devices:
            raise Refused(f"{layout.devices * replicas} accelerators of {cluster.devices} in {cluster.name}")
        placed = {"replicas": replicas, "parallel": layout}
    drafts = speculation(row, assumed)
    serving = Serving(
        **placed,
        precision=precision,
        batching=_batching(row, said, stack_name, stack, model, drafts, assumed),
        context=_context(lengths, model),
        kv_cache=_cache(row, said),
        speculation=drafts,
        stream_interval=said.stream_interval or 1,
        overlap=NANO if stack_name == "nanoflow" else Overlap(),
    )
    scenario = ServingScenario(
        version=1,
        name=row.id,
        cluster=cluster,
        model=model,
        stack=stack,
        serving=serving,
        requests=Requests(arrivals=_arrivals(row, assumed), lengths=lengths, count=_simulated(row, count)),
    )
    tuned = stack_name in TUNED and steady and fixed(lengths) is not None and row.max_num_seqs is None
    tuned &= said.sequences is None
    return MappedServing(row, scenario, stack_name, count, steady, tuned, tuple(assumed))


def _machine(row: ServingRow) -> Cluster:
    """The machine of a row of one engine: one node, or as many as the row says and its accelerators fill."""
    found, nodes = names.cluster(row.accelerator), row.num_nodes or 1
    if found.network.kind == "torus":
        hosts = -(-(row.num_accelerators or 1) // found.node.devices)
        return slice_of(found, hosts * found.node.devices)
    if nodes == 1 or row.kind == APART or (row.num_accelerators or 0) <= 1:
        return found.model_copy(update={"nodes": 1})
    devices = row.num_accelerators or 1
    if found.node.devices > devices:  # a rack that NVLink joins counts as one node here
        if found.node.devices < RACK:
            raise Refused(f"{nodes} nodes with {devices} accelerators of {found.node.devices} in each")
        return found.model_copy(update={"nodes": 1})
    if found.network.kind == "none":
        raise Refused(f"{nodes} nodes of {found.name}, which no network joins")
    return found.model_copy(update={"nodes": -(-devices // found.node.devices)})


def _said(row: ServingRow, role: str = "") -> Told:
    """What the scripts of the benchmark tell the engine, workers of a role where they are apart; nothing where they
    are not known."""
    in_flight = row.concurrency or row.batch_size or row.num_requests
    if row.kind not in (*ONLINE, "offline_throughput") or in_flight is None:
        return Told()
    weights, sizes = row.number_format, (row.input_len or 0, row.output_len or 0)
    named = row.source, row.engine, row.model, row.accelerator, weights
    tp = 1 if row.kind == APART else _spread(row).get("tp") or 1
    drafts = row.spec_decoding not in (None, "none")
    case = Case(*named, tp, in_flight, sizes, row.day or "", drafts, row.recipe or "", role, row.kind)
    return settings(case, row.kind == APART) or Told()


def _told(
    row: ServingRow, said: Told, stack: ServingStack, name: str, assumed: list[str]
) -> tuple[ServingStack, NumberFormats]:
    """(stack, number formats) with the kernels and formats of experts that the benchmark's scripts choose."""
    precision = names.formats(row.precision or {}, name, "fp16", assumed, row.model)
    if said.kv is not None and "kv" not in (row.precision or {}):
        assumed.append(f"keys and values in {said.kv}, as in the benchmark's scripts")
        precision = precision.model_copy(update={"kv": said.kv})
    if said.captures is False:
        assumed.append("no captured graphs, as in the benchmark's scripts")
    if said.captures is False or EAGER.search(row.engine_options or ""):
        stack = stack.model_copy(update={"graphs": None})
    if said.overlaps_verification:
        stack = stack.model_copy(update={"verify_overhead": None})
    if said.experts is None:
        return stack, precision
    assumed.append(f"experts run `{said.experts}` kernels, as in the benchmark's scripts")
    if said.expert_rows is not None and precision.experts is not None:
        precision = precision.model_copy(update={"expert_activations": said.expert_rows})
    families = dict.fromkeys((said.experts, *stack.expert_kernels))
    return stack.model_copy(update={"expert_kernels": tuple(families)}), precision


def _simulated(row: ServingRow, count: int) -> int:
    """Requests that are simulated; where all come at once, the batch that fits decides later."""
    if row.kind in ONLINE:
        return min(count, max(MOST_ONLINE, ROUNDS * (row.concurrency or 0)))
    if row.kind != "offline_throughput" and count > MOST_AT_ONCE:
        raise Refused(f"a batch of {count:,}")
    return min(count, MOST_AT_ONCE)


def _alone(row: ServingRow) -> bool:
    """Whether a batch has the machine for itself, with nothing that waits."""
    return row.kind not in ("offline_throughput", *ONLINE)


def _cache(row: ServingRow, said: Told) -> KvCache:
    """A batch that was run had the memory that it needed; engines that serve keep some back."""
    if _alone(row):
        return KvCache(prefix_caching="none", watermark=0.0, free_share=1.0)
    return KvCache(prefix_caching="none", memory_share=said.memory_share, free_share=said.free_share)


def _layout(row: ServingRow, stack: ServingStack) -> tuple[Layout, int]:
    """(layout of a replica, replicas)."""
    spread = _spread(row)
    tp, pp, dp = (spread.get(key) or 1 for key in ("tp", "pp", "dp"))
    ep, cut, among = (spread.get(key) or 1 for key in ("ep", "moe_tp", "attention_dp"))
    if min(tp, pp, dp, ep, cut, among) < 1:
        raise Refused("a parallel size below 1")
    each = cut if "moe_tp" in spread else tp if ep == 1 and among == 1 else 1
    sharers = ep * each / tp
    if spread.get("attention_dp", sharers) != sharers or sharers % 1:
        raise Refused(f"attention tp {tp} x dp {among}, experts tp {each} x ep {ep}: not the same devices")
    etp = each if each != (tp if ep == 1 else 1) else None
    parallel = Layout(tp=tp, pp=pp, ep=ep, etp=etp, dcp=spread.get("dcp") or 1)
    dp *= parallel.sharers
    if row.num_accelerators is None:
        if not spread:
            raise Refused("how many accelerators is not stated")
    elif tp * pp * dp != row.num_accelerators:
        if stack.split == "layer":
            tp, pp, dp = 1, row.num_accelerators, 1
        elif spread:
            raise Refused(f"tp {tp} x pp {pp} x dp {dp} is not {row.num_accelerators} accelerators")
        else:
            tp = row.num_accelerators
    return parallel.model_copy(update={"tp": tp, "pp": pp}), dp


def _lengths(row: ServingRow, model: Model, assumed: list[str]) -> Lengths:
    prompt, output = row.input_len, row.output_len
    if row.kind == APART and output is None and row.metrics.get("mean_output_tokens"):
        output = round(row.metrics["mean_output_tokens"] or 1)
        assumed.append(f"answers of {output:,} tokens, the mean of those that came")
    if row.kind in ONLINE and output is None and row.max_output_len:
        raise Refused("answers end on their own and their length is not stated")
    if row.kind in ("first_token_latency", "single_stream_prefill", "prefill_throughput"):
        output = 1
    if row.kind == "single_stream_decode" and output is None:
        prompt, output = SHORT[0] if prompt is None else prompt, SHORT[1]
        assumed.append(f"{prompt} tokens of prompt and {output} of answer")
    if row.kind == "single_stream_decode" and prompt is None:
        prompt = 1
        assumed.append("an empty prompt")
    if prompt is None or output is None or _spoken(row):
        return _named_lengths(row, model, assumed)
    return Lengths(prompt=_ranged(prompt, row), output=_ranged(output, row))


def _spoken(row: ServingRow) -> bool:
    """Whether the lengths of a row are means over conversations that differ."""
    return row.kind in (*ONLINE, "offline_throughput") and bool(re.search("sharegpt", row.workload or "", re.I))


def _ranged(length: int, row: ServingRow) -> Distribution:
    """A length, or the uniform draws between the parts of it that a row states."""
    if row.length_range is None or row.length_range[0] == row.length_range[1] == 1:
        return Distribution(fixed=max(length, 1))
    low, high = (max(round(part * length), 1) for part in sorted(row.length_range))
    return Distribution(uniform=(low, high))


def _named_lengths(row: ServingRow, model: Model, assumed: list[str]) -> Lengths:
    """Lengths of a named workload; a median request takes the medians."""
    words = f"{row.workload or ''} {row.source}".lower()
    name = next((found for pattern, found in names.LENGTHS if row.workload and re.search(pattern, words)), None)
    if name is None:
        raise Refused("lengths of prompts and answers are not stated")
    drawn = names.lengths(name)
    if row.kind == "single_request_latency":
        medians = {"azure-code": (1500, 13), "azure-conversation": (1020, 129)}.get(name)
        if medians is None:
            raise Refused("the median lengths of the workload are not known")
        assumed.append(f"median lengths of the trace: {medians[0]} and {medians[1]} tokens (arXiv:2311.18677)")
        return Lengths(prompt=Distribution(fixed=medians[0]), output=Distribution(fixed=medians[1]))
    means = _stated_means(row)
    if means is None:
        assumed.append(f"lengths drawn from `{name}`")
        return _within(drawn, model)
    assumed.append(f"lengths lognormal, of the stated means {means[0]:.0f} and {means[1]:.0f}")
    prompt, answer = (
        conversations.cut_lognormal(*of) for of in zip(means, (conversations.PROMPT, conversations.ANSWER), strict=True)
    )
    drawn = Lengths(prompt=prompt, output=answer)
    return _within(drawn, model)


def _within(drawn: Lengths, model: Model) -> Lengths:
    """Lengths cut so that prompt and answer fit into the model's context."""
    context = model.max_sequence or 4096
    cut = {"prompt": context - context // 4, "output": context // 4}
    changed = {key: getattr(drawn, key) for key in cut}
    changed = {key: d.model_copy(update={"high": min(d.high or cut[key], cut[key])}) for key, d in changed.items()}
    return drawn.model_copy(update=changed)


def _stated_means(row: ServingRow) -> tuple[float, float] | None:
    """Mean tokens of prompts and answers: stated, or from rates of one run that differ only in what they count."""
    if row.input_len and row.output_len:
        return row.input_len, row.output_len
    rates = [row.metrics.get(key) for key in ("requests_per_s", "total_tokens_per_s", "output_tokens_per_s")]
    if not all(rate and rate > 0 for rate in rates):
        return None
    requests, tokens, output = (float(rate or 0) for rate in rates)
    return ((tokens - output) / requests, output / requests) if tokens - output >= requests <= output else None


def fixed(lengths: Lengths) -> tuple[int, int] | None:
    """(prompt, answer) where all requests are alike."""
    if lengths.prompt.fixed is None or lengths.output.fixed is None:
        return None
    return round(lengths.prompt.fixed), round(lengths.output.fixed)


def _context(lengths: Lengths, model: Model) -> int:
    alike = fixed(lengths)
    if lengths.prompt.uniform and lengths.output.uniform:
        return round(lengths.prompt.most + lengths.output.most)
    return sum(alike) if alike else model.max_sequence or 32_768


def _count(row: ServingRow, lengths: Lengths, assumed: list[str]) -> tuple[int, bool]:
    """(requests of the measured run, whether all come at once and wait for places)."""
    if row.kind in ("static_batch_throughput", "decode_throughput"):
        if row.batch_size is None:
            raise Refused("the batch is not stated")
        return row.batch_size, False
    if row.kind not in ("offline_throughput", *ONLINE):
        return row.batch_size or 1, False
    if row.num_requests:
        return row.num_requests, row.kind == "offline_throughput"
    if row.batch_size:
        replicas = _spread(row).get("dp") or 1
        if replicas > 1:
            assumed.append(f"{row.batch_size} requests for each of {replicas} replicas")
        return row.batch_size * replicas, row.kind == "offline_throughput"
    if row.arrivals == CLOSED_LOOP and row.concurrency:
        assumed.append(f"{ROUNDS * row.concurrency:,} requests, {ROUNDS} for each in flight")
        return ROUNDS * row.concurrency, False
    if row.concurrency:
        assumed.append(f"{row.concurrency} requests, one a client")
        return row.concurrency, False
    count = trtllm_bench.requests(*(fixed(lengths) or (1024, 512)))
    assumed.append(f"{count:,} requests, as many as NVIDIA's tables take for such lengths")
    return count, row.kind == "offline_throughput"


def _arrivals(row: ServingRow, assumed: list[str]) -> Arrivals:
    unpaced = row.request_rate_per_s in (None, "inf")
    if row.kind not in ONLINE:
        return Arrivals(at_once=True)
    if row.request_rate_per_s == "inf" and row.concurrency is None:
        return Arrivals(constant=BURST)  # type: ignore[arg-type]
    if row.concurrency is not None:
        paced = None if unpaced else f"{_rate(row)} /s"
        return Arrivals(closed_loop=ClosedLoop(clients=row.concurrency, rate=paced))  # type: ignore[arg-type]
    rate = _rate(row)
    assumed.append("Poisson arrivals")
    return Arrivals(poisson=f"{rate} /s")  # type: ignore[arg-type]


def _rate(row: ServingRow) -> float:
    if not isinstance(row.request_rate_per_s, float | int):
        raise Refused("neither request rate nor concurrency is stated")
    if row.request_rate_per_s <= 0:
        raise Refused("key `request_rate_per_s`: `0` or less; write more than 0")
    return row.request_rate_per_s


def _batching(
    row: ServingRow,
    said: Told,
    stack_name: str,
    stack: ServingStack,
    model: Model,
    drafts: Speculation | None,
    assumed: list[str],
) -> Batching:
    """What the row says about the engine's settings; where it says nothing the stack's."""
    if row.kind in ("static_batch_throughput", "decode_throughput"):
        return Batching(policy="static", max_sequences=row.batch_size)
    if _alone(row):
        return Batching(max_sequences=min(max(row.batch_size or 1, 1), stack.token_budget))
    options = (row.engine_options or "").lower()
    most, budget = row.max_num_seqs, re.search(r"max-num-batched-tokens=(\d{1,7})\b", options)
    chunked = re.search(r"chunked-prefill=(true|false)", options)
    policy, offline = None, row.kind not in ONLINE
    if chunked and chunked[1] == "true":
        policy = "vllm-v1"
    tokens = int(budget[1]) if budget else said.tokens if offline else None
    most = most or (said.sequences if offline or stack_name in limits.V0 else None)
    if stack_name in limits.V0 and tokens is None and policy is None:
        policy, tokens = limits.of_v0(stack_name, row.engine_version, row.accelerator, model, said)
        assumed.append(f"at most {tokens:,} tokens of prompts in an iteration, the default")
    if stack_name in limits.V1 and most is None and tokens is None and said == Told():
        most, tokens = limits.of_v1(row.accelerator, row.kind in ONLINE)
        assumed.append(f"at most {most:,} sequences and {tokens:,} tokens an iteration, the defaults of device and use")
    if said != Told() and row.concurrency and row.input_len and most is None and tokens is None:
        ranks = 1 if row.kind == APART else _spread(row).get("attention_dp") or 1
        tokens, most = said.limits(row.concurrency, row.input_len, 1 if drafts is None else drafts.most_rows, ranks)
        assumed.append(f"limits of the engine as in the benchmark's scripts: {most} sequences")
    return Batching(
        policy=policy,
        max_sequences=most,
        token_budget=tokens,
        poll_interval=said.poll_interval or 1,
        wait_iterations=said.wait_iterations or 0,
        wait_share=said.wait_share or 0.0,
        balance_iterations=said.balance_iterations or 0,
        balance_wait=said.balance_wait or 0,
    )
