"""`benchmarks/series.py`: the parts that need a file of New York, on a made-up crowd."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
EMPTY = 138  # cells; the new crowd is in the last of them


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("series")

    def shares_of(_: Path, places: object) -> np.ndarray:
        shares = np.ones(len(places.finest) - 1)  # type: ignore[attr-defined]
        shares[:EMPTY] = 0
        return shares / shares.sum()

    monkeypatch.setattr(module, "shares_of", shares_of)
    return module


@pytest.mark.long
def test_changes_of_series_are_counted(series: ModuleType) -> None:
    """The part asked for names that changes of maps had no more, and no test ran it."""
    found = next(series.changes(Path(), 20_000, 1, 1))
    assert 0.8 < found.ours[0] < 0.97
    assert "a new cell of 5 % found in 1 of 1" in found.note
    assert found.note.endswith(", 0 of them of the wrong sign")


def test_false_flags_are_counted(series: ModuleType) -> None:
    found = next(series.drift(Path(), 5_000, 1, 0))
    assert "in 1 series" in found.note
