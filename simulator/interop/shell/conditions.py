"""Arithmetic and tests of shell scripts whose operands are known."""

import ast
import operator
import re
from collections.abc import Callable, Sequence

LARGEST = 10**15
"""Numbers beyond are not computed with."""
_ARITHMETIC = re.compile(r"[\s0-9+\-*/%()]{1,500}")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


def arithmetic(text: str) -> int | None:
    """The value of an expression of whole numbers with + - * / %; None for anything else."""
    if not _ARITHMETIC.fullmatch(text) or "**" in text or "//" in text:
        return None
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        value = node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        value = _value(node.operand) * (-1 if isinstance(node.op, ast.USub) else 1)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        value = _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    else:
        raise ValueError("no whole number")
    if abs(value) > LARGEST:
        raise ValueError("too large")
    return value


def outcome(words: Sequence[str]) -> bool | None:
    """The outcome of `[ ... ]`, `[[ ... ]]` or `test ...`; None where it is not understood."""
    inner = list(words)
    if inner and inner[0] in ("[", "[[", "test"):
        inner = inner[1:]
    if inner and inner[-1] in ("]", "]]"):
        inner = inner[:-1]
    if inner[:1] == ["!"]:
        opposite = outcome(inner[1:])
        return None if opposite is None else not opposite
    if len(inner) == 1:
        return bool(inner[0])
    if len(inner) == 2 and inner[0] in ("-z", "-n"):
        return bool(inner[1]) == (inner[0] == "-n")
    return _compared(*inner) if len(inner) == 3 else None


def _compared(left: str, sign: str, right: str) -> bool | None:
    if sign in ("=", "==", "!="):
        return None if set(right) & set("*?[") else (left == right) == (sign != "!=")
    a, b = arithmetic(left), arithmetic(right)
    return None if sign not in _NUMBERS or a is None or b is None else _NUMBERS[sign](a, b)
