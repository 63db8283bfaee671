"""Epsilon of a whole sequence: enumerated, and against published figures."""

import math
from datetime import date
from itertools import product

import numpy as np
import pytest

from metric_design.review import check_metrics
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from rappor_core.risk import believed, percent_up, rise_text
from rappor_core.sequence_risk import first_guess, memoized_nats, risk_text, sequence_risk
from tests.metric_texts import declaration

PLACES = {"grid": "square", "box": [0, 0, 4, 4], "rows": 2, "columns": 2, "levels": [0]}
WEEKS = {"mode": "window", "window": 52, "period": "week", "num_bits": 32, "num_cohorts": 64}


def symbols(number: int, lasting: float, once: float) -> RapporParams:
    mechanism = TwoRoundMechanism.symbols(number, lasting, once)
    return RapporParams(number, 1, 64, mechanism, "symbol")


def bits(number: int) -> RapporParams:
    return RapporParams(number, 1, 64, TwoRoundMechanism.optimized(1.0, 0.8))


def chance(params: RapporParams, life: tuple[int, ...], seen: tuple[int, ...]) -> float:
    """P(seen) of a life: values 0 and 1, which set bit (or symbol) 0 and 1; over all responses."""
    m = params.mechanism
    p1, q1, p2, q2 = (x / 65_536 for x in (m.p1, m.q1, m.p2, m.q2))
    total = 1.0
    for value in set(life):
        shown = [word for word, of in zip(seen, life, strict=True) if of == value]
        if params.scheme.symbols:
            total *= sum(
                (p1 if kept == value else q1)
                * math.prod(p2 if word == kept else q2 for word in shown)
                for kept in range(params.num_bits)
            )
            continue
        for bit in range(params.num_bits):
            a = p1 if bit == value else q1
            ones = [word >> bit & 1 for word in shown]
            kept = math.prod(p2 if one else 1 - p2 for one in ones)
            lost = math.prod(q2 if one else 1 - q2 for one in ones)
            total *= a * kept + (1 - a) * lost
    return total


@pytest.mark.parametrize(
    ("params", "reports"),
    [(symbols(2, 2.0, 1.8), 5), (symbols(3, 1.0, 0.9), 4), (bits(3), 3), (bits(2), 4)],
    ids=["two symbols", "three symbols", "three bits", "two bits"],
)
def test_the_pair_is_as_far_apart_as_said(params: RapporParams, reports: int) -> None:
    words = range(params.num_bits if params.scheme.symbols else 1 << params.num_bits)
    found = []
    for other in range(1, reports):
        moved = (0,) * (reports - other) + (1,) * other
        found.append(
            max(
                math.log(chance(params, moved, seen) / chance(params, (0,) * reports, seen))
                for seen in product(words, repeat=reports)
            )
        )
    assert memoized_nats(params, reports) == pytest.approx(max(found))


def test_a_year_of_memoized_places_has_no_bound() -> None:
    memo = {"mode": "memo", "encoding": "symbol", "num_symbols": 2, "num_cohorts": 64}
    dials = {"epsilon_infinity": 2.0, "epsilon_one": 1.8}
    text = declaration("m", "location", **PLACES, **memo, **dials, period="week")
    metric = parse_metrics(text).declared[0]
    risk = sequence_risk(metric, 45)
    assert (risk.bounded, round(risk.epsilon)) == (False, 78)
    assert sequence_risk(metric).epsilon > 20 * metric.lifetime_epsilon
    assert "No bound covers" in risk.sentence
    assert "After 45 weeks of linked reports" in risk.sentence
    assert "(epsilon 78 or more)" in risk.sentence
    assert "Nothing bounds how often" in risk_text(metric, 1_000)
    few = sequence_risk(metric, 2)  # too little to tell two people apart
    assert few.epsilon < 5
    assert f"differ by epsilon {few.epsilon:.2f} or more." in few.sentence


