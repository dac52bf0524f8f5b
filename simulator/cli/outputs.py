"""Outputs that a user named, checked before the work begins, and the one in JSON."""

import os
from argparse import Namespace
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from simulator.cli import console
from simulator.errors import InputError, Problem
from simulator.report.svg.figures import check_library
from simulator.results.writing import check_writable, write

STANDARD_OUTPUT = "-"
"""The name that prints instead of writing."""


def check(
    outputs: Mapping[str, str | None],
    inputs: tuple[str, ...],
    printable: str = "--json",
    folders: Mapping[str, str | None] | None = None,
) -> None:
    """Raise InputError naming every output that cannot be written, is named twice or would overwrite an input.

    `outputs` maps options to paths; `printable` is the one option that takes `-`; `folders` maps options to
    folders that must exist.
    """
    problems: list[Problem] = []
    taken = {_real(path): "the scenario" for path in inputs}
    for option, path in outputs.items():
        if path is None or (path == STANDARD_OUTPUT and option == printable):
            continue
        problems += _problems(option, path, taken)
        taken[_real(path)] = option
    for option, path in (folders or {}).items():
        problems += _problems_of_folder(option, path) if path is not None else []
    if not problems and (folders or {}).get("--plots"):
        check_library()
    if problems:
        raise InputError(*problems)


def show(room: str, document: Any, arguments: Namespace, *how: Any, printed: bool = False, **look: Any) -> None:
    """The report of `room` below `simulator.report` as files that were asked for, each whole or not at all; then the
    JSON form where it was asked for, and the page unless another form was `printed` in its place.

    `how` and `look` are what the page takes besides the document and the terminal's width and colours.
    """
    if arguments.html:
        write(arguments.html, _drawing(room, "html").page(document))
    if arguments.plots:
        _drawing(room, "plots").save_plots(document, arguments.plots)
    printed = as_json(document, arguments.json) or printed
    if not printed and not arguments.quiet:
        page: Callable[..., str] = _drawing(room, "page").page
        console.write(page(document, *how, width=console.width(), colour=console.coloured(), **look))


def _drawing(room: str, form: str) -> Any:
    """A module of a report, imported only when it draws."""
    return import_module(f"simulator.report.{room}.{form}")


def check_named(option: str, path: str) -> None:
    """InputError for `-` where a file is meant that is no output to print."""
    if path == STANDARD_OUTPUT:
        raise InputError(_not_printable(option))


def cache_file(named: str | None, none: bool, usual: str) -> str | None:
    """The file of a cache: the one that `--cache` named, or the `usual` one, whose folder is made; None with
    `--no-cache`. Raises InputError where both are written, or where there can be no such file."""
    if none:
        if named:
            raise InputError(Problem("--cache and --no-cache exclude each other", hint="leave out one of them"))
        return None
    if named is not None:
        check_named("--cache", named)
        return named
    folder = Path(usual).parent
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        hint = "name another file with `--cache FILE`, or write `--no-cache`"
        message = f"cannot be made for the cache: {error.strerror or error}"
        raise InputError(Problem(message, file=str(folder), hint=hint)) from error
    return usual


def as_json(document: object, path: str | None) -> bool:
    """Write or print a document as `--json` says; whether it was printed, so that nothing else should be."""
    from simulator.results import dumps
    from simulator.results.documents.form import plain

    if path == STANDARD_OUTPUT:
        console.write(dumps(plain(document)))
    elif path:
        write(path, dumps(plain(document)))
    return path == STANDARD_OUTPUT


def _problems(option: str, path: str, taken: Mapping[str, str]) -> list[Problem]:
    if path == STANDARD_OUTPUT:
        return [_not_printable(option)]
    if (earlier := taken.get(_real(path))) is not None:
        return [Problem(f"{option} would overwrite {earlier}", file=path, hint="write another name")]
    try:
        check_writable(path)
    except InputError as error:
        return list(error.problems)
    return []


def _real(path: str) -> str:
    """The path with its links followed; as it is where no file has such a name, which opening it will tell."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def _not_printable(option: str) -> Problem:
    return Problem(f"{option} writes a file and cannot print", hint="write a file name")


def _problems_of_folder(option: str, path: str) -> list[Problem]:
    """Why no file could be written into a folder."""
    if not os.path.isdir(path):
        return [Problem(f"{option} needs a folder that exists", file=path, hint=f"create it first: mkdir {path}")]
    try:
        check_writable(os.path.join(path, "plot"))
    except InputError as error:
        return list(error.problems)
    return []
