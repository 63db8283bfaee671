"""`decode` from end to end: what it finds, what it refuses, and that it is repeatable."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import date
from hashlib import sha256
from itertools import product

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode, metric_candidates
from decoder.errors import CandidatesError, ConvergenceError, DecodeError
from decoder.estimation import estimate as estimators
from decoder.inference.diagnostics import odd_cohorts
from decoder.kinds.run import in_memory, render_page
from decoder.kinds.values import KIND, decoding_result
from decoder.numerics import bit_tensor
from rappor_core.aggregate import Aggregate
from rappor_core.errors import AggregateError
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor

ONE_QUICK = ["cavity", pytest.param("lasso", marks=pytest.mark.long)]
ONE_HOT = rappor(3, 1, 1, 0.5, 0.25, 0.75, encoding="one_hot")


@pytest.fixture
def candidates(values):
    return Candidates.from_strings(values)


RULES = ("bonferroni", "bh", "fdr", "fdr-eb", "none")


@pytest.mark.parametrize(
    ("method", "correction"), [*(("cavity", rule) for rule in RULES), ("lasso", "fdr")]
)
def test_finds_what_is_there(make_aggregate, candidates, values, shares, method, correction):
    known = dict(zip(values, shares.tolist(), strict=True))
    options = DecodeOptions(method=method, correction=correction, true_shares=known)
    decoding = decode(make_aggregate(), candidates, options)
    found = decoding.detected
    assert {row.value for row in found} >= set(values[:9])
    assert [row.share for row in found] == sorted((row.share for row in found), reverse=True)
    for row in found[:9]:
        assert abs(row.share - row.true_share) < 5 * row.std_error
        assert row.low <= row.share <= row.high
    assert decoding.reason is None
    assert 0.8 < decoding.summary.allocated_share < 1.2
    parts = decoding.summary
    assert parts.explained + parts.missing + parts.noise == pytest.approx(1.0)


@pytest.mark.parametrize("method", ONE_QUICK)
def test_the_same_input_gives_the_same_bits(make_aggregate, candidates, method, monkeypatch):
    tables = []
    monkeypatch.setattr(bit_tensor, "_WORTH_A_THREAD", 0)
    for threads in (1, 7):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        tables.append(decode(make_aggregate(), candidates, DecodeOptions(method=method)).candidates)
    for name in ("estimate", "std_error", "p_value", "shrunken", "local_fdr", "selected_low"):
        first = getattr(tables[0], name).tobytes()
        assert all(getattr(table, name).tobytes() == first for table in tables[1:]), name


@pytest.mark.parametrize("method", ONE_QUICK)
def test_nothing_found_has_a_reason(make_aggregate, candidates, shares, method):
    uniform = np.full(len(shares), 1 / len(shares))
    aggregate = make_aggregate(num_reports=1000, shares=uniform)
    options = DecodeOptions(method=method, correction="bonferroni")
    decoding = decode(aggregate, candidates, options)
    assert decoding.detected == ()
    assert decoding.reason.startswith("No value was found: 1,000 reports cannot show shares below")
    assert any("cannot show shares below" in text for text in decoding.warnings)


@pytest.mark.parametrize("method", ONE_QUICK)
def test_a_single_cohort(values, method):
    params = rappor(128, 2, 1, 0.25, 0.25, 0.75)
    shares = np.repeat([0.2, 0.0], [5, 55])
    aggregate, _ = draw_aggregate(values, shares, 50_000, params, np.random.default_rng(2))
    decoding = decode(aggregate, Candidates.from_strings(values), DecodeOptions(method=method))
    assert {row.value.split(" | ")[0] for row in decoding.detected} >= set(values[:5])
    assert any("single cohort" in text for text in decoding.warnings)


@pytest.mark.parametrize("method", ONE_QUICK)
def test_empty_cohorts_are_left_out_and_told(make_aggregate, candidates, params, values, method):
    full = make_aggregate()
    reports = (0, *full.reports_per_cohort[1:])
    counts = ((0,) * params.num_bits, *full.bit_counts[1:])
    decoding = decode(
        replace(full, reports_per_cohort=reports, bit_counts=counts),
        candidates,
        DecodeOptions(method=method),
    )
    assert {row.value for row in decoding.detected} >= set(values[:8])
    assert decoding.summary.empty_cohorts == 1
    assert np.isnan(decoding.diagnostics.cohort_z[0])
    assert any("1 of 32 cohorts have no reports" in text for text in decoding.warnings)


def test_indistinguishable_candidates_are_one_group():
    """One cohort of 32 bits: a string nobody holds sets the bits of a held one 1 time in 512."""
    params = rappor(32, 2, 1, 0.0, 0.1, 0.9)
    many = [f"v{i}" for i in range(100)]
    sets = Candidates.from_strings(many).positions(params)[:, 0, :].astype(int)
    bits = np.sort(sets, axis=1) @ [64, 1]
    alike = next(np.flatnonzero(bits == bit) for bit in bits if (bits == bit).sum() > 1)
    values = [many[i] for i in alike] + [v for i, v in enumerate(many) if i not in alike][:8]
    shares = np.repeat([0.5, 0.0], [2, len(values) - 2])
    aggregate, _ = draw_aggregate(values, shares, 20_000, params, np.random.default_rng(0))
    decoding = decode(aggregate, Candidates.from_strings(values))
    table = decoding.candidates
    assert decoding.summary.num_groups < decoding.summary.num_candidates
    for i, leader in enumerate(table.group):
        assert table.estimate[i] == table.estimate[leader]
    assert any(" | " in row.value for row in decoding.detected)
    assert any("cannot be distinguished" in text for text in decoding.warnings)


def test_one_cohort_of_few_bits_names_nothing():
    """A string that nobody holds sets the bits of a frequent one 1 time in 32: no p is below."""
    params = rappor(8, 2, 1, 0.0, 0.1, 0.9)
    values = [f"v{i}" for i in range(40)]
    shares = np.repeat([0.5, 0.0], [2, 38])
    aggregate, _ = draw_aggregate(values, shares, 20_000, params, np.random.default_rng(0))
    decoding = decode(aggregate, Candidates.from_strings(values[1:]))
    assert not decoding.detected
    assert decoding.candidates.p_value.min() >= 1 / 32 - 1e-6


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_one_bit(share):
    params = rappor(1, 1, 3, 0.5, 0.25, 0.75, encoding="boolean")
    rng, reports = np.random.default_rng(3), np.array([9_000, 11_000, 0])
    ones = rng.binomial(reports, params.p_star + (params.q_star - params.p_star) * share)
    aggregate = Aggregate("on", params, tuple(reports.tolist()), tuple((int(c),) for c in ones))
    decoding = decode(
        aggregate, metric_candidates(aggregate), DecodeOptions(correction="bonferroni")
    )
    table = decoding.candidates
    assert list(table.values) == ["true", "false"]
    assert table.estimate.sum() == pytest.approx(1.0)
    assert abs(table.estimate[0] - share) < 5 * table.std_error[0]
    expected = {"true"} if share == 1.0 else {"false"} if share == 0.0 else {"true", "false"}
    assert {row.value for row in decoding.detected} == expected


def test_repeated_reports_are_bounded_by_definition_and_data(make_aggregate, candidates):
    aggregate = replace(
        make_aggregate(),
        definition={"period": "day", "max_reports_per_period": 2},
        first_day=date(2026, 1, 1),
        last_day=date(2026, 1, 10),
    )
    result = decode(aggregate, candidates, DecodeOptions(repeats=20))
    shown = decode(aggregate, candidates)
    once = decode(aggregate, candidates, DecodeOptions(repeats=1))
    errors = [np.median(d.candidates.std_error) for d in (result, shown, once)]
    assert errors[0] > 1.5 * errors[1]
    assert errors[2] <= errors[1] < 1.3 * errors[2]
    assert result.summary.repetition == 20
    assert 1 <= shown.summary.repetition < 4
    assert any("a repetition of at most" in text for text in shown.warnings)


def test_what_cannot_be_answered_is_refused(params, values, candidates):
    empty = Aggregate("page", params, (0,) * 32, ((0,) * 32,) * 32)
    with pytest.raises(DecodeError, match="'page' has no reports"):
        decode(empty, candidates)
    with pytest.raises(CandidatesError):
        Candidates.from_strings([])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "ridge"}, "method = 'ridge'"),
        ({"correction": "sidak"}, "correction = 'sidak'"),
        ({"alpha": 0.0}, r"alpha = 0\.0"),
        ({"level": 1.0}, r"level = 1\.0"),
        ({"repeats": 0.5}, r"repeats = 0\.5"),
        ({"largest_p": 0.0}, r"largest_p = 0\.0"),
    ],
)
def test_options_name_the_bad_value(wrong, message):
    with pytest.raises(DecodeError, match=message):
        DecodeOptions(**wrong)


@pytest.mark.parametrize("method", ["cavity", "lasso"])
@pytest.mark.parametrize("reports", [(9_000,), (9_000, 0)])
def test_one_cohort_and_one_hash_are_refused(method, reports):
    params = rappor(16, 1, len(reports), 0.0, 0.25, 0.75)
    counts = tuple((n // 3,) * 16 for n in reports)
    listed = Candidates.from_strings(["absent1", "absent2", "absent3"])
    with pytest.raises(DecodeError, match="cannot be told apart from those of unlisted strings"):
        decode(Aggregate("page", params, reports, counts), listed, DecodeOptions(method=method))


def test_cohorts_left_out_are_in_the_manifest(make_aggregate, candidates, params):
    full = make_aggregate()
    made_up = list(full.bit_counts)
    made_up[5] = tuple(full.reports_per_cohort[5] * (i % 2) for i in range(params.num_bits))
    lying = replace(full, bit_counts=tuple(made_up))
    (result,) = [text for text in decode(lying, candidates).warnings if "cohort 5" in text]
    assert "--set without_cohorts=5" in result
    without = decode(lying, candidates, DecodeOptions(without_cohorts=(5,)))
    assert without.warnings == ("1 of 32 cohorts were left out as asked.",)
    assert decoding_result(without).manifest["without_cohorts"] == [5]
    assert without.summary.num_reports == full.num_reports - full.reports_per_cohort[5]
    with pytest.raises(AggregateError, match="cohort 32 is not one of 0 to 31"):
        decode(full, candidates, DecodeOptions(without_cohorts=(32,)))


def test_noiseless_single_answers_have_no_variance():
    params = rappor(1, 1, 2, 0, 0, 1, encoding="boolean")
    aggregate = Aggregate("on", params, (50, 60), ((50,), (60,)))
    decoding = decode(aggregate, metric_candidates(aggregate))
    assert [row.value for row in decoding.detected] == ["true"]
    assert decoding.diagnostics.method == "direct"


def test_more_candidates_than_numbers_are_told(make_aggregate, values):
    aggregate = make_aggregate(params=rappor(8, 2, 4, 0.25, 0.25, 0.75))
    for listed, result in ((values, True), (values[:30], False)):
        warnings = decode(aggregate, Candidates.from_strings(listed)).warnings
        assert any("are read from 32 numbers" in text for text in warnings) is result


def test_visible_shares_are_those_of_the_rule(make_aggregate, shares):
    aggregate = make_aggregate(num_reports=1_000, shares=shares[::-1])
    absent = Candidates.from_strings([f"absent{i}" for i in range(40)])
    decodings = {
        name: decode(aggregate, absent, DecodeOptions(correction=rule, alpha=1e-4, largest_p=p))
        for name, rule, p in (
            ("one", "none", 1.0),
            ("all", "bonferroni", 1.0),
            ("cap", "none", 2.5e-6),
        )
    }
    assert not any(decoding.detected for decoding in decodings.values())
    sizes = {name: decoding.summary.detectable_share for name, decoding in decodings.items()}
    assert sizes["one"] < 0.9 * sizes["all"]
    assert sizes["cap"] == sizes["all"]


def test_an_unconverged_fit_names_nothing(make_aggregate, values, monkeypatch):
    aggregate, listed = make_aggregate(), Candidates.from_strings(values)
    assert decode(aggregate, listed).detected
    fit = estimators.fit_cavity
    monkeypatch.setattr(
        estimators, "fit_cavity", lambda *a, **kw: fit(*a, **kw)._replace(converged=False)
    )
    for correction in ("fdr", "fdr-eb", "bonferroni"):
        decoding = decode(aggregate, listed, DecodeOptions(correction=correction))
        assert not decoding.detected
        assert "No fit converged" in decoding.warnings[0]


OF_THE_SUM = "more than all reports"


@pytest.mark.parametrize("num_reports", [1_000, pytest.param(3_000, marks=pytest.mark.long)])
def test_a_sum_above_1_by_chance_is_no_alarm(num_reports):
    """200 honest draws each; 2 per 1,000 or fewer are alarmed: 4 or more of 200 by chance 1e-3."""
    values, shares = ["light", "dark", "system"], np.array([6, 3, 2]) / 11
    made = [
        draw_aggregate(values, shares, num_reports, ONE_HOT, np.random.default_rng(seed))[0]
        for seed in range(200)
    ]
    decoded = [decode(one, Candidates.from_strings(values)) for one in made]
    assert sum(one.summary.allocated_share > 1.1 for one in decoded) > 3, "the draws show nothing"
    assert sum(OF_THE_SUM in " ".join(one.warnings) for one in decoded) <= 3


def test_a_sum_above_1_beyond_chance_is_told():
    values = ["light", "dark", "system"]
    aggregate = draw_aggregate(
        values, np.array([6, 3, 2]) / 11, 100_000, ONE_HOT, np.random.default_rng(3)
    )[0]
    low, gap = ONE_HOT.p_star, ONE_HOT.q_star - ONE_HOT.p_star
    counts = [round(100_000 * (low + gap * share)) for share in (0.7, 0.4, 0.3)]
    decoding = decode(replace(aggregate, bit_counts=(counts,)), Candidates.from_strings(values))
    assert OF_THE_SUM in " ".join(decoding.warnings)


@pytest.mark.parametrize(("full", "left"), [(True, 0.5), (False, 0.5), (False, 0.9)])
def test_a_partial_fit_says_who_took_no_part(make_aggregate, values, monkeypatch, full, left):
    fit, rows = estimators.fit_cavity, 32 * 32

    def some(*given, **choices):
        return fit(*given, **choices)._replace(full=full, freedom=left * rows)

    monkeypatch.setattr(estimators, "fit_cavity", some)
    decoding = decode(make_aggregate(), Candidates.from_strings(values))
    result = any("took no part" in text for text in decoding.warnings)
    assert result is (left < 0.6 and not full)


COINS = [(0, 0.001, 1), (0.5, 0.75, 0.25)]
SHAPES = list(product((2, 3, 16), (1, 2, 8)))  # k, h
HELD = [f"held{i}" for i in range(5)]
REFUSALS = ("to be told apart by", "is not positive definite", "hashes into 2 bits",
            "in one cohort and set one bit each")  # fmt: skip


def decoded(aggregate, listed, options):
    """The decoding, or the reason why there is none."""
    try:
        return decode(aggregate, Candidates.from_strings(listed), options), ""
    except DecodeError as refusal:
        return None, str(refusal)


@pytest.mark.parametrize("method", ["cavity", pytest.param("lasso", marks=pytest.mark.long)])
@pytest.mark.parametrize("coins", [COINS[0], pytest.param(COINS[1], marks=pytest.mark.long)])
def test_odd_settings_give_numbers_or_named_refusals(coins, method):
    f, p, q = coins
    rng = np.random.default_rng(4)
    for k, h in SHAPES:
        m, total = int(rng.choice([1, 4])), int(rng.choice([1, 3, 40, 10**6, 10**9]))
        params = rappor(k, h, m, f, p, q)
        shares = rng.dirichlet(np.full(5, 0.5))
        aggregate, _ = draw_aggregate(HELD, shares, total, params, rng)
        listed = [*HELD, *(f"wrong{i}" for i in range(rng.integers(0, 60)))][rng.integers(0, 4) :]
        rule = rng.choice(["bonferroni", "bh", "fdr", "fdr-eb", "none"])
        options = DecodeOptions(method=method, correction=str(rule))
        decoding, refusal = decoded(aggregate, listed, options)
        if decoding is None:
            assert any(words in refusal for words in REFUSALS), refusal
            continue
        table = decoding.candidates
        for column in ("estimate", "std_error", "low", "high", "shrunken", "z", "p_adjusted"):
            assert np.isfinite(getattr(table, column)).all(), (k, h, m, total, column)
        assert (table.std_error > 0).all()
        assert (table.low <= table.high).all()
        assert render_page(KIND, in_memory(decoding_result(decoding), "decode"))


def test_a_candidate_of_most_rows_is_decoded():
    params = rappor(3, 3, 1, 0.25, 0.001, 0.46)
    rng = np.random.default_rng(0)
    for _ in range(8):
        aggregate, _ = draw_aggregate(["v0"], np.ones(1), 1_000, params, rng)
        table = decode(aggregate, Candidates.from_strings(["v0"])).candidates
        assert np.isfinite([table.estimate[0], table.std_error[0], table.p_value[0]]).all()


def test_filters_that_are_always_full_are_refused():
    params = rappor(2, 64, 1, 0, 0.25, 0.75)
    with pytest.raises(DecodeError, match="64 hashes into 2 bits set every bit"):
        decode(Aggregate("x", params, (9,), ((5, 6),)), Candidates.from_strings(["a"]))


def test_counts_beyond_what_doubles_can_solve_are_refused():
    params = rappor(16, 1, 2, 0, 0.25, 0.75)
    aggregate, _ = draw_aggregate(HELD, np.full(5, 0.2), 2**52, params, np.random.default_rng(1))
    with pytest.raises(ConvergenceError, match="the arithmetic of doubles failed"):
        decode(aggregate, Candidates.from_strings(HELD))


def test_odd_cohorts_are_judged_at_a_common_level():
    """3.09 has a tail of 1 in 1,000, 4.26 one of 1 in 100,000: that of 100 cohorts."""
    for count, level in ((1, 3.09), (100, 4.26)):
        scores = np.zeros(count)
        scores[-1] = level + 0.02
        assert odd_cohorts(scores).tolist() == [count - 1]
        scores[-1] = level - 0.02
        assert odd_cohorts(scores).tolist() == []


WORDS = [f"word{i}" for i in range(700)]
FILES = ("results.csv", "candidates.csv", "results.json", "report.html")


@pytest.fixture
def inputs(tmp_path):
    params = rappor(32, 2, 32, 0.25, 0.25, 0.75)
    shares = np.repeat([0.05, 0.0], [20, 680])
    rng = np.random.default_rng(3)
    aggregate, _ = draw_aggregate(WORDS, shares, 100_000, params, rng, metric="page")
    (tmp_path / "page.json").write_text(aggregate.to_json())
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    return tmp_path


def digests(inputs, method, threads):
    """SHA-256 of the files of a decode whose libraries may use so many threads."""
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    source = ["--aggregate", inputs / "page.json", "--candidates", inputs / "words.txt"]
    out = inputs / f"{method}-{threads}"
    command = [sys.executable, "-m", "rappor_cli", "decode", *source, "--method", method, "-o", out]
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    subprocess.run(list(map(str, command)), env=environment, check=True, capture_output=True)
    return {name: sha256((out / name).read_bytes()).hexdigest() for name in FILES}


METHODS = ("cavity", "lasso")


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_files_do_not_depend_on_threads(inputs, method):
    assert digests(inputs, method, 1) == digests(inputs, method, 2)
