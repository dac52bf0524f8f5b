"""What every spec shares: frozen, strict pydantic models, and figures that carry their source.

A spec is what a person writes. `Figure` pairs a number with where it comes from, so that a profile can be
defended number by number. `folder` on a spec class names the data room in which the loader looks up a
reference such as `clusters/selene` or a bare `selene`.
"""

from functools import partial
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

from simulator import units

Format = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4", "ternary"]
"""Number formats of weights, activations and caches."""
Status = Literal["measured", "datasheet", "estimate"]


class Spec(BaseModel):
    """Base of all specs: immutable, unknown keys refused, every field documented.

    The text under each field is its documentation: see `simulator.specs.files.documentation` for how it is read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    folder: ClassVar[str | None] = None
    """Data room of files of this kind, for example `hardware_profiles/nodes`; None where it is only inline."""
    aliases: ClassVar[dict[str, str]] = {}
    """Foreign names of fields (Megatron's, torchtitan's) and the field they stand for."""
    elsewhere: ClassVar[dict[str, str]] = {}
    """Keys that a reader may well expect here and that belong to another kind of file, and what to say of them."""
    under: ClassVar[dict[str, str]] = {}
    """Fields that may be written under the key of another one, in the place of its value."""
    unwritten: ClassVar[tuple[str, ...]] = ()
    """Fields that hold what files write elsewhere."""
    bare: ClassVar[str] = ""
    """The field that a bare number where the spec should stand is most likely meant for."""

    @classmethod
    def registered(cls) -> dict[str, Any]:
        """Keys that plug-ins add to those of the fields, and the type of each."""
        return {}

    def states(self, key: str) -> bool:
        """Whether a field is written, and as another value than its default, which `explain` writes out too."""
        default = type(self).model_fields[key].get_default(call_default_factory=True, validated_data={})
        return key in self.model_fields_set and bool(getattr(self, key) != default)

    @classmethod
    def model_json_schema(cls, *arguments: Any, **options: Any) -> dict[str, Any]:
        """The JSON schema of files of this kind, with the fields' documentation, references and foreign names."""
        from simulator.specs.files.documentation import FileSchema

        return super().model_json_schema(*arguments, **{"schema_generator": FileSchema, **options})


def _quantity(dimension: str) -> BeforeValidator:
    # A partial and not a lambda: pages and the JSON schema read the dimension from it.
    return BeforeValidator(partial(units.parse, dimension=dimension))


def annotated(info: FieldInfo) -> Any:
    """The type of a field with all that is checked of it."""
    return Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation


Seconds = Annotated[float, _quantity("time"), Field(ge=0)]
Interval = Annotated[float, _quantity("time"), Field(gt=0)]
"""Seconds from one of many events to the next, each of which is simulated."""
Bytes = Annotated[float, _quantity("bytes"), Field(ge=0)]
SomeBytes = Annotated[float, _quantity("bytes"), Field(gt=0)]
"""Bytes that others are counted in: never none."""
Bandwidth = Annotated[float, _quantity("bandwidth"), Field(gt=0, le=1e18)]
FlopRate = Annotated[float, _quantity("flop_rate"), Field(gt=0)]
Watts = Annotated[float, _quantity("power"), Field(ge=0)]
Hertz = Annotated[float, _quantity("frequency"), Field(gt=0)]
Money = Annotated[float, _quantity("money"), Field(ge=0)]
MoneyRate = Annotated[float, _quantity("money_rate"), Field(ge=0)]
CarbonRate = Annotated[float, _quantity("carbon_rate"), Field(ge=0)]
Rate = Annotated[float, _quantity("rate"), Field(gt=0)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Fraction = Annotated[float, Field(ge=0, le=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]
Percentage = Annotated[float, _quantity("fraction"), Field(ge=0, le=1)]
"""A fraction that may also be written in percent."""
Remaining = Annotated[float, _quantity("fraction"), Field(gt=0, le=1)]
"""A fraction of something that is left, never nothing; it may also be written in percent."""

T = TypeVar("T")


class Figure(Spec, Generic[T]):
    """A number with its origin."""

    value: T
    """The number, in SI units once loaded."""
    status: Status
    """How it is known: measured, from a datasheet, or an estimate."""
    source: str
    """Where it was read: a publication, a data sheet, a public repository and page."""
