"""`decode_flows`, which estimates flows, zones, cells and bands from a flow metric's aggregate."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri

from decoder.decoded_window import window_fields
from decoder.errors import DecodeError
from decoder.flows.detection import limit, reach
from decoder.flows.fit import FlowData, FlowFit, fit_flows, no_departures
from decoder.flows.moments import FlowMoments
from decoder.flows.space import (
    KNOWN_SIDE_PRECISION,
    RESERVED,
    SIDE_PRECISION,
    Answers,
    FlowSpace,
    Gravity,
    SymbolCounts,
    answers_of,
    indicator,
    symbol_counts,
)
from decoder.flows.tables import FlowDecoding, QuestionCheck
from decoder.inference.intervals import ShareTable
from decoder.model.counts import collected_repetition
from decoder.numerics.bit_tensor import one_thread
from decoder.numerics.optimization import project_simplex
from decoder.options import DecodeOptions
from decoder.progress import Progress, silent
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.flow import DISTANCE, HOME, PAIR, QUESTIONS, WORK, ZONES, Flow
from rappor_core.metrics.metric import Metric

ROUNDS = 3  # rounds of removing collisions; the third subtracts what the first two predict
MAX_ROUNDS = 6  # the limit while more flows turn out to be far from gravity
FORGED = 0.01  # the fraction of all reports that an attacker fabricates
REJECTED = 0.001  # below this p-value, the answers to a question do not fit
WIDE = 30.0  # the initial size of departures in a second fit
MAX_OF_PEOPLE = 0.5  # warn if the detected flows have a smaller share of people
KNOWN_FLOOR = 1e-3  # the minimum flow in a known matrix, as a fraction of an even share
STAGE = "flows"


def decode_flows(
    aggregate: Aggregate,
    options: DecodeOptions | None = None,
    known: Floats | None = None,
    progress: Progress = silent,
) -> FlowDecoding:
    """Estimate how many people go from each usual cell to each other cell, with intervals.

    Args:
        aggregate: The aggregate of a metric of kind `flow`, with its definition.
        options: The options; `level`, `alpha`, `repeats` and `without_cohorts` are used.
        known: The shares or counts (P,) of a known matrix, such as the last census. Its errors are
            estimated as departures. None for no matrix.
        progress: A callback, called with (stage, done, total).

    Returns:
        Flows, zones, cells, bands and the check of each question.

    Raises:
        DecodeError: The metric is of a different kind, there are no reports, or the known matrix
            has the wrong shape.
        ConvergenceError: There is no finite fit.
    """
    options = options or DecodeOptions()
    aggregate = aggregate.without(options.without_cohorts)
    flow = flow_of(aggregate)
    repetition = collected_repetition(aggregate, options.repeats)
    with one_thread():
        space = FlowSpace.of(flow)
        counts = symbol_counts(aggregate, flow)
        best, dropped = _best_fit(space, counts, repetition, known, progress)
        tables = _tables(best.moments, best.answers, options.level, options.alpha)
        evidence = no_departures(best.moments.fit)
    return FlowDecoding(
        **window_fields(aggregate),
        flow=flow,
        level=options.level,
        alpha=options.alpha,
        repetition=repetition,
        tau=best.moments.fit.tau,
        departure_evidence=evidence,
        forged_shift=_forged_shift(counts),
        checks=best.checks,
        warnings=tuple(_warnings(tables, best.checks, dropped)),
        **tables,
    )


class FittedAnswers(NamedTuple):
    """A fit with its moments, the fitted answers by question, and the check of each question."""

    moments: FlowMoments
    answers: dict[str, Answers]
    checks: tuple[QuestionCheck, ...]

    @property
    def is_rejected(self) -> bool:
        """Whether the answers to one question contradict those to the other questions."""
        return min(check.p_value for check in self.checks) < REJECTED


def _best_fit(
    space: FlowSpace,
    counts: Mapping[str, SymbolCounts],
    repetition: float,
    matrix: Floats | None,
    progress: Progress,
) -> tuple[FittedAnswers, float]:
    """Fit the model; return the fit, and the nats by which a discarded known matrix was worse.

    A known matrix is discarded if the answers are more likely without it. If the answers look
    fabricated, the climb is repeated from wide departures, and the fit with more evidence is kept.
    """
    fit_answers, dropped = partial(_fit_answers, space, counts, repetition, progress), 0.0
    fitted = fit_answers(matrix)
    if matrix is not None:
        without = fit_answers(None)
        with_matrix = _fit_to(without.moments.fit.data, fitted.moments.fit)
        dropped = max(without.moments.fit.log_evidence - with_matrix.log_evidence, 0.0)
        if dropped:
            fitted, matrix = without, None
    if not fitted.is_rejected:
        return fitted, dropped
    other = fit_answers(matrix, WIDE)
    again = _fit_to(other.moments.fit.data, fitted.moments.fit)
    if again.log_evidence > other.moments.fit.log_evidence:
        moments = FlowMoments(again)
        other = FittedAnswers(moments, other.answers, question_checks(counts, moments))
    return other, dropped


def _fit_to(data: FlowData, start: FlowFit) -> FlowFit:
    return fit_flows(start.gravity, data, start.parameters, start.tau, search=False)


def flow_of(aggregate: Aggregate) -> Flow:
    """Return a flow metric's settings. Raises DecodeError for other kinds and without reports."""
    is_flow = "bands_km" in (aggregate.definition.get("details") or ())
    details = Metric.from_dict(aggregate.definition).details if is_flow else None
    if not isinstance(details, Flow):
        kind = aggregate.definition.get("kind")
        raise DecodeError(
            f"metric {aggregate.metric!r} is of kind {kind!r}, and has no flows: use rappor decode"
        )
    if not aggregate.num_reports:
        raise DecodeError(f"metric {aggregate.metric!r} has no reports: choose other days")
    return details


