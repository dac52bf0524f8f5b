"""From the words that a user typed to a command, and from whatever happens to an exit code.

Exit codes: 0 fine, 1 a check moved, 2 bad input, 3 internal error, 4 infeasible; 130 after Ctrl-C and 141 when the
reader of the output went away, as shells have it. Nothing that a user types gives a traceback; with CLUSTERSIM_DEBUG=1
in the environment every error comes with one.
"""

import gc
import os
import sys
from collections.abc import Sequence

from simulator.cli import console
from simulator.cli.commands import COMMANDS, command
from simulator.cli.parser import Parser, parser_of, unknown_command
from simulator.errors import InputError, Problem, SimulatorError
from simulator.startup import methods_at_first_use

PROGRAM = "clustersim"
INTERNAL = 3
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    `argv` comes without the program's name; the arguments of the process are taken where it is left out.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for them reads all that is installed
    gc.set_threshold(500_000, 20, 20)  # a process of small lasting objects: looking for cycles less often pays
    try:
        with methods_at_first_use():
            code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        console.flush()
        return code
    except SystemExit as stop:  # argparse after --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:
        console.abandon_output()
        return BROKEN_PIPE
    except KeyboardInterrupt as stop:
        console.complain(f"{PROGRAM}: interrupted{stop}")
        return INTERRUPTED
    except OSError as error:
        name = str(error.filename)[:200] if error.filename else None
        return _explain(InputError(Problem(error.strerror or str(error), file=name)))
    except UnicodeError as error:
        return _explain(InputError(str(error)))
    except Exception as error:
        return _explain(error)
    finally:
        if argv is None:  # the process ends: what it made is not looked through for cycles once more
            gc.freeze()


def _dispatch(arguments: list[str]) -> int:
    """One command with its own parser, so that only what is used is built and overrides may stand anywhere."""
    if not arguments or arguments[0].startswith("-"):
        parser = _top()
        parser.parse_args(arguments)
        parser.print_help()
        return 0 if arguments else InputError.exit_code
    name, *rest = arguments
    if name == "help":
        return _dispatch([*rest[:1], "--help"])
    if name not in COMMANDS:
        raise unknown_command(name, COMMANDS)
    chosen = command(name)
    words = parser_of(PROGRAM, name, chosen).parse_intermixed_args(rest)
    import simulator.run  # noqa: F401  (from here on the loader reads foreign files)

    return chosen.execute(words)


def _top() -> Parser:
    from simulator import __version__

    listing = "\n".join(f"  {name:<10} {command(name).SUMMARY}" for name in COMMANDS)
    parser = Parser(
        PROGRAM,
        usage=f"{PROGRAM} COMMAND ...",
        description=f"{_PURPOSE}\n\ncommands:\n{listing}",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


_PURPOSE = "Simulates how fast LLM training and serving run on a cluster, and what holds them back."
_EPILOG = f"""\
`{PROGRAM} COMMAND --help` says what a command takes.

exit codes: 0 fine, 1 a check moved, 2 bad input, 3 internal error, 4 infeasible (memory, objectives)

examples:
  {PROGRAM} run scenarios/quickstart.yaml
  {PROGRAM} run scenarios/quickstart.yaml training.micro_batch=2 --json out.json
  {PROGRAM} profiles h100-sxm"""


def _explain(error: Exception) -> int:
    """Say what went wrong in as few lines as there are problems, and give the exit code."""
    if os.environ.get("CLUSTERSIM_DEBUG"):
        import traceback

        console.complain(traceback.format_exc().rstrip())
    if isinstance(error, SimulatorError) and error.exit_code != INTERNAL:
        for line in str(error).splitlines():
            console.complain(f"{PROGRAM}: {line}")
        return error.exit_code
    if isinstance(error, MemoryError):
        console.complain(f"{PROGRAM}: this machine has too little memory for the simulation")
        return INTERNAL
    console.complain(
        f"{PROGRAM}: internal error, please report it: {type(error).__name__}: {str(error)[:300]}{_place(error)}"
    )
    return INTERNAL


def _place(error: Exception) -> str:
    """File and line in which an error was raised, for the report."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    parts = trace.tb_frame.f_code.co_filename.replace("\\", "/").split("/")
    return f" ({'/'.join(parts[-3:])}:{trace.tb_lineno}; CLUSTERSIM_DEBUG=1 shows how it came to it)"
