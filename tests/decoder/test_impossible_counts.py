"""Counts that no values give are reported, and honest ones hardly ever."""

from dataclasses import replace

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode
from decoder.inference import diagnostics
from decoder.model.counts import same_positions
from decoder.model.noise import RandomString
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.experiments import poisoning
from simulations.experiments.poisoning import held_shares
from simulations.populations.draws import draw_aggregate, draw_listed
from tests.decoder.params_support import rappor

HONEST_RUNS, MAX_ALARMS = 400, 3  # at .001 each, more than 3 of 400 have chance 8e-4
REPORTS = 200_000
SMALL = rappor(16, 2, 8, 0.5, 0.5, 0.75)
KINDS = {
    "filter": SMALL,
    "p above q": SMALL.replace(mechanism=TwoRoundMechanism.rappor(0.5, 0.75, 0.5)),
    "own bits": RapporParams(8, 1, 1, SMALL.mechanism, "one_hot"),
    "boolean": RapporParams(1, 1, 1, SMALL.mechanism, "boolean"),
    "symbols": RapporParams(4, 1, 8, TwoRoundMechanism.symbols(4, 3.0, 2.0), "symbol"),
}


def result(aggregate: Aggregate) -> diagnostics.Impossible | None:
    reports = np.array(aggregate.reports_per_cohort, dtype=float)
    return diagnostics.impossible_counts(
        aggregate.params, reports, np.array(aggregate.bit_counts, float), 1.0
    )


@pytest.mark.parametrize(
    "kind",
    [pytest.param(one, marks=pytest.mark.long) if one == "p above q" else one for one in KINDS],
)
def test_honest_reports_seldom_alarm(kind: str) -> None:
    """At most `FALSE_ALARM` of decodings: no more than 3 of 400, whatever values are held."""
    params, rng = KINDS[kind], np.random.default_rng(1)
    values = 2 if kind == "boolean" else 8
    alarms = 0
    for run in range(HONEST_RUNS):
        listed = Candidates.from_strings(f"v{run}-{i}" for i in range(values))
        shares = rng.dirichlet(np.full(values, 0.3))
        if kind in ("own bits", "boolean"):
            k = params.num_bits
            chance = shares[:k] * (params.q_star - params.p_star) + params.p_star
            counts = rng.binomial(5_000, chance)[None]
            reports = np.array([5_000.0])
            alarms += diagnostics.impossible_counts(params, reports, counts, 1.0) is not None
        else:
            aggregate, _ = draw_listed(listed.positions(params), shares, 5_000, params, rng)
            alarms += result(aggregate) is not None
    assert diagnostics.FALSE_ALARM == 1e-3
    assert alarms <= MAX_ALARMS


def alarms_of_one_value(params: RapporParams, cohorts: int, reports: int, bits: int) -> int:
    """How many of 400 decodings alarm where all hold a value of the first bits."""
    rng, k = np.random.default_rng(5), params.num_bits
    chances = np.where(np.arange(k) < bits, params.q_star, params.p_star)
    every = np.full(cohorts, float(reports))
    drawn = (rng.binomial(reports, chances, size=(cohorts, k)) for _ in range(HONEST_RUNS))
    return sum(
        diagnostics.impossible_counts(params, every, one.astype(float), 1.0) is not None
        for one in drawn
    )


@pytest.mark.parametrize(
    ("scheme", "size", "bits"), [("boolean", 1, 0), ("bloom", 2, 1), ("bloom", 4, 1)]
)
def test_few_bits_are_judged_by_their_noise(scheme: str, size: int, bits: int) -> None:
    params = RapporParams(size, size, 1, TwoRoundMechanism.rappor(0.0, 0.5, 0.99), scheme)
    assert alarms_of_one_value(params, 1, 5_000, bits) <= MAX_ALARMS


@pytest.mark.parametrize("reports", [5, 20])
def test_few_reports_with_few_wrong_bits_seldom_alarm(reports: int) -> None:
    """A wrong bit in a hundred, cohorts of 5 or 20 reports: counts are no normal ones."""
    params = RapporParams(8, 2, 32, TwoRoundMechanism.rappor(0.0, 0.01, 0.99), "bloom")
    assert alarms_of_one_value(params, 32, reports, 2) <= MAX_ALARMS


