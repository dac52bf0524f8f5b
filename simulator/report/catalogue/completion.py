"""Completion scripts for bash, zsh and fish, drawn from what the commands take.

The scripts are static: completing starts no Python. Names of profiles and scenarios are those that were found when the
script was made; files are looked up while typing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from simulator.report.catalogue.profiles import ROOMS
from simulator.report.catalogue.schema import KINDS
from simulator.specs import names
from simulator.specs.hardware import Cluster
from simulator.specs.scenario import Scenario
from simulator.training.schedules import SCHEDULES


class Source(NamedTuple):
    """What may stand at a place."""

    words: str | tuple[str, ...] = ()
    """The name of a list of words, or the words themselves."""
    files: bool = False
    folders: bool = False


class Option(NamedTuple):
    """An option of a command."""

    names: tuple[str, ...]
    takes: Source | None
    """What follows it; None for a switch."""
    summary: str


class Shape(NamedTuple):
    """What a command takes."""

    name: str
    summary: str
    options: tuple[Option, ...]
    places: Source | None
    """What its positional arguments may be; None where it takes none."""


Words = Mapping[str, Sequence[str]]
_SAFE = re.compile(r"[\w./+-]+", re.ASCII)


def word_lists(commands: Iterable[str]) -> Words:
    """Lists of words by name: commands, scenarios, clusters, profiles, kinds of file, schedules; without odd names."""
    profiles = {room.word: room.names() for room in ROOMS.values()}
    lists = {
        "commands": [*commands, "help", "--help", "--version"],
        "scenarios": names(Scenario),
        "clusters": names(Cluster),
        "profiles": sorted({*profiles, *(name for known in profiles.values() for name in known)}),
        "kinds": [*KINDS],
        "schedules": SCHEDULES.names(),
    }
    return {name: [word for word in known if _SAFE.fullmatch(word)] for name, known in lists.items()}


def script(shell: str, program: str, shapes: Sequence[Shape], words: Words) -> str:
    """The script of one of `SHELLS`; `words` are the lists that sources name."""
    return SHELLS[shell](program, shapes, words)


_BASH = """\
# bash completion of PROGRAM; load it with: source <(PROGRAM completion bash)
_PROGRAM_words() { COMPREPLY+=($(compgen -W "$1" -- "$cur")); }
_PROGRAM_files() {
    local found
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen "$1" -- "$cur")
    compopt -o filenames 2>/dev/null
}
_PROGRAM() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}" options
LISTS
    COMPREPLY=()
    if [ "$COMP_CWORD" -le 1 ]; then
        _PROGRAM_words "$known_commands"
        return
    fi
    case "$command:$prev" in
AFTER
    esac
    if [ "${cur:0:1}" = - ]; then
        case "$command" in
OPTIONS
        esac
        _PROGRAM_words "$options"
        return
    fi
    case "$command" in
PLACES
    esac
}
complete -F _PROGRAM PROGRAM
"""


def _bash(program: str, shapes: Sequence[Shape], words: Words) -> str:
    lists = [f"    local known_{name}='{' '.join(items)}'" for name, items in words.items()]
    options = [f"            {shape.name}) options='{' '.join(_option_names(shape))}' ;;" for shape in shapes]
    return _filled(_BASH, program, shapes, lists, options, _bash_source)


def _filled(
    text: str,
    program: str,
    shapes: Sequence[Shape],
    lists: Sequence[str],
    options: Sequence[str],
    draw: Callable[[Source], str],
) -> str:
    """The text of a script with its lists and its branches by command."""
    after = [
        f"        {'|'.join(f'{shape.name}:{name}' for name in option.names)}) {draw(option.takes)}; return ;;"
        for shape in shapes
        for option in shape.options
        if option.takes is not None
    ]
    places = [f"        {shape.name}) {draw(shape.places)} ;;" for shape in shapes if shape.places is not None]
    for mark, lines in (("LISTS", lists), ("AFTER", after), ("OPTIONS", options), ("PLACES", places)):
        text = text.replace(f"{mark}\n", "".join(f"{line}\n" for line in lines))
    return text.replace("PROGRAM", program)


def _bash_source(source: Source) -> str:
    calls = []
    if source.words:
        words = f"$known_{source.words}" if isinstance(source.words, str) else " ".join(source.words)
        calls.append(f'_PROGRAM_words "{words}"')
    if source.files or source.folders:
        calls.append(f"_PROGRAM_files -{'f' if source.files else 'd'}")
    return "; ".join(calls) or ":"


_ZSH = """\
#compdef PROGRAM
# zsh completion of PROGRAM; put it into a folder of $fpath as _PROGRAM, or: source <(PROGRAM completion zsh)
_PROGRAM() {
    local command="${words[2]}" prev="${words[CURRENT-1]}" cur="${words[CURRENT]}"
LISTS
    if (( CURRENT <= 2 )); then
        compadd -a known_commands
        return
    fi
    case "$command:$prev" in
AFTER
    esac
    if [[ "$cur" == -* ]]; then
        case "$command" in
OPTIONS
        esac
        return
    fi
    case "$command" in
PLACES
    esac
}
if [ "$funcstack[1]" = "_PROGRAM" ]; then _PROGRAM "$@"; else compdef _PROGRAM PROGRAM; fi
"""


def _zsh(program: str, shapes: Sequence[Shape], words: Words) -> str:
    lists = [f"    local -a known_{name}; known_{name}=({' '.join(items)})" for name, items in words.items()]
    options = [f"            {shape.name}) compadd -- {' '.join(_option_names(shape))} ;;" for shape in shapes]
    return _filled(_ZSH, program, shapes, lists, options, _zsh_source)


def _zsh_source(source: Source) -> str:
    calls = []
    if source.words:
        plain = not isinstance(source.words, str)
        calls.append(f"compadd -- {' '.join(source.words)}" if plain else f"compadd -a known_{source.words}")
    if source.files or source.folders:
        calls.append("_files" if source.files else "_files -/")
    return "; ".join(calls) or ":"


def _fish(program: str, shapes: Sequence[Shape], words: Words) -> str:
    lines = [
        f"# fish completion of {program}; keep it as ~/.config/fish/completions/{program}.fish",
        f"complete -c {program} -f",
        *(f"set -g __{program}_{name} {' '.join(items)}" for name, items in words.items()),
    ]
    for shape in shapes:
        lines.append(f"complete -c {program} -n __fish_use_subcommand -a {shape.name} -d {_quoted(shape.summary)}")
        seen = f"complete -c {program} -n '__fish_seen_subcommand_from {shape.name}'"
        for option in shape.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            lines.append(f"{seen} {names}{_fish_source(program, option.takes, True)} -d {_quoted(option.summary)}")
        if shape.places is not None:
            lines.append(f"{seen}{_fish_source(program, shape.places, False)}")
    return "\n".join([*lines, ""])


def _fish_source(program: str, source: Source | None, follows: bool) -> str:
    if source is None:
        return ""
    text = (" -r" if source.files else " -x") if follows else ""
    text += " -F" if source.files else ""
    words = f"$__{program}_{source.words}" if isinstance(source.words, str) else " ".join(source.words)
    if source.folders:
        words += "(__fish_complete_directories)"
    return f'{text} -a "{words}"' if words else text


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _option_names(shape: Shape) -> Iterable[str]:
    return (name for option in shape.options for name in option.names)


SHELLS: dict[str, Callable[[str, Sequence[Shape], Words], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""Shells that there is a script for."""
