"""`decode_flows`: from an aggregate of a metric of flows to flows, zones, cells and bands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri

from decoder.decoded_window import window_fields
from decoder.errors import DecodeError
from decoder.flows.detection import limit, reach
from decoder.flows.fit import FlowData, FlowFit, fit_flows, no_departures
from decoder.flows.gravity import KNOWN_SIDE_PRECISION, SIDE_PRECISION, Gravity
from decoder.flows.moments import FlowMoments, Moments, ratios
from decoder.flows.space import (
    RESERVED,
    Answers,
    FlowSpace,
    SymbolCounts,
    answers_of,
    indicator,
    symbol_counts,
)
from decoder.flows.tables import FlowDecoding, QuestionCheck
from decoder.inference.intervals import ShareTable
from decoder.model.counts import collected_repetition
from decoder.numerics.bit_tensor import one_thread
from decoder.numerics.simplex import project_simplex
from decoder.options import DecodeOptions
from decoder.progress import Progress, silent
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.flow import DISTANCE, HOME, PAIR, QUESTIONS, WORK, ZONES, Flow
from rappor_core.metrics.metric import Metric

ROUNDS = 3  # of taking out collisions: what the first two predict, the third subtracts
MAX_ROUNDS = 6  # while more flows turn out to be far from gravity
FORGED = 0.01
REJECTED = 0.001  # p-value of a question whose answers do not fit
WIDE = 30.0  # size of departures that a second climb begins at
MAX_OF_PEOPLE = 0.5
KNOWN_FLOOR = 1e-3  # part of an even share that a flow of a known matrix has at least
STAGE = "flows"


def decode_flows(
    aggregate: Aggregate,
    options: DecodeOptions | None = None,
    known: Floats | None = None,
    progress: Progress = silent,
) -> FlowDecoding:
    """Estimate who goes from which usual cell to which, with intervals.

    Args:
        aggregate: of a metric of kind `flow`, with its definition.
        options: `level`, `alpha`, `repeats` and `without_cohorts` are used.
        known: (P,) shares or counts of a known matrix, such as the last census; its errors are
            learnt as departures.
        progress: called with (stage, done, total).

    Returns:
        Flows with two numbers each, an estimate with its interval and one guess at the whole;
        zones, cells, bands and the check of each question.

    Raises:
        DecodeError: a metric of another kind, no reports, or a known matrix of another shape.
        ConvergenceError: no finite fit.
    """
    options = options or DecodeOptions()
    aggregate = aggregate.without(options.without_cohorts)
    flow = flow_of(aggregate)
    repetition = collected_repetition(aggregate, options.repeats)
    with one_thread():
        space = FlowSpace.of(flow)
        counts = symbol_counts(aggregate, flow)
        best, dropped = _best_fit(space, counts, repetition, known, progress)
        moments, answers, checks = best
        fit = moments.fit
        found = summarized(moments, answers, options.level, options.alpha)
        evidence = no_departures(fit)
    return FlowDecoding(
        **window_fields(aggregate),
        flow=flow,
        level=options.level,
        alpha=options.alpha,
        repetition=repetition,
        tau=fit.tau,
        departure_evidence=evidence,
        forged_shift=forged_shift(counts, FORGED),
        checks=checks,
        warnings=tuple(_warnings(found, checks, dropped)),
        **found,
    )


class FittedAnswers(NamedTuple):
    """A fit with its moments, the answers that it fits, by question, and a check of each."""

    moments: FlowMoments
    answers: dict[str, Answers]
    checks: tuple[QuestionCheck, ...]

    @property
    def is_rejected(self) -> bool:
        """Whether the answers to a question do not fit the others."""
        return min(check.p_value for check in self.checks) < REJECTED


def _best_fit(
    space: FlowSpace,
    counts: Mapping[str, SymbolCounts],
    repetition: float,
    known: Floats | None,
    progress: Progress,
) -> tuple[FittedAnswers, float]:
    """Fit the model, and again where the answers to a question do not fit.

    A known matrix without which the answers are more likely is dropped. Before answers are called
    forged, the climb is started over with wide departures, and the summit of more evidence is kept.

    Returns:
        The fit, and how many nats more likely the answers are without the known matrix, 0 where it
        is kept.
    """
    found, dropped = fit_answers(space, counts, repetition, known, progress), 0.0
    if known is not None:
        without = fit_answers(space, counts, repetition, None, progress)
        given = _fit_to(without.moments.fit.data, found.moments.fit)
        dropped = max(without.moments.fit.log_evidence - given.log_evidence, 0.0)
        if dropped:
            found, known = without, None
    if not found.is_rejected:
        return found, dropped
    other = fit_answers(space, counts, repetition, known, progress, WIDE)
    again = _fit_to(other.moments.fit.data, found.moments.fit)
    if again.log_evidence > other.moments.fit.log_evidence:
        moments = FlowMoments(again)
        other = FittedAnswers(moments, other.answers, question_checks(counts, moments))
    return other, dropped


def _fit_to(data: FlowData, start: FlowFit) -> FlowFit:
    """The fit to other data that is climbed to from a fit, with departures of its size."""
    return fit_flows(start.gravity, data, start.parameters, start.tau, search=False)


def flow_of(aggregate: Aggregate) -> Flow:
    """The settings of a metric of flows. Raises DecodeError for another kind, or no reports."""
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


def fit_answers(
    space: FlowSpace,
    counts: Mapping[str, SymbolCounts],
    repetition: float = 1.0,
    known: Floats | None = None,
    progress: Progress = silent,
    tau: float | None = None,
) -> FittedAnswers:
    """Fit the model; each round takes out the collisions that the one before predicts.

    Args:
        space: of the pairs.
        counts: by question.
        repetition: rho of the reports.
        known: (P,) a known matrix.
        progress: called with (stage, done, total).
        tau: size of the departures to begin at; None: the least.

    Returns:
        The fit of the last round that no question rejects; of the last where each is rejected.

    Raises:
        DecodeError: a known matrix of another shape, negative, or empty.
        ConvergenceError: no finite fit.
    """
    gravity = _gravity(space, known)
    surprising = np.zeros(space.num_pairs, dtype=bool)
    expected = gravity.shares(np.zeros(gravity.size))
    doubts: dict[str, float] = {}
    start: Floats | None = None
    fitting: FittedAnswers | None = None  # what rounds go to and fro between may be rejected
    for number in range(MAX_ROUNDS):
        progress(STAGE, number, MAX_ROUNDS)
        answers = {
            name: answers_of(
                one, space.sums(name) @ expected, doubts.get(name), repetition=repetition
            )
            for name, one in counts.items()
        }
        if start is None:
            start = _start(gravity, answers)
        data = FlowData.of(gravity, answers)
        fit = fit_flows(gravity, data, start, tau, search=number > 0)
        start, tau = fit.parameters, fit.tau if number else tau
        moments = FlowMoments(fit)
        estimate, error = moments.pairs.cavity()
        by_chance = -ndtri(0.5 / len(estimate)) * error  # of one of all
        before = surprising
        surprising = before | (estimate - moments.pairs.fitted > by_chance)
        found = FittedAnswers(moments, answers, question_checks(counts, moments))
        if number > 0 and not found.is_rejected:
            fitting = found
        if number + 1 >= ROUNDS and not np.any(surprising & ~before):
            break
        expected = _expected(moments, surprising)
        doubts = _doubts(moments, expected)
    progress(STAGE, MAX_ROUNDS, MAX_ROUNDS)
    return fitting or found


def _gravity(space: FlowSpace, known: Floats | None) -> Gravity:
    if known is None:
        return Gravity(space, np.zeros(space.num_pairs), SIDE_PRECISION)
    total = float(known.sum()) if known.shape == (space.num_pairs,) else 0.0
    if not np.isfinite(total) or total <= 0 or known.min() < 0:
        raise DecodeError(
            f"a known matrix needs {space.num_pairs:,} shares of 0 or more, not all 0: one for "
            f"each pair of {space.num_cells} cells, other and no data"
        )
    floor = np.where(_uncounted(space, known), 1.0, KNOWN_FLOOR) / space.num_pairs
    return Gravity(space, np.log(known / total + floor), KNOWN_SIDE_PRECISION)


def _uncounted(space: FlowSpace, known: Floats) -> Flags:
    """(P,) pairs with `other` or `no_data` where a known matrix has nobody of that side: it was
    not asked."""
    sides = space.num_sides
    counted = np.bincount(space.origin, known, sides) + np.bincount(space.destination, known, sides)
    empty = (counted == 0) & (np.arange(sides) >= space.num_cells)
    return np.asarray(empty[space.origin] | empty[space.destination])


def _start(gravity: Gravity, answers: Mapping[str, Answers]) -> Floats:
    """Parameters at which margins and own cells are as answered."""
    if gravity.offset.any():
        return np.zeros(gravity.size)
    home, work = (answers[name].shares.reshape(-1, 2) for name in (HOME, WORK))
    return gravity.start(home[:, 0], work[:, 0], (home[:, 1] + work[:, 1]) / 2)


def _expected(moments: FlowMoments, surprising: Flags) -> Floats:
    """(P,) shares of pairs that collisions are predicted from: gravity, and surprising flows.

    Other departures are left out: they are small each, and where one flow is far from gravity they
    share what its own symbols say, which would be subtracted from it.
    """
    estimate, _ = moments.pairs.cavity()
    return project_simplex(np.where(surprising, estimate, moments.fit.shares))


def _doubts(moments: FlowMoments, expected: Floats) -> dict[str, float]:
    """By question, the expected sum of the squared errors of its classes, as `expected` (P,)."""
    fit, found = moments.fit, {}
    for name in QUESTIONS:
        sums = fit.gravity.space.sums(name)
        _, errors = (moments.pairs if name == PAIR else moments.of(sums)).posterior()
        off = sums @ (fit.mean - expected)
        found[name] = float(errors @ errors + off @ off)
    return found


def summarized(
    moments: FlowMoments, answers: Mapping[str, Answers], level: float, alpha: float
) -> dict[str, Any]:
    """The tables of a decoding, by the names of their fields in `FlowDecoding`."""
    fit, space = moments.fit, moments.fit.gravity.space
    quantile = -float(ndtri((1 - level) / 2))
    flows = _table(moments.pairs, quantile)
    asked = answers[PAIR].num_reports > 0  # margins alone take a wrong gravity shape for evidence
    detected = _detected(flows, limit(alpha, space.num_cells), space.between_cells & asked)
    zones = _table(moments.of(space.sums(ZONES)), quantile)
    flow_share = project_simplex(fit.mean)
    flows = _hull(flows, moments.pairs, detected, quantile)
    sides = space.num_sides
    of_origin = indicator(space.origin, sides)
    of_destination = indicator(space.destination, sides)
    net = moments.of((of_destination - of_origin)[: space.num_cells])
    own, moved = _own_and_moved(space, answers, quantile)
    errors = flows.std_error[space.between_cells]
    small = float(np.median(errors))
    return {
        "flows": flows,
        "detected": detected,
        "flow_share": flow_share,
        "gravity": fit.shares,
        "of_origin": _of_origin(moments, of_origin, space, quantile),
        "zones": zones,
        "zones_detected": _detected_zones(zones, space, answers, alpha),
        "zone_share": space.sums(ZONES) @ flow_share,
        "origins": _table(moments.of(of_origin), quantile),
        "destinations": _table(moments.of(of_destination), quantile),
        "net": _shares(*net.cavity(), quantile, least=-1.0),
        "bands": _answered(answers[DISTANCE], np.eye(space.num_bands), quantile),
        "own_cell": own,
        "moved": moved,
        "detectable_share": min(1.0, reach(alpha, space.num_cells) * small),
    }


def forged_shift(counts: Mapping[str, SymbolCounts], fraction: float) -> float:
    """The largest rise of a flow by forged reports that name its pair in the question about pairs.

    A forged report shows the pair's own symbol for certain. Forged answers to other questions move
    a flow only as far as its estimate rests on their sums, and are not counted here.

    Args:
        counts: by question.
        fraction: of all reports that are forged, in [0, 1].

    Returns:
        A share of people, 1 at most, and without reports of that question.
    """
    pair = counts[PAIR]
    total = sum(one.num_reports for one in counts.values())
    if not pair.num_reports:
        return 1.0
    forged = min(1.0, fraction * total / pair.num_reports)
    return min(1.0, forged * (1 - pair.hit) / (pair.kept - pair.hit))


def _table(moments: Moments, quantile: float) -> ShareTable:
    return _shares(*moments.cavity(), quantile)


def _shares(estimate: Floats, error: Floats, quantile: float, least: float = 0.0) -> ShareTable:
    """Shares with intervals, from `least` to 1 where the answers tell nothing."""
    finite = np.isfinite(error)
    half = quantile * np.where(finite, error, 0.0)
    low, high = (
        np.where(finite, estimate + side * half, end) for side, end in ((-1, least), (1, 1))
    )
    return ShareTable(estimate, error, low, high)


def _detected(flows: ShareTable, quantile: float, between: Flags) -> Flags:
    return np.asarray(between & (flows.estimate - quantile * flows.std_error > 0))


def _detected_zones(
    zones: ShareTable, space: FlowSpace, answers: Mapping[str, Answers], alpha: float
) -> Flags:
    """Whether a pair of zones is detected, at `alpha` over their number."""
    asked = max(answers[ZONES].num_reports, answers[PAIR].num_reports) > 0
    sides = np.arange(space.num_zones + RESERVED)
    inside = np.maximum.outer(sides, sides).ravel() < space.num_zones
    return _detected(zones, limit(alpha, space.num_zones), inside & asked)


def _hull(flows: ShareTable, moments: Moments, detected: Flags, quantile: float) -> ShareTable:
    """Told flows are picked for being large: their intervals reach to the posterior's, too."""
    mean, error = moments.posterior()
    low = np.where(detected, np.minimum(flows.low, mean - quantile * error), flows.low)
    high = np.where(detected, np.maximum(flows.high, mean + quantile * error), flows.high)
    return ShareTable(flows.estimate, flows.std_error, low, high)


