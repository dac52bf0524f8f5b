"""Standard output and standard error as a program must treat them: closed, full, narrow, in any encoding."""

import os
import sys
from contextlib import suppress

from simulator.errors import InputError, Problem
from simulator.report.text.plain import clean, encodable

_WIDEST = 100
_NARROWEST = 60


def write(text: str) -> None:
    """Put text on standard output, in ASCII where its encoding needs that.

    Raises BrokenPipeError when the reader is gone and InputError when it cannot be written for another reason.
    """
    if sys.stdout is None:
        return
    with _Output():
        sys.stdout.write(encodable(text, sys.stdout.encoding))


def flush() -> None:
    """Get everything out while errors can still be reported."""
    if sys.stdout is not None:
        with _Output():
            sys.stdout.flush()


def complain(text: str) -> None:
    """Write lines to standard error; a stream that is closed or absent is ignored."""
    if sys.stderr is None:
        return
    with suppress(OSError, ValueError):
        lines = "\n".join(clean(line) for line in text.splitlines())
        print(encodable(lines, sys.stderr.encoding), file=sys.stderr, flush=True)


def abandon_output() -> None:
    """Send what is still buffered for standard output nowhere, so that the interpreter does not complain at its end."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def coloured() -> bool:
    """Whether standard output is a terminal that wants colours (https://no-color.org)."""
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: object) -> bool:
    """Whether a person looks at this stream."""
    with suppress(ValueError, AttributeError):
        return bool(stream.isatty())  # type: ignore[attr-defined]
    return False


def width() -> int:
    """Columns of a page: those of the terminal within bounds, or the widest where there is none."""
    if not is_terminal(sys.stdout):
        return _WIDEST
    with suppress(OSError, ValueError, AttributeError):
        return min(max(os.get_terminal_size(sys.stdout.fileno()).columns, _NARROWEST), _WIDEST)
    return _WIDEST


class _Output:
    """Turns errors of standard output, but not a broken pipe, into InputError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            abandon_output()
            raise InputError(
                Problem(f"cannot be written: {error.strerror or error}", file="standard output")
            ) from error
        if isinstance(error, ValueError) and sys.stdout is not None and sys.stdout.closed:
            raise InputError(Problem("is closed", file="standard output")) from error
