"""The findings of a schedule over its windows, and what its level means for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection

from decoder_service.jobs.specs import Choices, JobSpec
from decoder_service.results.rows import load_file, load_results
from decoder_service.schedules.multiplicity import (
    Family,
    WindowTests,
    decided,
    level_in_words,
    read_tests,
)
from decoder_service.schedules.window_rows import WindowRow, WindowState
from decoder_service.shell.models import results as table

MOST_VALUES = 1000  # of a series that is shown


@dataclass(frozen=True, slots=True)
class SeriesView:
    """The findings in the windows of one specification. rows: of each value in each window."""

    windows: list[WindowRow]
    rows: list[dict[str, Any]]
    level: dict[str, Any]
    left_out: int  # values beyond MOST_VALUES


def groups_of(windows: list[WindowRow]) -> list[list[WindowRow]]:
    """Group windows by specification and version of the metric, oldest first."""
    groups: dict[tuple[str, str], list[WindowRow]] = {}
    for one in windows:
        groups.setdefault((one.digest, one.params_id), []).append(one)
    return list(groups.values())


def load_tests(connection: Connection, windows: list[WindowRow]) -> dict[WindowRow, WindowTests]:
    """Load the tests of the windows whose results exist."""
    found = {}
    for one in windows:
        if one.state != WindowState.DONE or one.result_id is None:
            continue
        candidates = load_file(connection, one.result_id, "candidates.parquet")
        results = load_file(connection, one.result_id, "results.json")
        if candidates is not None and results is not None:
            found[one] = read_tests(candidates, results)
    return found


def view_of(
    connection: Connection, family: Family, options: Choices, windows: list[WindowRow]
) -> SeriesView:
    """The findings in the windows of one specification.

    options: of the schedule now; those of a result count where there is one.  Raises QuotaError.
    """
    options = _options_of(connection, windows) or options
    read = load_tests(connection, windows)
    tests = dict(zip(read, decided(list(read.values()), family, options.alpha), strict=True))
    held = [one.values[i] for one in tests.values() for i in np.flatnonzero(one.detected)]
    names = list(dict.fromkeys(held))
    shown = set(names[:MOST_VALUES])
    level = level_in_words(family, options, len(tests), sum(len(t.values) for t in tests.values()))
    found = [item for window, one in tests.items() for item in _rows(window, one, shown)]
    return SeriesView(windows, found, level, len(names) - len(shown))


def _options_of(connection: Connection, windows: list[WindowRow]) -> Choices | None:
    """The options that the windows were decoded with: a schedule may have others by now."""
    known = [one.result_id for one in windows if one.result_id is not None]
    found = load_results(connection, table.c.id.in_(known[-1:]), 1)
    spec = json.loads(found[0].manifest).get("spec") if found else None
    return None if spec is None else JobSpec.model_validate(spec).options


def _rows(window: WindowRow, tests: WindowTests, shown: set[str]) -> list[dict[str, Any]]:
    columns = ("estimate", "std_error", "p_value", "p_adjusted")
    return [
        {"value": value, "first_day": window.first_day, "last_day": window.last_day}
        | {name: _finite(getattr(tests, name)[i]) for name in columns}
        | {"detected": bool(tests.detected[i]), "result_id": window.result_id}
        for i, value in enumerate(tests.values)
        if value in shown
    ]


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