def _of_origin(moments: FlowMoments, sums: Any, space: FlowSpace, quantile: float) -> ShareTable:
    """Of the people of each origin, the share of each pair."""
    part, whole = moments.pairs, moments.of(sums)
    both = moments.with_origins(sums, space.origin)
    whole = whole.at(space.origin)
    ratio, low, high = ratios(part, whole, both, quantile)
    return ShareTable(ratio, (high - low) / (2 * quantile), low, high)


def _answered(answers: Answers, classes: Any, quantile: float) -> ShareTable:
    """Sums over groups (rows, classes) of 0 and 1 of the answers to one question, of it alone."""
    estimate = classes @ answers.shares
    error = np.array([np.sqrt(answers.variance[row > 0].sum()) for row in classes])
    return _shares(estimate, error, quantile)


def _own_and_moved(
    space: FlowSpace, answers: Mapping[str, Answers], quantile: float
) -> tuple[ShareTable, ShareTable]:
    """The share whose two cells are one, and the share with two cells that are not."""
    cells = np.arange(space.num_cells)
    each = []
    for name, classes in ((HOME, 2 * cells + 1), (WORK, 2 * cells + 1), (DISTANCE, [0])):
        weights = np.zeros((1, space.num_classes(name)))
        weights[0, classes] = 1
        each.append(_answered(answers[name], weights, quantile))
    own = each[-1]
    precisions = np.array([one.std_error**-2 for one in each])
    if precisions.any():
        total = precisions.sum(axis=0)
        estimate = (precisions * [one.estimate for one in each]).sum(axis=0) / total
        own = _shares(estimate, total**-0.5, quantile)
    apart = np.zeros((1, space.num_bands))
    apart[0, -1] = 1
    others = _answered(answers[DISTANCE], apart, quantile)
    moved = 1 - own.estimate - others.estimate
    both = np.sqrt(own.std_error**2 + others.std_error**2)
    return own, _shares(moved, both, quantile)