@pytest.mark.parametrize(
    ("way", "fraction"),
    [(poisoning.BARE, 0.003), (poisoning.BARE, 0.03), (poisoning.BEST, 0.1),
     (poisoning.HIDDEN, 0.1), (poisoning.ONE, 0.03)],
)  # fmt: skip
def test_forgeries_that_no_values_explain_are_told(way: str, fraction: float) -> None:
    """The attacks of `rappor simulate poisoning`; crude ones from .3 % of the reports on."""
    rng, params = np.random.default_rng(2), poisoning.PARAMS
    listed = Candidates.from_strings(f"v{i}" for i in range(len(held_shares())))
    positions, forged = listed.positions(params), round(fraction * REPORTS)
    honest, _ = draw_listed(positions, held_shares(), REPORTS - forged, params, rng)
    best = poisoning.best_bits(honest, listed) if way == poisoning.BEST else None
    added, _ = poisoning.forgeries(way, forged, positions[poisoning.TARGET], best, rng)
    found = result(poisoning.joined(honest, *added))
    assert found.forged > 0
    if way == poisoning.ONE:
        assert found.cohorts in ((), (0,))
    else:
        assert found.forged <= fraction * 1.05  # a lower bound


def test_a_lie_within_the_protocol_is_not_told() -> None:
    rng, params = np.random.default_rng(3), poisoning.PARAMS
    listed = Candidates.from_strings(f"v{i}" for i in range(len(held_shares())))
    positions = listed.positions(params)
    honest, _ = draw_listed(positions, held_shares(), REPORTS, params, rng)
    added, _ = poisoning.forgeries(poisoning.LIE, 20_000, positions[poisoning.TARGET], None, rng)
    assert result(poisoning.joined(honest, *added)) is None


