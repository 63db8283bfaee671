"""Synthetic rows of decoded estimates: unbiased, and intervals over sets that hold the truth."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from decoder import DecodeOptions, decode
from decoder.candidates.lists import metric_candidates
from decoder.kinds.pair import KIND, joint_result
from decoder.kinds.run import write_result
from decoder.kinds.values import write_outputs
from decoder.pairs.decoding import JointTable, decode_pairs
from decoder.progress import silent
from disclosure.errors import PolicyError, TableError
from disclosure.release import CellTable, ReleasePolicy, build_release, read_source
from disclosure.rows.decoded import combine, combine_shares, synthesize_decoded
from disclosure.rows.estimates import DecodedCells, draw_shares, nearest_shares, slot_estimates
from disclosure.rows.publishing import admit_estimates, read_estimates
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from tests.decoder.test_pairs import SHARES, drawn, metric
from tests.metric_texts import declaration

CELLS = tuple((row, column) for row in "abc" for column in "xy")
LAW = np.array([0.3, 0.2, 0.2, 0.15, 0.1, 0.05])


def estimates_of(law: np.ndarray, error: float, reports: int = 5_000) -> DecodedCells:
    """Errors of randomized reports alongside those of a sample."""
    sampling = (np.diag(law) - np.outer(law, law)) / reports
    center = np.eye(len(law)) - 1 / len(law)
    covariance = sampling + error**2 * center
    return DecodedCells(("row", "column"), CELLS, law, covariance, reports)


def at_least(known: DecodedCells, min_low: float) -> DecodedCells:
    """The cells with this lower end or more, of 95 %, and a pool of the others."""
    return known.without_small(known.estimate - 1.96 * np.sqrt(known.variances) >= min_low)


def slot_map(slot: str, shares: list[float], error: float, reports: int) -> CellTable:
    """Three cells, each detected where its lower end of 95 % is above 0."""
    estimate = np.array(shares)
    low = estimate - 1.96 * error
    cells = ["c1", "c2", "c3"]
    return CellTable(
        "places", (("slot", slot),), *DAYS[:2], reports, cells, estimate, np.full(3, error),
        low, estimate + 1.96 * error, low > 0,
    )  # fmt: skip


def coverage(error: float, repeats: int, num_sets: int, num_rows: int) -> dict[str, float]:
    """How often the interval over the sets holds the true share, by question."""
    rng, known = np.random.default_rng(1), estimates_of(LAW, error)
    values, vectors = np.linalg.eigh(known.covariance)
    questions = {
        "a row": ({"row": ["a"]}, 0.5),
        "a cell": ({"row": ["a"], "column": ["x"]}, 0.3),
        "a block": ({"row": ["a", "b"], "column": ["y"]}, 0.35),
    }
    hits = dict.fromkeys(questions, 0)
    for _ in range(repeats):
        noise = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=len(LAW)))
        seen = replace(known, estimate=LAW + noise)
        sets = synthesize_decoded(seen, num_sets=num_sets, num_rows=num_rows, rng=rng)
        for name, (where, true) in questions.items():
            found = combine_shares(sets, where, seen.num_reports)
            hits[name] += found.low <= true <= found.high
    return {name: count / repeats for name, count in hits.items()}


@pytest.mark.parametrize("num_rows", [300, pytest.param(1_000, marks=pytest.mark.long)])
def test_intervals_over_sets_have_their_coverage(num_rows: int) -> None:
    """In 150 repeats at 95 %: below 87 % in 1 of 10,000 runs (exact binomial), for each."""
    found = coverage(0.01, 150, 20, num_rows)
    assert min(found.values()) >= 0.87


def test_a_table_drawn_as_exact_is_oversure() -> None:
    """The rival that must fail: sets that all come from the estimates themselves."""
    rng, known = np.random.default_rng(2), estimates_of(LAW, 0.02)
    hits = 0
    for _ in range(100):
        noise = rng.multivariate_normal(np.zeros(6), known.covariance, method="eigh")
        exact = replace(known, estimate=LAW + noise, covariance=np.zeros(6))
        sets = synthesize_decoded(exact, num_sets=5, num_rows=5_000, rng=rng)
        found = combine_shares(sets, {"row": ["a"]}, 5_000)
        hits += found.low <= 0.5 <= found.high
    assert hits < 75


def test_sets_spread_as_the_estimates_covariance() -> None:
    """Far from zero nothing is projected: 4,000 draws, each entry within 6 standard errors."""
    known = estimates_of(LAW, 0.005)
    shares = draw_shares(known, 4_000, np.random.default_rng(0))
    assert shares.sum(axis=1) == pytest.approx(np.ones(4_000))
    assert shares.min() >= 0
    error = np.sqrt(known.variances / 4_000)
    assert (abs(shares.mean(axis=0) - LAW) < 6 * error).all()
    found = np.cov(shares.T)
    deviation = np.sqrt(np.outer(known.variances, known.variances) / 4_000)
    assert (abs(found - known.covariance) < 10 * deviation).all()


def pair_cells(table: JointTable) -> DecodedCells:
    cells = tuple((row, column) for row in table.rows for column in table.columns)
    return DecodedCells(
        table.of, cells, table.estimate.ravel(), table.covariance, table.num_reports
    )


@pytest.mark.long
@pytest.mark.statistical
def test_intervals_over_decoded_sets_hold_the_truth() -> None:
    """60 decodings, 9 questions each, 95 %: a question below 83 % in 1 of 1,000 runs (binomial)."""
    rng, reports = np.random.default_rng(0), 5_000
    hits = []
    for seed in range(60):
        table = decode_pairs(drawn(metric(), SHARES, reports, seed))
        sets = synthesize_decoded(pair_cells(table), num_sets=20, rng=rng)
        of_seed = []
        for i, row in enumerate(table.rows):
            where = {table.of[0]: [row]}
            asked = [(where, SHARES[i].sum())]
            for j, column in enumerate(table.columns):
                asked.append(({**where, table.of[1]: [column]}, SHARES[i, j]))
            for question, true in asked:
                found = combine_shares(sets, question, reports)
                of_seed.append(found.low <= true <= found.high)
        hits.append(of_seed)
    assert np.mean(hits, axis=0).min() >= 0.83
    assert 0.92 <= np.mean(hits) <= 0.985


def test_slots_keep_their_weights_and_rows_follow_nobody() -> None:
    night = slot_map("night", [0.7, 0.31, -0.01], 0.02, 3_000)
    day = slot_map("day", [0.2, 0.3, 0.5], 0.02, 1_000)
    known = slot_estimates([night, day])
    assert known.num_reports == 4_000
    shares = draw_shares(known, 50, np.random.default_rng(0))
    assert shares[:, :3].sum(axis=1) == pytest.approx(np.full(50, 0.75))
    sets = synthesize_decoded(known, num_sets=2, num_rows=400, rng=np.random.default_rng(0))
    assert list(sets[0]) == ["slot", "cell"]
    small = at_least(known, 0.1)
    assert [cell for cell in small.cells if cell[0] == "night"] == [
        ("night", "c1"), ("night", "*"),
    ]  # fmt: skip
    assert draw_shares(small, 20)[:, :2].sum(axis=1) == pytest.approx(np.full(20, 0.75))
    with pytest.raises(TableError, match="twice"):
        slot_estimates([night, night])
    with pytest.raises(TableError, match="no maps"):
        slot_estimates([])


def test_small_cells_are_pooled_with_their_covariance() -> None:
    known = estimates_of(LAW, 0.01)
    small = at_least(known, 0.14)
    assert small.cells == (("a", "x"), ("a", "y"), ("b", "x"), ("*", "*"))
    assert small.estimate == pytest.approx([0.3, 0.2, 0.2, 0.3])
    of_pool = np.array([0, 0, 0, 1, 1, 1.0])
    assert small.variances[3] == pytest.approx(of_pool @ known.covariance @ of_pool)
    assert at_least(known, 0.001).cells == CELLS
    by_variance = at_least(replace(known, covariance=known.variances), 0.14)
    assert by_variance.covariance.shape == (4,)
    with pytest.raises(TableError, match="no cell may be shown"):
        at_least(known, 0.9)
    starred = replace(known, cells=(("*", "x"), *CELLS[1:]))
    with pytest.raises(TableError, match="reserved for cells that are not shown"):
        at_least(starred, 0.14)


POLICY = ReleasePolicy(
    "o", "public", 1_000, 0.02, Decimal("0.001"), reports_rounding=100, strata=("slot",)
)
DAYS = (date(2026, 11, 2), date(2026, 11, 8), date(2026, 12, 1))


def test_a_slot_of_few_reports_gives_no_rows() -> None:
    numbers = {"night": 1_040, "evening": 960, "day": 8_050}
    maps = [slot_map(slot, [0.5, 0.3, 0.2], 0.01, n) for slot, n in numbers.items()]
    known = slot_estimates(maps)
    found = admit_estimates(known, POLICY, DAYS[2])
    assert {cell[0] for cell in found.cells} == {"night", "day"}
    assert found.num_reports == 9_000
    of_night = np.array([cell[0] == "night" for cell in found.cells])
    assert found.estimate[of_night].sum() == pytest.approx(1_000 / 9_000)  # rounded down, too
    assert found.estimate.sum() == pytest.approx(1)
    night = found.cells.index(("night", "c1"))
    assert found.variances[night] == pytest.approx((0.01 / 9) ** 2)
    two = slot_estimates(maps[:2])
    with pytest.raises(PolicyError, match="slot by cell: 1040, 960 reports, at least 1041 needed"):
        admit_estimates(two, replace(POLICY, min_reports=1_041), DAYS[2])
    found = admit_estimates(two, replace(POLICY, min_reports=1_040), DAYS[2])
    assert found.num_reports == 1_000


def test_a_pool_hides_what_it_holds() -> None:
    """One small cell alone, under another name, is shown with its number: it takes the next."""
    law = np.array([0.3, 0.25, 0.2, 0.15, 0.095, 0.005])
    known = estimates_of(law, 0.004, 100_000)
    small = at_least(known, 0.02)
    assert small.cells == (("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("*", "*"))
    assert small.estimate[-1] == pytest.approx(0.1)
    two = DecodedCells(
        ("v",), (("true",), ("false",)), np.array([0.999, 0.001]), np.full(2, 1e-6), 99
    )
    with pytest.raises(TableError, match="no cell"):
        at_least(two, 0.02)


def test_the_threshold_is_met_by_the_rounded_number() -> None:
    law = np.array([0.3, 0.2, 0.2, 0.15, 0.1, 0.05])
    known = replace(estimates_of(law, 0.01, 90_000), covariance=np.full(6, 0.0103**2))
    dated = replace(known, first_day=DAYS[0], last_day=DAYS[1], detected=np.full(6, True),
                    low=law - 1.96 * 0.0103)  # fmt: skip
    coarse = replace(POLICY, min_low=0.025, rounding=Decimal("0.01"))
    assert len(admit_estimates(dated, replace(POLICY, min_low=0.025), DAYS[2]).cells) == 6
    assert len(admit_estimates(dated, coarse, DAYS[2]).cells) == 5


NAMES = [f"v{number}" for number in range(40)]
FORTY = declaration(
    "value", "category", categories=NAMES, fallback=NAMES[0], mechanism="l-osue",
    num_cohorts=1, epsilon_infinity=4.0, epsilon_one=2.0, max_memoized_values=2,
)  # fmt: skip


def decoded_categories(
    folder: Path, shares: np.ndarray, reports: int, options: DecodeOptions | None = None
) -> Path:
    """Forty categories with these shares, decoded from counts that fit them exactly."""
    one = parse_metrics(FORTY).metrics["value"]
    gap = one.params.q_star - one.params.p_star
    ones = tuple(np.rint(reports * (one.params.p_star + gap * shares)).astype(int).tolist())
    counts = Aggregate(
        "value", one.params, (reports,), (ones,), one.params_id, *DAYS[:2], one.to_dict()
    )
    write_outputs(decode(counts, metric_candidates(counts), options), folder)
    return folder


@pytest.mark.parametrize("min_low", [0.002, 0.005, 0.01, 0.02, 0.04])
def test_rows_withhold_what_their_table_withholds(tmp_path: Path, min_low: float) -> None:
    """The second category is 2.4 errors above 0: above a level of 95 %, not one of forty."""
    shares = np.array([0.187, 0.012, 0.011, 0.03, 0.06, *np.full(35, 0.02)])
    options = DecodeOptions(correction="bonferroni")
    folder = decoded_categories(tmp_path / "decoded", shares, 54_000, options)
    rules = replace(POLICY, min_low=min_low)
    (made,) = build_release(read_source(folder), rules, DAYS[2]).tables
    of_table = {cell for cell, symbol in zip(made.cells, made.symbols, strict=True) if not symbol}
    known = read_estimates(folder)
    of_rows = {cell for (cell,) in admit_estimates(known, rules, DAYS[2]).cells}
    assert known.estimate[1] / np.sqrt(known.variances[1]) == pytest.approx(2.4, abs=0.1)
    assert NAMES[1] not in of_rows
    assert of_rows - {"*"} == of_table


def test_rows_need_the_reports_of_their_table(tmp_path: Path) -> None:
    shares = np.array([0.5, 0.4, *np.full(38, 0.1 / 38)])
    folder = decoded_categories(tmp_path / "decoded", shares, 1_100)
    rules = replace(POLICY, reports_rounding=300)
    (made,) = build_release(read_source(folder), rules, DAYS[2]).tables
    known = read_estimates(folder)
    assert (made.reports, admit_estimates(known, rules, DAYS[2]).num_reports) == (900, 900)
    more = replace(rules, min_reports=1_101)
    (made,) = build_release(read_source(folder), more, DAYS[2]).tables
    assert made.withheld
    with pytest.raises(PolicyError, match="value: 1100 reports, at least 1101 needed"):
        admit_estimates(known, more, DAYS[2])


def test_joint_cells_keep_their_own_level(tmp_path: Path) -> None:
    options = DecodeOptions(level=0.999)
    counts = replace(drawn(metric(), SHARES, 1_200, 10), first_day=DAYS[0], last_day=DAYS[1])
    table = decode_pairs(counts, options)
    result = joint_result(table, options)
    write_result(result, KIND, "decode", tmp_path / "pairs", silent)
    rules = replace(POLICY, min_low=0.05)
    found = admit_estimates(read_estimates(tmp_path / "pairs"), rules, DAYS[2])
    low = table.cells.low.ravel()
    names = [(row, column) for row in table.rows for column in table.columns]
    large = {cell for cell, end in zip(names, low.tolist(), strict=True) if end >= 0.05}
    at_95 = table.estimate - 1.96 * table.cells.std_error
    assert len(large) < int((at_95 >= 0.05).sum())
    assert {*found.cells} - {("*", "*")} == large


def test_slots_are_judged_within_themselves() -> None:
    maps = [slot_map("night", [0.9, 0.05, 0.05], 0.01, 1_000),
            slot_map("day", [0.9, 0.05, 0.05], 0.01, 99_000)]  # fmt: skip
    found = admit_estimates(slot_estimates(maps), POLICY, DAYS[2])
    assert len(found.cells) == 6
    undetected = replace(maps[0], detected=np.array([True, True, False]))
    known = slot_estimates([undetected, maps[1]])
    found = admit_estimates(known, POLICY, DAYS[2])
    assert [cell for cell in found.cells if cell[0] == "night"] == [
        ("night", "c1"), ("night", "*"),
    ]  # fmt: skip
    with pytest.raises(TableError, match="do not say which cells are detected"):
        admit_estimates(replace(known, detected=None), POLICY, DAYS[2])


def test_nearest_laws_move_known_shares_less() -> None:
    values, variances = np.array([0.6, 0.5, -0.2]), np.array([1e-6, 1.0, 1.0])
    found = nearest_shares(values, variances, 1.0)
    assert found == pytest.approx([0.6, 0.4, 0.0], abs=1e-5)
    grid = np.linspace(0, 1, 101)
    a, b = (part.ravel() for part in np.meshgrid(grid, grid))
    others = np.column_stack([a, b, 1 - a - b])
    others = others[others[:, 2] >= 0]
    cost = ((others - values) ** 2 / variances).sum(axis=1)
    assert ((found - values) ** 2 / variances).sum() <= cost.min() + 1e-9


def test_the_combining_rule_is_raghunathans() -> None:
    q, u = np.array([0.4, 0.5, 0.6]), np.array([0.001, 0.002, 0.003])
    found = combine(q, u, rows_by_report=0.1)
    assert found.estimate == pytest.approx(0.5)
    assert found.std_error**2 == pytest.approx((1 + 1 / 3) * 0.01 - 0.002)
    assert found.freedom == pytest.approx(2 * (1 - 0.002 / (4 / 3 * 0.01)) ** 2)
    same = combine(np.full(3, 0.5), u, rows_by_report=0.1)  # b below u by chance
    assert same.std_error**2 == pytest.approx(0.002 * 0.1)
    zero = combine(np.zeros(2), np.zeros(2), rows_by_report=1.0)
    assert (zero.low, zero.high) == (0, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: combine(np.array([0.5]), np.array([0.1]), rows_by_report=1), "two sets"),
        (lambda: combine(np.zeros(2), np.array([0.1, -1]), rows_by_report=1), "below 0"),
        (lambda: combine(np.zeros(2), np.zeros(2), rows_by_report=1, level=1), "level 1"),
        (lambda: combine_shares([{"x": ["a"]}] * 2, {"y": ["a"]}, 9), "not in the rows"),
        (lambda: synthesize_decoded(estimates_of(LAW, 0.01), num_sets=1), "two sets or more"),
        (lambda: replace(estimates_of(LAW, 0.01), estimate=LAW[:5]), "do not match estimates"),
        (lambda: replace(estimates_of(LAW, 0.01), estimate=LAW * np.nan), "not finite"),
        (lambda: replace(estimates_of(LAW, 0.01), num_reports=0), "0 reports"),
        (lambda: estimates_of(LAW, 0.01, 9).without_few(np.array([True]), 10), "enough reports: 9"),
        (lambda: replace(estimates_of(LAW, 0.01), columns=("a", "a")), "named twice"),
    ],
)
def test_what_cannot_be_used_is_refused(call, words: str) -> None:
    with pytest.raises(TableError, match=words):
        call()
