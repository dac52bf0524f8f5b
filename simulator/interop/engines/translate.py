"""Command lines of serving engines as a scenario.

Attention ranks: vLLM has `--data-parallel-size` of them beside `--tensor-parallel-size`, with experts cut over all of
both unless `--enable-expert-parallel` spreads them. SGLang's `--tp-size` counts the devices of a replica, of which
`--enable-dp-attention` makes `--dp-size` ranks, which share `--max-running-requests` and `--chunked-prefill-size`
between them; without it ranks are replicas. With TensorRT-LLM's `enable_attention_dp` each device is a rank.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.errors import nearest
from simulator.interop.arguments import Arguments, typed
from simulator.interop.draft import Draft, printable
from simulator.interop.engines.commands import SGLANG, TENSORRT, VLLM, Command, commands
from simulator.interop.engines.graphs import largest_graph
from simulator.interop.engines.names import ALSO, LEFT_OUT, NAMES, NO_EFFECT
from simulator.interop.engines.speculation import NAMES as SPECULATION
from simulator.interop.engines.speculation import speculation
from simulator.interop.machine import MOST_DEVICES, Machine
from simulator.specs import catalog, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model

LENGTHS = "azure-conversation"
"""Workload of the scenario."""
QUANTIZED = {"fp8": "fp8", "w8a8_fp8": "fp8", "modelopt": "fp8", "awq": "int4", "gptq": "int4", "awq_marlin": "int4"}
QUANTIZED |= {"gptq_marlin": "int4", "mxfp4": "fp4", "modelopt_fp4": "fp4", "nvfp4": "fp4"}
"""Formats of weights by the word of an engine."""
_SUFFIX = re.compile(r"[-_](instruct|chat|it|hf|base|fp8|nvfp4|fp4|awq|gptq|bf16|0528|2507|v0\.\d|thinking|dynamic)\b")
_KV = {"fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}


@dataclass(slots=True)
class Instance:
    """One replica that a command starts."""

    role: str
    parallel: dict[str, int]
    batching: dict[str, int]
    cache: dict[str, Any]
    replicas: int = 1
    notes: dict[str, str] = field(default_factory=dict)
    """Where layout, limits and cache came from."""

    @property
    def devices(self) -> int:
        """Devices of all its replicas."""
        sizes = self.parallel
        return self.replicas * sizes["tp"] * sizes.get("dp", 1) * sizes.get("pp", 1)

    def like(self, other: "Instance") -> bool:
        """Whether another one is the same but for where it runs."""
        mine, its = ((i.role, i.parallel, i.batching, i.cache) for i in (self, other))
        return mine == its


def draft_of(text: str, file: str, machine: Machine, given: Mapping[str, str], folder: Path) -> Draft:
    """The scenario that serves as command lines say; its problems are in the draft.

    `given` sets variables and arguments. Raises InputError where there are no such commands.
    """
    found = commands(text, file, folder, given)
    first = found[0]
    draft = Draft(file, f"command of {first.engine}")
    if {one.engine for one in found} != {first.engine} or {one.model for one in found} != {first.model}:
        draft.wrong("starts several engines or models", "import them one by one", found[-1].line)
    draft.put("version", 1)
    draft.put("name", f"{printable(first.model.rpartition('/')[2] or 'a model')[:80]} ({first.engine})")
    arguments = [Arguments(draft, one.found) for one in found]
    model = _model(draft, first)
    instances = _merged([_instance(one, own, model) for one, own in zip(found, arguments, strict=True)])
    _machine(draft, machine, instances)
    draft.put("model", f"models/{model[0]}" if model else None, f"{first.model}, line {first.line}")
    _stack(draft, first, arguments)
    _serving(draft, instances, arguments[0], first)
    _speculation(draft, arguments[0], first.engine, model)
    _requests(draft, arguments[0])
    _rest(draft, arguments)
    return draft


def _stack(draft: Draft, command: Command, arguments: list[Arguments]) -> None:
    """The stack of the engine, with the largest batch that a graph is captured for where a command says it."""
    stack = "tensorrt-llm-serve" if command.engine == TENSORRT and not command.bench else command.engine
    told = sorted({size for own in arguments if (size := largest_graph(own, command.engine)) is not None})
    if not told:
        draft.put("stack", stack, command.engine)
        return
    draft.put("stack.extends", f"stacks/{stack}", command.engine)
    draft.put("stack.graphs", told[-1], "largest captured batch")
    if len(told) > 1:
        sizes = ", ".join(map(str, told[:-1]))
        draft.left_out.append(f"largest captured batches of {sizes}: a stack has one, that of the largest")


def _model(draft: Draft, command: Command) -> tuple[str, Model] | None:
    """The shipped model of the name that a command gives."""
    name, plain, known = command.model, _plain(command.model), catalog.names(Model)
    if plain in known:
        return plain, load_spec(Model, f"models/{plain}")
    message = f"the model `{printable(name[:80])}` is not among those that are shipped" if name else "names no model"
    hint = nearest(plain, known) or "give one of `clustersim profiles models`"
    draft.wrong(message, f"{hint}: --set model=NAME", command.line)
    return None


def _plain(name: str) -> str:
    """A name of Hugging Face as shipped models are called: without its owner, and without what it was tuned for."""
    known = catalog.names(Model)
    plain = name.rstrip("/").rpartition("/")[2].lower().replace("_", "-").removeprefix("meta-")
    while plain not in known and (shorter := _SUFFIX.sub("", plain)) != plain:
        plain = shorter
    return plain


def _instance(command: Command, own: Arguments, model: tuple[str, Model] | None) -> Instance:
    """What one command starts."""
    names, engine = NAMES[command.engine], command.engine
    tp = own.whole(*names["tp"], "tp", most=MOST_DEVICES) or 1
    pp = own.whole(*names["pp"], "pp", most=MOST_DEVICES) or 1
    dp = own.whole(*names["dp"], "dp", most=MOST_DEVICES) or 1 if "dp" in names else 1
    ep = own.whole(*names["ep"], most=MOST_DEVICES) or 1 if "ep" in names else 1
    dcp = own.whole(*names["dcp"], most=MOST_DEVICES) or 1 if "dcp" in names else 1
    replicas, ranks, experts = 1, 1, model is not None and model[1].experts is not None
    if engine == VLLM:
        spread = own.on("enable_expert_parallel")
        ranks, replicas = (dp, 1) if experts else (1, dp)
        ep = tp * dp if spread and experts else 1
    elif engine == SGLANG and own.on("enable_dp_attention"):
        ranks, tp = dp, _divided(own, tp, dp, names)
    elif engine == SGLANG:
        replicas = dp
    elif own.on("enable_attention_dp"):
        ranks, tp = tp, 1
    parallel = {"tp": tp} | {key: size for key, size in (("dp", ranks), ("pp", pp), ("dcp", dcp)) if size > 1}
    if experts and (ep > 1 or ranks > 1):
        parallel |= {"ep": ep, "etp": max(tp * ranks // ep, 1)}
    shares = ranks if engine == SGLANG else 1
    batching = _limits(own, names, shares)
    places = {
        "tp": "tp",
        "dp": "dp",
        "pp": "pp",
        "ep": "ep",
        "dcp": "dcp",
        "token_budget": "chunk",
        "max_sequences": "sequences",
    }
    places |= {"block_size": "block", "memory_share": "memory", "free_share": "free", "blocks": "blocks"}
    notes = {key: own.note(*names.get(kind, ())) for key, kind in places.items()}
    return Instance(_role(own, names), parallel, batching, _cache(own, names), replicas, notes)


def _divided(own: Arguments, tp: int, dp: int, names: Mapping[str, tuple[str, ...]]) -> int:
    """Devices of an attention rank of SGLang."""
    if tp % dp:
        message = f"--tp-size {tp} is the devices of a replica, no multiple of the --dp-size {dp} attention ranks"
        own.draft.wrong(
            message,
            f"write --tp-size {dp} or a multiple of it",
            next(own.found[name].line for name in names["dp"] if name in own.found),
        )
        return 1
    return tp // dp


def _limits(own: Arguments, names: Mapping[str, tuple[str, ...]], ranks: int) -> dict[str, int]:
    found = {"token_budget": own.whole(*names["chunk"]), "max_sequences": own.whole(*names["sequences"])}
    limits = {key: max(value // ranks, 1) for key, value in found.items() if value}
    steps = own.whole(*names.get("steps", ()))
    return limits | ({"decode_steps": steps} if steps else {})


def _cache(own: Arguments, names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    found: dict[str, Any] = {"block_size": own.whole(*names["block"]), "blocks": own.whole(*names.get("blocks", ()))}
    for key, kind in (("memory_share", "memory"), ("free_share", "free")):
        word = own.text(*names.get(kind, ()))
        found[key] = None if word is None else _share(own, names[kind], word)
    if own.on(*names.get("unkept", ())) or own.off(*names.get("reuse", ("",))) or own.off(*names.get("kept", ("",))):
        found["prefix_caching"] = "none"
    elif own.on(*names.get("kept", ())) or own.on(*names.get("reuse", ())):
        found["prefix_caching"] = "block"
    return {key: value for key, value in found.items() if value is not None}


def _share(own: Arguments, names: tuple[str, ...], word: str) -> float | None:
    if re.fullmatch(r"0?\.\d+|1(\.0*)?", word):
        return float(word)
    own.draft.wrong(f"{typed(names[0])} takes a share from 0 to 1, not `{printable(word[:40])}`")
    return None


def _role(own: Arguments, names: Mapping[str, tuple[str, ...]]) -> str:
    """What an engine does in a system of prefill and decode apart."""
    word = own.text(*names.get("role", ())) or ""
    if not word.startswith("{"):
        return word if word in ("prefill", "decode") else "both"
    try:
        config = json.loads(word)
    except (ValueError, RecursionError):
        own.draft.wrong(f"--kv-transfer-config holds no JSON: `{printable(word[:60])}`")
        return "both"
    return {"kv_producer": "prefill", "kv_consumer": "decode"}.get(str(config.get("kv_role")), "both")


def _merged(instances: list[Instance]) -> list[Instance]:
    """Equal instances as one with so many replicas."""
    kept: list[Instance] = []
    for one in instances:
        same = next((other for other in kept if other.like(one)), None)
        if same is None:
            kept.append(one)
        else:
            same.replicas += one.replicas
    return kept


def _machine(draft: Draft, machine: Machine, instances: list[Instance]) -> None:
    devices = sum(one.devices for one in instances)
    per_node = load_spec(Cluster, machine.cluster).node.devices
    draft.put("cluster.extends", machine.cluster, "--cluster")
    nodes = -(-devices // per_node)
    if machine.nodes is None:
        draft.put("cluster.nodes", nodes, f"{devices} devices of the commands")
    else:
        draft.put("cluster.nodes", machine.nodes, "--nodes")
    if machine.nodes is not None and machine.nodes < nodes:
        draft.wrong(f"the commands take {devices} devices, {machine.nodes} nodes have {machine.nodes * per_node}")


def _serving(draft: Draft, instances: list[Instance], own: Arguments, command: Command) -> None:
    """Layouts, limits, formats and caches."""
    names = NAMES[command.engine]
    roles = {one.role for one in instances}
    if ("both" in roles and len(roles) > 1) or roles == {"prefill"} or roles == {"decode"}:
        hint = "import the commands of both kinds together, one after the other in a script"
        draft.wrong(f"starts only {' and '.join(sorted(roles))} workers", hint, command.line)
    elif roles == {"both"} and len(instances) == 1:
        one = instances[0]
        draft.put("serving.replicas", one.replicas, "engines that are started")
        for key, size in one.parallel.items():
            draft.put(f"serving.parallel.{key}", size, one.notes.get(key) or "of these sizes")
        for key, size in one.batching.items():
            draft.put(f"serving.batching.{key}", size, one.notes.get(key, ""))
        for key, value in one.cache.items():
            draft.put(f"serving.kv_cache.{key}", value, one.notes.get(key) or "whether prefixes are kept")
    else:
        draft.put("serving.pools", [_pool(one, i) for i, one in enumerate(instances)], "engines that are started")
    _formats(draft, own, names, command)
    if own.on(*names.get("halves", ())):
        draft.put("serving.overlap.batches", "two", own.note(*names["halves"]))
    own.taken |= set(names["nodes"])


def _pool(one: Instance, number: int) -> dict[str, Any]:
    name = one.role if one.role != "both" else f"replicas-{number + 1}"
    pool: dict[str, Any] = {"name": name, "role": one.role, "replicas": one.replicas, "parallel": one.parallel}
    return pool | {key: part for key, part in (("batching", one.batching), ("kv_cache", one.cache)) if part}


def _formats(draft: Draft, own: Arguments, names: Mapping[str, tuple[str, ...]], command: Command) -> None:
    word = own.text(*names["quantization"])
    lower = command.model.lower()
    told = QUANTIZED.get((word or "").lower())
    if word is not None and told is None:
        draft.left_out.append(f"--quantization {printable(word[:40])}: its format is not known here")
    elif told is None and re.search(r"[-_](fp8|nvfp4|fp4|awq|gptq)\b", lower):
        told = {"fp8": "fp8", "nvfp4": "fp4", "fp4": "fp4"}.get(re.split(r"[-_]", lower)[-1], "int4")
    elif told is None and re.search(r"deepseek-(v3|r1)|kimi-k2", lower):
        told = "fp8"
    note = own.note(*names["quantization"]) or f"name or kind of the model: {printable(command.model[:60])}"
    draft.put("serving.precision.weights", told, note)
    kv = own.text(*names["kv"])
    if kv not in (None, "auto"):
        draft.put("serving.precision.kv", _KV.get(str(kv), str(kv)), own.note(*names["kv"]))
    draft.put("serving.context", own.whole(*names["context"]), own.note(*names["context"]))


def _speculation(draft: Draft, own: Arguments, engine: str, model: tuple[str, Model] | None) -> None:
    """What drafts, and with which model."""
    found = speculation(own, engine, model[1].mtp_layers if model else 0) or {}
    notes = {"acceptance": own.note("acceptance") or "assumed", "source": ""}
    drafts = str(found.pop("drafts", ""))
    for key, value in found.items():
        draft.put(f"serving.speculation.{key}", value, notes.get(key, "flags of speculation"))
    if found.get("kind") == "draft-model":
        plain = _plain(drafts)
        if plain not in catalog.names(Model):
            draft.wrong(f"the model that drafts, `{printable(drafts[:80])}`, is not among those that are shipped")
        draft.put("serving.speculation.model", f"models/{plain}", printable(drafts))


def _requests(draft: Draft, own: Arguments) -> None:
    clients, number = own.whole("concurrency"), own.whole("num_requests")
    if clients:
        draft.put("requests.arrivals.closed_loop.clients", clients, own.note("concurrency"))
    else:
        draft.assume("requests.arrivals.poisson", "1 /s", "requests per second")
    draft.assume("requests.lengths", LENGTHS, "or others of workloads/requests, or `requests.trace`")
    if number:
        draft.put("requests.count", number, own.note("num_requests"))
    else:
        draft.assume("requests.count", 200, "how many requests")


def _rest(draft: Draft, arguments: list[Arguments]) -> None:
    """Arguments that no reader took: without effect, left out with a reason, or unknown and listed by name."""
    known = set(LEFT_OUT) | {name for engine in NAMES.values() for names in engine.values() for name in names}
    known |= SPECULATION | {name for names in ALSO.values() for name in names}
    told: set[str] = set()
    taken = set().union(*(own.taken for own in arguments))
    for argument in (one for own in arguments for one in own.found.values() if one.name not in taken):
        if argument.name in told:
            continue
        told.add(argument.name)
        if argument.name in NO_EFFECT:
            draft.ignored.append(argument.shown)
        elif argument.name in LEFT_OUT:
            draft.left_out.append(f"{argument.shown}: {LEFT_OUT[argument.name]}")
        else:
            near = nearest(argument.name, known)
            if near:
                draft.misspelt.append(f"{argument.shown} ({near})")
            else:
                draft.left_out.append(f"{argument.shown}: not known here, whether it changes times or not")
