"""Small specs with files of their own, so that the loader's tests do not hang on what real specs look like."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bytes, Count, Figure, Fraction, Seconds, Spec


class Motor(Spec):
    """A part with a file of its own."""

    folder: ClassVar[str] = "parts/motors"

    name: str
    """What it is called; shown to people."""
    delay: Seconds
    """From key to noise."""
    load: Figure[Fraction] | None = None
    """A figure with its source."""
    memory: Bytes = 0.0
    """A quantity with a default."""


class Seats(Spec):
    """A part that is only written inline."""

    aliases: ClassVar[dict[str, str]] = {"chairs": "rows", "benches": "rows"}

    rows: Count = 1
    """Rows of seats."""
    heated: bool = False
    """Whether they are warm."""


class Car(Spec):
    """The whole, with parts by reference, inline, in a list and by free keys."""

    folder: ClassVar[str] = "cars"
    aliases: ClassVar[dict[str, str]] = {"engine": "motor"}

    name: str
    """What it is called."""
    motor: Motor
    """What drives it."""
    seats: Seats = Seats()
    """Where people sit."""
    spare: Motor | None = None
    """A second motor."""
    motors: tuple[Motor, ...] = ()
    """More motors."""
    sizes: dict[str, Count] = Field(default_factory=dict)
    """Numbers by name."""
    pair: tuple[int, int] = (0, 0)
    """Exactly two."""
    colour: Literal["red", "green"] = "red"
    """Colour."""
    price: str | float = 0.0
    """A number, or text."""
    doors: int = 0
    """Doors; two a row where left out."""

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, data: object) -> object:
        if (
            isinstance(data, dict)
            and isinstance(data.get("seats"), dict)
            and isinstance(data["seats"].get("rows"), int)
        ):
            return {"doors": 2 * data["seats"]["rows"], **data}
        return data

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.pair[0] > self.pair[1]:
            raise ValueError("`pair` must rise")
        return self
