"""A ledger in a file: a charge is on the disk before noise can be drawn."""

import json
import os
import stat
from pathlib import Path

import pytest

from disclosure.errors import BudgetError
from disclosure.series import (
    BudgetLedger,
    Charge,
    make_ledger,
    open_ledger,
    read_ledger,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_ledger(tmp_path / "ledger.json", Charge(1.0, 1e-6))
    return tmp_path / "ledger.json"


def test_charges_are_on_disk_when_spend_returns(path: Path) -> None:
    with open_ledger(path) as ledger:
        assert isinstance(ledger, BudgetLedger)
        ledger.spend("one", Charge(0.4, 1e-7))
        assert read_ledger(path).entries == [("one", Charge(0.4, 1e-7))]
        ledger.spend("two", Charge(0.2))
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


def test_files_missing_or_not_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="cannot be read"):
        read_ledger(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("[]")
    with pytest.raises(BudgetError, match="not a ledger: Input should be an object"):
        read_ledger(tmp_path / "text.json")
    (tmp_path / "text.json").write_text("epsilon = 1")
    with pytest.raises(BudgetError, match="not a ledger"):
        read_ledger(tmp_path / "text.json")


def test_ledgers_are_the_same_by_another_name(path: Path) -> None:
    """A charge by a symbolic link was written beside the ledger, and its lock was another one."""
    other = path.with_name("other.json")
    other.symlink_to(path)
    with open_ledger(other) as ledger:
        with pytest.raises(BudgetError, match="in use"):
            open_ledger(path).__enter__()
        ledger.spend("one", Charge(0.4))
    assert other.is_symlink()
    assert read_ledger(path).spent_epsilon == read_ledger(other).spent_epsilon == 0.4
    other.unlink()
    other.hardlink_to(path)
    with pytest.raises(BudgetError, match="hard link"), open_ledger(path):
        pass
    other.unlink()
    other.symlink_to(path.with_name("later.json"))
    with pytest.raises(BudgetError, match="exists"):
        make_ledger(other, Charge(5.0))


def test_one_of_two_beginning_ledgers_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second found no file, and wrote over what was charged since."""
    with open_ledger(path) as ledger:
        ledger.spend("one", Charge(0.4))
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(BudgetError, match="never begun again"):
        make_ledger(path, Charge(5.0))
    assert read_ledger(path).spent_epsilon == 0.4


def test_a_ledger_that_was_left_takes_no_charge(path: Path) -> None:
    with open_ledger(path) as early:
        pass
    with open_ledger(path) as ledger:
        ledger.spend("one", Charge(0.4))
        with pytest.raises(BudgetError, match="closed"):
            early.spend("two", Charge(0.1))
    assert read_ledger(path).entries == [("one", Charge(0.4))]


def test_file_names_are_on_disk_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a power cut may bring back the file as it was before the charge."""
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file)), real(file)))
    with open_ledger(path) as ledger:
        ledger.spend("one", Charge(0.4))
    assert [stat.S_ISDIR(one.st_mode) for one in synced] == [False, True]


def test_a_failure_leaves_no_piece_of_a_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with open_ledger(path) as ledger, pytest.raises(BudgetError, match="cannot be written"):
        ledger.spend("one", Charge(0.4))
    with pytest.raises(BudgetError, match="cannot be written"):
        make_ledger(path.with_name("new.json"), Charge(1.0))
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_ledger_messages_name_the_file(path: Path) -> None:
    wrong = {"limit": {"epsilon": 0, "delta": 0}}
    path.write_text(json.dumps(json.loads(path.read_text()) | wrong))
    with pytest.raises(BudgetError, match=r"ledger\.json is not a ledger: epsilon > 0"):
        read_ledger(path)
