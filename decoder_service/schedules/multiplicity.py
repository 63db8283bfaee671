"""The level over the windows of a schedule, from the p-values of stored results.

`window`: each window is decided by itself, as its result was. `series`: Benjamini and Hochberg's
rule over the p-values of all windows together.
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

from decoder.inference.multiple_testing import decide
from decoder.typing import Flags, Floats
from decoder_service.jobs.specs import Choices
from decoder_service.shell.errors import QuotaError

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
