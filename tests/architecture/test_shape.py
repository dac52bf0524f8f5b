"""The shape of the code: everything public documented, functions and modules short, few names at the top."""

import statistics
from collections import Counter
from pathlib import Path

import simulator
from tests.architecture.source import modules

LONGEST_FUNCTION = 80
LONGEST_MODULE = 600
MOST_MODULES = 25
"""Of a room: a folder of its own, not a heap."""
VAGUE = {"utils", "util", "helpers", "helper", "misc", "common", "manager", "handler"}


def test_modules_and_all_that_is_public_in_them_are_documented() -> None:
    assert [name for module in modules() for name in module.undocumented] == []


def test_modules_and_their_functions_are_short() -> None:
    sizes = {f"{module.name}.{name}": size for module in modules() for name, size in module.functions}
    assert {name: size for name, size in sizes.items() if size > LONGEST_FUNCTION} == {}
    assert {module.name: module.lines for module in modules() if module.lines > LONGEST_MODULE} == {}


def test_rooms_hold_few_modules() -> None:
    rooms = Counter(path.parent for path in Path(simulator.__file__).parent.rglob("*.py"))
    assert {str(room): number for room, number in rooms.items() if number > MOST_MODULES} == {}


def test_names_say_what_things_are() -> None:
    assert [module.name for module in modules() if not VAGUE.isdisjoint(module.name.split("."))] == []


def test_most_functions_and_modules_are_much_shorter() -> None:
    sizes = sorted(size for module in modules() for _, size in module.functions)
    lengths = sorted(module.lines for module in modules())
    assert statistics.median(sizes) <= 10
    assert sizes[len(sizes) * 9 // 10] <= 25
    assert lengths[len(lengths) * 9 // 10] <= 300


def test_the_package_has_few_names_at_its_top() -> None:
    rooms = {module.name.split(".")[1] for module in modules() if "." in module.name}
    assert {name for name in vars(simulator) if name[0] not in "_@"} <= rooms


def test_the_formatter_formats_everything() -> None:
    root, words = Path(__file__).parents[2], tuple(f"# fmt: {word}" for word in ("skip", "off"))
    files = [path for room in ("simulator", "tests", "docs", "benchmarks") for path in (root / room).rglob("*.py")]
    assert len(files) > 1000
    assert [str(path) for path in files if any(word in path.read_text(encoding="utf-8") for word in words)] == []
