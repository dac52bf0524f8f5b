"""Files that others write and that come back damaged: baselines, caches, saved results, traces, rows, configs."""

import io
import json
import sqlite3
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.harness import Input, answered, empty_folder
from tests.fuzz.mutations import ATOMS, ROOT, SERVING, spoil

CHEAP = ["training.global_batch=4", "training.sequence_length=512"]
SMALL = b"""\
extends: quickstart
name: small
model: {layers: 4}
training: {global_batch: 4, sequence_length: 512}
"""
SERVE = json.dumps({"extends": "serving/prefill-first-a100", "requests": {"count": 5}}).encode()
HOSTILE: tuple[Any, ...] = (
    *ATOMS,
    float("nan"),
    float("inf"),
    -(10**400),
    10**400,
    "\ud800",
    "\0",
    1e308,
    -1e308,
    [[[]]],
)
RAW = (b"9" * 5000, b"[" * 5000, b'{"a":' * 5000, b"NaN", b"-Infinity", b'"\\ud800"', b"\xff", b"\0", b"1e400", b"")


def baseline(random: Random) -> Input:
    """A check against a damaged baseline."""
    data = damaged_json(_made()["baseline"], random)
    words = ["check", "small.yaml", "--baseline", "b", *(["--update"] if random.random() < 0.2 else [])]
    return Input(words, {"small.yaml": SMALL, "b/small.json": data})


def cache_(random: Random) -> Input:
    """A sweep with a damaged cache."""
    made = _made()["cache"]
    if random.random() < 0.3:
        data = bytearray(made)
        for _ in range(random.choice((1, 3))):
            spoil(data, random)
        return _sweep(bytes(data))
    with empty_folder() as folder:
        path = Path(folder) / "c"
        path.write_bytes(made)
        file = sqlite3.connect(path)
        key, text = file.execute("SELECT key, outcome FROM outcomes").fetchone()
        row = damaged_json(text.encode(), random).decode("utf-8", "replace")
        file.execute("UPDATE outcomes SET outcome = ? WHERE key = ?", (row, key))
        if random.random() < 0.1:
            file.execute(f"PRAGMA user_version={random.randrange(4)}")
        file.commit()
        file.execute("PRAGMA journal_mode=DELETE")
        file.close()
        return _sweep(path.read_bytes())


def _sweep(data: bytes) -> Input:
    return Input(_SWEEP, {"small.yaml": SMALL, "c": data})


_SWEEP = ["sweep", "small.yaml", "training.micro_batch=1,2", "--jobs", "1", "--cache", "c", "--quiet"]


def result(random: Random) -> Input:
    """A comparison with a damaged saved result."""
    made = _made()["service" if random.random() < 0.5 else "result"]
    if random.random() < 0.2:
        data = bytearray(made)
        spoil(data, random)
        return _comparison(bytes(data), random)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(made)) as old, zipfile.ZipFile(buffer, "w") as new:
        names = old.namelist()
        chosen = names[0] if random.random() < 0.7 else random.choice(names)
        for name in names:
            data = old.read(name)
            if name == chosen:
                data = damaged_json(data, random) if name.endswith(".json") else _damaged_column(data, random)
            if name != chosen or random.random() < 0.95:
                new.writestr(name, data)
    return _comparison(buffer.getvalue(), random)


def _comparison(data: bytes, random: Random) -> Input:
    outputs = random.choice((["--all"], ["--all"], ["--html", "o.html"], ["--json", "o.json"], ["--json", "-"]))
    return Input(["compare", "r", "other", *outputs], {"r": data, "other": _made()["result"]})


def _damaged_column(data: bytes, random: Random) -> bytes:
    """A column with bytes of its head or of its numbers changed."""
    column = bytearray(data)
    for _ in range(random.choice((1, 4))):
        at = random.randrange(min(len(column), random.choice((128, len(column)))) or 1)
        column[at : at + 1] = bytes([random.randrange(256)])
    if random.random() < 0.3:
        del column[random.randrange(len(column)) :]
    return bytes(column)


def trace(random: Random) -> Input:
    """A run over a damaged trace."""
    name, good = random.choice(_TRACES)
    data = bytearray(good)
    if name.endswith(".jsonl") and random.random() < 0.5:
        data = bytearray(b"\n".join(damaged_json(line, random) for line in good.splitlines()))
    for _ in range(random.choice((0, 1, 2))):
        spoil(data, random)
    if random.random() < 0.1:
        data += random.choice(RAW)
    document = {"extends": "serving/prefill-first-a100", "requests": {"trace": name, "count": 5}}
    outputs = random.choice(([], ["--html", "o.html"], ["--detail", "o.json"], ["--save", "o"], ["--trace", "o.json"]))
    files = {"s.yaml": json.dumps(document).encode(), name: bytes(data)}
    return Input(["run", "s.yaml", "--quiet", *outputs], files)


