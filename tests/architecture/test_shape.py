"""The shape of the code: everything public documented, functions and modules short, few names at the top."""

import ast
import statistics

import pytest

import simulator
from tests.architecture.source import Module, functions, modules, public

MODULES = modules()

LONGEST_FUNCTION = 80
LONGEST_MODULE = 600
VAGUE = {"utils", "util", "helpers", "helper", "misc", "common", "manager", "handler"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_and_all_that_is_public_in_it_are_documented(module: Module) -> None:
    missing = [name for name, node in public(module) if not ast.get_docstring(node)]
    assert ast.get_docstring(module.tree), "the module itself"
    assert missing == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_and_its_functions_are_short(module: Module) -> None:
    long = {node.name: size for node in functions(module) if (size := _lines(node)) > LONGEST_FUNCTION}
    assert long == {}
    assert module.lines <= LONGEST_MODULE


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_names_say_what_things_are(module: Module) -> None:
    assert VAGUE.isdisjoint(module.name.split("."))


def test_most_functions_and_modules_are_much_shorter() -> None:
    sizes = sorted(_lines(node) for module in MODULES for node in functions(module))
    lengths = sorted(module.lines for module in MODULES)
    assert statistics.median(sizes) <= 10
    assert sizes[len(sizes) * 9 // 10] <= 25
    assert lengths[len(lengths) * 9 // 10] <= 300


def test_the_package_has_few_names_at_its_top() -> None:
    rooms = {module.name.split(".")[1] for module in MODULES if "." in module.name}
    assert {name for name in vars(simulator) if name[0] not in "_@"} <= rooms


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
