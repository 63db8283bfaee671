"""Tables and policies for the tests of releases."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np

from disclosure.release import CellTable, Release, ReleasePolicy

DAY = date(2026, 11, 2)
ISSUED = date(2026, 12, 1)
POLICY = ReleasePolicy(
    "stats@example.org", "public", 1000, 0.01, Decimal("0.001"), strata=("region", "slot")
)


def policy(**changes: Any) -> ReleasePolicy:
    return replace(POLICY, **changes)


def table(shares: dict[str, float], error: float = 0.004, **changes: Any) -> CellTable:
    """Cells with these shares; detected where two errors above 0."""
    estimate = np.array(list(shares.values()), dtype=float)
    std_error = np.full(len(shares), error)
    low, high = estimate - 1.96 * std_error, estimate + 1.96 * std_error
    fields: dict[str, Any] = {
        "metric": "places", "strata": (), "first_day": DAY, "last_day": DAY, "num_reports": 10_000,
        "cells": list(shares), "estimate": estimate, "std_error": std_error, "low": low,
        "high": high, "detected": estimate > 2 * std_error, "max_correlation": 0.0,
    }  # fmt: skip
    return CellTable(**fields | changes)


def shown(made: Any, index: int = 0) -> dict[str, float | str]:
    """Estimate, or symbol, by cell."""
    one = made.tables[index]
    rows = zip(one.cells, one.estimate.tolist(), one.symbols, strict=True)
    return {cell: symbol or value for cell, value, symbol in rows}


FOUR = {"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}


def region(name: str, reports: int, shares: dict[str, float] = FOUR, **changes: Any) -> CellTable:
    return table(shares, strata=(("region", name),), num_reports=reports, **changes)


def as_published(made: Release) -> Release:
    """The release as read back, with the digest of a manifest."""
    return replace(made, digest="ab" * 32)
