"""What a page of Markdown asks the program to do: the files that it shows and the commands that it types.

Files are code blocks with a caption, or whose first line is a comment with nothing but a file name:

    ```yaml
    # my-scenario.yaml
    ...

Commands are lines `$ clustersim ...` of `console` blocks and the arguments of `output` blocks (see
`written_by_program`). After `$ echo $?` stands the exit code that the command before it must have; `:exit:` says so
in an `output` block.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "clustersim"
_BLOCK = re.compile(r"^```+(?P<kind>[^\n`]*)\n(?P<body>.*?)^```+$", re.DOTALL | re.MULTILINE)
_OPTION = re.compile(r"^:(\w+): *(.*)\n", re.MULTILINE)
_NAME = re.compile(r"# ([\w./-]+\.(?:yaml|yml|csv|json|py))\n")


@dataclass(frozen=True)
class Command:
    """One command line of a page."""

    words: tuple[str, ...]
    """Program and arguments."""
    exit: int = 0
    """The exit code that the page promises."""
    shown: bool = False
    """Whether it stands in an `output` block: building the site runs it."""


@dataclass(frozen=True)
class Page:
    """What one page shows, in its order."""

    files: dict[str, str]
    """Files by name."""
    commands: tuple[Command, ...]
    """Command lines, those of other programs included."""


def read_page(path: Path) -> Page:
    """The files and commands of a page."""
    files: dict[str, str] = {}
    commands: list[Command] = []
    for match in _BLOCK.finditer(path.read_text(encoding="utf-8")):
        kind, body = match["kind"].strip(), match["body"]
        options, body = _options(body)
        if kind.startswith("{output}"):
            commands.append(Command(words(kind.removeprefix("{output}")), int(options.get("exit", 0)), shown=True))
        elif kind == "console":
            commands += _typed(body)
        elif (name := options.get("caption") or _first_line(body)) is not None:
            files[name] = body
    return Page(files, tuple(commands))


def _options(body: str) -> tuple[dict[str, str], str]:
    """The options of a directive and what follows them."""
    found = {}
    while (match := _OPTION.match(body)) is not None:
        found[match[1]] = match[2].strip()
        body = body[match.end() :]
    return found, body.removeprefix("\n") if found else body


def _first_line(body: str) -> str | None:
    match = _NAME.match(body)
    return match[1] if match else None


def _typed(body: str) -> Iterator[Command]:
    """The commands of a console block; lines that do not begin with a prompt are output."""
    lines = body.replace("\\\n", " ").splitlines()
    for at, line in enumerate(lines):
        if line.startswith("$ ") and line != "$ echo $?":
            asked = lines[at + 1 : at + 3]
            yield Command(words(line[2:]), int(asked[1]) if asked[:1] == ["$ echo $?"] else 0)


def words(line: str) -> tuple[str, ...]:
    """The words of a command line up to a pipe, a redirection or a comment."""
    words = shlex.split(line, comments=True)
    stop = next((i for i, word in enumerate(words) if word in ("|", ">", "&&", ";")), len(words))
    return tuple(words[:stop])
