"""Command lines of every command: options in odd company, files that are none, outputs that cannot be written."""

from argparse import ArgumentParser
from collections.abc import Sequence
from functools import cache
from random import Random

from simulator.cli.commands import COMMANDS, command
from tests.fuzz.files import SMALL
from tests.fuzz.harness import Input

PLACES = (
    "small.yaml",
    "small.yaml",
    "small.yaml",
    "missing.yaml",
    "folder",
    "folder/",
    ".",
    "..",
    "/",
    "/dev/null",
    "/dev/full",
    "/proc/self/mem",
    "",
    "-",
    "--",
    "~",
    "a\nb",
    "a\0b",
    "x" * 300,
    "x/" * 2000,
    "\ud800",
    "empty",
    "binary",
    "loop",
    "*",
    "quickstart",
    "dgx-h100",
    "clusters/selene",
    "\u202eyaml",
    "unwritable/x",
    "small.yaml/x",
    "out",
    "out.json",
)
VALUES = (
    "0",
    "1",
    "2",
    "-1",
    "1e9",
    "99999999999999999999",
    "nan",
    "inf",
    "",
    " ",
    "x",
    "mfu",
    "mfu,step_time_s",
    "1%",
    "mfu=1%",
    "training.micro_batch=1,2",
    "training.parallel.tp=1",
    "training.parallel.tp=",
    "=",
    "a.b.c=1",
    "~training.micro_batch",
    "+x=1",
    "seed=1",
    "cluster.nodes=1e99",
    "model=nope",
    "published=[]",
    "auto",
    "train",
    "serving",
    "training",
    "source",
    "device,source",
    "x,y,z",
    "k" * 100_000,
    "9" * 5000,
    "[" * 3000,
    "training.micro_batch=" + "1," * 5000,
    "\ud800",
    "a\nb",
    "\x1b[2J",
    "tp",
    "simpy",
    "max-plus",
    "exact",
    "tiers",
    "bash",
    "zsh",
    "5 /s",
    "1 s",
    "--quiet",
    "requests.count=5",
)
SHORT = ("training.global_batch=4", "training.sequence_length=512")


@cache
def _options(name: str) -> tuple[tuple[tuple[str, ...], bool], ...]:
    """(names, whether it takes a value) of the options of a command."""
    parser = ArgumentParser(add_help=False)
    command(name).configure(parser)
    return tuple(
        (tuple(action.option_strings), action.nargs != 0) for action in parser._actions if action.option_strings
    )


def line(random: Random) -> Input:
    """Any command with any words."""
    name = random.choice((*COMMANDS, "help", "nope", ""))
    words = [name]
    if random.random() < 0.9:
        words.append(random.choice(PLACES))
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        words += _word(name, random)
    words += SHORT if name in ("run", "explain", "plan", "sweep") and random.random() < 0.6 else []
    if name in ("sweep", "plan", "check", "validate", "papers"):
        words += _bounded(name)
    if random.random() < 0.1:
        words[1:] = random.sample(words[1:], len(words) - 1)
    environment = {"MPLBACKEND": random.choice(("agg", "nonsense"))} if random.random() < 0.2 else {}
    return Input(words, FILES, environment=environment)


def _word(name: str, random: Random) -> Sequence[str]:
    options = _options(name) if name in COMMANDS else ()
    if not options or random.random() < 0.35:
        return [random.choice((*VALUES, *PLACES, "--" + random.choice(VALUES), "-x"))]
    names, valued = random.choice(options)
    option = random.choice(names)
    if option in ("--jobs", "--scheduler", "--executor"):  # processes of their own would outlive the limits
        return [option, random.choice(("0", "-1", "x", "1"))]
    if not valued:
        return [option]
    value = random.choice((*VALUES, *PLACES, *PLACES))
    return [f"{option}={value}"] if random.random() < 0.3 else [option, value]


def _bounded(name: str) -> Sequence[str]:
    """What keeps a command small and in one process."""
    more = {"validate": ["--sample", "1"], "papers": ["t3"]}  # all systems take a minute
    return ["--jobs", "1", *more.get(name, [])]


FILES = {
    "small.yaml": SMALL,
    "folder/x.yaml": SMALL,
    "empty": b"",
    "binary": bytes(range(256)),
    "out.json": b"{}",
}
"""What lies in the working folder."""
