"""The planner: solved numbers, impossible requests, the table, the page, risk in words."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from decoder.errors import PlanError
from decoder.inference.multiple_testing import decide
from metric_design.design import solve
from metric_design.detection import (
    PlanSetting,
    _least_count,
    by_itself,
    detection,
    floor_rank,
    information,
    interference,
    rough_sentence,
    theory,
)
from metric_design.metric_table import Labels
from metric_design.plan import Plan, choose, make_plan
from metric_design.plan_html import render_plan
from metric_design.plan_sentences import because_sentence
from metric_design.population import read_shares, zipf_population, zipf_shares
from metric_design.request import PlannedCorrection, PlanRequest
from metric_design.review import Finding
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams
from tests.decoder.params_support import rappor

ZIPF = zipf_population(1.0)
LABELS = Labels("home-page", "<b>Home</b>", "o@x", date(2090, 6, 30))


USUAL = {"devices": 1e6, "epsilon_life": 6.0, "candidates": 20.0}


@cache  # a plan takes seconds, and nothing changes it
def planned(**numbers: object) -> Plan:
    request = PlanRequest(**({"mode": "memo"} | numbers))  # type: ignore[arg-type]
    return make_plan(request, ZIPF, LABELS)


@pytest.mark.parametrize(
    ("missing", "start"),
    [
        ("share", {"devices": 1e6, "epsilon_life": 6}),
        ("devices", {"share": 0.01, "epsilon_life": 6}),
        ("epsilon", {"share": 0.01, "devices": 1e6}),
        ("candidates", {"share": 0.011, "devices": 1e6, "epsilon_life": 6}),
        ("periods", {"share": 0.01, "devices": 1e6, "epsilon_life": 6, "candidates": 1_000}),
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
    ],
)
def test_what_cannot_be_says_what_bounds_it(numbers: dict[str, object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        planned(**numbers)


@pytest.mark.parametrize(
    ("name", "value"),
    [("share", 2.0), ("share", 0.0), ("devices", 1.5), ("candidates", float("nan")),
     ("epsilon_life", -1.0), ("values", 1), ("period", "hour"), ("kind", "location")],
)  # fmt: skip
def test_a_bad_number_is_named(name: str, value: object) -> None:
    with pytest.raises(PlanError, match=name):
        PlanRequest(**{name: value})  # type: ignore[arg-type]


def test_the_table_is_one_that_metrics_toml_takes() -> None:
    made = planned(devices=1e5, epsilon_life=3, candidates=8, kind="category")
    metric = parse_metrics(made.table).metrics["home-page"]
    assert metric == made.metric
    assert metric.params == made.design.params
    json.dumps(made.to_dict(), allow_nan=False)
    assert metric.lifetime_epsilon <= 3 * (1 + 1e-9)


def with_budget(file: MetricsFile | None, budget: float) -> MetricsFile:
    return MetricsFile({} if file is None else file.metrics, budget)


def test_what_a_metric_leaves_of_a_budget() -> None:
    request = PlanRequest(mode="memo", **USUAL)
    made = make_plan(request, ZIPF, LABELS, with_budget(None, 10.0))
    assert made.left == pytest.approx(4, abs=1e-3)
    with pytest.raises(PlanError, match="budget = 3"):
        make_plan(request, ZIPF, LABELS, with_budget(None, 3.0))


@pytest.mark.long
def test_other_metrics_costs_reduce_the_budget() -> None:
    existing = parse_metrics(planned(devices=1e5, epsilon_life=2, kind="boolean").table)
    labels = dataclasses.replace(LABELS, name="another")
    request = PlanRequest(mode="memo", **USUAL)
    made = make_plan(request, ZIPF, labels, with_budget(existing, 10.0))
    assert made.spent == existing.lifetime_epsilon > 1.9
    assert made.left == pytest.approx(10 - made.spent - made.metric.lifetime_epsilon)
    with pytest.raises(PlanError, match="other metrics take 2"):
        make_plan(request, ZIPF, labels, with_budget(existing, 7.0))


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


def test_rough_predictions_are_named() -> None:
    crowded, few = (
        PlanSetting(bloom(64, 4), 9_000, 1, 1_000),
        PlanSetting(bloom(128, 2), 1e6, 1, 20),
    )
    assert ".11 more often" in str(rough_sentence(crowded))
    assert "in 2 cohorts simulations" in str(rough_sentence(few))
    assert planned(**USUAL).rough is None


def bloom(bits: int, cohorts: int, hashes: int = 1) -> RapporParams:
    return rappor(bits, hashes, cohorts, 0.5, 0.5, 0.75)


def test_no_share_is_found_where_no_p_value_is_small_enough() -> None:
    """One string in 64 sets the same bit in a single cohort: more than a list of 8 allows."""
    one = PlanSetting(bloom(64, 1), 1e6, 1, 8, 0.05, "bonferroni")
    shares = np.array([0.6, 0.4])
    assert floor_rank(one) == 2
    assert detection(one, shares, theory(one, shares)).sum() == 0
    many = PlanSetting(bloom(64, 8), 1e6, 1, 8, 0.05, "bonferroni")
    assert floor_rank(many) == 0
    assert detection(many, shares, theory(many, shares)).sum() == pytest.approx(2)


@pytest.mark.parametrize("rule", ["fdr", "bh"])
def test_the_level_is_that_of_the_decoders_rule(rule: PlannedCorrection) -> None:
    """Of 300 candidates 40 are held; 200 lists: the mean number found has an error below .2."""
    setting = PlanSetting(bloom(64, 32), 2e5, 1, 300, 0.05, rule)
    shares = np.geomspace(0.06, 0.002, 40)
    given, rng = theory(setting, shares), np.random.default_rng(3)
    level = information(setting, given.unlisted)
    spread = np.sqrt(1 + shares * (1 - shares) * level / setting.devices)
    found = []
    for _ in range(200):
        held = ndtr(-(shares * np.sqrt(level) + spread * rng.standard_normal(40)))
        p = np.concatenate([held, rng.random(260)])
        found.append(decide(p, np.ones(300), rule, 0.05).detected[:40].sum())
    expected = float(detection(setting, shares, given).sum())
    assert 8 < expected < 32
    assert np.mean(found) == pytest.approx(expected, abs=0.8)


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


def test_the_page_escapes_and_says_whom_to_trust() -> None:
    page = render_plan(planned(**USUAL))
    assert "<b>Home</b>" not in page
    assert "<script" not in page
    assert "http" not in page
    assert "To be trusted for it" in page


@pytest.mark.parametrize("name", ["Bad Name", "a]\n[metrics.b", "", 'a"'])
def test_a_name_that_no_metric_has_is_named(name: str) -> None:
    labels = dataclasses.replace(LABELS, name=name)
    with pytest.raises(MetricsFileError, match="metric name"):
        make_plan(PlanRequest(share=0.01, devices=1e6, mode="memo"), ZIPF, labels)


def test_modes_the_review_warns_of_are_not_recommended() -> None:
    """Of mode `auto` alone: a mode that is asked for is planned all the same."""
    request = PlanRequest(devices=1e5, epsilon_life=4, candidates=8, kind="category")

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
