"""One scenario said in two ways: other units, another order, on the command line, as `explain` writes it, kept and
compared. What it comes to is the same."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import fleets, semantics, tiers
from tests.fuzz.harness import Answer, Input, answered

WORDS = ["run", "s.yaml", "--json", "-"]
OTHER = ["run", "o.yaml", "--json", "-"]
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SIZES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def spelling(random: Random) -> Input:
    """A scenario, and the same in other words."""
    drawn = random.random()
    if drawn < 0.35:
        document = semantics.scenario_of(semantics.training(random))
    elif drawn < 0.55:
        document = tiers.plain(random)
    else:
        made = (semantics.serving if drawn < 0.75 else fleets.fleets)(random)
        document = semantics.scenario_of(made)
        if "trace" in document["serving"].get("fleet", {}).get("failures", {}):
            del document["serving"]["fleet"]
    document["requests"] = document.get("requests", {}) | {"count": 5} if "serving" in document else {}
    document = {key: value for key, value in document.items() if value != {}}
    other = random.choice(_OTHERS)
    seed = random.randrange(1 << 30)

    def check(answer: Answer) -> str | None:
        if answer.code not in (0, 4):
            return "said something on standard output" if answer.out else None
        return other(document, answer, Random(seed))

    return Input(WORDS, {"s.yaml": json.dumps(document).encode()}, check)


def _again(document: Mapping[str, Any], answer: Answer, words: list[str], how: str) -> str | None:
    """Where the document in other words comes to something else."""
    Path("o.yaml").write_text(json.dumps(document), encoding="utf-8")
    return _same(answer, answered(words), how)


def _same(answer: Answer, told: Answer, how: str) -> str | None:
    if told.code != answer.code:
        return f"ends {how} with {told.code}: {told.err[-300:]}"
    one, other = (json.loads(each.out)["metrics"] for each in (answer, told))
    unequal = {
        key: (one.get(key), other.get(key)) for key in {*one, *other} if not _close(one.get(key), other.get(key))
    }
    return f"differs {how}: {unequal}" if unequal else None


def _close(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return bool(abs(one - other) <= semantics.ROUNDING * max(abs(one), abs(other)))


def _units(document: dict[str, Any], answer: Answer, random: Random) -> str | None:
    """Seconds as milliseconds, gigabytes as bytes."""
    return _again(_respelled(document), answer, OTHER, "in other units")


def _respelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _respelled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_respelled(inner) for inner in value]
    number, _, unit = value.partition(" ") if isinstance(value, str) else ("", "", "")
    for scale, smaller in ((_TIMES, "us"), (_SIZES, "kB")):
        if unit in scale:
            return f"{float(number) * scale[unit] / scale[smaller]!r} {smaller}"
    return value


def _ordered(document: dict[str, Any], answer: Answer, random: Random) -> str | None:
    """Keys in another order."""
    return _again(_shuffled(document, random), answer, OTHER, "in another order")


_MEANT = ("sent", "accepted", "accuracy", "pools", "stages")
"""Keys whose mappings may say an order."""


def _shuffled(value: Any, random: Random) -> Any:
    if isinstance(value, dict):
        keys = random.sample(sorted(value), len(value))
        return {key: value[key] if key in _MEANT else _shuffled(value[key], random) for key in keys}
    return [_shuffled(inner, random) for inner in value] if isinstance(value, list) else value


def _typed(document: dict[str, Any], answer: Answer, random: Random) -> str | None:
    """Some keys as changes on the command line."""
    part = "training" if "training" in document else "serving"
    settings = dict(document[part])
    words = []
    for key in random.sample(sorted(settings), min(2, len(settings))):
        words.append(f"+{part}.{key}={json.dumps(settings.pop(key))}")
    return _again(document | {part: settings}, answer, [*OTHER, *words], f"with {words}") if settings else None


def _explained(document: dict[str, Any], answer: Answer, random: Random) -> str | None:
    """As `explain` writes it."""
    written = answered(["explain", "s.yaml"])
    if written.code:
        return f"explain ends with {written.code}: {written.err[-300:]}"
    Path("o.yaml").write_text(written.out, encoding="utf-8")
    return _same(answer, answered(OTHER), "as explained")


def _kept(document: dict[str, Any], answer: Answer, random: Random) -> str | None:
    """Kept and compared with itself, and as a baseline."""
    for words, codes in (
        (["run", "s.yaml", "--save", "kept", "--quiet"], (answer.code,)),
        (["compare", "kept", "s.yaml", "--json", "o.json", "--quiet"], (answer.code,)),
        (["check", "s.yaml", "--baseline", "b", "--update", "--quiet"], (0, 1, 2)),
        (["check", "s.yaml", "--baseline", "b", "--quiet", "--jobs", "1"], (0, 2)),
    ):
        told = answered(words)
        if told.code not in codes:
            return f"`{' '.join(words)}` ends with {told.code}: {told.err[-300:]}"
        if words[0] == "compare":
            runs = [run.get("metrics") for run in json.loads(Path("o.json").read_text(encoding="utf-8"))["runs"]]
            if runs[0] != runs[1]:
                return "compares as another one after it was kept"
    return None


def _quietly(document: dict[str, Any], answer: Answer, random: Random) -> str | None:
    """With every file that can be written beside it."""
    outputs = ["--html", "o.html", "--trace", "t.json", "--save", "kept"]
    outputs += ["--detail", "d.json"] if "serving" in document else []
    return _same(answer, answered([*WORDS, *random.sample(list(_pairs(outputs)), 1)[0]]), "with more files")


def _pairs(words: list[str]) -> list[list[str]]:
    return [words[at : at + 2] for at in range(0, len(words), 2)]


_OTHERS: tuple[Callable[[dict[str, Any], Answer, Random], str | None], ...] = (
    _units,
    _ordered,
    _typed,
    _explained,
    _kept,
    _quietly,
)
