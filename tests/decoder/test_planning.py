"""The planner: solved numbers, impossible requests, the table, the page, risk as text."""

import dataclasses
import json
import math
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from decoder import Candidates, DecodeOptions, decode
from decoder.errors import PlanError
from decoder.inference.multiple_testing import decide
from decoder.numbers.decoding import decode_numbers
from decoder.typing import Floats
from metric_design import detection as detect
from metric_design.kind_design import Question, kind_design
from metric_design.list_forecast import setting_of
from metric_design.number_kind import NUMBER, Z
from metric_design.plan import Plan, check_question, make_plan
from metric_design.plan_page import render_plan
from metric_design.population import read_shares, zipf_population, zipf_shares
from metric_design.review import Finding
from metric_design.search import solve
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor
from tests.number_draws import aggregate_of, metric_of
from tests.number_populations import POPULATIONS, shares_at_or_above

ZIPF = zipf_population(1.0)
TABLE = {"description": "<b>Home</b>", "owner": "o@x", "expires": date(2090, 6, 30)}
USUAL = {"devices": 1e6, "epsilon": 6.0, "candidates": 20.0}


def asked(name: str = "home-page", kind: str = "string", **numbers: Any) -> Question:
    given = {"kind": kind, **TABLE}
    return Question(**({"mode": "memo", "name": name, "given": given} | numbers))


@cache  # a plan takes seconds, and nothing changes it
def planned(kind: str = "string", **numbers: float) -> Plan:
    return make_plan(asked(kind=kind, expected=ZIPF, **numbers))


