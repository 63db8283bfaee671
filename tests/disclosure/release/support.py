"""Tables and policies for the tests of releases."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np

from disclosure.release import CellTable, ReleasePolicy

DAY = date(2026, 11, 2)
ISSUED = date(2026, 12, 1)
POLICY = ReleasePolicy(
    owner="stats@example.org",
    audience="public",
    min_reports=1000,
    min_low=0.01,
    rounding=Decimal("0.001"),
    strata=("region", "slot"),
)


def policy(**changes: Any) -> ReleasePolicy:
    return replace(POLICY, **changes)


def table(shares: dict[str, float], error: float = 0.004, **changes: Any) -> CellTable:
    """Cells with these shares; detected where two errors above 0."""
    estimate = np.array(list(shares.values()), dtype=float)
    std_error = np.full(len(shares), error)
    fields: dict[str, Any] = {
        "metric": "places",
        "strata": (),
        "first_day": DAY,
        "last_day": DAY,
        "num_reports": 10_000,
        "cells": list(shares),
        "estimate": estimate,
        "std_error": std_error,
        "low": estimate - 1.96 * std_error,
        "high": estimate + 1.96 * std_error,
        "detected": estimate > 2 * std_error,
        "max_correlation": 0.0,
    }
    return CellTable(**fields | changes)


def shown(made: Any, index: int = 0) -> dict[str, float | str]:
    """Estimate, or symbol, by cell."""
    one = made.tables[index]
    rows = zip(one.cells, one.estimate.tolist(), one.symbols, strict=True)
    return {cell: symbol or value for cell, value, symbol in rows}
