"""A regression check as JUnit XML, one test case a scenario, in the form that CI systems read.

The form is that of the JUnit schema of Ant (testsuites, testsuite, properties, testcase, system-out, system-err, with
all attributes that it requires). A scenario that moved or has no baseline is a failure, one that cannot be checked an
error.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from xml.etree import ElementTree as xml

from simulator.report.check.phrases import lines, summary
from simulator.results.documents.check import CheckDocument, CheckedScenario

_KINDS = {"moved": "failure", "missing": "failure", "gone": "failure", "refused": "error"}


def junit(document: CheckDocument, seconds: Sequence[float], moment: datetime) -> bytes:
    """XML of a check; `seconds` is how long each scenario took, `moment` when it was done."""
    kinds = [_KINDS.get(entry.state, "") for entry in document.scenarios]
    root = xml.Element("testsuites")
    counts = {"tests": len(kinds), "failures": kinds.count("failure"), "errors": kinds.count("error")}
    suite = xml.SubElement(
        root,
        "testsuite",
        {
            "id": "0",
            "name": "clustersim check",
            "package": "clustersim",
            "hostname": "localhost",
            "timestamp": moment.replace(microsecond=0, tzinfo=None).isoformat(),
            **{name: str(count) for name, count in counts.items()},
            "time": f"{sum(seconds):.3f}",
        },
    )
    xml.SubElement(suite, "properties")
    for entry, kind, lasted in zip(document.scenarios, kinds, seconds, strict=True):
        _case(suite, entry, kind, lasted)
    xml.SubElement(suite, "system-out").text = sound("\n".join([summary(document), *document.notes]))
    xml.SubElement(suite, "system-err").text = ""
    xml.indent(root)
    return bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _case(suite: xml.Element, entry: CheckedScenario, kind: str, lasted: float) -> None:
    file = PurePath(entry.file)
    folder = ".".join(part for part in file.parent.parts if part not in ("/", ".", "..")) or "scenarios"
    names = {"name": sound(file.stem), "classname": sound(folder), "time": f"{lasted:.3f}"}
    case = xml.SubElement(suite, "testcase", names)
    if kind:
        said = lines(entry)
        attributes = {"type": entry.state, "message": sound(said[0] if said else "")}
        xml.SubElement(case, kind, attributes).text = sound("\n".join(said))


def sound(text: str) -> str:
    """Text without the characters that XML 1.0 has no way to write."""
    return "".join(c if _allowed(ord(c)) else "?" for c in text)


def _allowed(code: int) -> bool:
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
