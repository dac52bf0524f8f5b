"""Argument parsers that complain in one line instead of printing their usage."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable
from typing import Any, NoReturn

from simulator.cli.commands import Command
from simulator.errors import InputError, Problem, nearest
from simulator.unmodelled import unmodelled

_UNKNOWN = "unrecognized arguments: "  # how argparse begins to say so


class Parser(ArgumentParser):
    """argparse, with errors as `InputError` and without guessed abbreviations."""

    def __init__(self, program: str, **options: Any) -> None:
        """Options as for `argparse.ArgumentParser`."""
        super().__init__(program, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def add_argument(self, *names: Any, **options: Any) -> Any:
        """As argparse's; a positional argument of any number may be none, also between options."""
        if options.get("nargs") == "*":
            options.setdefault("default", [])
        return super().add_argument(*names, **options)

    def parse_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, which takes `--option=--` for an option with no value."""
        bare = next((word for word in args or () if word.startswith("--") and word.endswith("=--")), None)
        if bare is not None:
            self.error(f"argument {bare.removesuffix('=--')}: expected a value, got `--`")
        return super().parse_intermixed_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise InputError that says where the help is."""
        words = message.removeprefix(_UNKNOWN).split() if message.startswith(_UNKNOWN) else []
        said = next(filter(None, (unmodelled(word.partition("=")[0]) for word in words)), "")
        raise InputError(Problem(message, hint=said or f"see `{self.prog} --help`"))


def parser_of(program: str, name: str, command: Command) -> Parser:
    """The parser of one command with its description and examples."""
    examples = "\n".join(f"  {program} {name} {example}" for example in command.EXAMPLES)
    parser = Parser(f"{program} {name}", description=(command.__doc__ or "").strip(), epilog=f"examples:\n{examples}")
    command.configure(parser)
    return parser


def unknown_command(name: str, known: Iterable[str]) -> InputError:
    """The error of a word that is no command; a file name gets the hint to `run` it."""
    hint = nearest(name, known)
    if name.endswith((".yaml", ".yml")):
        hint = f"did you mean `clustersim run {name}`?"
    return InputError(Problem(f"there is no command `{name}`", hint=hint))
