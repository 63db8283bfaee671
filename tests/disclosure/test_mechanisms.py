"""Noise for trusted counters: exact probabilities, errors of series against their oracles."""

import json
import math
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from disclosure.errors import BudgetError, TableError
from disclosure.series import (
    BudgetLedger,
    Charge,
    add_geometric,
    add_laplace,
    bound_contributions,
    make_ledger,
    open_ledger,
    perturb_by_fourier_laplace,
    read_ledger,
)
from tests.disclosure.geometric_law import geometric_probability

FALSE_ALARM = 1e-6  # of each statistical test here, the seed being fixed


def test_the_geometric_law_keeps_epsilon() -> None:
    """The thesis prints its normalizer upside down: with a = exp(-1) that sums to 4.68."""
    z = np.arange(-200, 201)
    p = geometric_probability(z, 1, 1.0)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    a = math.exp(-1)
    assert p[200] == pytest.approx((1 - a) / (1 + a))
    assert ((1 + a) / (1 - a) * a ** np.abs(z)).sum() == pytest.approx(4.68, abs=0.01)
    assert np.abs(np.diff(np.log(p))) == pytest.approx(np.ones(400))


@pytest.mark.parametrize("scale", [0.9, 1.0, 1.1])
def test_geometric_noise_has_its_law_and_no_neighbor(scale: float) -> None:
    rng = np.random.default_rng(1)
    noise = add_geometric(np.zeros(200_000, dtype=np.int64), 3, 1.5, rng)
    z = np.arange(-8, 9)
    p = geometric_probability(z, 3, 1.5 * scale)
    observed = np.array([(noise == value).sum() for value in z])
    outside = len(noise) - observed.sum()
    expected = np.append(p, 1 - p.sum()) * len(noise)
    found = stats.chisquare(np.append(observed, outside), expected).pvalue
    assert (found > FALSE_ALARM) == (scale == 1.0)


@pytest.mark.parametrize("scale", [0.9, 1.0, 1.1])
def test_laplace_noise_has_its_law(scale: float) -> None:
    rng = np.random.default_rng(2)
    laplace = add_laplace(np.zeros(50_000), 130.0, 0.5, rng)
    p = stats.kstest(laplace, stats.laplace(scale=260 * scale).cdf).pvalue
    assert (p > FALSE_ALARM) == (scale == 1.0)


def test_the_ledger_adds_releases() -> None:
    ledger = BudgetLedger(Charge(1.0, 1e-5))
    ledger.spend("total", Charge(0.3))
    ledger.spend("by region", Charge(0.4, 1e-6))
    assert ledger.spent_epsilon == pytest.approx(0.7)
    assert ledger.spent_delta == 1e-6
    with pytest.raises(BudgetError, match=r"series: a total of epsilon 1\.1"):
        ledger.spend("series", Charge(0.4))
    with pytest.raises(BudgetError, match="delta"):
        ledger.spend("series", Charge(0.1, 1e-5))
    assert len(ledger.entries) == 2
    ledger.spend("rest", Charge(0.3))


SERIES = 50 + 20 * np.sin(np.arange(96) / 12) + np.random.default_rng(0).normal(0, 2, 96)


@pytest.mark.parametrize("n", [1, 2, 5, 96, 97])
def test_all_coefficients_without_noise_give_the_series_back(n: int) -> None:
    series = np.random.default_rng(1).normal(size=n)
    rng = np.random.default_rng(0)
    assert perturb_by_fourier_laplace(series, n, 1e-9, 1.0, rng) == pytest.approx(series, abs=1e-5)


def test_errors_of_series_have_their_law() -> None:
    """The tail left out, and 2 (kept sensitivity / epsilon)^2: known to 1.3 % by 4,000 draws."""
    rng, kept, sensitivity = np.random.default_rng(4), 8, 2.0
    without = perturb_by_fourier_laplace(SERIES, kept, 1e-9, 0.8, np.random.default_rng(5))
    tail = ((without - SERIES) ** 2).sum()
    made = [perturb_by_fourier_laplace(SERIES, kept, sensitivity, 0.8, rng) for _ in range(4000)]
    found = np.mean([((m - SERIES) ** 2).sum() for m in made])
    spread = 2 * (kept * sensitivity / 0.8) ** 2
    assert found == pytest.approx(tail + spread, rel=0.065)
    assert found != pytest.approx(tail + 1.1**2 * spread, rel=0.065)


