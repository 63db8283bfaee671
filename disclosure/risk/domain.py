"""The declared values of identifying columns, and their impossible combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, with_config

from disclosure.errors import DomainError
from disclosure.files import STRICT, naming, parse_toml, read_text
from rappor_core.errors import shown

Combination = dict[int, int]


@with_config(STRICT)
@dataclass(frozen=True)
class Domain:
    """The declared values of each column, and the impossible combinations of values.

    Raises DomainError if a column has no values, a value is repeated or equals `missing`, or a
    combination has an unknown column or value or fewer than two columns."""

    # Every possible value
    modalities: Annotated[Mapping[str, tuple[str, ...]], Field(alias="columns")]
    incoherent: tuple[Mapping[str, str], ...] = ()  # Combinations of two or more columns
    missing: str = "ND"  # The text of an undetermined value

    def __post_init__(self) -> None:
        if not self.modalities:
            raise DomainError("no columns are declared")
        for name, values in self.modalities.items():
            if not values or len(set(values)) < len(values):
                raise DomainError(
                    f"column {shown(name)} repeats a modality, or declares none: {shown(values)}"
                )
            if self.missing in values:
                raise DomainError(
                    f"column {shown(name)} declares {shown(self.missing)}, the text of a missing "
                    "value"
                )
        for combination in self.incoherent:
            if len(combination) < 2:
                raise DomainError(
                    "an incoherent combination needs two columns or more, not "
                    f"{shown(combination)}; to exclude a single value, remove it from its column"
                )
            for name, value in combination.items():
                if value not in self.modalities.get(name, ()):
                    raise DomainError(f"incoherent: {shown(name)} does not declare {shown(value)}")

    def select(self, columns: Sequence[str]) -> Domain:
        """Restrict the domain to some columns, in this order.

        A combination is kept if all its columns are kept, because the others say nothing about
        these columns. Raises DomainError if a column is undeclared or repeated."""
        unknown = [name for name in columns if name not in self.modalities]
        if unknown:
            raise DomainError(f"columns without declared modalities: {shown(unknown)}")
        if len(set(columns)) < len(columns):
            raise DomainError(f"a column is named twice: {shown(list(columns))}")
        rules = tuple(rule for rule in self.incoherent if set(rule) <= set(columns))
        return Domain({name: self.modalities[name] for name in columns}, rules, self.missing)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(len(values) for values in self.modalities.values())

    def incoherent_codes(self) -> list[Combination]:
        """Return the impossible combinations as {index of column: index of value}."""
        columns = {name: index for index, name in enumerate(self.modalities)}
        return [
            {columns[name]: list(self.modalities[name]).index(value) for name, value in c.items()}
            for c in self.incoherent
        ]


def load_domain(path: Path) -> Domain:
    """Read `domain.toml`: `missing`, `[columns]`, any number of `[[incoherent]]`.

    Raises DomainError if the TOML or the `Domain` is invalid, or a key is unknown."""
    with naming(path):
        return parse_toml(Domain, read_text(path, DomainError), DomainError)
