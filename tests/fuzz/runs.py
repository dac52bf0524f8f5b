"""Random runs of weeks that read samples, are evaluated and are gone on with, and training on a trace of the experts'
load."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import semantics, tiers
from tests.fuzz.drawing import some
from tests.fuzz.harness import Answer, Input, answered

KEPT = "kept.jsonl"
"""File in which a run is kept."""
WORDS = ["run", "s.yaml", "--json", "-"]


def runs(random: Random) -> Input:
    """A run that reads its samples, stops to be evaluated, or goes on from a file."""
    document = tiers.plain(random)
    run = tiers.run_of(random) | some(random, {"data": _DATA, "evaluation": _EVALUATED}, 0.7)
    document["training"]["run"] = run
    if random.random() < 0.6:
        document["cluster"]["storage"] = tiers.storage(random)
    interrupted = random.random() < 0.5
    damage = random.choice((_cut, _cut, _swapped, _other)) if interrupted else None
    seed = random.randrange(1 << 30)

    def check(answer: Answer) -> str | None:
        if answer.code == 2 or not answer.out:
            return None if answer.code and not answer.out else "said the wrong thing on standard output"
        told = json.loads(answer.out)
        if "run" not in told or "step_time_s" not in told["metrics"]:
            return None
        wrong = semantics.training_faults(told, document) or tiers.run_faults(told)
        return wrong or (_goes_on(answer, damage, Random(seed)) if damage and answer.code == 0 else None)

    return Input(WORDS, {"s.yaml": json.dumps(document).encode()}, check)


_DATA: tuple[dict[str, Any], ...] = (
    {"bytes": "20 MB"},
    {"bytes": "1 B", "rate": "1 GB/s"},
    {"bytes": "600 MB", "rate": "100 MB/s"},
    {"bytes": "5 TB", "rate": "1 kB/s"},
    {"bytes": "4 kB", "rate": "100 TB/s"},
)
_EVALUATED: tuple[dict[str, Any], ...] = (
    {"every": 1, "takes": "1 ms"},
    {"every": 100, "takes": "3 min"},
    {"every": 7, "takes": "2 h"},
    {"every": 10**9, "takes": "1 s"},
)


def _goes_on(plain: Answer, damage: Callable[[bytes, Random], bytes], random: Random) -> str | None:
    """What is wrong where the run is kept in a file, and gone on with after that was cut or damaged."""
    kept = answered([*WORDS, "--resume", KEPT])
    if _figures(kept) != _figures(plain):
        return f"is another run where it is kept: {kept.code}, {kept.err[-300:]}"
    whole = Path(KEPT).read_bytes()
    Path(KEPT).write_bytes(damage(whole, random))
    again = answered([*WORDS, "--resume", KEPT])
    if again.code == 2:
        return "said something on standard output" if again.out else None
    return None if _figures(again) == _figures(plain) else f"comes to something else: {again.code}, {again.err[-300:]}"


def _figures(answer: Answer) -> Any:
    told = json.loads(answer.out) if answer.out else {}
    return {key: told.get(key) for key in ("metrics", "run", "warnings")}


def _cut(text: bytes, random: Random) -> bytes:
    return text[: random.randrange(len(text) + 1)]


def _swapped(text: bytes, random: Random) -> bytes:
    place = random.randrange(len(text))
    return text[:place] + bytes([random.choice(b"0[{\x00\xff\n")]) + text[place + 1 :]


def _other(text: bytes, random: Random) -> bytes:
    return random.choice((b"", b"{}\n", b"[" * 5000, b"\x00", text + text, text + b'{"key": [], "is": 1}\n'))


# ---- loads of experts ----------------------------------------------------------------------------------------------


def loads(random: Random) -> Input:
    """Training on a trace of the rows of each expert, most of them sound."""
    experts = {"models/olmoe-1b-7b": 64, "models/qwen1.5-moe-a2.7b": 60}
    model = random.choice(sorted(experts))
    ep, layers = random.choice((1, 2, 4)), random.choice((2, 4))
    name = random.choice(("trace.csv", "trace.csv", "trace.jsonl"))
    routing: dict[str, Any] = {"trace": name} | some(random, _MOVING, 0.3)
    document = {
        "version": 1,
        "name": "fuzz",
        "cluster": {"extends": "clusters/dgx-h100", "nodes": 1},
        "model": {"extends": model, "layers": layers},
        "stack": random.choice(("megatron-core", "nemo", "fsdp2")),
        "training": {
            "global_batch": 8 * random.choice((1, 2)),
            "micro_batch": 1,
            "sequence_length": random.choice((256, 1024)),
            "parallel": {"ep": ep, "zero": random.choice((0, 1))},
            "steps": random.choice((1, 2, 5)),
            "routing": routing,
        },
        "seed": random.randrange(5),
    }
    steps = random.choice((2, 5, 8, 8))
    text = _trace(random, experts[model], layers, steps, name.endswith("csv"))
    files = {"s.yaml": json.dumps(document).encode(), name: text}
    again = random.random() < 0.2

    def check(answer: Answer) -> str | None:
        if answer.code == 2:
            return "said something on standard output" if answer.out else None
        wrong = semantics.training_faults(json.loads(answer.out), document)
        return "is not the same the second time" if wrong is None and again and answered(WORDS) != answer else wrong

    return Input(WORDS, files, check)


_MOVING = {
    "first_step": (0, 1, 3, 3, 10_000_000),
    "rebalanced": (1, 2, 1000),
    "placement": ("packed",),
    "replicas": (1, 20),
    "capacity": (1.0, 1.25),
    "load": ("trace", "zipf"),
}


def _trace(random: Random, experts: int, layers: int, steps: int, table: bool) -> bytes:
    """Rows of each expert by step, perhaps by layer; a share is odd, empty or damaged."""
    by_layer = random.random() < 0.4
    count = experts if random.random() < 0.9 else random.choice((1, experts - 1, experts + 1))
    rows = []
    for step in range(steps):
        for layer in range(layers) if by_layer else (None,):
            tokens = [random.choice((0, 1, 50, 900)) for _ in range(count)]
            if random.random() < 0.01:
                tokens[0] = random.choice((-1, 10**30, "x", "", 0.5, None, "nan", "1e400"))
            rows.append((step, layer, tokens))
    lines = [_line(row, table) for row in rows]
    if table:
        lines.insert(0, ",".join(["step", *(["layer"] if by_layer else []), *(f"e{n}" for n in range(count))]))
    text = ("\n".join(lines) + "\n").encode()
    return random.choice((_cut, _swapped, _other))(text, random) if random.random() < 0.25 else text


def _line(row: tuple[int, int | None, list[Any]], table: bool) -> str:
    step, layer, tokens = row
    if table:
        return ",".join(str(one) for one in (step, *([] if layer is None else [layer]), *tokens))
    return json.dumps({"step": step, **({} if layer is None else {"layer": layer}), "tokens": tokens})