def _fit_answers(
    space: FlowSpace,
    counts: Mapping[str, SymbolCounts],
    repetition: float,
    progress: Progress,
    matrix: Floats | None,
    tau: float | None = None,
) -> FittedAnswers:
    """Fit the model in rounds; each removes the collisions that the previous round predicts.

    Collisions are predicted only from gravity and surprising flows, because the many other small
    departures would absorb evidence from a surprising flow's own symbols. Returns the fit of the
    last round that no question rejects, or of the last round. `tau` is the initial size of the
    departures; None for the minimum."""
    gravity = _gravity(space, matrix)
    surprising = np.zeros(space.num_pairs, dtype=bool)
    start = np.zeros(gravity.size)
    expected, doubts = gravity.shares(start), dict[str, float]()
    fitting: FittedAnswers | None = None  # rounds may alternate, so the last round may be rejected
    for number in range(MAX_ROUNDS):
        progress(STAGE, number, MAX_ROUNDS)
        answers = {
            name: answers_of(
                count, space.sums(name) @ expected, doubts.get(name), repetition=repetition
            )
            for name, count in counts.items()
        }
        if number == 0 and matrix is None:
            home, work = (answers[name].shares.reshape(-1, 2) for name in (HOME, WORK))
            start = gravity.start(home[:, 0], work[:, 0], (home[:, 1] + work[:, 1]) / 2)
        fit = fit_flows(gravity, FlowData.of(gravity, answers), start, tau, search=number > 0)
        start, tau = fit.parameters, fit.tau if number else tau
        moments = FlowMoments(fit)
        estimate, error = moments.pairs.cavity()
        by_chance = -ndtri(0.5 / len(estimate)) * error  # about one flow exceeds it by chance
        before = surprising
        surprising = before | (estimate - moments.pairs.fitted > by_chance)
        fitted = FittedAnswers(moments, answers, question_checks(counts, moments))
        if number > 0 and not fitted.is_rejected:
            fitting = fitted
        if number + 1 >= ROUNDS and not np.any(surprising & ~before):
            break
        expected = project_simplex(np.where(surprising, estimate, fit.shares))
        doubts = _doubts(moments, expected)
    progress(STAGE, MAX_ROUNDS, MAX_ROUNDS)
    return fitting or fitted


