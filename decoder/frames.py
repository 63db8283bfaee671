"""Results as pandas tables, where pandas is installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from decoder.errors import OutputError


def to_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """Return rows as a pandas.DataFrame. Raises OutputError if pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise OutputError("pandas is not installed: pip install pandas") from error
    return pandas.DataFrame([dict(row) for row in rows], columns=list(columns))