def test_contributions_are_bounded() -> None:
    persons = np.repeat([1, 2, 3], [10, 4, 2])
    slots = np.array([*range(10), 0, 0, 0, 1, 5, 5])
    counts, sensitivity = bound_contributions(persons, slots, 12, 3, np.random.default_rng(0))
    assert sensitivity == math.sqrt(3)
    assert counts.shape == (12,)
    assert counts.sum() == 3 + 2 + 1
    assert counts.max() <= 3
    everything, _ = bound_contributions(persons, slots, 12, 12, np.random.default_rng(0))
    assert everything.tolist() == [2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 0, 0]
    none, _ = bound_contributions(persons[:0], slots[:0], 3, 1, np.random.default_rng(0))
    assert none.tolist() == [0, 0, 0]


def test_kept_slots_of_persons_are_random() -> None:
    rng = np.random.default_rng(0)
    drawn = sum(bound_contributions(np.zeros(4), np.arange(4), 4, 1, rng)[0] for _ in range(2000))
    assert stats.chisquare(drawn).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: add_laplace(SERIES, 0.0, 1.0, rng),
        lambda rng: add_laplace(SERIES, 1.0, 0.0, rng),
        lambda rng: add_geometric(np.zeros(3, dtype=np.int64), 1, float("inf"), rng),
        lambda rng: Charge(1.0, 1.0),
        lambda rng: perturb_by_fourier_laplace(SERIES, 97, 1.0, 1.0, rng),
        lambda rng: perturb_by_fourier_laplace(SERIES, 0, 1.0, 1.0, rng),
        lambda rng: bound_contributions(np.zeros(1), np.array([4]), 4, 1, rng),
        lambda rng: bound_contributions(np.zeros(1), np.array([0]), 4, 0, rng),
    ],
)
def test_what_cannot_be_private_is_refused(call) -> None:
    with pytest.raises((BudgetError, TableError)):
        call(np.random.default_rng(0))


def test_ten_tenths_fit_in_one() -> None:
    ledger = BudgetLedger(Charge(1.0))
    for _ in range(10):
        ledger.spend("tenth", Charge(0.1))
    with pytest.raises(BudgetError):
        ledger.spend("more", Charge(1e-6))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_ledger(tmp_path / "ledger.json", Charge(1.0, 1e-6))
    return tmp_path / "ledger.json"


def test_charges_are_on_disk_when_spend_returns(path: Path) -> None:
    with open_ledger(path) as ledger:
        ledger.spend("one", Charge(0.4, 1e-7))
        assert read_ledger(path).entries == [("one", Charge(0.4, 1e-7))]
        ledger.spend("two", Charge(0.2))
        with pytest.raises(BudgetError, match="would exceed"):
            ledger.spend("three", Charge(0.5))
    assert read_ledger(path).spent_epsilon == pytest.approx(0.6)
    with open_ledger(path) as again, pytest.raises(BudgetError, match="would exceed"):
        again.spend("four", Charge(0.41))


def test_one_process_at_a_time(path: Path) -> None:
    with open_ledger(path), pytest.raises(BudgetError, match=r"in use.*ledger\.json\.lock"):
        open_ledger(path).__enter__()
    with pytest.raises(ZeroDivisionError), open_ledger(path):
        raise ZeroDivisionError
    with open_ledger(path) as ledger:
        assert ledger.spent_epsilon == 0


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"limit": {"epsilon": -1, "delta": 0}},
        {"limit": {"epsilon": 1}},
        {"entries": [{"purpose": "x", "epsilon": "many", "delta": 0}]},
        {"entries": 3},
        {"limit": {"epsilon": 0, "delta": 0}},
    ],
)
def test_what_is_no_ledger_is_refused(path: Path, change: dict[str, object]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BudgetError, match=r"ledger\.json is "), open_ledger(path):
        pass
    assert not path.with_name("ledger.json.lock").exists()


def test_files_missing_or_not_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="cannot be read"):
        read_ledger(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("[]")
    with pytest.raises(BudgetError, match="not a ledger: Input should be an object"):
        read_ledger(tmp_path / "text.json")


def test_ledgers_are_the_same_by_another_name(path: Path) -> None:
    """A charge by a symbolic link was written next to the ledger, and its lock was another one."""
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


def test_one_of_two_beginning_ledgers_is_refused(path, monkeypatch) -> None:
    with open_ledger(path) as ledger:
        ledger.spend("one", Charge(0.4))
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(BudgetError, match="never restarted"):
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
    with open_ledger(path) as ledger:
        with pytest.raises(BudgetError, match="cannot be written"):
            ledger.spend("one", Charge(0.4))
        assert ledger.spent_epsilon == 0
    with pytest.raises(BudgetError, match="cannot be written"):
        make_ledger(path.with_name("new.json"), Charge(1.0))
    assert [one.name for one in path.parent.iterdir()] == [path.name]
