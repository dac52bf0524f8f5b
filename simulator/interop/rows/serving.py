"""Published serving measurements as scenarios.

A row states what its authors state. What it leaves open (how many requests, formats of the cache, lengths of a named
workload) is filled in by the rules of this module, the same for every row, and listed as an assumption; a row that
needs what is not built is refused with the reason. No rule looks at the measured value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from simulator.errors import InputError
from simulator.interop.rows import serving_limits as limits
from simulator.interop.rows import serving_names as names
from simulator.interop.rows import trtllm_bench
from simulator.interop.rows.accelerators import card
from simulator.interop.rows.jsonl import Line, Refused, parse_line
from simulator.interop.rows.pools import APART, ROLES, pools, router, spanning
from simulator.interop.rows.serving_settings import Case, Told, settings
from simulator.interop.rows.speculation import speculation
from simulator.interop.rows.stated.formats import formats
from simulator.interop.rows.stated.layout import layout, machine, spread
from simulator.interop.rows.stated.lengths import fixed
from simulator.interop.rows.stated.lengths import lengths as lengths_of
from simulator.interop.rows.stated.options import Options, options
from simulator.interop.rows.suspicious import check_serving
from simulator.interop.rows.words import vocabulary
from simulator.specs.model import Model
from simulator.specs.requests import Arrivals, ClosedLoop, Lengths, Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, ExpertTraffic, KvCache, NumberFormats, Overlap, Serving, ServingStack
from simulator.specs.speculation import Speculation
from simulator.specs.training import RouterLoad

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
FILLED = ("static_batch_throughput", "decode_throughput")
"""Kinds of batches that enter and leave together."""
SCRIPTED = (*ONLINE, *FILLED, "offline_throughput", "single_stream_decode", "single_stream_prefill")
"""Kinds of rows whose engine may have settings in the benchmark's scripts."""
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

    @field_validator("metrics")
    @classmethod
    def _known_share(cls, metrics: dict[str, float | int | None]) -> dict[str, float | int | None]:
        """The figures, those of a device under the word of the others."""
        return {re.sub(r"_per_(gpu|device|npu|card|chip)$", "_per_accel", name): one for name, one in metrics.items()}

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        """The kind that another word for it means."""
        return vocabulary().serving.kinds.get(re.sub(r"[- ]", "_", kind.lower()), kind)

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
    filled: bool
    """Whether its batch is still to be derived from lengths and memory: the largest."""
    assumed: tuple[str, ...]
    """What the row leaves open and how it was filled in."""
    cached: bool = False
    """Whether the prompts of its batch were in the cache: no time of theirs is in what was measured."""


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
    row = _with_arrivals(row)
    _check_supported(row)
    assumed: list[str] = []
    try:
        return _mapped(_with_batch(row), assumed)
    except (InputError, ValidationError) as error:
        raise Refused(" ".join(str(error).split())) from None


def _with_batch(row: ServingRow) -> ServingRow:
    """The row with the number of requests that run together in the key of its kind."""
    if row.kind in FILLED and row.batch_size is None:
        return row.model_copy(update={"batch_size": row.concurrency or row.num_requests})
    if row.kind == "online_serving" and row.request_rate_per_s is None and row.concurrency is None:
        return row.model_copy(update={"concurrency": row.batch_size})
    return row


def _with_arrivals(row: ServingRow) -> ServingRow:
    """The row with its word for arrivals as the rate that it stands for: `poisson` is what a rate means anyway, and
    all at once is no rate."""
    word = (row.arrivals or "").lower()
    if word in AT_RANDOM:
        return row.model_copy(update={"arrivals": None})
    if word in AT_ONCE:
        places = None if (row.concurrency or 0) >= (row.num_requests or 0) else row.concurrency
        return row.model_copy(update={"arrivals": None, "request_rate_per_s": "inf", "concurrency": places})
    return row


