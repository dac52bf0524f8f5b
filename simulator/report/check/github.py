"""A regression check as annotations of GitHub Actions: workflow commands, one line each.

A value in a command ends at a line break, one of its properties also at a colon or comma; these are written as
percent signs and hexadecimal digits, and so is the percent sign
(https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands).
"""

from collections.abc import Iterable, Mapping

from simulator.report.check.phrases import STATES, lines
from simulator.results.documents.check import CheckDocument, CheckedScenario


def annotations(document: CheckDocument) -> list[str]:
    """One command for each scenario that failed, or for each problem of it; notes are notices."""
    found = [line for entry in document.scenarios for line in _of(entry)]
    return found + [f"::notice title=clustersim check::{escaped(note)}" for note in document.notes]


def harmless(text: str) -> str:
    """A page in which no line can be taken for a workflow command, whatever is written in scenarios."""
    return text.replace("::", ": :").replace("##[", "## [")


def escaped(text: str) -> str:
    """Text as the message of a command, without what could steer a terminal."""
    text = "".join(c if c.isprintable() or c in "\r\n" else "?" for c in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_property(text: str) -> str:
    """Text as a property of a command."""
    return escaped(text).replace(":", "%3A").replace(",", "%2C")


def _of(entry: CheckedScenario) -> Iterable[str]:
    if entry.state in ("moved", "missing", "gone"):
        title = f"{STATES[entry.state].lower()}: {entry.file}"
        yield _command({"file": entry.file, "title": title}, "\n".join(lines(entry)))
    for problem in entry.problems:
        place = {"file": problem.file or entry.file, "line": problem.line, "col": problem.column}
        yield _command(place | {"title": f"cannot be checked: {entry.file}"}, problem.text)


def _command(properties: Mapping[str, object], message: str) -> str:
    place = ",".join(f"{key}={escaped_property(str(value))}" for key, value in properties.items() if value is not None)
    return f"::error {place}::{escaped(message)}"