def question_checks(
    counts: Mapping[str, SymbolCounts], moments: FlowMoments
) -> tuple[QuestionCheck, ...]:
    """Pearson's test of the symbols that each cohort reports against those of the fitted matrix.

    What is not known of the matrix moves symbols, too: the statistic of a cohort of n reports is
    divided by 1 + n (p - q)^2 times the sum of the posterior variances of the classes.

    Args:
        counts: by question.
        moments: of the fit.

    Returns:
        A check for each question with reports.
    """
    fit, found, doubts = moments.fit, [], _doubts(moments, moments.fit.mean)
    for name, one in counts.items():
        if not one.num_reports:
            continue
        expected = np.clip(fit.gravity.space.sums(name) @ fit.mean, 0, None)
        expected /= expected.sum()
        widened = 1 + one.reports * (one.kept - one.lied) ** 2 * doubts[name]
        each = [_misfit(one, cohort, expected) / widened[cohort] for cohort in one.used]
        statistic = float(sum(each))
        freedom = len(one.used) * (one.num_symbols - 1)
        p_value = float(chdtrc(freedom, statistic))
        found.append(QuestionCheck(name, round(one.num_reports), statistic, freedom, p_value))
    return tuple(found)


def _misfit(counts: SymbolCounts, cohort: int, expected: Floats) -> float:
    """Pearson's statistic of one cohort."""
    classes = np.arange(len(expected)) if counts.symbols is None else counts.symbols[cohort]
    shares = np.bincount(classes, expected, counts.num_symbols)
    predicted = counts.lied + (counts.kept - counts.lied) * shares
    predicted *= counts.reports[cohort] / predicted.sum()
    return float(np.sum((counts.counts[cohort] - predicted) ** 2 / predicted))


def _warnings(
    found: Mapping[str, Any], checks: tuple[QuestionCheck, ...], dropped: float
) -> Iterator[str]:
    if dropped:
        yield (
            "the known matrix was left out: the answers are more likely without it, by "
            f"{dropped:.2g} nats; see that its cells have the right names"
        )
    asked = {check.question for check in checks}
    missing = [name for name in QUESTIONS if name not in asked]
    if missing:
        yield f"no report answers the question {', '.join(missing)}: use a longer window"
    for check in checks:
        if check.p_value < REJECTED:
            yield (
                f"the answers to {check.question!r} do not fit the others (p = "
                f"{check.p_value:.2g}): forged reports, an altered client, or flows far from "
                "gravity that so few cohorts do not tell"
            )
    if not found["detected"].any():
        yield (
            f"no flow is detected; one of {100 * found['detectable_share']:.3g} % of people "
            "would be 8 times in 10: read zones, bands and cells, or use more reports"
        )
    elif found["flow_share"][found["detected"]].sum() < MAX_OF_PEOPLE:
        yield (
            "shares of flows that are not detected are mostly the gravity model's opinion: "
            "do not tell what people do from them"
        )
