"""What can be calibrated: the files that each kind reads, the options that it takes, the module that does it."""

from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from simulator.calibration.asked import Asked, clear, prepare
from simulator.errors import InputError, Problem

PACKAGES = ("pandas", "pyarrow", "scipy")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of calibration."""

    what: str
    """What is fitted, in words."""
    files: tuple[tuple[str, ...], ...]
    """Names of the files that it reads, in their order, for each way to call it; `FILE...` stands for one or more."""
    options: tuple[str, ...]
    """Fields of `Asked` that it takes besides `out` and `profiles`."""
    module: str
    """Module with `calibrate(asked)`."""


class _Module(Protocol):
    def calibrate(self, asked: Asked) -> None:
        """Fit, say the errors, write what was asked for."""


KINDS = {
    "kernels": Kind(
        "kernel profiles of devices",
        (("TABLES", "ROWS"), ("MEASURED...",)),
        ("samples", "part", "report", "accelerator"),
        "simulator.calibration.kernels.profiles",
    ),
    "collectives": Kind(
        "figures of collective profiles",
        (("DATA",),),
        ("starts", "as_is", "left_out", "cluster"),
        "simulator.calibration.collectives.fit",
    ),
    "all-reduce": Kind(
        "all-reduces of serving engines", (("TABLES",),), (), "simulator.calibration.collectives.all_reduce"
    ),
    "exchanges": Kind(
        "libraries that exchange tokens with experts",
        (("ROWS",),),
        ("as_is", "left_out"),
        "simulator.calibration.collectives.exchanges",
    ),
    "stack": Kind(
        "the numbers of software stacks",
        (("ROWS",), ("LOG...",)),
        ("samples", "jobs", "as_is", "intervals", "left_out", "held_out", "scenario"),
        "simulator.calibration.stacks.fit",
    ),
    "lengths": Kind("lengths of requests", (("TRACES",),), ("as_is",), "simulator.calibration.lengths"),
}
"""Kinds of calibration by name."""


def calibrate(name: str, asked: Asked, given: Collection[str] = ()) -> None:
    """Fit one kind; `given` are the options that were named. InputError where files, options or packages are wrong,
    without an empty folder left behind."""
    kind = KINDS[name]
    for option in given:
        if option not in (*kind.options, "profiles", "out"):
            flag = option.replace("_", "-")
            raise InputError(Problem(f"`--{flag}` has no meaning for {name}", hint="leave it out"))
    if not any(_fits(asked.files, names) for names in kind.files):
        usage = " or ".join(f"`clustersim calibrate {name} {' '.join(names)}`" for names in kind.files)
        count = f"{len(asked.files)} file{'s' * (len(asked.files) != 1)}"
        takes = ", or ".join(" and ".join(names) for names in kind.files)
        raise InputError(Problem(f"{name} takes {takes}, not {count}", hint=f"write {usage}"))
    for file in asked.files:
        if not file.exists():
            raise InputError(Problem("there is no such file or folder", file=str(file)))
    _check_packages()
    made = prepare(asked.out) if asked.out is not None else ()
    try:
        cast(_Module, import_module(kind.module)).calibrate(asked)
    except BaseException:
        clear(made)
        raise


def _fits(files: Collection[Path], names: tuple[str, ...]) -> bool:
    """Whether there are as many files as names, or enough of them for the last name."""
    return len(files) >= len(names) if names[-1].endswith("...") else len(files) == len(names)


def _check_packages() -> None:
    for package in PACKAGES:
        try:
            import_module(package)
        except ImportError:
            hint = "install it: pip install 'clustersim[calibrate]'"
            raise InputError(Problem(f"fits need {package}, which is not installed", hint=hint)) from None