def _gravity(space: FlowSpace, base: Floats | None) -> Gravity:
    """Return gravity around a known matrix, if any; a reserved side that it lacks stays free."""
    if base is None:
        return Gravity(space, np.zeros(space.num_pairs), SIDE_PRECISION)
    total = float(base.sum()) if base.shape == (space.num_pairs,) else 0.0
    if not np.isfinite(total) or total <= 0 or base.min() < 0:
        raise DecodeError(
            f"a known matrix needs {space.num_pairs:,} shares of 0 or more, not all 0: one for "
            f"each pair of {space.num_cells} cells, other and no data"
        )
    sides = space.num_sides
    counted = np.bincount(space.origin, base, sides) + np.bincount(space.destination, base, sides)
    unasked = (counted == 0) & (np.arange(sides) >= space.num_cells)
    is_open = unasked[space.origin] | unasked[space.destination]
    floor = np.where(is_open, 1.0, KNOWN_FLOOR) / space.num_pairs
    return Gravity(space, np.log(base / total + floor), KNOWN_SIDE_PRECISION)


def _doubts(moments: FlowMoments, expected: Floats) -> dict[str, float]:
    """Return the expected sum of squared errors of each question's class shares in `expected`."""
    fit, doubts = moments.fit, {}
    for name in QUESTIONS:
        sums = fit.gravity.space.sums(name)
        _, errors = (moments.pairs if name == PAIR else moments.of(sums)).posterior()
        off = sums @ (fit.mean - expected)
        doubts[name] = float(errors @ errors + off @ off)
    return doubts


def _tables(
    moments: FlowMoments, answers: Mapping[str, Answers], level: float, alpha: float
) -> dict[str, Any]:
    """Return the tables of flows, zones, cells and bands, as fields of `FlowDecoding`."""
    fit, space = moments.fit, moments.fit.gravity.space
    quantile = -float(ndtri((1 - level) / 2))
    flows = _shares(*moments.pairs.cavity(), quantile)
    has_pairs = answers[PAIR].num_reports > 0  # margins alone would confirm a wrong model
    detected = _detected(flows, limit(alpha, space.num_cells), space.between_cells & has_pairs)
    # these flows were selected for being large, so their intervals include the posterior's
    mean, error = moments.pairs.posterior()
    low = np.where(detected, np.minimum(flows.low, mean - quantile * error), flows.low)
    high = np.where(detected, np.maximum(flows.high, mean + quantile * error), flows.high)
    zones = _shares(*moments.of(space.sums(ZONES)).cavity(), quantile)
    zones_asked = max(answers[ZONES].num_reports, answers[PAIR].num_reports) > 0
    sides = np.arange(space.num_zones + RESERVED)
    inside = np.maximum.outer(sides, sides).ravel() < space.num_zones
    of_origin = indicator(space.origin, space.num_sides)
    of_destination = indicator(space.destination, space.num_sides)
    net = moments.of((of_destination - of_origin)[: space.num_cells])
    same_cell, moved = _own_and_moved(space, answers, quantile)
    flow_share = project_simplex(fit.mean)
    small = float(np.median(flows.std_error[space.between_cells]))
    return {
        "flows": ShareTable(flows.estimate, flows.std_error, low, high),
        "detected": detected,
        "flow_share": flow_share,
        "gravity": fit.shares,
        "zones": zones,
        "zones_detected": _detected(zones, limit(alpha, space.num_zones), inside & zones_asked),
        "zone_share": space.sums(ZONES) @ flow_share,
        "origins": _shares(*moments.of(of_origin).cavity(), quantile),
        "destinations": _shares(*moments.of(of_destination).cavity(), quantile),
        "net": _shares(*net.cavity(), quantile, least=-1.0),
        "bands": _answered(answers[DISTANCE], np.eye(space.num_bands), quantile),
        "own_cell": same_cell,
        "moved": moved,
        "detectable_share": min(1.0, reach(alpha, space.num_cells) * small),
    }


def _forged_shift(counts: Mapping[str, SymbolCounts]) -> float:
    """Return the maximum rise of a flow from fabricated reports, as a share of people.

    All fabricated reports name the flow's symbol in the question about pairs. The result is 1 if
    that question has no reports."""
    pair = counts[PAIR]
    total = sum(count.num_reports for count in counts.values())
    if not pair.num_reports:
        return 1.0
    forged = min(1.0, FORGED * total / pair.num_reports)
    return min(1.0, forged * (1 - pair.hit) / (pair.kept - pair.hit))


def _shares(estimate: Floats, error: Floats, quantile: float, least: float = 0.0) -> ShareTable:
    """Return shares with intervals, which range from `least` to 1 if the error is infinite."""
    finite = np.isfinite(error)
    half = quantile * np.where(finite, error, 0.0)
    low, high = (
        np.where(finite, estimate + side * half, end) for side, end in ((-1, least), (1, 1))
    )
    return ShareTable(estimate, error, low, high)


