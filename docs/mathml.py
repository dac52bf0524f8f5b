"""Sphinx extension: formulas as MathML, which browsers lay out themselves: a page loads nothing and works offline.

The conversion is that of docutils; what it does not know is an error of the build.
"""

from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


def visit_math(writer: "HTML5Translator", node: nodes.math) -> None:
    """A formula within a line."""
    writer.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_displaymath(writer: "HTML5Translator", node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    writer.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def mathml(node: nodes.Element, as_block: bool) -> str:
    """The formula of a node; ValueError, with its text, where it is not understood."""
    try:
        return tex2mathml(node.astext().strip(), as_block=as_block)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"{error}: {node.astext().strip()}") from error


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
