"""HTML and SVG elements as text in which everything that is not markup is escaped."""

from html import escape

from simulator.report.text.plain import clean

_OPEN = {"meta", "br", "input"}  # void in HTML, which knows no end of them
_VOID = {*_OPEN, "rect", "path", "line", "polyline", "polygon"}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *content: str, **attributes: object) -> Markup:
    """An element; content that is not `Markup` is escaped and cleaned of control characters, attributes always.

    `class_` stands for `class`, `stroke_width` for `stroke-width`; attributes that are None are left out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID and not content:
        return Markup(f"<{name}{given}>" if name in _OPEN else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: str) -> Markup:
    """Pieces one after the other, escaped where they are no markup."""
    return Markup("".join(piece if isinstance(piece, Markup) else escape(clean(piece)) for piece in content))