def _detected(flows: ShareTable, quantile: float, among: Flags) -> Flags:
    return np.asarray(among & (flows.estimate - quantile * flows.std_error > 0))


def _answered(answers: Answers, classes: Any, quantile: float) -> ShareTable:
    estimate = classes @ answers.shares
    error = np.array([np.sqrt(answers.variance[row > 0].sum()) for row in classes])
    return _shares(estimate, error, quantile)


def _own_and_moved(
    space: FlowSpace, answers: Mapping[str, Answers], quantile: float
) -> tuple[ShareTable, ShareTable]:
    """Return the share of people whose two cells are equal, and the share whose cells differ."""
    own_classes = 2 * np.arange(space.num_cells) + 1
    each = []
    for name, classes in ((HOME, own_classes), (WORK, own_classes), (DISTANCE, [0])):
        weights = np.zeros((1, space.num_classes(name)))
        weights[0, classes] = 1
        each.append(_answered(answers[name], weights, quantile))
    same_cell = each[-1]
    precisions = np.array([table.std_error**-2 for table in each])
    if precisions.any():
        total = precisions.sum(axis=0)
        estimate = (precisions * [table.estimate for table in each]).sum(axis=0) / total
        same_cell = _shares(estimate, total**-0.5, quantile)
    others = _answered(answers[DISTANCE], np.eye(space.num_bands)[-1:], quantile)
    both = np.hypot(same_cell.std_error, others.std_error)
    return same_cell, _shares(1 - same_cell.estimate - others.estimate, both, quantile)


def question_checks(
    counts: Mapping[str, SymbolCounts], moments: FlowMoments
) -> tuple[QuestionCheck, ...]:
    """Test the reported symbols in each cohort against the fitted matrix by Pearson's test.

    The uncertainty of the matrix also moves symbols: the statistic of a cohort of n reports is
    divided by 1 + n (p - q)^2 times the sum of the posterior variances of the classes."""
    fit, checks, doubts = moments.fit, [], _doubts(moments, moments.fit.mean)
    for name, count in counts.items():
        if not count.num_reports:
            continue
        expected = np.clip(fit.gravity.space.sums(name) @ fit.mean, 0, None)
        expected /= expected.sum()
        widened = 1 + count.reports * (count.kept - count.lied) ** 2 * doubts[name]
        statistic = 0.0
        for cohort in count.used:
            classes = np.arange(len(expected)) if count.symbols is None else count.symbols[cohort]
            shares = np.bincount(classes, expected, count.num_symbols)
            predicted = count.lied + (count.kept - count.lied) * shares
            predicted *= count.reports[cohort] / predicted.sum()
            squares = np.sum((count.counts[cohort] - predicted) ** 2 / predicted)
            statistic += float(squares) / widened[cohort]
        freedom = len(count.used) * (count.num_symbols - 1)
        p_value = float(chdtrc(freedom, statistic))
        checks.append(QuestionCheck(name, round(count.num_reports), statistic, freedom, p_value))
    return tuple(checks)


def _warnings(
    tables: Mapping[str, Any], checks: tuple[QuestionCheck, ...], dropped: float
) -> Iterator[str]:
    if dropped:
        yield (
            "the known matrix was left out: the answers are more likely without it, by "
            f"{dropped:.2g} nats; see that its cells have the right names"
        )
    questions = {check.question for check in checks}
    missing = [name for name in QUESTIONS if name not in questions]
    if missing:
        yield f"no report answers the question {', '.join(missing)}: use a longer window"
    for check in checks:
        if check.p_value < REJECTED:
            yield (
                f"the answers to {check.question!r} do not fit the others (p = "
                f"{check.p_value:.2g}): fabricated reports, an altered client, or flows far from "
                "gravity that so few cohorts cannot show"
            )
    if not tables["detected"].any():
        yield (
            f"no flow is detected; one of {100 * tables['detectable_share']:.3g} % of people "
            "would be 8 times in 10: use zones, bands and cells, or use more reports"
        )
    elif tables["flow_share"][tables["detected"]].sum() < MAX_OF_PEOPLE:
        yield (
            "shares of flows that are not detected mostly reflect the gravity model: "
            "do not infer people's behavior from them"
        )
