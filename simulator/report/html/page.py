"""One self-contained HTML file around the content of any report.

No reference leaves the file and nothing but its own style sheet and script is let in: the content security policy names
both by their hashes. Without the script all is there but hover texts, zoom, sorting and the switch of the colours.
"""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files

from simulator.report.html.markup import Markup, tag
from simulator.report.text import palette

_STYLES = ("report.css", "timeline.css")
_SCRIPTS = ("report.js", "tables.js", "timeline.js")
_COLOURS = {
    "light": {
        "page": "#ffffff",
        "ink": "#1b1f26",
        "soft": "#5b6472",
        "line": "#d9dde3",
        "card": "#f6f7f9",
        "trough": "#f1f3f5",
        "shade": "#00000038",
        "bad": "#b42318",
        "focus": "#0b5cad",
    },
    "dark": {
        "page": "#14171c",
        "ink": "#e8eaee",
        "soft": "#9aa4b2",
        "line": "#323943",
        "card": "#1c2128",
        "trough": "#20252d",
        "shade": "#ffffff4d",
        "bad": "#ff8a75",
        "focus": "#7cc0ff",
    },
}


def standalone(title: str, content: Iterable[Markup], generator: str) -> str:
    """An HTML file with the style sheet and the script of all reports around some content."""
    style, script = style_sheet(), _script()
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=generator),
        tag("title", title),
        tag("style", Markup(style)),
    )
    body = tag("body", *content, tag("div", id="tip", hidden="hidden"), tag("script", Markup(script)))
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{body}\n</html>\n'


def style_sheet() -> str:
    """The style sheet with the colours of light and dark pages; paper is always light."""
    light, dark = (_variables(name) for name in ("light", "dark"))
    fills = "".join(f".c{i}{{fill:var(--c{i});background:var(--c{i})}}" for i in range(len(palette.LIGHT)))
    slots = fills + "".join(f".k{i}{{stroke:var(--c{i})}}" for i in range(len(palette.LIGHT)))
    modes = (
        f":root{{{light}}}@media screen{{@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}color-scheme:dark}}:root[data-theme=light]{{{light}color-scheme:light}}}}"
    )
    return "\n".join((modes + slots, *map(_asset, _STYLES)))


def _script() -> str:
    """One script in a scope of its own, out of the files that share it."""
    return "\n".join(('"use strict"; (() => {', *map(_asset, _SCRIPTS), "})();\n"))


def _variables(mode: str) -> str:
    slots = palette.LIGHT if mode == "light" else palette.DARK
    named = {**_COLOURS[mode], **{f"c{index}": colour for index, colour in enumerate(slots)}}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())


def _policy(style: str, script: str) -> str:
    """Nothing from anywhere but this style sheet and this script."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}"


def _asset(name: str) -> str:
    return (files("simulator.report.html") / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")