@pytest.mark.parametrize(
    ("keys", "said"),
    [({"turn": "fresh", "hold": 4}, "each block of 52 weeks, and 4.00 any 52 weeks in a row"),
     ({}, "covers any 52 weeks in a row"), ({"hold": 4}, "covers any 48 weeks in a row")],
    ids=["fresh", "fixed", "fixed, held"],
)  # fmt: skip
def test_one_answer_a_window_bounds_by_answers(keys: dict[str, object], said: str) -> None:
    text = declaration("m", "location", **PLACES, **WEEKS, epsilon=2.0, max_reports=2, **keys)
    metric = parse_metrics(text).declared[0]
    risk = sequence_risk(metric)
    assert risk.bounded
    assert risk.epsilon == metric.lifetime_epsilon
    assert said in risk.sentence
    assert "picks it out of 1,000 of its cohort in 5.19 % of" in risk_text(metric, 1_000)


def test_a_requested_report_shows_the_request() -> None:
    dials = {"prob_f": 0.0, "prob_p": 0.25, "prob_q": 0.75, "max_reports": 3}
    use, kinds = "when the app recorded one, nor how often", {"boolean": {}, "category": {}}
    kinds["category"] = {"categories": ["a", "b", "none"], "fallback": "b"}
    for kind, keys in kinds.items():
        keys |= {"max_memoized_values": 2} if kind == "boolean" else {"max_memoized_values": 3}
        metric = parse_metrics(declaration("m", kind, **dials, **keys)).declared[0]
        assert sequence_risk(metric).bounded
        assert sequence_risk(metric).shown == use
        assert "whether there was one" not in risk_text(metric, 1_000)
        assert f"not {use}, which the reports show" in risk_text(metric, 1_000)
        assert "whatever else they know" not in risk_text(metric, 1_000)
    filled = kinds["category"] | {"no_data": "none"}
    metric = parse_metrics(declaration("m", "category", **dials, **filled)).declared[0]
    assert sequence_risk(metric).shown == "when the app recorded the first one"
    metric = metric.replace(max_reports_per_period=2)
    assert sequence_risk(metric).shown == use


def test_the_bound_of_a_first_guess_is_reached() -> None:
    epsilon, crowd = 1.3, 7
    keep = math.exp(epsilon) / (math.exp(epsilon) + crowd - 1)
    law = np.full((crowd, crowd), (1 - keep) / (crowd - 1)) + np.eye(crowd) * (
        keep - (1 - keep) / (crowd - 1)
    )
    assert law.max(axis=0).sum() / crowd == pytest.approx(first_guess(epsilon, crowd))
    assert [round(100 * first_guess(e, 1_000), 1) for e in (math.log(3), 2, 4)] == [0.3, 0.7, 5.2]
    assert first_guess(2.0, 1) == 1.0


def test_check_says_what_a_mode_leaves_open() -> None:
    memo = {"mode": "memo", "encoding": "symbol", "num_symbols": 2, "num_cohorts": 64}
    memo |= {"epsilon_infinity": 2.0, "epsilon_one": 1.8, "period": "week"}

    def result(**keys: object) -> str:
        file = parse_metrics(declaration("m", "location", **PLACES, **keys))
        found = check_metrics(file, today=date(2026, 11, 22))
        return " ".join(one.message for one in found if one.level == "warning")

    assert "is unbounded, 90 nats or more after a year; without hold" in result(**memo)
    assert "guarantees nothing for a sequence" in result(**memo, hold=4)
    assert "not when it changes" not in result(
        **WEEKS, turn="fresh", hold=4, epsilon=2.0, max_reports=2
    )


# what client_js/test/testing.test.mjs holds the other client to
BELIEVED = [
    (0, "1 %"),
    (1, "2.68 %"),
    (2, "6.95 %"),
    (3, "16.9 %"),
    (6, "80.3 %"),
    (math.inf, "100 %"),
]


@pytest.mark.parametrize(("epsilon", "percent"), BELIEVED)
def test_figures_are_those_of_the_other_client(epsilon: float, percent: str) -> None:
    assert percent_up(believed(epsilon)) == percent
    odds = 0.01 / 0.99 * math.exp(epsilon)  # Bayes' rule in odds
    assert believed(epsilon) == pytest.approx(odds / (1 + odds) if odds < math.inf else 1)
    bound = "no bound" if epsilon == math.inf else f"epsilon {epsilon:.2f}"
    assert rise_text(epsilon) == f"a suspicion of 1 % rises to at most {percent} ({bound})"