def _check_supported(row: ServingRow) -> None:
    if row.kind not in KINDS:
        raise Refused(f"kind `{row.kind}`")
    reasons = {
        f"the row is not complete: {row.reason or 'without a reason'}": row.complete is False,
        f"arrivals `{row.arrivals}`": row.arrivals not in (None, CLOSED_LOOP),
        f"lengths between {row.length_range} of those stated": not 0 <= min(row.length_range or (1,)) <= 1,
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
AT_RANDOM, AT_ONCE = ("poisson", "random"), ("all at once", "burst", "inf")
"""Words of `arrivals` for requests at random times and for those that a client sends together."""
CLOSED_LOOP = "closed loop"
"""Word of `arrivals`: `concurrency` requests are in flight all the time."""
ROUNDS = 10
"""Requests of a closed loop for each one in flight, where a row does not say."""
CLIENT_REQUESTS = 1000
"""Requests of a client that is told neither how many nor how fast: `--num-prompts` and `--request-rate inf` of
`vllm bench serve` (vllm/benchmarks/serve.py) and of SGLang's bench_serving.py."""
BURST = "1e6 /s"
"""Rate of a client that sends all requests at once, which pass the front end of the engine one after the other."""


def _mapped(row: ServingRow, assumed: list[str]) -> MappedServing:
    model = names.model(row.model)
    version = row.engine_version or row.day
    stack_name = names.on_device(names.stack_name(row.engine, version), version, row.accelerator)
    stack_name = names.supporting(stack_name, row.accelerator, assumed)
    said = _said(row)
    stack_name = said.stack or names.with_blocks(stack_name, row.model, row.precision or {}, row.accelerator)
    if row.kind in ONLINE:
        stack_name = names.served(stack_name, row.kind, row.engine, row.engine_version, row.model)
    else:
        stack_name = names.called(names.with_flow(stack_name, row.model), row.kind)
    if names.stands_in(row.engine, version):
        assumed.append(f"engine `{row.engine}` as {stack_name}, the most like it")
    if names.of_neuron(row.accelerator):
        assumed.append(f"the engine's kernels on Neuron are not known: those of `{stack_name}`")
    if row.engine_version is None and not re.search(r"\d\.\d", row.engine) and stack_name in names.VERSIONED:
        assumed.append(f"engine version as of `{stack_name}`")
    if card(row.accelerator)[1]:
        assumed.append(f"accelerator `{row.accelerator}` taken as {card(row.accelerator)[0]}")
    stack, precision = _told(row, said, names.stack(stack_name), stack_name, assumed)
    cluster = machine(row, assumed)
    lengths = lengths_of(row, model, ONLINE, assumed)
    count, steady = _count(row, lengths, assumed)
    placed: dict[str, Any]
    if row.kind == APART:
        told: dict[str, Told] = {role: _said(row, role) for role in ROLES}
        placed = {"pools": pools(row, round(lengths.prompt.most), told, assumed), "first_token": "decode"}
        placed |= router(row, placed["pools"], told["prefill"], assumed)
        cluster = spanning(cluster, placed["pools"], assumed)
    else:
        parallel, replicas = layout(row, stack, assumed)
        if parallel.devices * replicas > cluster.devices:
            raise Refused(f"{parallel.devices * replicas} accelerators of {cluster.devices} in {cluster.name}")
        placed = {"replicas": replicas, "parallel": parallel}
    drafts = speculation(row, assumed)
    serving = Serving(
        **placed,
        precision=precision,
        batching=_batching(row, said, stack_name, stack, model, drafts, assumed),
        context=_context(lengths, model),
        kv_cache=_cache(row, said),
        speculation=drafts,
        stream_interval=said.stream_interval or 1,
        experts=_experts(model, assumed),
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
    filled = row.kind in FILLED and row.batch_size is None
    cached = bool(said.cached_prompts) and row.kind in FILLED and stack_name in limits.V1
    return MappedServing(row, scenario, stack_name, count, steady, tuned, filled, tuple(assumed), cached)


def _experts(model: Model, assumed: list[str]) -> ExpertTraffic:
    """How experts are chosen: by rows on their own, some experts more often than others, so that a batch reads fewer of
    them and the device with most rows decides where they are spread."""
    if model.experts is None:
        return ExpertTraffic()
    assumed.append("rows choose experts independently, some experts more often than others")
    return ExpertTraffic(routing=RouterLoad(load="uneven"))


def _said(row: ServingRow, role: str = "") -> Told:
    """What the scripts of the benchmark tell the engine, workers of a role where they are apart; nothing where they
    are not known."""
    in_flight = row.concurrency or row.batch_size or row.num_requests
    if row.kind not in SCRIPTED or in_flight is None:
        return Told()
    weights, sizes = row.number_format, (row.input_len or 0, row.output_len or 0)
    named = row.source, row.engine, row.model, row.accelerator, weights
    tp = 1 if row.kind == APART else spread(row).get("tp") or 1
    drafts = row.spec_decoding not in (None, "none")
    case = Case(*named, tp, in_flight, sizes, row.day or "", drafts, row.recipe or "", role, row.kind)
    return settings(case, row.kind == APART) or Told()


def _told(
    row: ServingRow, said: Told, stack: ServingStack, name: str, assumed: list[str]
) -> tuple[ServingStack, NumberFormats]:
    """(stack, number formats) with the kernels and formats of experts that the benchmark's scripts choose."""
    told = options(row.engine_options)
    precision = formats(_with_cache(row, told), name, "fp16", assumed, row.model, row.engine)
    if said.kv is not None and "kv" not in (row.precision or {}):
        assumed.append(f"keys and values in {said.kv}, as in the benchmark's scripts")
        precision = precision.model_copy(update={"kv": said.kv})
    if said.captures is False:
        assumed.append("no captured graphs, as in the benchmark's scripts")
    if said.captures is False or told.eager or not names.captures(row.engine, row.engine_version or row.day):
        stack = stack.model_copy(update={"graphs": None})
    stack = _captured(stack, told)
    if said.experts_from_python and precision.experts is not None:
        assumed.append("Python launches the kernels of experts, as in the benchmark's scripts; as long as under SGLang")
        stack = stack.model_copy(update={"experts_launch": names.stack("sglang").experts_launch})
    if said.overlaps_verification:
        stack = stack.model_copy(update={"verify_overhead": None})
    if stack.expert_kernels[0] == "cutlass" and precision.weights == "fp8" and names.DEEPSEEK.search(row.model):
        stack = stack.model_copy(update={"expert_kernels": ("cutlass-blocks", *stack.expert_kernels)})
    if said.experts is None:
        return stack, precision
    assumed.append(f"experts run `{said.experts}` kernels, as in the benchmark's scripts")
    if said.expert_rows is not None and precision.experts is not None:
        precision = precision.model_copy(update={"expert_activations": said.expert_rows})
    families = dict.fromkeys((said.experts, *stack.expert_kernels))
    return stack.model_copy(update={"expert_kernels": tuple(families)}), precision


def _captured(stack: ServingStack, told: Options) -> ServingStack:
    """The stack with the largest graph, and the longest sequence in one, that the row's options state."""
    changes = {}
    if stack.graphs is not None and told.graphs is not None:
        changes["graphs"] = told.graphs
    if stack.graph_context is not None and told.graph_context is not None:
        changes["graph_context"] = told.graph_context
    return stack.model_copy(update=changes) if changes else stack


def _with_cache(row: ServingRow, told: Options) -> dict[str, Any]:
    """The precision of a row as its device has it, with the format of the cache that its options state."""
    precision = row.precision or {}
    if WIDE_8.fullmatch(str(precision.get("weights") or "")) and not _has_fp8(row.accelerator):
        precision = {**precision, "weights": "int8"}
    return precision if told.kv is None or precision.get("kv") else {**precision, "kv": told.kv}


WIDE_8 = re.compile(r"w8a8( ?[(-]?(dynamic|static|smooth ?quant)\)?)?", re.I)
"""Words of 8 bits that do not say which: fp8 where the device has it, else int8."""


def _has_fp8(accelerator: str) -> bool:
    return "fp8" in names.cluster(accelerator).node.accelerator.peak


def _simulated(row: ServingRow, count: int) -> int:
    """Requests that are simulated; where all come at once, the batch that fits decides later."""
    if row.kind in ONLINE or _looped(row):
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
    told = options(row.engine_options)
    memory, free = told.memory_share or said.memory_share, told.free_share or said.free_share
    return KvCache(prefix_caching="none", memory_share=memory, free_share=free)


def _context(lengths: Lengths, model: Model) -> int:
    alike = fixed(lengths)
    if lengths.prompt.uniform and lengths.output.uniform:
        return round(lengths.prompt.most + lengths.output.most)
    return sum(alike) if alike else model.max_sequence or 32_768


def _count(row: ServingRow, lengths: Lengths, assumed: list[str]) -> tuple[int, bool]:
    """(requests of the measured run, whether all come at once and wait for places)."""
    if row.kind in FILLED:
        if row.batch_size is None:
            assumed.append("the largest batch that fits, as a table of the highest rates has it")
        return row.batch_size or 1, False
    if row.kind not in ("offline_throughput", *ONLINE):
        return row.batch_size or 1, False
    if row.num_requests:
        return row.num_requests, row.kind == "offline_throughput" and not _looped(row)
    if row.batch_size:
        replicas = spread(row).get("dp") or 1
        if replicas > 1:
            assumed.append(f"{row.batch_size} requests for each of {replicas} replicas")
        return row.batch_size * replicas, row.kind == "offline_throughput" and not _looped(row)
    if row.arrivals == CLOSED_LOOP and row.concurrency:
        assumed.append(f"{ROUNDS * row.concurrency:,} requests, {ROUNDS} for each in flight")
        return ROUNDS * row.concurrency, False
    if row.concurrency:
        assumed.append(f"{row.concurrency} requests, one a client")
        return row.concurrency, False
    if row.kind in ONLINE:
        assumed.append(f"{CLIENT_REQUESTS:,} requests, as many as the clients of vLLM and SGLang send")
        return CLIENT_REQUESTS, False
    count = trtllm_bench.requests(*(fixed(lengths) or (1024, 512)))
    assumed.append(f"{count:,} requests, as many as NVIDIA's tables take for such lengths")
    return count, row.kind == "offline_throughput"


def _arrivals(row: ServingRow, assumed: list[str]) -> Arrivals:
    unpaced = row.request_rate_per_s in (None, "inf")
    if row.kind not in ONLINE and not _looped(row):
        return Arrivals(at_once=True)
    if row.request_rate_per_s == "inf" and row.concurrency is None:
        return Arrivals(constant=BURST)  # type: ignore[arg-type]
    if row.concurrency is not None:
        paced = None if unpaced else f"{_rate(row)} /s"
        return Arrivals(closed_loop=ClosedLoop(clients=row.concurrency, rate=paced))  # type: ignore[arg-type]
    if row.request_rate_per_s is None:
        assumed.append("all requests at once, as clients send them that are told no rate")
        return Arrivals(constant=BURST)  # type: ignore[arg-type]
    rate = _rate(row)
    assumed.append("Poisson arrivals")
    return Arrivals(poisson=f"{rate} /s")  # type: ignore[arg-type]


def _looped(row: ServingRow) -> bool:
    """Whether a program keeps so many requests in flight, one for each that ends, rather than give all at once."""
    return row.kind == "offline_throughput" and row.arrivals == CLOSED_LOOP and row.concurrency is not None


def _rate(row: ServingRow) -> float:
    assert isinstance(row.request_rate_per_s, float | int)
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
    if row.kind in FILLED:
        return Batching(policy="static", max_sequences=row.batch_size)
    if _alone(row):
        return Batching(max_sequences=min(max(row.batch_size or 1, 1), stack.token_budget))
    told = options(row.engine_options)
    most, offline = row.max_num_seqs or told.sequences, row.kind not in ONLINE
    policy = "vllm-v1" if told.cuts_prompts else None
    tokens = told.tokens or (said.tokens if offline else None)
    most = most or (said.sequences if offline or stack_name in limits.V0 else None)
    if stack_name in limits.V0 and tokens is None and policy is None:
        policy, tokens = limits.of_v0(stack_name, row.engine_version, row.accelerator, model, said, told.context)
        assumed.append(f"at most {tokens:,} tokens of prompts in an iteration, the default")
    if stack_name in limits.V1 and (most is None or tokens is None) and said == Told():
        usual = limits.of_v1(row.accelerator, row.kind in ONLINE)
        most, tokens = most or usual[0], tokens or usual[1]
        assumed.append(f"at most {most:,} sequences and {tokens:,} tokens an iteration, the defaults of device and use")
    if stack_name in limits.SGLANG and tokens is None and said == Told():
        tokens = limits.of_sglang(row.accelerator, row.engine_version)
        assumed.append(f"at most {tokens:,} tokens of prompts in an iteration, the default of the device")
    if said != Told() and row.concurrency and row.input_len and most is None and tokens is None:
        ranks = 1 if row.kind == APART else spread(row).get("attention_dp") or 1
        tokens, most = said.limits(row.concurrency, row.input_len, 1 if drafts is None else drafts.most_rows, ranks)
        assumed.append(f"limits of the engine as in the benchmark's scripts: {most} sequences")
    return Batching(
        policy=policy,
        max_sequences=most,
        token_budget=tokens,
        poll_interval=said.poll_interval or 1,
        decode_steps=told.decode_steps or 1,
        wait_iterations=said.wait_iterations or 0,
        wait_share=said.wait_share or 0.0,
        balance_iterations=said.balance_iterations or 0,
        balance_wait=said.balance_wait or 0,
    )
