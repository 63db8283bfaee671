"""Flows of a made-up city: detected flows, coverage of intervals, errors and warnings."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from decoder.errors import DecodeError
from decoder.flows import decoding as decoding_module
from decoder.flows.decoding import FittedAnswers, decode_flows, flow_of, question_checks
from decoder.flows.detection import reach
from decoder.flows.moments import FlowMoments
from decoder.flows.space import FlowSpace, symbol_counts
from decoder.flows.tables import FlowDecoding, QuestionCheck
from decoder.inference.intervals import ShareTable
from decoder.options import DecodeOptions
from decoder.progress import silent
from decoder.typing import Flags, Floats
from metric_design.flow_kind import class_error, least_flow
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.flow import question_of
from simulations.flows import FlowWorld, city_matrix, draw_flows, in_world
from tests.decoder.flow_support import flow_metric, small_metric

DEVICES = 100_000


@pytest.fixture(scope="module")
def small_truth() -> Floats:
    return city_matrix(small_metric().details, np.random.default_rng(1))


@pytest.fixture(scope="module")
def small(small_truth: Floats) -> Aggregate:
    return draw_flows(small_metric(), small_truth, DEVICES, np.random.default_rng(2))


@pytest.fixture(scope="module")
def small_decoding(small: Aggregate) -> FlowDecoding:
    return decode_flows(small)


def held(table: ShareTable, truth: Floats) -> Flags:
    return (table.low <= truth) & (truth <= table.high)


def emptied(counts: Aggregate, question: str) -> Aggregate:
    """Counts in which no report answers a question."""
    cohorts = [c for c in range(counts.params.num_cohorts) if question_of(c) == question]
    return counts.without(cohorts)


def with_more(
    counts: Aggregate, question: str, reports: int, symbols: Callable[[int], int]
) -> Aggregate:
    """Counts with reports added in the cohorts of a question; symbols: of each of these cohorts."""
    cohorts = [c for c in range(counts.params.num_cohorts) if question_of(c) == question]
    each = reports // len(cohorts)
    sizes, rows = list(counts.reports_per_cohort), [list(row) for row in counts.bit_counts]
    for place, cohort in enumerate(cohorts):
        sizes[cohort] += each
        rows[cohort][symbols(place)] += each
    return replace(counts, reports_per_cohort=tuple(sizes), bit_counts=tuple(map(tuple, rows)))


def forged(counts: Aggregate, question: str, symbol: int) -> Aggregate:
    return with_more(counts, question, 1_000, lambda _: symbol)


def naming(counts: Aggregate, question: str, pair: int) -> Aggregate:
    """Counts with reports, 1 % of all, that name a pair."""
    flow = flow_of(counts)
    layout, own = symbol_counts(counts, flow)[question], FlowSpace.of(flow).classes(question)[pair]

    def symbol(place: int) -> int:
        return int(own if layout.symbols is None else layout.symbols[place, own])

    return with_more(counts, question, counts.num_reports // 100, symbol)


def test_each_table_holds_the_truth() -> None:
    """At least 85 % of the rows of each; coverage is measured by the long test."""
    truth = city_matrix(flow_metric().details, np.random.default_rng(1))
    decoding = decode_flows(draw_flows(flow_metric(), truth, DEVICES, np.random.default_rng(2)))
    assert min(check.p_value for check in decoding.checks) > 0.001
    space = FlowSpace.of(decoding.flow)
    matrix = truth.reshape(space.num_sides, -1)
    largest = np.argsort(-truth)[:50]
    inside = truth[space.same == 1][: space.num_cells].sum()
    assert held(decoding.flows, truth)[largest].mean() > 0.85
    assert held(decoding.zones, space.sums("zones") @ truth).mean() > 0.85
    assert held(decoding.origins, matrix.sum(axis=1)).mean() > 0.85
    assert held(decoding.destinations, matrix.sum(axis=0)).mean() > 0.85
    net = (matrix.sum(axis=0) - matrix.sum(axis=1))[: space.num_cells]
    assert held(decoding.net, net).mean() > 0.85
    assert held(decoding.bands, space.sums("distance") @ truth).mean() > 0.7
    apart = truth[space.between_cells].sum() - inside
    assert abs(decoding.own_cell.estimate[0] - inside) < 4.5 * decoding.own_cell.std_error[0]
    assert abs(decoding.moved.estimate[0] - apart) < 4.5 * decoding.moved.std_error[0]


def test_plans_name_the_flow_that_is_detected(small_decoding: FlowDecoding) -> None:
    metric = small_metric()
    errors = small_decoding.flows.std_error[FlowSpace.of(small_decoding.flow).between_cells]
    planned = least_flow(metric, DEVICES) / class_error(metric, "pair", DEVICES)
    assert small_decoding.detectable_share / np.median(errors) == pytest.approx(planned)


@pytest.mark.parametrize(("cells", "errors"), [(4, 3.797), (20, 4.678)])
def test_both_ends_of_an_interval_are_counted(cells: int, errors: float) -> None:
    assert reach(0.05, cells) == pytest.approx(errors, abs=5e-4)


def test_honest_answers_fit_and_forged_ones_do_not(small, small_decoding) -> None:
    assert min(check.p_value for check in small_decoding.checks) > 0.001
    flow = flow_of(small)
    space, counts = FlowSpace.of(flow), symbol_counts(forged(small, "work", 5), flow)
    fit = decoding_module._fit_answers(space, symbol_counts(small, flow), 1.0, silent, None)
    worst = min(question_checks(counts, fit.moments), key=lambda check: check.p_value)
    assert (worst.question, worst.p_value < 1e-6) == ("work", True)


@pytest.mark.long
def test_forged_answers_are_named(small: Aggregate) -> None:
    found = decode_flows(forged(small, "work", 5))
    assert any("'work' do not fit" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("question", "of"),
    [
        ("pair", "smallest"),
        pytest.param("pair", "largest", marks=pytest.mark.long),
        pytest.param("home", "smallest", marks=pytest.mark.long),
        pytest.param("zones", "largest", marks=pytest.mark.long),
    ],
)
def test_forgers_of_one_pair_raise_it_no_further(
    small: Aggregate, small_decoding: FlowDecoding, small_truth: Floats, question: str, of: str
) -> None:
    """Answers about pairs raise the smallest at least by .3 of the bound."""
    between = FlowSpace.of(small_decoding.flow).between_cells
    smallest = int(np.argmin(np.where(between, small_truth, 1)))
    pair = smallest if of == "smallest" else int(np.argmax(between * small_truth))
    moved = decode_flows(naming(small, question, pair))
    rise = moved.flows.estimate[pair] - small_decoding.flows.estimate[pair]
    assert rise < small_decoding.forged_shift
    if (question, of) == ("pair", "smallest"):
        assert rise > 0.3 * small_decoding.forged_shift


def test_a_question_without_reports_is_named(small: Aggregate) -> None:
    found = decode_flows(emptied(small, "pair"))
    assert any("pair" in warning for warning in found.warnings)
    assert len(found.checks) == 4
    assert np.isfinite(found.flow_share).all()
    assert not found.detected.any()


def test_a_known_matrix_helps(small_truth: Floats) -> None:
    rng, truth = np.random.default_rng(8), small_truth
    few = draw_flows(small_metric(), truth, 20_000, rng)
    known = truth * np.exp(rng.normal(0, 0.3, len(truth)))
    without, given = decode_flows(few), decode_flows(few, known=1e6 * known)
    errors = [np.abs(one.flow_share - truth).sum() / 2 for one in (without, given)]
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.long
def test_a_known_matrix_that_answers_contradict_is_left_out(
    small: Aggregate, small_truth: Floats, small_decoding: FlowDecoding
) -> None:
    found = decode_flows(small, known=1 / (small_truth + 1e-6))
    assert found.warnings[0].startswith(
        "the known matrix was left out: the answers are more likely"
    )
    np.testing.assert_array_equal(found.flow_share, small_decoding.flow_share)


@pytest.mark.long
def test_honest_people_far_from_gravity_are_not_accused(small_truth: Floats) -> None:
    metric, rng = small_metric(), np.random.default_rng(6)
    spikes = in_world(small_truth, metric.details, FlowWorld.SPIKES, rng)
    found = decode_flows(draw_flows(metric, spikes, DEVICES, np.random.default_rng(4)))
    assert min(check.p_value for check in found.checks) > 0.001
    assert not any("do not fit" in warning for warning in found.warnings)
    assert found.tau > 1


@pytest.mark.parametrize(("evidence", "p_value"), [(0.0, 0.5), (2.0, 0.0)])
def test_a_rejected_fit_is_climbed_to_again(evidence, p_value, monkeypatch) -> None:
    def fitted(log_evidence: float, p: float) -> FittedAnswers:
        fit: Any = SimpleNamespace(log_evidence=log_evidence, data=None)
        check = QuestionCheck("work", 100, 0.0, 1.0, p)
        return FittedAnswers(FlowMoments(fit), {}, (check,))

    fits = {None: fitted(evidence, 0.0), decoding_module.WIDE: fitted(1.0, 0.5)}
    begun: list[float | None] = []

    def fit_answers(*given: Any) -> FittedAnswers:
        begun.append(given[5] if len(given) > 5 else None)
        return fits[begun[-1]]

    monkeypatch.setattr(decoding_module, "_fit_answers", fit_answers)
    monkeypatch.setattr(decoding_module, "_fit_to", lambda data, start: start)
    monkeypatch.setattr(decoding_module, "question_checks", lambda *_: fits[None].checks)
    space: Any = None
    found, dropped = decoding_module._best_fit(space, {}, 1.0, None, silent)
    assert begun == list(fits)
    assert (found.moments.fit.log_evidence, dropped) == (max(evidence, 1.0), 0.0)
    assert found.checks[0].p_value == p_value


def test_a_level_changes_intervals_alone(small: Aggregate, small_decoding: FlowDecoding) -> None:
    narrow = decode_flows(small, DecodeOptions(level=0.5))
    np.testing.assert_array_equal(narrow.flow_share, small_decoding.flow_share)
    np.testing.assert_array_equal(narrow.detected, small_decoding.detected)
    undetected = ~small_decoding.detected
    width = [np.mean((d.flows.high - d.flows.low)[undetected]) for d in (narrow, small_decoding)]
    assert width[0] == pytest.approx(width[1] * 0.6745 / 1.96, rel=1e-3)


def test_bad_input_is_refused_by_name(small: Aggregate) -> None:
    m, k = small.params.num_cohorts, small.params.num_bits
    empty = replace(small, reports_per_cohort=(0,) * m, bit_counts=((0,) * k,) * m)
    with pytest.raises(DecodeError, match="has no reports: choose other days"):
        decode_flows(empty)
    with pytest.raises(DecodeError, match="and has no flows: use rappor decode"):
        decode_flows(replace(small, definition={}))
    size = flow_of(small).num_sides ** 2
    for known in (np.ones(4), -np.ones(size), np.zeros(size), np.full(size, np.nan)):
        with pytest.raises(DecodeError, match="a known matrix needs"):
            decode_flows(small, known=known)


@pytest.mark.parametrize("pair", [-1, pytest.param(0, marks=pytest.mark.long)])
def test_nobody_anywhere_is_a_matrix_too(pair: int) -> None:
    metric = small_metric()
    alone = np.zeros(metric.details.num_sides**2)
    alone[pair] = 1
    found = decode_flows(draw_flows(metric, alone, 50_000, np.random.default_rng(4)))
    assert found.flow_share[pair] > 0.9


def test_ten_devices_tell_nothing_and_are_decoded(small_truth: Floats) -> None:
    found = decode_flows(draw_flows(small_metric(), small_truth, 10, np.random.default_rng(6)))
    assert found.num_detected == 0
    assert found.flow_share.sum() == pytest.approx(1)
    assert np.all(found.flows.low <= found.flows.high)
    assert found.detectable_share > 0.5


@pytest.mark.parametrize(
    ("draws", "known"), [(1, False), pytest.param(2, True, marks=pytest.mark.long)]
)
def test_people_without_data_stay_without_data(draws: int, known: bool) -> None:
    """The climb ended where next to nobody did. False alarm 1 in 2,000."""
    metric = flow_metric(cohorts=100)
    rng = np.random.default_rng(1)
    truth = city_matrix(metric.details, rng)
    census = truth.copy()
    census[-1] = 0  # no census counts them
    for _ in range(draws):
        counts = draw_flows(metric, truth, DEVICES, rng)
        found = decode_flows(counts, known=census if known else None)
        for table in (found.origins, found.destinations):
            assert abs(table.estimate[-1] - truth[-1]) < 4 * table.std_error[-1]
        assert found.flow_share[-1] > truth[-1] / 2


@pytest.mark.long
@pytest.mark.parametrize("spread", [0.0, 0.8, 2.0])
def test_intervals_hold_over_draws(spread: float) -> None:
    """In 20 draws of each, intervals of large and detected flows, zones and cells cover in .92 to
    .985 (errors are correlated), and few detected flows are below a quarter of the estimate."""
    metric = flow_metric(cohorts=200)
    rng = np.random.default_rng(round(100 + 10 * spread))
    truth = city_matrix(metric.details, rng, spread)
    space = FlowSpace.of(metric.details)
    largest = np.argsort(-truth)[:50]
    found: dict[str, list[float]] = {"flows": [], "zones": [], "origins": [], "bands": []}
    result = wrong = 0
    from_cells = truth.reshape(space.num_sides, -1).sum(axis=1)
    for _ in range(20):
        one = decode_flows(draw_flows(metric, truth, DEVICES, rng))
        found["flows"].append(held(one.flows, truth)[largest].mean())
        found["zones"].append(held(one.zones, space.sums("zones") @ truth).mean())
        found["origins"].append(held(one.origins, from_cells).mean())
        found["bands"].append(held(one.bands, space.sums("distance") @ truth).mean())
        result += one.num_detected
        wrong += int((truth < one.flows.estimate / 4)[one.detected].sum())
    coverage = {name: float(np.mean(values)) for name, values in found.items()}
    assert all(0.92 < value < 0.985 for value in list(coverage.values())[:3]), coverage
    assert 0.88 < coverage["bands"] < 0.995
    assert wrong <= max(1, result / 100)
