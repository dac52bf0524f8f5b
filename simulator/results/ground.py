"""What a Result stands on: how its inputs are known, and whether runs like it were held against measured ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

KINDS = ("measured and validated", "measured", "datasheet", "estimate")
"""From the firmest to the weakest."""


@dataclass(frozen=True, slots=True)
class Validation:
    """Published runs that were simulated under the same conditions."""

    rows: int = 0
    """How many."""
    mean_error: float = 0.0
    """Mean size of the errors of their times, a fraction; 0 where there are no rows."""
    of: str = ""
    """What they share with this one, in words."""
    elsewhere: int = 0
    """Runs on the same device and software in other formats, on other networks or of other models."""


@dataclass(frozen=True, slots=True)
class Ground:
    """How firm the figures of a Result are."""

    kind: str = ""
    """One of `KINDS`: that of the weakest input, and `measured and validated` where no input is weaker than that and
    runs alike were held against published ones; empty where nobody looked."""
    inputs: dict[str, str] = field(default_factory=dict)
    """How each input is known: `accelerator`, `kernels`, `network`, `collectives`, `stack` to its status."""
    weakest: str = ""
    """The input that is known the least, with its name and status."""
    validation: Validation = Validation()

    @property
    def sentence(self) -> str:
        """All of it in one line; empty where nothing is known."""
        if not self.kind:
            return ""
        known = self.validation
        if self.kind == KINDS[0]:
            return f"{self.kind}: {_held(known)}"
        beyond = f" but on {_runs(known.elsewhere)} in other conditions" if known.elsewhere else ""
        checked = f"validated: {_held(known)}" if known.rows else f"not validated{beyond}"
        return f"{self.kind}: weakest is {self.weakest}; {checked}"


@dataclass(frozen=True, slots=True)
class StatedGround:
    """A ground as it is written: the field `ground` of every JSON form."""

    kind: str | None
    sentence: str
    """All of it in one line; empty where nothing is known."""
    inputs: Mapping[str, str]
    weakest: str | None
    validated_rows: int
    validated_mean_error: float | None
    validated_elsewhere: int


def stated(ground: Ground) -> StatedGround:
    """A ground with its sentence."""
    known = ground.validation
    return StatedGround(
        kind=ground.kind or None,
        sentence=ground.sentence,
        inputs=dict(ground.inputs),
        weakest=ground.weakest or None,
        validated_rows=known.rows,
        validated_mean_error=known.mean_error if known.rows else None,
        validated_elsewhere=known.elsewhere,
    )


def weakest_of(grounds: Iterable[Ground]) -> Ground:
    """The weakest of several; the first of equal ones."""
    return max(grounds, key=lambda one: KINDS.index(one.kind) if one.kind else -1, default=Ground())


def _held(known: Validation) -> str:
    return f"{_runs(known.rows)} on {known.of}, mean error {100 * known.mean_error:.1f} %"


def _runs(number: int) -> str:
    return f"{number:,} published run{'s' if number != 1 else ''}"
