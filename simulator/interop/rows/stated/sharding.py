"""How the words of published training rows say that model states are spread over data-parallel ranks, and updated."""

import re
from typing import Literal, NamedTuple

from simulator.interop.rows.accelerators import plain
from simulator.interop.rows.jsonl import Refused

Zero = Literal[0, 1, 2, 3]
Reduced = Literal["fp32", "bf16", "fp16"]


_SUMS = r"(?:grads?|gradients?|reduc\w+)(?: (?:accumul|reduc)\w+)?"
_SUMMED = re.compile(
    rf"(?<!\w)(fp32|bf16|fp16) (?:{_SUMS})(?!\w)|(?<!\w)(?:{_SUMS})(?: in| =|=)? ?(fp32|bf16|fp16)(?!\w)"
)


def reduced_in(text: str) -> Reduced | None:
    """Format in which gradients are reduced, by words such as `bf16 reduce` and `gradients in fp32`."""
    found = _SUMMED.search(text)
    return (found[1] or found[2]) if found else None  # type: ignore[return-value]


class Sharding(NamedTuple):
    """How model states are spread over data-parallel ranks."""

    zero: Zero | None
    """None where the words leave it to the stack."""
    group: int | Literal["node"] | None
    """Ranks of a shard set, or those of a node; None for all."""
    reduced: Reduced | None
    """Format in which gradients are reduced, where the words say it."""
    slices: int = 1
    """Slices of a pod, joined by a data-centre network, that copy what each spreads over its own devices."""


_STAGES: tuple[tuple[str, Zero], ...] = (
    (r"(no|without|non|not using)( a| the)? (distributed ?optimizer|sharding|sharded optimizer|fsdp|zero)", 0),
    (r"zero ?(stage ?)?([0-3])\b", 0),
    (r"stage ?([0-3])\b", 0),
    (r"(hybrid ?shard zero2|shard ?grad ?op)|(fsdp2? )?reshard after forward ?=? ?(false|no|off|0)", 2),
    (
        r"(hybrid ?shard|hsdp|full ?shard|fully ?shard(ed)?( data parallel)?|(simple|megatron) ?fsdp"
        r"|fsdp ?[12]?|dp shard|reshard after forward)",
        3,
    ),
    (r"no ?shard(ing)?", 0),
    (r"optimizer( states?)? sharding|sharded optimizer states?", 1),
    (r"(distributed ?optimizer|dist ?opt(imizer)?|sharded ?optimizer|optimizer state sharding|zero redundancy)", 1),
    (r"(ddp|none|replicated|plain data parallel(ism)?|disabled|off)", 0),
    (r"^(data parallel(ism)?|dp)( only)?$", 0),
)
_SHARD_WORDS = (
    r"deepspeed|ddp|megatron|pytorch|torch|jax|see recipe|recipe|default( in benchmark)?|not stated|benchmark|style"
    r"|over|all|dp|ranks?|within|gpus?|group|size|devices|node|nodes|a|the|per|of|chips|ici|dcn|slices?( s)?|data"
    r"|parallel|fsdp2?|sharded?|shards?|optimizer|states?|grads?|gradients|params?|parameters|weights|kept|across|each"
    r"|and|only|x|tensor|with|mixed ?precision|pure|full|stage|zero|use|true|enabled|on|in|strategy|dimension"
    r"|data parallelism|fully|1d|2d|no|replicas?|replicate|group=\d+|hybrid|experts?|reduc\w+|bf16|fp32"
    r"|[a-z]+=\w+|[\d.,]+|distributed ?optimizer|full shard|zero ?[1-3]|optim|sharding|way|ways|custom|compute|cores"
    r"|overlap\w*|gather|grad|reduce|reduction|async|hidden|ep|tp|pp|cp|fp32|per ?(param(eter)?|module|layer)?|simple"
)
_SHARD_UNKNOWN = r"\b(infinity|zero\+\+|nvme|quantized|hpz|qwz|qgz|mics)\b"
OFFLOADED = re.compile(
    r"(?<!\w)\+?((cpu|host|optimizer|optim|states?|param\w*|activations?|checkpoints?|and) )*offload\w*"
    r"( to (the )?(cpu|host))?"
)
"""Words of what lives on hosts, beside those of sharding (`offload`)."""


