"""Text that any stream can take: without control characters and, where need be, in ASCII."""

ASCII = str.maketrans(
    {
        "█": "#",
        "▤": "@",
        "▥": "|",
        "◆": "o",
        "▓": "=",
        "▒": "+",
        "░": ":",
        "▚": "%",
        "▞": "&",
        "▨": "/",
        "─": "-",
        "│": "|",
        "▏": "|",
        "·": "-",
        "•": "*",
        "×": "x",
        "…": "~",
        "–": "-",
        "→": ">",
        "±": "~",
        "≤": "<",
        "≥": ">",
    }
)
"""What stands for a drawing character where only ASCII can be written."""


def encodable(text: str, encoding: str | None) -> str:
    """`text` as a stream of that encoding can take it: unchanged, or with ASCII in place of what it lacks."""
    try:
        return text.encode(encoding or "ascii", "replace" if is_unicode(encoding) else "strict").decode(
            encoding or "ascii"
        )
    except (UnicodeEncodeError, LookupError):
        return text.translate(ASCII).encode("ascii", "replace").decode("ascii")


def is_unicode(encoding: str | None) -> bool:
    """Whether an encoding has all characters, so that only halves of surrogate pairs cannot be written in it."""
    return (encoding or "").casefold().startswith("utf")


def clean(text: str) -> str:
    """Text from a file on one line and without what could steer a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
