"""The findings of a schedule over its windows, from the p-values of stored results.

Family `window`: each window is decided by itself, as its result was. `series`: Benjamini and
Hochberg's rule over the p-values of all windows together.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from pyarrow import parquet
from sqlalchemy.orm import Session

from decoder.inference.multiple_testing import decide
from decoder.typing import Flags, Floats
from decoder_service.jobs.specs import Choices, JobSpec
from decoder_service.results.rows import RESULT_FILES, load_results
from decoder_service.schedules.rows import WindowState
from decoder_service.shell.errors import QuotaError
from decoder_service.shell.models import ResultRow, WindowRow

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


def load_tests(db: Session, windows: list[WindowRow]) -> dict[WindowRow, WindowTests]:
    """Load the tests of the windows whose results exist."""
    found = {}
    for one in windows:
        if one.state != WindowState.DONE or one.result_id is None:
            continue
        candidates = RESULT_FILES.read(db, one.result_id, "candidates.parquet")
        results = RESULT_FILES.read(db, one.result_id, "results.json")
        if candidates is not None and results is not None:
            found[one] = read_tests(candidates, results)
    return found


def view_of(db: Session, family: Family, options: Choices, windows: list[WindowRow]) -> SeriesView:
    """The findings in the windows of one specification.

    options: of the schedule now; those of a result count where there is one.  Raises QuotaError.
    """
    options = _options_of(db, windows) or options
    read = load_tests(db, windows)
    tests = dict(zip(read, decided(list(read.values()), family, options.alpha), strict=True))
    held = [one.values[i] for one in tests.values() for i in np.flatnonzero(one.detected)]
    names = list(dict.fromkeys(held))
    shown = set(names[:MOST_VALUES])
    level = level_in_words(family, options, len(tests), sum(len(t.values) for t in tests.values()))
    found = [item for window, one in tests.items() for item in _rows(window, one, shown)]
    return SeriesView(windows, found, level, len(names) - len(shown))


def _options_of(db: Session, windows: list[WindowRow]) -> Choices | None:
    """The options that the windows were decoded with: a schedule may have others by now."""
    known = [one.result_id for one in windows if one.result_id is not None]
    found = load_results(db, ResultRow.id.in_(known[-1:]), 1)
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


MOST_TESTS = 20_000_000
_COLUMNS = ["value", "estimate", "std_error", "p_value", "p_adjusted", "detected", "same_bits_as"]


class Family(StrEnum):
    """Over what the level of a schedule holds."""

    WINDOW = "window"
    SERIES = "series"


@dataclass(frozen=True)
class WindowTests:
    """The tests of one window: a row for each distinguishable value, (M,).

    detected, p_adjusted: by the family of the schedule.  cohort_z: of the cohorts.
    """

    values: tuple[str, ...]
    estimate: Floats
    std_error: Floats
    p_value: Floats
    p_adjusted: Floats
    detected: Flags
    cohort_z: Floats


def read_tests(candidates: bytes, results: bytes) -> WindowTests:
    """The tests of a result. candidates: candidates.parquet.  results: results.json."""
    table = parquet.read_table(io.BytesIO(candidates), columns=_COLUMNS)
    table = table.filter(table["same_bits_as"].is_null())
    numbers = {
        name: np.asarray(table[name].to_numpy(), dtype=np.float64)
        for name in ("estimate", "std_error", "p_value", "p_adjusted")
    }
    scores = json.loads(results)["diagnostics"]["cohort_z"]
    return WindowTests(
        values=tuple(table["value"].to_pylist()),
        detected=np.asarray(table["detected"].to_numpy(zero_copy_only=False), dtype=bool),
        cohort_z=np.array([np.nan if z is None else z for z in scores]),
        **numbers,
    )


def decided(windows: Sequence[WindowTests], family: Family, alpha: float) -> list[WindowTests]:
    """The windows with what the family detects. Raises QuotaError for more tests than fit."""
    if family is Family.WINDOW or not windows:
        return list(windows)
    p = np.concatenate([one.p_value for one in windows])
    if len(p) > MOST_TESTS:
        raise QuotaError(
            f"{len(p):,} tests in the series; {MOST_TESTS:,} can be corrected together"
        )
    decision = decide(p, np.zeros_like(p), "bh", alpha)
    ends = np.cumsum([len(one.p_value) for one in windows])[:-1]
    parts = zip(np.split(decision.detected, ends), np.split(decision.adjusted, ends), strict=True)
    return [
        WindowTests(
            one.values, one.estimate, one.std_error, one.p_value, adjusted, found, one.cohort_z
        )
        for one, (found, adjusted) in zip(windows, parts, strict=True)
    ]


def level_in_words(family: Family, options: Choices, windows: int, tests: int) -> dict[str, Any]:
    """Sentences on what the level of a schedule means over its windows."""
    alpha = options.alpha
    if family is Family.SERIES:
        text = (
            f"Benjamini and Hochberg's rule over {tests:,} p-values of {windows} windows: of the "
            f"detected (value, window) pairs at most {alpha:g} are false on average. A new window "
            "may change what is detected in earlier ones."
        )
        return {"family": family, "correction": "bh", "alpha": alpha, "text": text}
    every = f"Each window is decided by itself ({options.correction}, {alpha:g})."
    if options.correction == "bonferroni":
        most = min(1.0, alpha * windows)
        every += (
            f" The chance of any false value is at most {alpha:g} in a window, and at most "
            f"{most:g} over the {windows} windows together."
        )
    elif options.correction == "none":
        every += " Nothing is corrected: false values grow with the candidates and the windows."
    else:
        every += (
            f" Of what a window detects at most {alpha:g} is false on average. The chance of any "
            "false value over all windows is not bounded."
        )
    return {"family": family, "correction": options.correction, "alpha": alpha, "text": every}
