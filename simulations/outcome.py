"""What an experiment found: its rows, and the table that is shown of them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Columns = Sequence[tuple[str, str, str]]  # heading, name in a row, and format


@dataclass(frozen=True)
class ExperimentOutcome:
    """What an experiment found.

    rows: all figures, plain.  headings, lines: its table as text.  notes: sentences under the
    table.  files: further texts by name.
    """

    rows: Sequence[Mapping[str, Any]]
    headings: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def outcome_of(rows: Iterable[Any], columns: Columns, **more: Any) -> ExperimentOutcome:
    """Make the outcome of an experiment whose table has a line for each row.

    Args:
        rows: dataclasses, or plain values by name.
        columns: heading, name in a row, and format of each.
        more: notes and files.
    """
    plain = [row if isinstance(row, Mapping) else asdict(row) for row in rows]
    lines = [[_cell(row.get(name), form) for _, name, form in columns] for row in plain]
    return ExperimentOutcome(plain, [heading for heading, *_ in columns], lines, **more)


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return format(value, form)
