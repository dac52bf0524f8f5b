"""What a Result stands on: how its inputs are known, and whether runs like it were held against measured ones."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from simulator.results.spread import ASKED, Circumstances, Spread

KINDS = ("measured and validated", "measured", "datasheet", "estimate")
"""From the firmest to the weakest."""
MEASURABLE = ("kernels", "collectives", "stack")
"""Inputs that can be measured; peaks and links are never better known than from a datasheet."""


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
    beyond: tuple[str, ...] = ()
    """What this run has and none of them, in words: ways to shard, to offload or to attend, many more devices."""
    changed: tuple[str, ...] = ()
    """Inputs whose figures are not those of their profiles, so that no run speaks for them."""


@dataclass(frozen=True, slots=True)
class Ground:
    """How firm the figures of a Result are."""

    kind: str = ""
    """One of `KINDS`: that of the weakest input, and `measured and validated` where no input is weaker than that and
    runs alike were held against published ones; empty where none were."""
    inputs: dict[str, str] = field(default_factory=dict)
    """How each input is known: `accelerator`, `kernels`, `network`, `collectives`, `stack` to its status."""
    weakest: str = ""
    """The input that is known the least, with its name and status."""
    validation: Validation = Validation()
    spreads: dict[str, Spread] = field(default_factory=dict)
    """How far measured runs may lie from this one, by what figures are about (`results.spread`)."""
    circumstances: Circumstances | None = None
    """What decides how near published runs are; None where unknown."""

    @property
    def never_validated(self) -> tuple[str, ...]:
        """What no published run says anything about, of what every run of this kind has (`results.spread`)."""
        kind = self.circumstances.kind if self.circumstances else ""
        return tuple(about for about in ASKED.get(kind, ()) if about not in self.spreads)

    @property
    def sentence(self) -> str:
        """All of it in one line; empty where nothing is known."""
        if not self.kind:
            return ""
        if self.kind == KINDS[0]:
            return f"{self.kind}: {_held(self.validation)}"
        return f"{self.kind}: {self._inputs}; {_checked(self.validation)}"

    @property
    def _inputs(self) -> str:
        """Which inputs are known as firmly as the kind says."""
        weakest = f"{self.weakest.rpartition(',')[0]})"
        if self.kind == "estimate":
            return f"estimated, not measured: {weakest}"
        names = [name for name, status in self.inputs.items() if status == self.kind]
        if self.kind == "datasheet":
            return f"from a datasheet, not measured: {_listed(name for name in names if name in MEASURABLE)}"
        rest = [name for name in self.inputs if name not in names]
        return f"{_listed(names)} measured{f', {_listed(rest)} from a datasheet' if rest else ''}"


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
    validated_beyond: tuple[str, ...]
    """What none of the validated runs had."""
    changed: tuple[str, ...]
    """Inputs whose figures are not those of their profiles."""
    spreads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Between which multiples of simulated times (`step`, `ttft`, `tpot`, `request`) and sizes (`memory`) measured ones
    are expected, and from how many runs that is known."""
    circumstances: Circumstances | None = None
    """What decides how near published runs are."""
    never_validated: tuple[str, ...] = ()
    """What no published run says anything about: `step`, `ttft`, `tpot`, `memory`."""


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
        validated_beyond=tuple(known.beyond),
        changed=tuple(known.changed),
        spreads={about: asdict(spread) | {"basis": spread.basis} for about, spread in ground.spreads.items()},
        circumstances=ground.circumstances,
        never_validated=ground.never_validated,
    )


def weakest_of(grounds: Iterable[Ground]) -> Ground:
    """The weakest of several; the first of equal ones."""
    return max(grounds, key=lambda one: KINDS.index(one.kind) if one.kind else -1, default=Ground())


def _checked(known: Validation) -> str:
    """Whether runs alike were held against published ones, and what sets this one apart from them."""
    if known.changed:
        return f"not validated: other figures than in the profile of the {_listed(known.changed)}"
    if not known.rows:
        beyond = f" but on {_runs(known.elsewhere)} in other conditions" if known.elsewhere else ""
        return f"not validated{beyond}"
    none = f"; none of them with {_listed(known.beyond, 'or')}" if known.beyond else ""
    return f"validated: {_held(known)}{none}"


def _held(known: Validation) -> str:
    return f"{_runs(known.rows)} on {known.of}, mean error {100 * known.mean_error:.1f} %"


def _listed(names: Iterable[str], last: str = "and") -> str:
    *some, one = names
    return f"{', '.join(some)} {last} {one}" if some else one


def _runs(number: int) -> str:
    return f"{number:,} published run{'s' if number != 1 else ''}"