_TRACES = (
    (
        "azure.csv",
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
        + b"".join(b"2023-11-16 18:15:%02d.0000000,%d,%d\n" % (i, 9 * i + 1, i + 1) for i in range(9)),
    ),
    (
        "burst.csv",
        b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        + b"".join(b"%d,ChatGPT,%d,%d,%d,Conversation log\n" % (i, 9 + i, i + 1, 10 + 2 * i) for i in range(9)),
    ),
    (
        "mooncake.jsonl",
        b"".join(
            b'{"timestamp": %d, "input_length": %d, "output_length": 5, "hash_ids": [0, %d]}\n'
            % (100 * i, 600 + i, i + 1)
            for i in range(9)
        ),
    ),
    (
        "sharegpt.json",
        json.dumps(
            [
                {
                    "id": str(i),
                    "conversations": [{"from": "human", "value": "why? " * i}, {"from": "gpt", "value": "so. " * 9}],
                }
                for i in range(1, 9)
            ]
        ).encode(),
    ),
    (
        "plain.csv",
        b"prompt,output,arrival,session,priority\n"
        + b"".join(b"%d,%d,%d,s%d,%d\n" % (i + 5, i + 1, i, i % 3, i % 2) for i in range(9)),
    ),
    ("plain2.csv", b"prompt,output\n" + b"".join(b"%d,%d\n" % (i + 5, i + 1) for i in range(9))),
)


def rows(random: Random) -> Input:
    """Damaged rows of measurements."""
    kind = random.choice(("training", "serving"))
    data = damaged_json(random.choice(_rows(kind)), random)
    words = ["validate", "rows.jsonl", "--quiet", "--json", "out.json"]
    words += ["--kind", kind] if random.random() < 0.5 else []
    return Input(words, {"rows.jsonl": b"".join([data, b"\n"])})


@cache
def _rows(kind: str) -> tuple[bytes, ...]:
    """Shipped rows that are quick to simulate."""
    lines = (ROOT / f"workloads/measurements/{kind}.jsonl").read_bytes().splitlines()
    small = [
        line for line in lines if (json.loads(line).get("gpus") or json.loads(line).get("devices") or 1) in range(17)
    ]
    return tuple(sorted(small, key=len)[:: max(1, len(small) // 40)]) or tuple(lines[:20])


def foreign(random: Random) -> Input:
    """A damaged config, job file or script of another program, to import."""
    name, good = random.choice(_foreign())
    if name.endswith(".json") and random.random() < 0.7:
        data = damaged_json(good, random)
    else:
        spoiled = bytearray(good)
        for _ in range(random.choice((1, 2, 5))):
            spoil(spoiled, random)
        data = bytes(spoiled)
    words = ["import", name, "--cluster", random.choice(("dgx-h100", "dgx-h100", "meta-roce-24k"))]
    words += ["--out", "o.yaml"] if random.random() < 0.5 else []
    return Input(words, {name: data})


@cache
def _foreign() -> tuple[tuple[str, bytes], ...]:
    folder = ROOT / "tests/unit/interop/files"
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "rope_scaling": {"factor": 32.0, "type": "llama3"},
        "quantization_config": {"quant_method": "fp8", "bits": 8},
    }
    files = [(path.name, path.read_bytes()) for path in sorted(folder.iterdir()) if path.suffix in (".sh", ".toml")]
    return (*files, ("config.json", json.dumps(config).encode()))


def damaged_json(data: bytes, random: Random) -> bytes:
    """A JSON text with some value replaced, or bytes changed."""
    if random.random() < 0.15:
        spoiled = bytearray(data)
        spoil(spoiled, random)
        return bytes(spoiled)
    document = json.loads(data)
    for _ in range(random.choice((1, 1, 2))):
        _swap(document, random)
    text = json.dumps(document).encode()
    if random.random() < 0.15:
        text = text.replace(b'"?"', random.choice(RAW))
    return text


def _swap(document: Any, random: Random) -> None:
    """Replace or remove one value somewhere below."""
    at = document
    while isinstance(at, (dict, list)) and at:
        key = random.choice(list(at) if isinstance(at, dict) else range(len(at)))
        inner = at[key]
        if isinstance(inner, (dict, list)) and inner and random.random() < 0.8:
            at = inner
            continue
        how = random.random()
        if how < 0.15:
            del at[key]
        elif how < 0.25 and isinstance(inner, int):
            at[key] = inner + random.choice((-1, 1, 10**6, -(10**6)))
        elif how < 0.3:
            at[key] = "?"
        else:
            at[key] = random.choice(HOSTILE)
        return


@cache
def _made() -> dict[str, bytes]:
    """Sound files of each kind, made by the program itself."""
    found: dict[str, bytes] = {}
    quick = str(ROOT / "scenarios/quickstart.yaml")
    serve = str(ROOT / "scenarios/serving/prefill-first-a100.yaml")
    with empty_folder() as name:
        folder = Path(name)
        _done(["run", quick, *CHEAP, "--save", str(folder / "r"), "--quiet"])
        _done(["run", serve, *SERVING, "--save", str(folder / "s"), "--quiet"])
        (folder / "small.yaml").write_bytes(SMALL)
        _done(["check", str(folder / "small.yaml"), "--baseline", str(folder / "b"), "--update"])
        sweep = [str(folder / word) if word in ("small.yaml", "c") else word for word in _SWEEP]
        _done(sweep)
        connection = sqlite3.connect(folder / "c")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()
        places = {"result": "r", "service": "s", "cache": "c"}
        found |= {kind: (folder / place).read_bytes() for kind, place in places.items()}
        found["baseline"] = next((folder / "b").rglob("*.json")).read_bytes()
    return found


def _done(words: list[str]) -> None:
    answer = answered(words)
    assert answer.code in (0, 4), answer.err
