"""One input against the command line, in this process, within limits of time and memory, and what was wrong with it.

An input is a folder of files and the words of one command. Whatever they are, the command ends with an exit code of its
own within the limits, says what is wrong in few words, and never calls itself wrong.
"""

import io
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import FrameType

from simulator.cli import main

SECONDS = 30
"""Processor time of one command. The longest of 100,000, a plan that simulates 108 layouts, takes 19 on an idle core,
and over 20 beside another process."""
BYTES = 4 << 30
"""Address space of the process."""
MOST_SAID = 60_000
"""Characters on standard error."""
CODES = (0, 1, 2, 4)
"""Exit codes of a command that did its work or refused it."""


MEMORY = Path("/dev/shm")
"""Folder whose files are kept in memory, of systems that have one: taking a folder away waits for a disk."""


TOO_LONG = "took longer than it may"
"""What is wrong with a command that is stopped."""


class TooLong(BaseException):
    """The limit of time is over."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


Check = Callable[[Answer], str | None]
"""What is wrong with an answer; None where nothing is."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input."""

    words: list[str]
    """The command, without the program's name."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Files of the working folder, by relative path."""
    check: Check | None = None
    """What else must hold."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables to set."""


Generator = Callable[[Random], Input]


def random_of(kind: str, seed: int, number: int) -> Random:
    """The source of choices of one input: the same for ever."""
    return Random(f"{kind} {seed} {number}")


def fault(given: Input, folder: Path) -> str | None:
    """What is wrong with the answer to an input whose files are written into an empty folder; None where nothing is."""
    place(given, folder)
    try:
        with _within(folder, given.environment):
            answer = answered(given.words)
            return _wrong(answer) or (given.check(answer) if given.check else None)
    except TooLong:
        return TOO_LONG
    except BaseException as error:
        return f"raised {type(error).__name__}: {str(error)[:300]}"


def _wrong(answer: Answer) -> str | None:
    """What no answer may be."""
    if answer.code not in CODES:
        return f"exit code {answer.code}: {answer.err[-600:]}"
    if any(
        word in answer.err + answer.out for word in ("Traceback", "please report it", "internal error: ", "codec can't")
    ):
        return f"called itself wrong: {answer.err[-600:]}"
    if len(answer.err) > MOST_SAID:
        return f"said {len(answer.err):,} characters"
    return None


def empty_folder() -> "TemporaryDirectory[str]":
    """A folder for the files of inputs, in memory where that can be."""
    return TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)


def place(given: Input, folder: Path) -> None:
    """Write the files of an input."""
    for name, data in given.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def answered(words: list[str]) -> Answer:
    """Run one command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "strict", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return Answer(code, *said)


@contextmanager
def _within(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """In a folder, with variables set, for at most `SECONDS` of processor time.

    What is raised while C calls back (as compilers do) is lost: it is raised again each second, until it arrives.
    """
    before, kept = os.getcwd(), {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    os.chdir(folder)
    earlier = signal.signal(signal.SIGPROF, _stop)
    hook, sys.unraisablehook = sys.unraisablehook, _lost
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.unraisablehook = hook
        signal.signal(signal.SIGPROF, earlier)
        os.chdir(before)
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooLong


def _lost(lost: "sys.UnraisableHookArgs") -> None:
    """Say what was raised where nothing can be raised, but for the limit of time."""
    if not issubclass(lost.exc_type, TooLong):
        sys.__unraisablehook__(lost)


@contextmanager
def limited() -> Iterator[None]:
    """A process that may not take more than `BYTES` of memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run(
    generator: Generator, kind: str, seed: int, numbers: range, folder: Path, kept: Path | None = None
) -> Iterator[tuple[int, Input, str]]:
    """(number, input, what is wrong) of those inputs of a kind that fail; their files go into `kept`."""
    with limited():
        for number in numbers:
            given = generator(random_of(kind, seed, number))
            work = folder / "work"
            work.mkdir(parents=True)
            told = fault(given, work)
            if told == TOO_LONG:  # what is compiled at its first use is there at the second
                shutil.rmtree(work, onerror=_opened)
                work.mkdir()
                told = fault(given, work)
            if told:
                if kept is not None:
                    _keep(given, kept / f"{kind}-{seed}-{number}", told)
                yield number, given, told
            shutil.rmtree(work, onerror=_opened)


def _opened(remove: Callable[[str], object], path: str, error: object) -> None:
    """What an input made unwritable is removed all the same."""
    os.chmod(os.path.dirname(path), 0o700)
    remove(path)


def _keep(given: Input, folder: Path, told: str) -> None:
    """Write a failing input with the words of its command."""
    folder.mkdir(parents=True, exist_ok=True)
    place(given, folder)
    note = {"words": given.words, "environment": given.environment, "fault": told}
    (folder / "command.json").write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


def say(text: str) -> None:
    """A line of progress on standard error."""
    print(text, file=sys.stderr, flush=True)