_MOMENTS = re.compile(
    r"(?<!\w)((bf16|fp16|fp8|reduced precision) ((adam )?moments?( of the optimizer)?|optimizer states?)"
    r"|(moments?|optimizer states?) in (bf16|fp16|fp8)"
    r"|precision aware optimizer)(?!\w)"
)
"""Words of moments in fewer than 32 bits."""


def sharding(words: str | None) -> Sharding:
    """Sharding by the words of a row; raises Refused for words that are not known."""
    text = plain(words or "").strip(" .")
    if not text or text in ("unknown", "not stated", "default", "zero", "deepspeed zero", "deepspeed"):
        return Sharding(None, None, None)
    slices = re.search(r"(\d+) slices?", text)
    reduced = re.search(r"mixed ?precision ?= ?(pure|default|full)", text)
    text = text.replace(reduced[0], "") if reduced else text
    text = _MOMENTS.sub(" ", OFFLOADED.sub(" ", text)).strip(" .+")
    zero = _stage(text)
    rest = re.sub(rf"\b({_SHARD_WORDS})(?![\w=])", " ", _without_stage(text))
    if re.search(_SHARD_UNKNOWN, text) or zero is None or re.sub(r"[\s.=+]", "", rest):
        raise Refused(f"sharding `{words}`")
    formats: dict[str, Reduced] = {"pure": "bf16", "default": "fp32", "full": "fp32"}
    many = int(slices[1]) if slices else 1
    return Sharding(zero, _group(text), formats[reduced[1]] if reduced else reduced_in(text), many)


def _stage(text: str) -> Zero | None:
    for pattern, stage in _STAGES:
        if found := re.search(rf"(?<!\w){pattern}(?!\w)", text):
            return int(found[found.lastindex or 1]) if "0-3" in pattern else stage  # type: ignore[return-value]
    return None


def _without_stage(text: str) -> str:
    for pattern, _ in _STAGES:
        text = re.sub(rf"(?<!\w){pattern}(?!\w)", " ", text)
    return text


def _group(text: str) -> int | Literal["node"] | None:
    found = re.search(
        r"within (?:a group of )?(\d+)|(?:fsdp ?[12]?|shard(?:ed|s)?|zero ?[123]) (?:over|across) (\d+)(?!\d| cores)"
        r"|(?:fsdp ?[12]?) (\d+) ?way|group(?: size)?[= ]+(?:of )?(\d+)|(?:fsdp=|shard(?: degree| size)?[= ]+)(\d+)",
        text,
    )
    if found:
        return next(int(size) for size in found.groups() if size)
    return "node" if re.search(r"hybrid ?shard|hsdp|(with)?in (a|each|the|one) node", text) else None


_OPTIMIZERS = (
    (r"muon", "muon"),
    (r"(paged )?adamw? ?8 ?bit|8 ?bit (adamw?|optimizer)", "adam-8bit"),
    (r"lion", "lion"),
    (r"adafactor", "adafactor"),
)


def optimizer(*texts: str | None) -> dict[str, str] | None:
    """What updates parameters, by the words of a row; None for Adam with moments in 32 bits."""
    said = " ; ".join(plain(text or "") for text in texts)
    for words, name in _OPTIMIZERS:
        if re.search(rf"(?<!\w)(?<!no )(?<!not )({words})(?!\w)", said):
            return {"name": name}
    found = _MOMENTS.search(said)
    if found is None:
        return None
    stated = re.search(r"bf16|fp16|fp8", found[0])
    return {"name": "adam", "moments": stated[0] if stated else "bf16"}
