"""A ledger in a file: a charge is on the disk before noise can be drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from publication.errors import BudgetError
from publication.mechanisms import BudgetLedger, Charge, make_ledger, open_ledger, read_ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_ledger(tmp_path / "ledger.json", Charge(1.0, 1e-6))
    return tmp_path / "ledger.json"


def test_a_charge_is_on_the_disk_when_spend_returns(path: Path) -> None:
    with open_ledger(path) as ledger:
        assert isinstance(ledger, BudgetLedger)
        ledger.spend("one", Charge(0.4, 1e-7))
        assert read_ledger(path).entries == [("one", Charge(0.4, 1e-7))]
        ledger.spend_on_parts("two", {"a": Charge(0.1), "b": Charge(0.2)})
        with pytest.raises(BudgetError, match="would pass"):
            ledger.spend("three", Charge(0.5))
    assert read_ledger(path).spent_epsilon == pytest.approx(0.6)
    with open_ledger(path) as again, pytest.raises(BudgetError, match="would pass"):
        again.spend("four", Charge(0.41))


def test_a_charge_that_cannot_be_written_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with open_ledger(path) as ledger:
        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(BudgetError, match="cannot be written"):
            ledger.spend("one", Charge(0.4))
        assert ledger.spent_epsilon == 0


def test_one_process_at_a_time(path: Path) -> None:
    with open_ledger(path), pytest.raises(BudgetError, match=r"in use.*ledger\.json\.lock"):
        open_ledger(path).__enter__()
    with pytest.raises(ZeroDivisionError), open_ledger(path):
        raise ZeroDivisionError
    with open_ledger(path) as ledger:
        assert ledger.spent_epsilon == 0


def test_a_ledger_is_never_begun_again(path: Path) -> None:
    with pytest.raises(BudgetError, match="never begun again"):
        make_ledger(path, Charge(5.0))


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"limit": {"epsilon": -1, "delta": 0}},
        {"limit": {"epsilon": 1}},
        {"entries": [{"purpose": "x", "epsilon": "many", "delta": 0}]},
        {"entries": 3},
    ],
)
def test_what_is_no_ledger_is_refused(path: Path, change: dict[str, object]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BudgetError), open_ledger(path):
        pass
    assert not path.with_name("ledger.json.lock").exists()


def test_a_file_that_is_not_there_or_not_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="cannot be read"):
        read_ledger(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("epsilon = 1")
    with pytest.raises(BudgetError, match="not a ledger"):
        read_ledger(tmp_path / "text.json")
