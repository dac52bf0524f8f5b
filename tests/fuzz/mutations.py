"""Shipped YAML with something wrong in it: letters of the text, or values of the tree."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import simulator.run  # noqa: F401  (foreign files and published figures are known)
from simulator.specs import load_scenario
from simulator.specs.text.written import template_of
from simulator.specs.text.yaml_text import plain
from tests.fuzz.harness import Input

ROOT = Path(__file__).resolve().parents[2]
TEXTS = (
    "scenarios/quickstart.yaml",
    "scenarios/training/megatron-1.7b.yaml",
    "scenarios/serving/prefill-first-a100.yaml",
    "scenarios/serving/disaggregated-70b-h100.yaml",
    "hardware_profiles/clusters/dgx-h100.yaml",
    "hardware_profiles/nodes/dgx-h100.yaml",
    "hardware_profiles/accelerators/h100-sxm.yaml",
    "hardware_profiles/stacks/vllm.yaml",
    "hardware_profiles/stacks/megatron-core.yaml",
    "workloads/models/llama-3-8b.yaml",
    "workloads/requests/sharegpt.yaml",
)
SERVING = ("requests.count=12", "requests.arrivals={poisson: 5 /s}")
"""Overrides that make a shipped serving scenario cheap."""

ATOMS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    1000,
    10**6,
    10**9,
    10**12,
    10**18,
    2**63,
    10**30,
    10**99,
    0.5,
    1.5,
    -0.0,
    1e-12,
    1e-300,
    1e15,
    1e300,
    "",
    " ",
    "x",
    "true",
    "1",
    "0 s",
    "1 s",
    "-1 s",
    "1e-9 s",
    "1e9 s",
    "1e300 s",
    "10 %",
    "200 %",
    "1 GB",
    "1 B",
    "1e30 GB",
    "1 GB/s",
    "1e-9 B/s",
    "1e30 GB/s",
    "1 TFLOP/s",
    "1 W",
    "1 /s",
    "1e9 /s",
    "1e-9 /s",
    "1 USD/h",
    "none",
    "auto",
    "fp8",
    "bf16",
    "switch",
    "ring",
    "mesh",
    "host",
    "tree",
    "torus",
    "gpipe",
    "1f1b",
    "zb-h1",
    "interleaved",
    "full",
    "sarathi",
    "fcfs",
    "orca",
    "a" * 300,
    "\u00e9\u6f22",
    "\u202e",
    "../x",
    "/",
    "/dev/null",
    "~",
    [],
    {},
    [0],
    [1, 2],
    ["x"],
    {"value": 1},
    {"x": 1},
    {"fixed": 1},
    {"fixed": 1e9},
    [[1, 1]],
    {"zipf": 2, "low": 1, "high": 9},
)


@cache
def trees() -> tuple[dict[str, Any], ...]:
    """Fully written scenarios: every value that a file and those it refers to say, with its unit."""
    given = [
        ("scenarios/quickstart.yaml", ["training.global_batch=8", "training.sequence_length=512"]),
        ("scenarios/training/megatron-1.7b.yaml", []),
        ("scenarios/training/stragglers-39.1b.yaml", ["training.steps=2", "cluster.nodes=8"]),
        ("scenarios/serving/prefill-first-a100.yaml", SERVING),
        ("scenarios/serving/disaggregated-70b-h100.yaml", SERVING),
        ("scenarios/serving/long-prompts-prefix-cache.yaml", SERVING[:1]),
    ]
    found = []
    for path, changes in given:
        try:
            scenario = load_scenario(ROOT / path, changes).scenario
        except ValueError:
            continue
        found.append(plain(template_of(scenario).root))
    return tuple(found)


def tree(random: Random) -> Input:
    """A whole scenario with one to three values changed."""
    document = json.loads(json.dumps(random.choice(trees())))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change(document, random)
    bound(document)
    command = random.choices(("run", "explain"), (3, 1))[0]
    return Input(
        [command, "s.yaml", *(["--quiet"] if command == "run" else [])], {"s.yaml": json.dumps(document).encode()}
    )


LARGEST = {
    ("training", "global_batch"): 12_288,
    ("training", "steps"): 1_000,
    ("requests", "count"): 100,
}
"""Counts of work that any scenario does within the time of an input."""
MEANT = 10**9
"""Counts above it are refused."""


def bound(document: Any) -> None:
    """Clip counts of work that are valid and merely take long, so that what takes too long is wrong."""
    for (part, key), largest in LARGEST.items():
        settings = document.get(part)
        count = settings.get(key) if isinstance(settings, dict) else None
        if isinstance(count, (int, float)) and largest < count <= MEANT:
            settings[key] = largest


def change(document: Any, random: Random) -> None:
    """Change one place of a tree, wherever a walk from its root ends."""
    at = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return None
        key = random.choice(keys)
        inner = at[key]
        if isinstance(inner, (dict, list)) and inner and random.random() < 0.85:
            at = inner
            continue
        return random.choice(_CHANGES)(at, key, random)


def _atom(at: Any, key: Any, random: Random) -> None:
    at[key] = random.choice(ATOMS)


def _scaled(at: Any, key: Any, random: Random) -> None:
    """A number, or the number of a quantity, times a power of ten."""
    value, factor = at[key], random.choice((0.0, 1e-9, 1e-3, 0.1, 2.0, 10.0, 1e3, 1e9))
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int):
        at[key] = int(value * factor)
    elif isinstance(value, float):
        at[key] = value * factor
    elif isinstance(value, str) and " " in value:
        number, _, unit = value.partition(" ")
        try:
            at[key] = f"{float(number) * factor!r} {unit}"
        except ValueError:
            at[key] = unit


def _near(at: Any, key: Any, random: Random) -> None:
    """A whole number that is one off, doubled, or halved."""
    if isinstance(at[key], int):
        at[key] = random.choice((at[key] + 1, at[key] - 1, at[key] * 2, at[key] // 2))


def _gone(at: Any, key: Any, random: Random) -> None:
    del at[key]


def _renamed(at: Any, key: Any, random: Random) -> None:
    if isinstance(at, dict):
        at[random.choice((key + "s", key[:-1], key.upper(), "x" * 500, f"{key}.{key}", "extends"))] = at.pop(key)


def _repeated(at: Any, key: Any, random: Random) -> None:
    at[key] = [at[key]] * random.choice((1, 2, 100))


_CHANGES: tuple[Callable[[Any, Any, Random], None], ...] = (
    _atom,
    _atom,
    _atom,
    _scaled,
    _scaled,
    _scaled,
    _near,
    _near,
    _gone,
    _renamed,
    _repeated,
)


@cache
def _text(path: str) -> bytes:
    return (ROOT / path).read_bytes()


def text(random: Random) -> Input:
    """A shipped file with letters changed, cut, doubled or mixed with those of another one."""
    path = random.choice(TEXTS)
    data = bytearray(_text(path))
    for _ in range(random.choice((1, 2, 8))):
        spoil(data, random)
    if path.startswith("scenarios"):
        return Input(["explain", "s.yaml"], {"s.yaml": bytes(data)})
    kind = path.split("/")[1]
    return Input(["profiles", f"{kind}/s.yaml"], {f"{path.rpartition('/')[0]}/s.yaml": bytes(data)})


def spoil(data: bytearray, random: Random) -> None:
    """Change some bytes of a text."""
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.choice((1, 1, 2, 10, 100)))
    how = random.randrange(6)
    if how == 0:
        data[at:at] = random.choice(_PIECES)
    elif how == 1:
        del data[at:end]
    elif how == 2:
        data[at:end] = random.choice(_PIECES)
    elif how == 3 and at < len(data):
        data[at] = random.randrange(256)
    elif how == 4:
        other = random.randrange(len(data) + 1)
        data[other:other] = data[at:end] * random.choice((1, 1, 3, 1000))
    else:
        lines = data.split(b"\n")
        random.shuffle(lines[:3])
        data[:] = b"\n".join(random.sample(lines, len(lines)) if random.random() < 0.3 else lines[: len(lines) // 2])


_PIECES = tuple(
    piece.encode("utf-8", "surrogatepass")
    for piece in (
        ":",
        ": ",
        "- ",
        "#",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "!!python/object:os.system ",
        "<<: ",
        "|\n",
        ">\n",
        "\t",
        "\n",
        "\r",
        "\0",
        "'",
        '"',
        "\\",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "? ",
        "~",
        "null",
        "1e999",
        ".nan",
        "-.inf",
        "0x",
        "9" * 400,
        "9" * 5000,
        "[" * 200,
        "{a: " * 200,
        "\ufeff",
        "\ud800",
        "\u2028",
        "\x85",
        "\x1b[2J",
        "a" * 3000,
        "=",
        "@",
        "`",
        ",",
        "1_000",
        "0o7",
        "12:30:45",
        "2001-01-01",
        "yes",
        "on",
        "\U0001f600",
        "e\u0301" * 50,
    )
)
