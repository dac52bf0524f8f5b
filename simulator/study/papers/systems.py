"""The list of published systems: which paper's claims are theirs, by mechanism, or why they have none."""

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from simulator.specs import data_root, load_file
from simulator.specs.base import Spec

SYSTEMS = Path("workloads") / "measurements" / "systems.yaml"


class PublishedSystem(Spec):
    """A published system."""

    title: str
    """Its name and what it is."""
    half: Literal["training", "serving"]
    mechanism: str
    """What its gain rests on, in the words of the file."""
    papers: tuple[str, ...] = ()
    """Keys of `papers.yaml` whose claims are its own."""
    same_as: str | None = None
    """Another system of the same source, which is counted in its place."""
    why: str = ""
    """Why it has no scenario, or no figure that counts; needed where no paper has claims of it."""

    @model_validator(mode="after")
    def _either(self) -> Self:
        if not self.papers and not self.why:
            raise ValueError("a system names its `papers`, or says `why` it has none")
        return self


class Systems(Spec):
    """The file of systems."""

    systems: dict[str, PublishedSystem]

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name, one in self.systems.items():
            if one.same_as is not None and one.same_as not in self.systems:
                raise ValueError(f"`same_as: {one.same_as}` of `{name}` is no system")
        return self


def known_systems() -> dict[str, PublishedSystem]:
    """The shipped systems by name."""
    return load_file(Systems, data_root() / SYSTEMS).spec.systems
