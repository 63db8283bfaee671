"""The findings of a schedule over its windows, from the p-values of stored results.

Family `window`: each window is decided by itself, as its result was. `series`: Benjamini and
Hochberg's rule over the p-values of all windows together.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from pyarrow import parquet
from sqlalchemy.orm import Session

from decoder.inference.multiple_testing import decide
from decoder.typing import Flags, Floats
from decoder_service.jobs.specs import Choices, JobSpec
from decoder_service.results.rows import RESULT_FILES
from decoder_service.shell.errors import QuotaError
from decoder_service.shell.models import ResultRow, WindowRow, WindowState

MOST_VALUES = 1000  # of a series that is shown
MOST_TESTS = 20_000_000
_FILES = ("candidates.parquet", "results.json")
_NUMBERS = ("estimate", "std_error", "p_value", "p_adjusted")


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
    tests = {}
    for one in windows:
        if one.state == WindowState.DONE and one.result_id is not None:
            files = RESULT_FILES.all(db, one.result_id, _FILES)
            if len(files) == len(_FILES):
                tests[one] = read_tests(*(files[name] for name in _FILES))
    return tests


def view_of(db: Session, family: Family, options: Choices, windows: list[WindowRow]) -> SeriesView:
    """The findings in the windows of one specification.

    options: of the schedule now; those of a result count where there is one.  Raises QuotaError.
    """
    results = [one.result_id for one in windows if one.result_id is not None]
    result = db.get(ResultRow, results[-1]) if results else None
    spec = json.loads(result.manifest).get("spec") if result else None
    if spec is not None:
        options = JobSpec.model_validate(spec).options
    read = load_tests(db, windows)
    tests = dict(zip(read, decided(list(read.values()), family, options.alpha), strict=True))
    held = [one.values[i] for one in tests.values() for i in np.flatnonzero(one.detected)]
    names = list(dict.fromkeys(held))
    shown = set(names[:MOST_VALUES])
    level = level_in_words(family, options, len(tests), sum(len(t.values) for t in tests.values()))
    found = [item for window, one in tests.items() for item in _rows(window, one, shown)]
    return SeriesView(windows, found, level, len(names) - len(shown))


def _rows(window: WindowRow, tests: WindowTests, shown: set[str]) -> list[dict[str, Any]]:
    rows = []
    for i, value in enumerate(tests.values):
        if value in shown:
            numbers = {name: float(getattr(tests, name)[i]) for name in _NUMBERS}
            row: dict[str, Any] = {
                "value": value,
                "first_day": window.first_day,
                "last_day": window.last_day,
            }
            row |= {name: one if np.isfinite(one) else None for name, one in numbers.items()}
            rows.append(row | {"detected": bool(tests.detected[i]), "result_id": window.result_id})
    return rows


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
    table = parquet.read_table(
        io.BytesIO(candidates), columns=["value", *_NUMBERS, "detected", "same_bits_as"]
    )
    table = table.filter(table["same_bits_as"].is_null())
    numbers = {name: np.asarray(table[name].to_numpy(), dtype=np.float64) for name in _NUMBERS}
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
    parts = zip(
        windows, np.split(decision.detected, ends), np.split(decision.adjusted, ends), strict=True
    )
    return [replace(one, detected=found, p_adjusted=adjusted) for one, found, adjusted in parts]


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
