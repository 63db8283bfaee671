"""`Frozen`: immutable records that are faster to import than `dataclasses`.

`dataclasses` loads `inspect` and compiles each class from text, which was the largest part of the
client's import time.
"""

from typing import Any, ClassVar, NoReturn, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class Frozen:
    """The base class for immutable records, whose fields are the annotated names.

    Fields are passed by position or name. Records with equal values are equal and have the same
    hash. A subclass checks its fields in `__post_init__`.
    """

    field_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.field_names += tuple(cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        """Set the fields. Raises TypeError if a field is missing, unknown or repeated."""
        fields = self.field_names
        filled = dict(zip(fields, values, strict=False))
        wrong = [*values[len(fields) :], *(named.keys() - fields), *(named.keys() & filled.keys())]
        filled |= named
        wrong += [name for name in fields if name not in filled and not hasattr(self, name)]
        if wrong:
            kind = type(self).__name__
            raise TypeError(f"{kind} has the fields {', '.join(fields)}; wrong or missing: {wrong}")
        self.__dict__.update((name, filled.get(name, getattr(self, name, None))) for name in fields)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the fields; subclasses override it."""

    def replace(self, **changes: Any) -> Self:
        """Copy the record with some fields changed; the copy is validated."""
        return type(self)(**{**self.to_fields(), **changes})

    def to_fields(self) -> dict[str, Any]:
        """Return the fields by name, in order."""
        return {name: self.__dict__[name] for name in self.field_names}

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen; use replace({name}=...) for a copy")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen; {name} stays")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.to_fields() == other.to_fields()

    def __hash__(self) -> int:
        return hash(tuple(self.to_fields().values()))

    def __repr__(self) -> str:
        text = ", ".join(f"{name}={value!r}" for name, value in self.to_fields().items())
        return f"{type(self).__name__}({text})"
