"""Print a script that makes a shell complete commands, options, file names, and the names of scenarios and profiles.

bash:  source <(clustersim completion bash)                     (in ~/.bashrc)
zsh:   source <(clustersim completion zsh)                      (in ~/.zshrc, after compinit)
fish:  mkdir -p ~/.config/fish/completions
       clustersim completion fish > ~/.config/fish/completions/clustersim.fish
"""

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.commands import COMMANDS, command
from simulator.cli.parser import parser_of

if TYPE_CHECKING:
    from simulator.report.catalogue.completion import Option, Shape, Source

SUMMARY = "print a completion script for a shell"
EXAMPLES = (
    "bash > clustersim.bash",
    "zsh",
)
PROGRAM = "clustersim"
SHELLS = ("bash", "zsh", "fish")
_FOREIGN = ("import",)
"""Commands whose files are no scenarios."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `completion`."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read it")


def execute(arguments: Namespace) -> int:
    """Draw the script."""
    from simulator.report.catalogue.completion import script, word_lists

    shapes = [_shape(name) for name in COMMANDS]
    console.write(script(arguments.shell, PROGRAM, shapes, word_lists(COMMANDS)))
    return 0


def _shape(name: str) -> "Shape":
    """What a command's parser says that it takes."""
    from simulator.report.catalogue.completion import Shape

    chosen = command(name)
    actions = parser_of(PROGRAM, name, chosen)._actions
    places = [_source(action, name) for action in actions if not action.option_strings]
    options = tuple(_option(action, name) for action in actions if action.option_strings and action.help != SUPPRESS)
    return Shape(name, chosen.SUMMARY, options, places[0] if places else None)


def _option(action: Action, name: str) -> "Option":
    from simulator.report.catalogue.completion import Option

    takes = None if action.nargs == 0 else _source(action, name)
    return Option(tuple(action.option_strings), takes, (action.help or "").replace("%%", "%"))


def _source(action: Action, name: str) -> "Source":
    """What may stand for an argument: its choices, or what the word in its help means."""
    from simulator.report.catalogue.completion import Source

    if action.choices is not None:
        return Source(tuple(map(str, action.choices)))
    word = action.metavar if isinstance(action.metavar, str) else ""
    if not action.option_strings and word.startswith("FILE") and name not in _FOREIGN:
        return Source("scenarios", files=True)
    if word in ("FOLDER", "DIR"):
        return Source(folders=True)
    if word.startswith(("FILE", "PATH")):
        return Source(files=True)
    words = {"CLUSTER": "clusters", "NAME": "profiles", "KIND": "kinds", "SCHEDULE": "schedules"}
    return Source(words.get(word, ()), files=word == "SCHEDULE")
