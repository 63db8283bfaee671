"""Synthetic rows of a table in clear: what they cost is exactly what is charged."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from decoder.numerics.optimization import project_simplex
from disclosure.errors import BudgetError, DomainError, TableError
from disclosure.files import read_columns
from disclosure.rows import private_histogram
from disclosure.rows.domain import Categories, EqualBins, RowDomain, load_row_domain
from disclosure.rows.private_histogram import (
    NoisyHistogram,
    Synthesizer,
    draw_rows,
    estimate_histogram,
    partition,
    perturb,
    project,
)
from disclosure.series import BudgetLedger, Charge, add_geometric, geometric_variance
from disclosure.series.noise import _threshold, system_geometric
from tests.disclosure.geometric_law import geometric_probability

FALSE_ALARM = 1e-6  # of each statistical test here, the seed being fixed


def ledger(epsilon: float = 10.0) -> BudgetLedger:
    return BudgetLedger(Charge(epsilon))


class ScriptedNoise:
    """A generator whose geometric noise is given, drawing by drawing; it adds up log P."""

    def __init__(self, noise: list[np.ndarray]) -> None:
        self.left, self.log_probability, self._first = list(noise), 0.0, True

    def geometric(self, success: float, shape: tuple[int, ...]) -> np.ndarray:
        self._first = not self._first
        if self._first:  # the second half of a two-sided draw
            return np.zeros(shape, dtype=np.int64)
        drawn = self.left.pop(0).reshape(shape)
        rate = -math.log1p(-success)
        self.log_probability += float(np.log(geometric_probability(drawn, 1, rate)).sum())
        return drawn


class LargestAlone:
    """Groups the largest cell alone: a partition that depends on what it sees."""

    def partition(self, noisy: np.ndarray, expected: np.ndarray, epsilon: float) -> np.ndarray:
        self.blocks = np.zeros(noisy.shape, dtype=np.int64)
        self.blocks[np.unravel_index(np.argmax(noisy), noisy.shape)] = 1
        return self.blocks


SMALL = RowDomain({"x": Categories(("a", "b", "c"))})
PAIR = RowDomain({"x": Categories(("a", "b", "c")), "y": Categories(("d", "e"))})
EPSILON = 0.9


@pytest.mark.parametrize("method", ["dpcocgen", "baseline"])
@pytest.mark.parametrize("row", [("a", "d"), ("b", "e")])
def test_neighbors_give_outputs_within_epsilon(method, row, monkeypatch) -> None:
    """Exact, for every output: to each noise belongs one that gives the neighbor's output.

    Noise less the added row in what is counted (cells, columns, groups) maps the draws of one table
    one to one on those of the other; log probabilities differ by epsilon at most, and somewhere.
    """
    rng, grouping = np.random.default_rng(4), LargestAlone()
    monkeypatch.setattr(private_histogram, "partition", grouping.partition)
    table = {"x": ["a", "b", "b"], "y": ["d", "d", "e"]}
    more = {
        name: [*column, value] for (name, column), value in zip(table.items(), row, strict=True)
    }
    added = PAIR.histogram(more) - PAIR.histogram(table)
    is_grouped, largest = method == "dpcocgen", 0.0
    for _ in range(300):
        noise = [rng.integers(-6, 7, size) for size in [(3, 2), (3,), (2,), (2,)]]
        runs = [ScriptedNoise(noise)]
        first = estimate(table, method, runs[0])
        shifts = [added, added.sum(axis=1), added.sum(axis=0)]
        if is_grouped:
            shifts.append(np.bincount(grouping.blocks.ravel(), added.ravel()).astype(np.int64))
        runs.append(ScriptedNoise([n - s for n, s in zip(noise, shifts, strict=False)]))
        assert (estimate(more, method, runs[1]) == first).all()
        assert bool(runs[1].left) != is_grouped
        largest = max(largest, abs(runs[0].log_probability - runs[1].log_probability))
    assert largest == pytest.approx(EPSILON)


def estimate(table: dict[str, list[str]], method: Synthesizer, noise: Any) -> np.ndarray:
    return estimate_histogram(table, PAIR, EPSILON, ledger(), method=method, rng=noise).counts


def test_parts_of_epsilon_are_spent_once() -> None:
    domain = RowDomain({"x": Categories(("a", "b")), "y": Categories(("c", "d", "e"))})
    table = {"x": ["a", "b"], "y": ["c", "e"]}
    spent = ledger(1.0)
    rates: list[tuple[float, int]] = []

    class Watched:
        def geometric(self, success: float, shape: tuple[int, ...]) -> np.ndarray:
            rates.append((-math.log1p(-success), math.prod(shape)))
            return np.zeros(shape, dtype=np.int64)

    watched: Any = Watched()
    estimate_histogram(table, domain, 0.8, spent, method="dpcocgen", rng=watched)
    assert spent.spent_epsilon == pytest.approx(0.8)
    drawn = rates[::2]
    assert [size for _, size in drawn[:3]] == [6, 2, 3]
    assert sum(rate for rate, _ in drawn) == pytest.approx(0.8)  # one cell, both columns, one group


def test_a_spent_ledger_stops_before_any_noise() -> None:
    class Never:
        def geometric(self, success: float, shape: tuple[int, ...]) -> np.ndarray:
            raise AssertionError("noise was drawn")

    spent = ledger(0.5)
    for method in ("baseline", "dpcocgen"):
        with pytest.raises(BudgetError, match="would exceed the limit"):
            estimate_histogram({"x": ["a"]}, SMALL, 0.6, spent, method=method, rng=Never())  # type: ignore[arg-type]
    assert spent.spent_epsilon == 0


@pytest.mark.parametrize("scale", [0.9, 1.0, 1.1])
@pytest.mark.parametrize("rate", [0.02, 0.5, 3.0])
def test_system_noise_has_its_law_and_no_neighbor(rate: float, scale: float) -> None:
    drawn = system_geometric(rate, (100_000,), np.random.default_rng(7).bytes)
    a = math.exp(-rate * scale)
    edges = np.unique(np.floor(np.array([0.0, 0.3, 0.7, 1.2, 2.0, 3.0, 4.0]) / rate))
    below = 1 - a**edges  # P(G < edge)
    expected = np.diff(np.append(below, 1.0)) * len(drawn)
    observed = np.histogram(drawn, bins=[*edges, np.inf])[0]
    found = stats.chisquare(observed, expected).pvalue
    assert (found > FALSE_ALARM) == (scale == 1.0)


def test_production_noise_is_fresh_as_stated() -> None:
    """The mean of 40,000 squares: 6 standard errors are 7 %."""
    zeros = np.zeros(40_000, dtype=np.int64)
    first, second = (add_geometric(zeros, 1, 0.3) for _ in range(2))
    assert (first != second).any()
    assert np.var(first) == pytest.approx(geometric_variance(1, 0.3), rel=0.07)
    law = geometric_probability(np.arange(-400, 401), 1, 0.3)
    assert (law * np.arange(-400, 401) ** 2).sum() == pytest.approx(geometric_variance(1, 0.3))
    with pytest.raises(BudgetError, match="below 1e-12"):
        add_geometric(zeros, 1, 1e-13)


def test_projection_is_that_of_the_decoder() -> None:
    values = np.random.default_rng(0).normal(size=200)
    assert project(values, 3.0) == pytest.approx(project_simplex(values, 3.0))
    assert project(values, 0.0).tolist() == [0.0] * 200


def test_trees_find_blocks_and_leave_noise() -> None:
    rng, epsilon = np.random.default_rng(1), 0.5
    counts = np.zeros((12, 10, 8))
    counts[np.ix_([1, 5, 9], [2, 3], [0, 7])] = 100.0
    noisy = perturb(counts.astype(np.int64), epsilon, rng)
    ones = np.ones(counts.shape)
    blocks = partition(noisy, ones, epsilon)
    assert blocks.shape == counts.shape
    held = set(blocks[counts > 0].ravel().tolist())
    assert not held & set(blocks[counts == 0].ravel().tolist())
    assert blocks.max() < 60
    empty = perturb(np.zeros(counts.shape, dtype=np.int64), epsilon, rng)
    assert partition(empty, ones, epsilon).max() < 0.05 * counts.size


def test_what_independent_columns_explain_is_one_block() -> None:
    """Counts in proportion to what is expected of them leave nothing to split."""
    expected = np.multiply.outer([500.0, 50, 5], [0.6, 0.3, 0.1])
    blocks = partition(3 * expected, expected, 1.0)
    assert blocks.max() == 0
    assert partition(3 * expected, np.ones((3, 3)), 1.0).max() > 0


def test_large_epsilons_give_nearly_the_table() -> None:
    rng = np.random.default_rng(0)
    domain = RowDomain({"plan": Categories(("basic", "pro")), "age": EqualBins(0, 99, 10)})
    plan = rng.choice(["basic", "pro"], 4000)
    age = np.where(plan == "pro", rng.integers(30, 60, 4000), rng.integers(0, 100, 4000))
    table = {"plan": plan.tolist(), "age": age.astype(str).tolist(), "name": ["x"] * 4000}
    for method in ("baseline", "dpcocgen"):
        found = estimate_histogram(table, domain, 8.0, ledger(), method=method, rng=rng)
        rows = draw_rows(found, domain, rng=rng)
        assert list(rows) == ["plan", "age"]
        assert abs(len(rows["plan"]) - 4000) < 20
        assert abs(found.counts - domain.histogram(table)).max() < 40
        domain.histogram(rows)  # every value is of the domain


def test_small_tables_are_drawn_despite_noise() -> None:
    table = {"x": ["a"]}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found = estimate_histogram(table, SMALL, 0.01, ledger(), rng=rng)
        assert found.counts.sum() > 0
        assert len(draw_rows(found, SMALL, 5, rng)["x"]) == 5


def test_bins_hold_every_number_once() -> None:
    for ends in ((17, 90, 10), (0, 6, 7), (-5, 5, 3), (0, 1, 1)):
        bins = EqualBins(*ends)
        numbers = [str(value) for value in range(round(bins.low), round(bins.high) + 1)]
        codes = bins.codes(numbers)
        assert (np.diff(codes) >= 0).all()
        assert np.bincount(codes, minlength=bins.size).all()
        drawn = bins.draw(np.repeat(np.arange(bins.size), 50), np.random.default_rng(0))
        assert bins.codes(drawn).tolist() == np.repeat(np.arange(bins.size), 50).tolist()
        assert set(drawn) == set(numbers) or len(numbers) > 50
    real = EqualBins(0.0, 1.0, 4, whole=False)
    assert real.codes(["0", "0.24", "0.5", "1"]).tolist() == [0, 0, 2, 3]
    assert real.codes(real.draw(np.array([0, 3]), np.random.default_rng(0))).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EqualBins(0, 10, 12), "more bins than whole numbers"),
        (lambda: EqualBins(0.5, 10, 2), "whole low and high"),
        (lambda: EqualBins(3, 3, 1), "low < high"),
        (lambda: EqualBins(0, 10**400, 5), "are needed"),
        (lambda: EqualBins(0, 10**15, 1_000), "too many for exact bins"),
        (lambda: Categories(("a", "a")), "a value is repeated"),
        (lambda: RowDomain({}), "no columns"),
        (lambda: RowDomain({str(i): EqualBins(0, 99, 100) for i in range(4)}), " exceed"),
        (lambda: SMALL.histogram({"x": ["z"]}), "'x': value 'z' is not declared"),
        (lambda: EqualBins(0, 9, 2).codes(["10"]), "'10' is not in 0 to 9"),
        (lambda: EqualBins(0, 9, 2).codes(["1.5"]), "not whole"),
        (lambda: EqualBins(0, 9, 2).codes(["many"]), "not a number"),
    ],
)
def test_what_cannot_be_used_is_refused(make, words: str) -> None:
    with pytest.raises((DomainError, TableError), match=words):
        make()


def test_a_domain_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "domain.toml"
    path.write_text('[columns]\nplan = ["a", "b"]\nage = { low = 0, high = 9, bins = 5 }\n')
    assert load_row_domain(path).shape == (2, 5)
    for text, words in (
        ("[columns]\nage = { low = 0, bins = 5 }", "age.bins.high: Field required"),
        ("[columns]\nage = { low = 0, high = 9, bins = 2.5 }", "bins = 2.5: Input should be a"),
        ("missing = 'ND'\n[columns]\na = ['x']", "missing: Unexpected keyword"),
        ("[columns", "domain.toml"),
    ):
        path.write_text(text)
        with pytest.raises(DomainError, match=words):
            load_row_domain(path)


def test_narrow_bins_of_large_numbers_give_numbers_within() -> None:
    for low, high in ((1_234_567.5, 1_234_568.5), (1 / 3, 2 / 3), (-1e-9, 1e-9)):
        bins = EqualBins(low, high, 8, whole=False)
        codes = np.repeat(np.arange(8), 500)
        drawn = bins.draw(codes, np.random.default_rng(0))
        assert (bins.codes(drawn) == codes).mean() > 0.98
        assert len(set(drawn)) > 500


def test_an_epsilon_that_leaves_no_noise_is_refused() -> None:
    spent = ledger(1000.0)
    for epsilon, method, words in (
        (50.0, "baseline", "above 40"),
        (100.0, "dpcocgen", "above 40"),
        (3e-12, "dpcocgen", "below 1e-12"),
    ):
        with pytest.raises(BudgetError, match=words):
            estimate_histogram({"x": ["a"]}, SMALL, epsilon, spent, method=method)
    assert not spent.entries
    assert system_geometric(40.0, (3,)).tolist() == [0, 0, 0]


def test_noise_probabilities_are_within_the_stated_error() -> None:
    """Sums over the digits of a number: what rounding and the last digit leave out."""
    for rate in (1e-6, 0.02, 0.9, 5.0, 40.0):
        off, digit = 0.0, 0
        while rate * 2.0**digit < 700:
            exact = 1 / (1 + Decimal(rate * 2.0**digit).exp())
            off += abs(float(exact - Decimal(_threshold(rate * 2.0**digit)) / 2**64))
            digit += 1
        assert 2 * off < 2**-46


def test_rows_beyond_all_memory_are_refused() -> None:
    found = NoisyHistogram(np.array([1e12, 0, 0]), 1.0, 3)
    for wanted in (None, 10**12):
        with pytest.raises(TableError, match="exceed 100,000,000 values"):
            draw_rows(found, SMALL, wanted)


def test_blank_lines_of_one_column_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("x\na\n\nb\n")
    with pytest.raises(TableError, match="line 3 is empty"):
        read_columns(path, ["x"])
    path.write_text("x,y\na,d\n\nb,e\n")
    assert read_columns(path, ["x"]) == {"x": ["a", "b"]}


@pytest.mark.parametrize("method", ["dpcocgen", "baseline"])
@pytest.mark.parametrize("rows", [1, 1000])
def test_epsilons_of_noise_alone_are_refused_uncharged(method: Synthesizer, rows: int) -> None:
    """By domain and epsilon alone: more rows than memory were drawn, or refused once charged."""
    domain = RowDomain({"a": EqualBins(0, 99, 50), "b": EqualBins(0, 99, 50)})
    table = {"a": ["5"] * rows, "b": ["7"] * rows}
    ledger = BudgetLedger(Charge(1))
    for epsilon in (1e-6, 1e-9):
        with pytest.raises(TableError, match=r"2,500 combinations.*Nothing was charged"):
            estimate_histogram(table, domain, epsilon, ledger, method=method)
    assert ledger.spent_epsilon == 0
    draw_rows(estimate_histogram(table, domain, 1e-4, ledger, method=method), domain)
    assert ledger.spent_epsilon == 1e-4
