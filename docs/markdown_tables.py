"""Tables in Markdown from text that knows nothing of Markdown."""

import re
from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; cells may hold code in backticks and links."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *([escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def escape(text: str) -> str:
    """Text on one line; what Markdown would take for markup outside of code is escaped."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part.replace("|", "\\|") if part.startswith("`") else _plain(part) for part in parts)


def slug(name: str) -> str:
    """A name as part of an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def code(value: object) -> str:
    """A value as YAML writes it, as code."""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _plain(text: str) -> str:
    return re.sub(r"([*_<|$~])", r"\\\1", text)