def test_the_decoding_says_it_with_a_remedy() -> None:
    rng, params = np.random.default_rng(4), KINDS["filter"]
    listed = Candidates.from_strings(f"v{i}" for i in range(8))
    positions = listed.positions(params)
    honest, _ = draw_listed(positions, np.full(8, 1 / 8), 50_000, params, rng)
    clean = decode(honest, listed, DecodeOptions(correction="bonferroni"))
    assert not any("No values give" in text for text in clean.warnings)
    counts = np.array(honest.bit_counts)
    reports = np.array(honest.reports_per_cohort)
    for j in range(len(reports)):  # bare bits of one value, a twentieth as many reports
        counts[j, positions[0, j]] += reports[j] // 20
    crude = replace(
        honest,
        reports_per_cohort=tuple((reports + reports // 20).tolist()),
        bit_counts=tuple(map(tuple, counts.tolist())),
    )
    warnings = decode(crude, listed, DecodeOptions(correction="bonferroni")).warnings
    assert "No values give such counts" in warnings[0]
    assert "--each day" in warnings[0]


SHAPES = [(8, 2, 1), (16, 2, 16), (256, 2, 1), (32, 2, 8), (32, 1, 4), (2, 1, 8), (8, 2, 128)]


def distinct(positions: np.ndarray, num_bits: int) -> np.ndarray:
    group = same_positions(positions, num_bits)
    return positions[group == np.arange(len(group))]


@pytest.mark.parametrize("shape", SHAPES)
def test_lists_that_are_hashed_are_not_alike(shape: tuple[int, int, int]) -> None:
    """Four short lists of each shape and a long one; the limit is six standard errors above 1.2."""
    k, h, m = shape
    rng = np.random.default_rng(k)
    for size in (2, 10, 100, diagnostics.MAX_COMPARED + 50):
        for _ in range(4 if size <= 100 else 1):
            positions = distinct(rng.integers(0, k, (size, m, h)), k)
            assert diagnostics.alike_candidates(positions, RandomString(k, h)) is None


@pytest.mark.parametrize("how", ["families", "few bits", "every cohort"])
def test_a_map_that_is_not_hashed_is_noticed(how: str) -> None:
    """Ways in which .11 to .41 of what fdr found was wrong (docs/evaluation/lists.md)."""
    rng, k, m = np.random.default_rng(2), 32, 16
    positions = rng.integers(0, k, (240, m, 2))
    taken = rng.random(positions.shape) < 0.6
    if how == "families":
        positions = np.where(taken, rng.integers(0, k, (40, m, 2)).repeat(6, axis=0), positions)
    elif how == "few bits":
        positions = np.where(taken, positions % 3, positions)
    else:
        positions = np.where(taken[:, :, :1], positions[:, :1], positions)
    found = diagnostics.alike_candidates(positions, RandomString(k, 2))
    assert found.ratio > 2
    assert found.first < found.second
    pair = [{(c, b) for c in range(m) for b in positions[i, c]} for i in found[1:3]]
    assert len(pair[0] & pair[1]) == found.shared > 2 * found.expected


def test_a_decoding_with_a_foreign_map_says_so() -> None:
    params = rappor(32, 2, 16, 0.0, 0.225, 0.775)
    values = [f"value-{i}" for i in range(60)]
    rng = np.random.default_rng(4)
    aggregate, _ = draw_aggregate(values, np.r_[0.6, np.full(59, 0.4 / 59)], 50_000, params, rng)
    hashed = Candidates.from_strings(values)
    assert not any("random hashing" in one for one in decode(aggregate, hashed).warnings)
    tensor = rng.integers(0, 5, (60, 16, 2)).astype(np.int16)
    foreign = Candidates(hashed.values, tensor=tensor)
    (said,) = (one for one in decode(aggregate, foreign).warnings if "random hashing" in one)
    assert "value-" in said
    assert "of two strings 1.94 are expected" in said


DEVICES, EACH = 4_000, 10


def repeated(params, values, shares, rng, reports):
    """Devices with a permanent response each, which they report so many times."""
    listed = Candidates.from_strings(values)
    cohort = rng.integers(0, params.num_cohorts, DEVICES)
    held = listed.positions(params)[rng.choice(len(values), DEVICES, p=shares), cohort]
    bits = np.zeros((DEVICES, params.num_bits + 1), dtype=bool)
    bits[np.arange(DEVICES)[:, None], held] = True
    lie = rng.random((DEVICES, params.num_bits))
    permanent = np.where(lie < 0.25, lie < 0.125, bits[:, :-1])
    counts = np.zeros((params.num_cohorts, params.num_bits), dtype=int)
    np.add.at(counts, cohort, rng.binomial(reports, np.where(permanent, 0.75, 0.25)))
    sizes = reports * np.bincount(cohort, minlength=params.num_cohorts)
    return Aggregate("t", params, tuple(sizes.tolist()), tuple(map(tuple, counts.tolist())))


@pytest.mark.parametrize("seed", range(3))
def test_undeclared_repeats_are_named_and_allowed_for(params, values, shares, seed):
    aggregate = repeated(params, values, shares, np.random.default_rng(seed), EACH)
    decoding = decode(aggregate, Candidates.from_strings(values))
    said = " ".join(decoding.warnings)
    assert "repeated reports that are not declared" in said
    assert "not on the list weigh" not in said
    assert 0.6 * EACH < decoding.summary.repetition < 1.6 * EACH
    table = decoding.candidates
    assert ((table.low <= shares) & (shares <= table.high)).mean() > 0.85


def test_large_missing_values_are_told(make_aggregate, params, values, shares):
    decoding = decode(make_aggregate(), Candidates.from_strings(values[1:]))
    assert decoding.diagnostics.unlisted_squared == pytest.approx(0.24**2, rel=0.3)
    said = " ".join(decoding.warnings)
    assert "misses something large" in said
    assert "not on the list weigh" in said
    assert "nobody declared" not in said
    assert said.count("the list may miss frequent ones") == 1
    assert "These values explain only 7" in said
    assert decoding.summary.repetition == 1
    once = repeated(params, values, shares, np.random.default_rng(9), 1)
    assert decode(once, Candidates.from_strings(values)).summary.repetition == 1


@pytest.mark.parametrize(("listed", "missed"), [(slice(0, 400), False), (slice(0, 20), True)])
def test_a_list_is_said_to_miss_values_only_where_the_rest_is_not_on_it(
    make_aggregate, listed, missed
):
    """Few of 200 falling shares are found: with all on the list it misses nothing."""
    held = 1 / np.arange(1, 201)
    names = [f"v{number}" for number in range(400)]
    aggregate = make_aggregate(60_000, values=names[:200], shares=held / held.sum())
    decoding = decode(aggregate, Candidates.from_strings(names[listed]))
    assert 0 < decoding.summary.allocated_share < 0.7
    assert any("may miss frequent ones" in one for one in decoding.warnings) == missed
