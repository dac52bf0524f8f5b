"""Where people keep arguments of Megatron-LM: launch scripts, bare lists, YAML and JSON.

A script may set variables and arrays and run several programs; the command with the most arguments that Megatron knows
is the one. Where there is none, what its variables hold is taken. Nothing is run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simulator.errors import InputError, Problem, nearest
from simulator.interop.arguments import Argument
from simulator.interop.draft import printable
from simulator.interop.shell.script import Call, Field, Script, words_of
from simulator.specs.text.yaml_text import Node, compose

MOST_ARGUMENTS = 20_000
"""Most words of one command."""
_MARKS = re.compile("\0\\d+\0")
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")
_SBATCH = re.compile(r"^#SBATCH\s+(--[\w-]+|-N|-n)[=\s]\s*(\d+)", re.MULTILINE)
_SLURM = {
    "--nodes": "nnodes",
    "-N": "nnodes",
    "--ntasks-per-node": "nproc_per_node",
    "--gpus-per-node": "nproc_per_node",
}


def read_arguments(
    text: str, file: str, given: Mapping[str, str], known: frozenset[str], needed: frozenset[str]
) -> dict[str, Argument]:
    """Arguments by name out of the text of a file, those of the user (`given`) above them.

    `known` are names that tell Megatron's command from others, one of `needed` must be among them. Raises InputError
    where there is none.
    """
    own = {_normal(name): value for name, value in given.items() if "-" in name or name in known}
    variables = {name: value for name, value in given.items() if _normal(name) not in own}
    for name in variables:
        if not re.search(rf"\b{re.escape(name)}\b", text):
            hint = nearest(name, [*known]) or "an argument is written as --set seq-length=2048"
            raise InputError(Problem(f"`{printable(name[:60])}` is not used in {file}", "--set", hint=hint))
    found = _of_mapping(text, file) if _is_mapping(text, file) else _of_script(text, file, variables, known)
    if needed.isdisjoint(found):
        hint = "name a script or list with --num-layers, --hidden-size ..., or say what it is: --format torchtitan"
        raise InputError(Problem("no arguments of Megatron-LM were found", file, hint=hint))
    return found | {name: Argument(name, tuple(value.split())) for name, value in own.items()}


def _normal(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _is_mapping(text: str, file: str) -> bool:
    if file.endswith((".sh", ".bash", ".slurm", ".sbatch", ".txt", ".args")) or text.startswith("#!"):
        return False
    return file.endswith((".yaml", ".yml", ".json")) or text.lstrip()[:1] in ("{", "[")


def _of_mapping(text: str, file: str) -> dict[str, Argument]:
    """Arguments of a YAML or JSON file: names at any depth, or a list of words."""
    root = compose(text, file)
    if isinstance(root.value, list):
        words = [Field(str(node.value), node.place.line or 0) for node in root.value]
        return _parsed(words_of(words), None)
    found: dict[str, Argument] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for key, child in node.value.items() if isinstance(node.value, dict) else ():
            if isinstance(child.value, dict):
                waiting.append(child)
            elif child.value is not None:
                line = node.keys[key].line or 0
                found[_normal(key)] = Argument(_normal(key), tuple(_values(child)), line)
    return found


def _values(node: Node) -> Iterable[str]:
    items: list[Any] = [item.value for item in node.value] if isinstance(node.value, list) else [node.value]
    return (str(item).lower() if isinstance(item, bool) else str(item) for item in items if not isinstance(item, dict))


def _of_script(text: str, file: str, given: Mapping[str, str], known: frozenset[str]) -> dict[str, Argument]:
    bare = re.match(r"(?:\s|#[^!].*\n)*--\w", text) is not None
    script = Script(text.replace("\r\n", "\n"), file, given)
    lists = [call.fields for call in script.calls]
    fields = [one for call in lists for one in call] if bare else _best(script, script.calls, known)
    found = _parsed(words_of(fields), script)
    for match in _SBATCH.finditer(text):
        name = _SLURM.get(match[1])
        if name is not None and name not in found:
            found[name] = Argument(name, (match[2],), text.count("\n", 0, match.start()) + 1)
    return found


def _best(script: Script, calls: Sequence[Call], known: frozenset[str]) -> list[Field]:
    """The words of the command with the most known arguments; those of all variables where there is no command."""
    rows = [words_of(call.fields) for call in calls]
    best = max(rows, key=lambda row: _score(row, known), default=[])
    if _score(best, known):
        return best
    held = list(script.variables.values())
    return [one for value in held for one in words_of(value if isinstance(value, list) else [value])]


def _score(row: Sequence[Field], known: frozenset[str]) -> int:
    names = {_normal(_MARKS.sub("", one.text).partition("=")[0]) for one in row if "--" in one.text}
    return len(names & known)


def _parsed(words: Sequence[Field], script: Script | None) -> dict[str, Argument]:
    """`--name value ...` and `--name=value`; of equal names the last one counts, as for argparse."""
    found: dict[str, Argument] = {}
    name, line, doubt = "", 0, ""
    values: list[str] = []

    def finish() -> None:
        if name:
            found[name] = Argument(name, tuple(values), line, doubt)

    if len(words) > MOST_ARGUMENTS:
        raise InputError(f"a command has more than {MOST_ARGUMENTS:,} words")
    for word in words:
        text = _MARKS.sub("", word.text)
        flag, equals, rest = text.partition("=")
        why = script.why(word.text) if script is not None else ""
        if _FLAG.fullmatch(flag):
            finish()
            name, line, doubt = _normal(flag), word.line, why
            values = [rest] if equals else []
        else:
            values = [*values, text] if len(values) < 64 else values
            doubt = doubt or why
    finish()
    return found
