"""Sphinx extension: parts of pages that the program writes when the site is built, so that they cannot go stale.

`<!-- generated: NAME -->` is replaced by a part of `generate_reference`. The directive

    ```{output} clustersim run scenarios/quickstart.yaml
    :only: step time; Published
    :exit: 0

shows a command with what it prints. `only` picks sections of a page by their first words; its title is always shown.
`python docs/written_by_program.py` does the same for README.md, which no Sphinx builds: there the output stands between
`<!-- output: COMMAND; only: step time; Published -->` and `<!-- end of output -->`.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from pages import read_page, words  # noqa: E402 - only found after the path is set

if TYPE_CHECKING:
    from sphinx.application import Sphinx

README = Path(__file__).parent.parent / "README.md"
_IN_README = re.compile(
    r"(<!-- output: (.+?)(?:; only: (.+?))? -->\n\n```text\n).*?(```\n\n<!-- end of output -->)", re.DOTALL
)
_ELAPSED = re.compile(r"simulated in [\d.]+ \w+ [·-] ")


def printed(command: Sequence[str], files: dict[str, str], only: str = "") -> tuple[str, int]:
    """What a command prints and its exit code, run among `files`; `only` names sections, all if left out."""
    text, code = _printed(tuple(command), tuple(sorted(files.items())))
    title, *sections = text.strip("\n").split("\n\n")
    wanted = tuple(name.strip() for name in only.split(";"))
    chosen = [section for section in sections if section.strip().startswith(wanted)]
    return "\n\n".join([title, *chosen]) + "\n", code


@cache
def _printed(command: tuple[str, ...], files: tuple[tuple[str, str], ...]) -> tuple[str, int]:
    from simulator.cli import main

    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(stream), redirect_stderr(stream):
        for name, text in files:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        code = main(list(command[1:]))
        stream.flush()
    # How long the simulation took is no property of the result.
    return _ELAPSED.sub("", stream.buffer.getvalue().decode()), code  # type: ignore[attr-defined]


def refreshed(text: str) -> str:
    """The README with the outputs that its commands have now."""

    def replace(match: re.Match[str]) -> str:
        output, _ = printed(words(match[2]), read_page(README).files, match[3] or "")
        return match[1] + output + match[4]

    return _IN_README.sub(replace, text)


def insert(app: "Sphinx", document: str, source: list[str]) -> None:
    """Replace the markers of generated parts."""
    from generate_reference import filled

    source[0] = filled(source[0])


def outdated(app: "Sphinx", *_: Any) -> list[str]:
    """Pages that must be read again in every build, because they depend on the program and not on their own text."""
    pages = {name: Path(app.env.doc2path(name)).read_text(encoding="utf-8") for name in app.env.found_docs}
    made = ("<!-- generated:", "{output}", "{code-cell}")
    return [name for name, text in pages.items() if any(mark in text for mark in made)]


def setup(app: "Sphinx") -> dict[str, bool]:
    """Register with Sphinx."""
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    app.connect("source-read", insert)
    app.connect("env-get-outdated", outdated)
    app.add_directive("output", _directive())
    return {"parallel_read_safe": False}


def _directive() -> Any:
    from docutils import nodes
    from docutils.parsers.rst import directives
    from sphinx.util.docutils import SphinxDirective

    option: Callable[[str], str] = directives.unchanged

    class Output(SphinxDirective):
        """A command with what it prints."""

        required_arguments = 1
        final_argument_whitespace = True
        option_spec = {"only": option, "exit": option}  # noqa: RUF012 - docutils wants it so

        def run(self) -> list[nodes.Node]:
            command = self.arguments[0]
            page = read_page(Path(self.env.doc2path(self.env.docname)))
            text, code = printed(words(command), page.files, self.options.get("only", ""))
            if code != int(self.options.get("exit", 0)):
                raise self.error(f"`{command}` exits with {code}:\n{text}")
            block = nodes.literal_block(text, f"$ {command}\n{text}", language="text")
            return [nodes.container("", block, classes=["terminal"])]

    return Output


if __name__ == "__main__":
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
