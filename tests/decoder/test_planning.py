"""The planner: solved numbers, impossible requests, the table, the page, risk in words."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from decoder.errors import PlanError
from metric_design.central_claim import at_most, claim, smallest_cohort
from metric_design.design import solve
from metric_design.detection import (
    _least_count,
    by_itself,
    detection,
    information,
    interference,
)
from metric_design.metric_table import Labels
from metric_design.plan import Plan, Trust, choose, make_plan
from metric_design.plan_html import render_plan
from metric_design.plan_sentences import because_sentence
from metric_design.population import given_population, read_shares, zipf_population, zipf_shares
from metric_design.request import PlanRequest
from metric_design.review import Finding
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.risk import Risk, believed, percent_up

ZIPF = zipf_population(1.0)
LABELS = Labels("home-page", "<b>Home</b>", "o@x", date(2090, 6, 30))


USUAL = {"devices": 1e6, "epsilon_life": 6.0, "candidates": 20.0}


@cache  # a plan takes seconds, and nothing changes it
def planned(**numbers: object) -> Plan:
    request = PlanRequest(**({"mode": "memo"} | numbers))  # type: ignore[arg-type]
    return make_plan(request, ZIPF, LABELS, Trust())


@pytest.mark.parametrize(
    ("missing", "start"),
    [
        ("share", {"devices": 1e6, "epsilon_life": 6}),
        ("devices", {"share": 0.01, "epsilon_life": 6}),
        ("epsilon", {"share": 0.01, "devices": 1e6}),
        ("candidates", {"share": 0.011, "devices": 1e6, "epsilon_life": 6}),
        ("periods", {"share": 0.01, "devices": 1e6, "epsilon_life": 6, "candidates": 1_000}),
        (
            "bytes",
            {"share": 0.02, "devices": 1e6, "epsilon_life": 6, "candidates": 1_000, "periods": 1},
        ),
    ],
)
def test_any_missing_number_is_solved_for(missing: str, start: dict[str, float]) -> None:
    request, design, solved = solve(PlanRequest(mode="memo", **start), ZIPF)  # type: ignore[arg-type]
    assert solved == missing
    assert design.share is not None
    assert request.share is not None
    assert design.share <= request.share * 1.0001
    if missing in ("devices", "epsilon"):  # the least that will do: a tenth less will not
        name = "epsilon_life" if missing == "epsilon" else missing
        less = dataclasses.replace(request, **{name: np.floor(getattr(request, name) * 0.9)})
        with pytest.raises(PlanError, match="is below the smallest"):
            solve(less, ZIPF)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"share": 0.5}, "devices and epsilon are not known"),
        ({"devices": 1, "epsilon_life": 6}, "no design passes .* served"),
        ({"devices": 1e6, "epsilon_life": 1e-3}, "no share, not even 1"),
        ({"share": 1e-3, "devices": 1e4}, "cannot be seen .* by any epsilon_life"),
        ({"share": 1e-3, "devices": 1e6, "epsilon_life": 1}, "even with a single candidate"),
        (
            {"share": 1e-3, "devices": 1e5, "epsilon_life": 6, "candidates": 9},
            "drawn once: more periods",
        ),
        (
            {"devices": 1e5, "epsilon_report": 3, "epsilon_life": 4},
            r"epsilon_report = 3 is not below the 1.333",
        ),
        ({"devices": 1e5, "epsilon_report": 3, "epsilon_year": 2}, "epsilon_year = 2"),
        ({"devices": 1e5, "epsilon_life": 3, "kind": "category"}, "one bit for each, 125 bytes"),
        (
            {"devices": 1e5, "epsilon_life": 3, "candidates": 1, "complete": True},
            "2 or more; use a string",
        ),
    ],
)
def test_what_cannot_be_says_what_bounds_it(numbers: dict[str, object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        planned(**numbers)


@pytest.mark.parametrize(
    ("name", "value"),
    [("share", 2.0), ("share", 0.0), ("devices", 1.5), ("power", 1.0), ("candidates", float("nan")),
     ("epsilon_life", -1.0), ("values", 1), ("period", "hour"), ("kind", "location")],
)  # fmt: skip
def test_a_bad_number_is_named(name: str, value: object) -> None:
    with pytest.raises(PlanError, match=name):
        PlanRequest(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "numbers",
    [
        *(
            pytest.param(extreme, marks=pytest.mark.long)
            for extreme in (
                {"devices": 1e10, "epsilon_life": 6},
                {"devices": 1e6, "epsilon_life": 20, "candidates": 1},
                {"devices": 1e6, "epsilon_life": 20, "candidates": 1e7},
                {"share": 1, "epsilon_life": 6},
            )
        ),
        pytest.param(
            {"devices": 1e5, "epsilon_life": 3, "kind": "boolean"}, marks=pytest.mark.long
        ),
        {"devices": 1e5, "epsilon_life": 3, "candidates": 8, "complete": True},
        {"devices": 1e5, "epsilon_year": 1},
    ],
)
def test_the_table_is_one_that_metrics_toml_takes(numbers: dict[str, object]) -> None:
    made = planned(**numbers)
    metric = parse_metrics(made.table).metrics["home-page"]
    assert metric == made.metric
    assert metric.params == made.design.params
    json.dumps(made.to_dict(), allow_nan=False)
    request = made.request
    if request.epsilon_life is not None:
        assert metric.lifetime_epsilon <= request.epsilon_life * (1 + 1e-9)
    if request.epsilon_year is not None:
        assert made.epsilon_year <= request.epsilon_year * (1 + 1e-9)
        assert made.epsilon_year > 0.97 * request.epsilon_year


@pytest.mark.long
def test_more_of_each_is_better() -> None:
    base = {"devices": 1e5, "epsilon_life": 6.0, "candidates": 1_000.0}
    share = planned(**base).design.share
    assert share is not None
    for better in ({"devices": 1e6}, {"epsilon_life": 9.0}, {"candidates": 10.0}, {"periods": 7.0}):
        other = planned(**(base | better)).design.share
        assert other is not None
        assert other < share


def test_the_budget_and_the_crowd() -> None:
    request = PlanRequest(mode="memo", **USUAL)
    made = make_plan(request, ZIPF, LABELS, Trust(), None, 10.0)
    assert made.left == pytest.approx(4, abs=1e-3)
    with pytest.raises(PlanError, match="budget = 3"):
        make_plan(request, ZIPF, LABELS, Trust(), None, 3.0)
    assert [row.reports for row in made.claims] == [1, 30, 365]
    assert made.claims[0].epsilon < made.claims[1].epsilon < made.claims[2].epsilon
    fewer = make_plan(request, ZIPF, LABELS, Trust(forged=0.9))
    assert fewer.claims[0].crowd < made.claims[0].crowd
    for bad in ({"delta": 0.0}, {"forged": 1.0}):
        with pytest.raises(PlanError, match=next(iter(bad))):
            Trust(**bad)


@pytest.mark.long
def test_other_metrics_costs_reduce_the_budget() -> None:
    existing = parse_metrics(planned(devices=1e5, epsilon_life=2, kind="boolean").table)
    labels = dataclasses.replace(LABELS, name="another")
    request = PlanRequest(mode="memo", **USUAL)
    made = make_plan(request, ZIPF, labels, Trust(), existing, 10.0)
    assert made.spent == existing.lifetime_epsilon > 1.9
    assert made.left == pytest.approx(10 - made.spent - made.metric.lifetime_epsilon)
    with pytest.raises(PlanError, match="other metrics take 2"):
        make_plan(request, ZIPF, labels, Trust(), existing, 7.0)


def test_smallest_cohorts_are_seldom_smaller_than_said() -> None:
    """400 draws of 32 cohorts: about 1 in 8 has a smaller one; 1 in 5 comes once in 10,000 runs."""
    rng = np.random.default_rng(6)
    draws = rng.multinomial(32_000, np.full(32, 1 / 32), 400).min(axis=1)
    said = smallest_cohort(32_000, 32)
    assert np.mean(draws < said) < 0.2
    assert said > 900  # and no idle bound


def test_crowds_below_min_reports_are_as_declared() -> None:
    """Several periods make one block then, and nobody knows how many devices come again."""
    made = planned(devices=500, epsilon_life=6, candidates=5, complete=True)
    assert made.metric.min_reports > 500
    declared = claim(made.metric, 1, delta=1e-6, forged=0.1)
    assert made.claims[0] == declared
    assert made.claims[0] != claim(made.metric, 1, delta=1e-6, crowd=500, forged=0.1)


def test_values_beside_a_value_cost_power() -> None:
    setting = planned(**USUAL).design.setting
    alone, beside = information(setting), information(setting, 0.05)
    assert beside < 0.9 * alone
    shares = zipf_shares(1.0, 1_000)
    left = interference(setting, shares)
    assert 0 < left < float((shares**2).sum())
    share = np.array([0.01])
    assert detection(setting, share, by_itself(setting, left)) < detection(
        setting, share, by_itself(setting)
    )


@pytest.mark.long
def test_a_plan_says_where_its_predictions_are_rough() -> None:
    """More candidates than bits of all cohorts, of which all take part in the fit."""
    crowded = planned(devices=9_000, epsilon_life=12, candidates=1_000, bytes=4)
    assert crowded.design.setting.candidates > 8 * crowded.design.params.num_cohorts * 4
    assert crowded.rough is not None
    assert ".11 more often" in crowded.rough
    assert crowded.to_dict()["rough"] == crowded.rough
    assert crowded.rough in render_plan(crowded)
    assert planned(**USUAL).rough is None


def test_risk_in_words_is_bayes_rule_rounded_up() -> None:
    assert believed(0, 0.5) == 0.5
    assert believed(float("inf")) == 1
    assert believed(np.log(99)) == pytest.approx(0.5)
    sentence = Risk(1.0, 6.0).sentence
    shown = [float(text) / 100 for text in re.findall(r"([\d.]+) %", sentence)]
    assert shown[0] == 0.01
    assert 0 <= shown[1] - believed(1.0) < 1e-4
    assert 0 <= shown[2] - believed(6.0) < 1e-3


def test_populations(tmp_path: Path) -> None:
    few = zipf_shares(1.0, 4)
    assert few.sum() == pytest.approx(1)
    assert few[0] == pytest.approx(4 * few[3])
    assert zipf_shares(1.0, 10**7).sum() < 0.75  # the values beyond 100,000 hold the rest
    table = tmp_path / "results.csv"
    table.write_text("string,estimate,proportion\na,100,.2\nb,50,.3\n")
    assert read_shares(table).tolist() == [0.3, 0.2]
    document = tmp_path / "results.json"
    document.write_text(json.dumps({"detected": [{"value": "a", "share": 0.25}]}))
    assert read_shares(document).tolist() == [0.25]
    for text, words in (("share\n2\n", "row 1: '2'"), ("a,b\n1,2\n", "no column"), ("", "no share"),
                        ("share\n.7\n.6\n", "add up to 1.3")):  # fmt: skip
        table.write_text(text)
        with pytest.raises(PlanError, match=words):
            read_shares(table)
    made = make_plan(
        PlanRequest(mode="memo", **USUAL),
        given_population(np.array([0.3, 0.2])),
        LABELS,
        Trust(),
    )
    assert made.expected == pytest.approx(2, abs=1e-6)


def test_the_page_escapes_and_says_whom_to_trust() -> None:
    page = render_plan(planned(**USUAL))
    assert "<b>Home</b>" not in page
    assert "<script" not in page
    assert "http" not in page
    for words in ("To be trusted for it", "You will not see", "without any condition", "Signature",
                  "honest others in the smallest cohort", "prefers-color-scheme: dark",
                  "@media print"):  # fmt: skip
        assert words in page


@pytest.mark.parametrize("bound", [0.0304, 0.19, 0.191, 1.0, 2.04, 9.96, 0.00071, 1234.0])
def test_a_bound_is_never_understated(bound: float) -> None:
    said = float(at_most(bound))
    assert bound <= said * (1 + 1e-9) <= bound * 1.1
    assert at_most(0.19) == "0.19"


def test_page_tables_round_beliefs_up() -> None:
    """81.0 % stood in the table for a bound of 81.03 %, and 100 % for 99.8 %."""
    made = planned(**USUAL)
    page = render_plan(made)
    for prior in (0.01, 0.5):
        ever = believed(made.metric.lifetime_epsilon, prior)
        assert f"<td>{percent_up(ever)}</td>" in page
        assert float(percent_up(ever).removesuffix(" %")) >= 100 * ever


@pytest.mark.parametrize("name", ["Bad Name", "a]\n[metrics.b", "", 'a"'])
def test_a_name_that_no_metric_has_is_named(name: str) -> None:
    labels = dataclasses.replace(LABELS, name=name)
    with pytest.raises(MetricsFileError, match="metric name"):
        make_plan(PlanRequest(share=0.01, devices=1e6, mode="memo"), ZIPF, labels, Trust())


@pytest.mark.parametrize("budget", [-2.0, 0.0, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_refused(budget: float) -> None:
    request = PlanRequest(share=0.01, devices=1e6, mode="memo")
    with pytest.raises(PlanError, match=r"budget = .* is not a number of nats above 0"):
        make_plan(request, ZIPF, LABELS, Trust(), budget=budget)


def test_modes_the_review_warns_of_are_not_recommended() -> None:
    """Of mode `auto` alone: a mode that is asked for is planned all the same."""
    request = PlanRequest(devices=1e5, epsilon_life=4, candidates=8, complete=True)

    def against(mode: str) -> Callable[[MetricsFile, int], list[Finding]]:
        def review(file: MetricsFile, population: int) -> list[Finding]:
            assert population == 100_000
            once = file.declared[0].max_reports == 1
            warns = once == (mode == "once")
            return [Finding("warning", file.declared[0].name, "not so")] if warns else []

        return review

    first = choose(request, ZIPF, LABELS)
    assert first.metric.max_reports == 1  # the cheaper one
    second = choose(request, ZIPF, LABELS, review=against("once"))
    assert second.metric.max_reports is None
    assert second.warned == "not so"
    said = because_sentence(second.chosen, second.other, second.metric, second.warned)
    assert said.endswith("and `rappor metrics check` warns of it: not so.")
    assert choose(request, ZIPF, LABELS, review=against("memo")).warned is None
    asked = dataclasses.replace(request, mode="once")
    assert choose(asked, ZIPF, LABELS, review=against("once")).metric.max_reports == 1
    with pytest.raises(PlanError, match="warns of every plan: no; --mode once plans it"):
        choose(request, ZIPF, LABELS, review=lambda *_: [Finding("warning", "", "no")])


@pytest.mark.parametrize("total", [0, 1, 7, 1_000, 9_999_999])
def test_least_counts_are_those_of_the_binomial_law(total: int) -> None:
    """Checked by scipy.stats, of which commands load nothing: enough, and one less is not."""
    for chance in (0.01, 0.225, 0.5, 0.9):
        for level in (1e-12, 1e-4, 0.05, 0.3):
            least = _least_count(level, total, chance)
            assert binom.sf(least - 1, total, chance) <= level
            assert least == 0 or binom.sf(least - 2, total, chance) > level