@pytest.mark.long
@pytest.mark.parametrize(
    ("missing", "start"),
    [
        ("share", {"devices": 1e6, "epsilon": 6}),
        ("devices", {"target": 0.01, "epsilon": 6}),
        ("epsilon", {"target": 0.01, "devices": 1e6}),
        ("candidates", {"target": 0.011, "devices": 1e6, "epsilon": 6}),
        ("periods", {"target": 0.01, "devices": 1e6, "epsilon": 6, "candidates": 1_000}),
    ],
)
def test_any_missing_number_is_solved_for(missing: str, start: dict[str, float]) -> None:
    kind = kind_design("string")
    solved, ((found, _),) = solve(kind, asked(**start))
    assert solved == missing
    assert found.precision <= (found.question.target or 1) * 1.0001
    if missing in ("devices", "epsilon"):  # the least that will do: a tenth less will not
        less = np.floor(getattr(found.question, missing) * 0.9)
        question = dataclasses.replace(found.question, **{missing: less})
        with pytest.raises(PlanError, match="is not reached with these numbers"):
            solve(kind, question)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"target": 0.5}, "devices and epsilon are missing"),
        ({"devices": 1, "epsilon": 6}, "no plan in mode 'memo' for 1 devices: .* served"),
        ({"devices": 1e6, "epsilon": 1e-3}, "no share, not even 1"),
        ({"target": 1e-3, "devices": 1e4}, "share = 0.001 is not reached by any epsilon"),
    ],
)
def test_what_cannot_be_says_what_bounds_it(numbers: dict[str, object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        planned(**numbers)


@pytest.mark.parametrize(
    ("name", "value"),
    [("target", 2.0), ("target", 0.0), ("devices", 1.5), ("candidates", float("nan")),
     ("epsilon", -1.0), ("values", 1)],
)  # fmt: skip
def test_a_bad_number_is_named(name: str, value: Any) -> None:
    with pytest.raises(PlanError, match="share" if name == "target" else name):
        make_plan(asked(**({"devices": 1e5, "epsilon": 6.0} | {name: value})))


@pytest.mark.parametrize(("key", "value"), [("period", "hour"), ("kind", "pear")])
def test_a_bad_key_is_named(key: str, value: str) -> None:
    given = {"kind": "string", **TABLE, key: value}
    with pytest.raises(PlanError, match=key):
        make_plan(check_question(asked(given=given, devices=1e5, epsilon=6.0), {}))


def test_the_table_is_one_that_metrics_toml_takes() -> None:
    made = planned("category", devices=1e5, epsilon=3, candidates=8)
    assert parse_metrics(made.file_text).metrics["home-page"] == made.metric
    json.dumps(made.to_dict(), allow_nan=False)
    assert made.metric.lifetime_epsilon <= 3 * (1 + 1e-9)


def with_budget(file: MetricsFile | None, budget: float) -> MetricsFile:
    return MetricsFile({} if file is None else file.metrics, budget)


def test_what_a_metric_leaves_of_a_budget() -> None:
    of_few = {"kind": "category", "candidates": 8}
    made = make_plan(asked(target=0.05, devices=1e6, **of_few), with_budget(None, 10.0))
    assert made.left == pytest.approx(10 - made.metric.lifetime_epsilon)
    whole = make_plan(asked(**USUAL), with_budget(None, 3.0))  # no more than there is
    assert whole.metric.lifetime_epsilon == pytest.approx(3, abs=1e-2)
    with pytest.raises(PlanError, match="budget = 1"):
        make_plan(asked(target=0.01, devices=1e4, **of_few), with_budget(None, 1.0))


def test_values_beside_a_value_cost_power() -> None:
    plan = planned(**USUAL)
    setting = setting_of(plan.metric, plan.question)
    alone, beside = detect.information(setting), detect.information(setting, 0.05)
    assert beside < 0.9 * alone
    shares = zipf_shares(1.0, 1_000)
    left = detect.interference(setting, shares)
    assert 0 < left < float((shares**2).sum())
    share = np.array([0.01])
    alone = detect.detection(setting, share, detect.by_itself(setting))
    assert detect.detection(setting, share, detect.by_itself(setting, left)) < alone


def test_rough_predictions_are_named() -> None:
    crowded = detect.PlanSetting(bloom(64, 4), 9_000, 1, 1_000)
    few = detect.PlanSetting(bloom(128, 2), 1e6, 1, 20)
    assert ".11 more often" in str(detect.rough_sentence(crowded))
    assert "with 2 cohorts, simulations" in str(detect.rough_sentence(few))
    assert planned(**USUAL).forecast.rough is None


def bloom(bits: int, cohorts: int, hashes: int = 1, f: float = 0.5) -> RapporParams:
    return rappor(bits, hashes, cohorts, f, 0.5, 0.75)


def test_no_share_is_found_where_no_p_value_is_small_enough() -> None:
    """One string in 64 sets the same bit in a single cohort: more than a list of 8 allows."""
    one = detect.PlanSetting(bloom(64, 1), 1e6, 1, 8, 0.05, "bonferroni")
    shares = np.array([0.6, 0.4])
    assert detect.floor_rank(one) == 2
    assert detect.detection(one, shares, detect.theory(one, shares)).sum() == 0
    many = detect.PlanSetting(bloom(64, 8), 1e6, 1, 8, 0.05, "bonferroni")
    assert detect.floor_rank(many) == 0
    assert detect.detection(many, shares, detect.theory(many, shares)).sum() == pytest.approx(2)


@pytest.mark.parametrize("rule", ["fdr", "bh"])
def test_the_level_is_that_of_the_decoders_rule(rule: detect.PlannedCorrection) -> None:
    """40 of 300 candidates are held; 200 lists: the mean number found has an error below .2."""
    setting = detect.PlanSetting(bloom(64, 32), 2e5, 1, 300, 0.05, rule)
    shares = np.geomspace(0.06, 0.002, 40)
    given, rng = detect.theory(setting, shares), np.random.default_rng(3)
    level = detect.information(setting, given.unlisted)
    spread = np.sqrt(1 + shares * (1 - shares) * level / setting.devices)
    found = []
    for _ in range(200):
        held = ndtr(-(shares * np.sqrt(level) + spread * rng.standard_normal(40)))
        p = np.concatenate([held, rng.random(260)])
        found.append(decide(p, np.ones(300), rule, 0.05).detected[:40].sum())
    expected = float(detect.detection(setting, shares, given).sum())
    assert 8 < expected < 32
    assert np.mean(found) == pytest.approx(expected, abs=0.8)


def test_populations(tmp_path: Path) -> None:
    few = zipf_shares(1.0, 4)
    assert (few.sum(), few[0]) == pytest.approx((1, 4 * few[3]))
    assert zipf_shares(1.0, 10**7).sum() < 0.75  # the values beyond 100,000 hold the rest
    table = tmp_path / "results.csv"
    table.write_text("string,estimate,proportion\na,100,.2\nb,50,.3\n")
    assert read_shares(table).tolist() == [0.3, 0.2]
    document = tmp_path / "results.json"
    document.write_text(json.dumps({"detected": [{"value": "a", "share": 0.25}]}))
    assert read_shares(document).tolist() == [0.25]
    for text, words in (("share\n2\n", "line 2, column 'share': '2'"),
                        ("a,b\n1,2\n", "no column"), ("", "no share"),
                        ("share\n.7\n.6\n", "add up to 1.3")):  # fmt: skip
        table.write_text(text)
        with pytest.raises(PlanError, match=words):
            read_shares(table)


def test_the_page_escapes_and_says_whom_to_trust() -> None:
    page = render_plan(planned(**USUAL))
    assert "<b>Home</b>" not in page
    assert "<script" not in page
    assert "http" not in page
    assert "They rely only on the app" in page


@pytest.mark.parametrize("name", ["Bad Name", "a]\n[metrics.b", "", 'a"'])
def test_a_name_that_no_metric_has_is_named(name: str) -> None:
    with pytest.raises(PlanError, match="metric name"):
        make_plan(asked(name, **USUAL))


def test_modes_the_review_warns_of_are_not_recommended() -> None:
    """Where no mode is asked for: a mode that is asked for is planned all the same."""
    numbers = {"devices": 1e5, "epsilon": 4.0, "candidates": 8.0}
    question = asked(kind="category", mode=None, **numbers)

    def against(mode: str) -> Callable[[MetricsFile, int], list[Finding]]:
        def review(file: MetricsFile, population: int) -> list[Finding]:
            assert population == 100_000
            once = file.declared[0].max_reports == 1
            warns = once == (mode == "once")
            return [Finding("warning", file.declared[0].name, "not so")] if warns else []

        return review

    first = make_plan(question)
    assert first.metric.max_reports == 1  # the cheaper one
    second = make_plan(question, review=against("once"))
    assert second.metric.max_reports is None
    assert second.because.endswith("and `rappor metrics check` warns about it: not so.")
    assert "warns about it: not so" in make_plan(question, review=against("memo")).because
    once = dataclasses.replace(question, mode="once")
    assert make_plan(once, review=against("once")).metric.max_reports == 1
    with pytest.raises(PlanError, match="warns about every plan: no; use --mode once to plan"):
        make_plan(question, review=lambda *_: [Finding("warning", "", "no")])


@pytest.mark.parametrize("total", [0, 1, 7, 1_000, 9_999_999])
def test_least_counts_are_those_of_the_binomial_law(total: int) -> None:
    """Checked by scipy.stats, of which commands load nothing: enough, and one less is not."""
    for chance in (0.01, 0.225, 0.5, 0.9):
        for level in (1e-12, 1e-4, 0.05, 0.3):
            least = detect._least_count(level, total, chance)
            assert binom.sf(least - 1, total, chance) <= level
            assert least == 0 or binom.sf(least - 2, total, chance) > level


PLACED = 12  # values of one share in a window, each found or not
UNLISTED = 300  # values that share what the listed ones leave
WINDOWS = 60


def categories(values: int, f: float) -> RapporParams:
    return rappor(values, 1, 1, f, 0.25, 0.75, encoding="one_hot")


def every_share(setting: detect.PlanSetting, shares: Floats) -> tuple[Floats, float]:
    """Shares of all listed values, and the sum of squared shares of those that are not listed."""
    rest = max(0.0, 1 - float(shares.sum()))
    if setting.params.scheme.own_bits:
        others = setting.candidates - len(shares)
        return np.concatenate([shares, np.full(others, rest / others)]), 0.0
    return shares, rest**2 / UNLISTED


def placed(setting: detect.PlanSetting, power: float) -> Floats:
    """Twelve values that are predicted to be found with a probability, and Zipf's background."""
    few = setting.params.scheme.own_bits
    weights = 1 / np.arange(1, (3 if few else min(30, setting.candidates // 4)) + 1)
    background = (0.3 if few else 0.5) * weights / weights.sum()
    given, shares = detect.by_itself(setting), background
    for _ in range(3):  # the placed values are part of what interferes
        share = detect.detectable_share(setting, power, given) or 1.0
        shares = np.concatenate([np.full(PLACED, min(share, 0.45 / PLACED)), background])
        given = detect.theory(setting, *every_share(setting, shares))
    return shares


def window(setting: detect.PlanSetting, shares: Floats, rng: np.random.Generator) -> np.ndarray:
    """Which of the listed values of `shares` (n,) one window finds."""
    params = setting.params
    tag = str(rng.integers(1 << 40)) if params.scheme.hashed else ""
    names = [f"v{tag}-{i}" for i in range(setting.candidates)]
    others = [] if params.scheme.own_bits else [f"u{tag}-{i}" for i in range(UNLISTED)]
    weights = np.zeros(len(names) + len(others))
    listed, _ = every_share(setting, shares)
    weights[: len(listed)] = listed
    if others:
        weights[len(names) :] = max(0.0, 1 - float(shares.sum())) / len(others)
    aggregate, _ = draw_aggregate(
        names + others, weights / weights.sum(), int(setting.devices), params, rng,
        reports_each=setting.reports_each,
    )  # fmt: skip
    options = DecodeOptions(
        correction=setting.correction, repeats=float(setting.reports_each), alpha=setting.alpha
    )
    table = decode(aggregate, Candidates.from_strings(names), options).candidates
    return np.asarray(table.detected[: len(shares)])


@pytest.mark.parametrize(
    ("setting", "power"),
    [
        (detect.PlanSetting(categories(20, 0.25), 1e6, 1, 20), 0.8),
        (detect.PlanSetting(categories(16, 0.5), 1e5, 1, 16), 0.25),
        *(
            pytest.param(detect.PlanSetting(*numbers), power, marks=pytest.mark.long)
            for *numbers, power in (
                (categories(20, 0.0), 1e6, 1, 20, 0.95),
                (bloom(32, 16, 2, 0.25), 1e5, 1, 100, 0.8),
                (bloom(32, 16, 2), 2e5, 7, 300, 0.5),
            )
        ),
    ],
)  # fmt: skip
def test_detection_is_predicted(setting: detect.PlanSetting, power: float) -> None:
    """Within .03 and 3.3 errors of the simulation: a false alarm in 200 runs of the five."""
    shares = placed(setting, power)
    chances = detect.detection(
        setting, shares, detect.theory(setting, *every_share(setting, shares))
    )
    streams = np.random.default_rng(5).spawn(WINDOWS)
    found = np.array([window(setting, shares, one) for one in streams])
    noise = math.sqrt(chances[0] * (1 - chances[0]) / (WINDOWS * PLACED))
    assert abs(found[:, :PLACED].mean() - chances[0]) <= 0.03 + 3.3 * noise
    assert abs(found.sum(axis=1).mean() - chances.sum()) <= 1


@pytest.mark.long
def test_the_error_of_a_curve_is_predicted() -> None:
    """By 60 windows within 4 standard errors of the seen one: a false alarm in 15,000 runs."""
    population, devices, rng = POPULATIONS[0], 50_000, np.random.default_rng(7)
    metric = metric_of(population, 1.0, mode="once")
    predicted = NUMBER.precision(metric, devices) / Z
    truth = shares_at_or_above(population, np.array(metric.details.asked))
    half = int(np.argmin(np.abs(truth - 0.5)))
    off = [
        decode_numbers(aggregate_of(metric, truth, devices, rng)).curve[half].estimate - truth[half]
        for _ in range(WINDOWS)
    ]
    seen = float(np.sqrt(np.mean(np.square(off))))
    assert abs(seen - predicted) < 4 * seen / math.sqrt(2 * WINDOWS)
