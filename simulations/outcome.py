"""The result of an experiment: its rows, and the table that shows them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Columns = Sequence[tuple[str, str, str]]  # The heading, name in a row, and format


@dataclass(frozen=True)
class ExperimentOutcome:
    """The result of an experiment."""

    rows: Sequence[Mapping[str, Any]]  # All figures as plain values
    headings: Sequence[str]  # The headings of its table
    lines: Sequence[Sequence[str]]  # Its table as text
    notes: Sequence[str] = ()  # Sentences under the table
    files: Mapping[str, str] = field(default_factory=dict)  # Additional texts by name


def outcome_of(rows: Iterable[Any], columns: Columns, **more: Any) -> ExperimentOutcome:
    """Build the outcome of an experiment whose table has one line per row.

    Args:
        rows: Dataclasses, or plain values by name.
        columns: The heading, name in a row, and format of each column.
        more: The notes and files.
    """
    plain = [row if isinstance(row, Mapping) else asdict(row) for row in rows]
    lines = [[_cell(row.get(name), form) for _, name, form in columns] for row in plain]
    return ExperimentOutcome(plain, [heading for heading, *_ in columns], lines, **more)


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return format(value, form)
