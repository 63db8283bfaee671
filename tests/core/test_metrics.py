"""metrics.toml: golden digests, values to bits, and files that must be refused by name."""

import json
import math
import random
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from metric_design.cohorts import reports_to_serve
from metric_design.review import check_metrics
from rappor_core.errors import MetricsFileError, ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from tests.metric_texts import declaration

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "metrics.json").read_text())
TODAY = date(2026, 11, 21)

OF_THE_WEB = {"owner": "web-team@example.org", "expires": "2027-06-30"}
STRING = declaration(
    "homepage", "string", **OF_THE_WEB, num_bits=128, num_hashes=2, num_cohorts=32,
    prob_f=0.75, prob_p=0.5, prob_q=0.75, max_memoized_values=3, fallback="other",
)  # fmt: skip
CATEGORY = declaration(
    "theme", "category", **OF_THE_WEB, categories=["light", "dark", "none"],
    epsilon_infinity=3.0, epsilon_one=1.0, max_memoized_values=3,
)  # fmt: skip
BOOLEAN = declaration("crashed", "boolean", **OF_THE_WEB, epsilon_infinity=1.5, epsilon_one=0.5)


@pytest.fixture
def golden() -> MetricsFile:
    return parse_metrics(VECTORS["metrics.toml"])


def test_golden_digests_and_epsilons(golden) -> None:
    assert golden.metrics.keys() == VECTORS["expected"].keys()
    for name, metric in golden.metrics.items():
        expected = VECTORS["expected"][name]
        assert Metric.from_dict(json.loads(json.dumps(metric.to_dict()))) == metric
        assert metric.meaning == expected["meaning"]
        assert metric.params_id == expected["params_id"]
        assert metric.params.q_star == expected["q_star"]
        assert metric.params.p_star == expected["p_star"]
        assert metric.params.epsilon_infinity == pytest.approx(float(expected["epsilon_infinity"]))
        assert metric.params.epsilon_one == pytest.approx(expected["epsilon_one"])
        assert metric.params.epsilon_n(30) == pytest.approx(expected["epsilon_30"])
        assert metric.lifetime_epsilon == pytest.approx(expected["lifetime_epsilon"])


def test_params_id_follows_the_meaning_and_nothing_else(golden) -> None:
    metric = golden.metrics["theme"]
    same = metric.replace(owner="x@example.org", min_reports=5, accept_days=1, name="other_name")
    assert same.params_id == metric.params_id
    swapped = metric.replace(categories=("dark", "light", "caf\u00e9"))
    assert swapped.params_id != metric.params_id


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("homepage", 17, "takes a string, not a int"),
        ("homepage", {"secret-value"}, "separate metrics"),
        ("homepage", ["secret-value"], "separate metrics"),
        ("theme", "secret-value", "not one of its 3 categories"),
        ("crashed", 1, "takes True or False, not a int"),
        ("crashed", "secret-value", "True or False"),
    ],
)
def test_an_unencodable_value_is_refused_unseen(golden, name, value, message) -> None:
    with pytest.raises(ValueRefusedError, match=message) as caught:
        golden.metrics[name].value_bits(value, 0)
    assert "secret-value" not in str(caught.value)


def test_reports_for_life_can_be_the_tighter_bound() -> None:
    metric = parse_metrics(CATEGORY + "max_reports = 2\n").metrics["theme"]
    assert metric.lifetime_epsilon == pytest.approx(2 * metric.epsilon_one)


def edit(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


BAD = [
    ("", "no [metrics.NAME] table"),
    ("metrics = 3", "no [metrics.NAME] table"),
    ("a = [", "not TOML: it cannot be read at the end"),
    ("a = 1\nb c", "not TOML: it cannot be read at line 2, column 3: 'b c'"),
    ("a = 1\n b = 2027-02-30", "no such date or time at line 2, column 6: 'b = 2027-02-30'"),
    ("color = 1\n" + STRING, "color = 1"),
    ("budget = inf\n" + STRING, "budget = inf"),
    ("budget = 6.0\n" + STRING, "budget = 6 is below the 6.130"),
    (edit(STRING, "2027-06-30", '"2027-06-30"'), "expires = '2027-06-30'"),
    (edit(STRING, "num_bits = 128", "num_bits = 1.5"), "num_bits = 1.5"),
    (edit(STRING, "num_bits = 128\n", ""), "num_bits is missing"),
    (edit(STRING, "prob_f = 0.75", "prob_f = 75"), "prob_f = 75"),
    (edit(STRING, "prob_f = 0.75", "prob_f = 1"), "keeps nothing"),
    (edit(STRING, "prob_f = 0.75", "prob_f = 0"), "max_reports = None is missing"),
    (edit(STRING, "prob_f = 0.75", "epsilon_one = 1.0"), "probabilities or epsilons"),
    (STRING + 'mechanism = "l-osue"', "mechanism = 'l-osue' needs epsilon_infinity"),
    (edit(STRING, "num_bits = 128", "num_bits = " + "9" * 5000), "has too many digits"),
    ("a = " + "[" * 5000, "nested too deeply"),
    ("x" * 1_000_001, "1,000,001 characters"),
    ("budget = " + "9" * 400 + "\n" + STRING, "budget = an integer of"),
    (edit(CATEGORY, "epsilon_infinity = 3.0", "epsilon_infinity = 1000"), "= 1000.0 is more than"),
    (edit(STRING, "max_memoized_values = 3", "max_memoized_values = 1"), "no place beside"),
    (edit(STRING, "prob_f = 0.75", "prob_f = 0.99999"), "prob_f = 0.99999"),
    (STRING + "max_reports_per_period = 0", "max_reports_per_period = 0"),
    (STRING + "accept_days = 91", "accept_days = 91"),
    (STRING + "min_reports = 0", "min_reports = 0"),
    (STRING + "min_reports_per_cohort = 0", "min_reports_per_cohort = 0"),
    (STRING + 'typo_key = "x"', "typo_key = 'x'"),
    (edit(STRING, 'fallback = "other"\n', ""), "fallback = None is missing"),
    (edit(STRING, "max_memoized_values = 3\n", ""), "max_memoized_values is missing"),
    (edit(CATEGORY, '["light", "dark", "none"]', '["light"]'), "categories = ('light',)"),
    (edit(CATEGORY, '["light", "dark", "none"]', '["a", "a"]'), "different strings"),
    (CATEGORY + "num_bits = 3", "num_bits = 3 is fixed"),
    (edit(CATEGORY, "max_memoized_values = 3", "max_memoized_values = 2"), "fallback = None"),
    (CATEGORY + 'fallback = "blue"', "fallback = 'blue'"),
    (edit(CATEGORY, "epsilon_one = 1.0", 'epsilon_one = "1"'), "epsilon_one = '1'"),
    (edit(CATEGORY, "epsilon_one = 1.0\n", ""), "epsilon_one is missing"),
    (edit(CATEGORY, "epsilon_one = 1.0", "epsilon_one = 3.0"), "epsilon_one = 3.0"),
    (BOOLEAN + 'mechanism = "l-osue"', "mechanism = 'l-osue' has no use"),
    (BOOLEAN + "max_memoized_values = 3", "max_memoized_values = 3"),
    (CATEGORY + 'no_data = "blue"\n', "no_data = 'blue' is not one of the categories"),
    (BOOLEAN + 'no_data = "x"\n', "unknown key no_data = 'x'; known are"),
    (edit(STRING, "values = 3", "values = 2") + 'no_data = "x"', "beside fallback and no_data"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_files_name_key_and_value(text, message) -> None:
    with pytest.raises(MetricsFileError) as caught:
        parse_metrics(text)
    assert message in str(caught.value)


def test_the_cohort_floor_is_at_most_a_hundred() -> None:
    def metric(keys: str) -> Metric:
        (found,) = parse_metrics(STRING + keys).metrics.values()
        assert Metric.from_dict(json.loads(json.dumps(found.to_dict()))) == found
        return found

    assert metric("").cohort_floor == metric("min_reports = 5000\n").cohort_floor == 100
    assert metric("min_reports = 7\n").cohort_floor == 7
    lower = metric("min_reports_per_cohort = 40\n")
    assert lower.cohort_floor == 40
    assert lower.params_id == metric("").params_id
    assert "min_reports_per_cohort" not in metric("").to_dict()  # as before there was the key


def test_check_warns_of_thin_cohorts_that_wait() -> None:
    def result(keys: str, population: int | None = None) -> str:
        return "".join(m for m in messages("budget = 20\n" + STRING + keys, population))

    assert "may have only 20 reports" in result("min_reports_per_cohort = 20\n")
    assert "may have only" not in result("")
    assert "at a time" not in result("", 1_000)
    waits = result("", 500)
    assert "about 4,161 reports" in waits
    assert "8 at a time" in waits


def test_the_reports_that_fill_every_cohort_are_foreseen() -> None:
    """In 300 draws of uniform cohorts, about half have each cohort at its floor by then."""
    rng = random.Random(5)
    (metric,) = parse_metrics(STRING).metrics.values()
    needed, full = reports_to_serve(metric), 0
    for _ in range(300):
        drawn = Counter(rng.choices(range(32), k=needed))
        full += len(drawn) == 32 and min(drawn.values()) >= metric.cohort_floor
    assert 0.4 < full / 300 < 0.95


def messages(text: str, population: int | None = None, today: date = TODAY) -> list[str]:
    found = check_metrics(parse_metrics(text), today=today, population=population)
    return [f"{finding.level}: {finding.metric}: {finding.message}" for finding in found]


def test_check_says_what_a_reviewer_should_know() -> None:
    assert messages("budget = 20\n" + CATEGORY, today=date(2027, 6, 30)) == []  # its last day
    assert "no `budget`" in messages(CATEGORY)[0]
    expired = messages("budget = 20\n" + CATEGORY, today=date(2027, 7, 1))
    assert expired == ["error: theme: expired on 2027-06-30"]
    one_time = edit(STRING, "prob_f = 0.75", "prob_f = 0") + "max_reports = 2\n"
    assert any("no permanent response" in message for message in messages(one_time))


def test_check_warns_of_raw_reports_gone_early() -> None:
    def kept(days: int) -> list[str]:
        return messages(f"budget = 20\n{CATEGORY}accept_days = 7\nkeep_raw_days = {days}\n")

    assert kept(0) == kept(8) == []
    assert "keep them for 8 days or more" in kept(7)[0]


def test_check_refuses_strings_of_one_cohort_and_one_hash() -> None:
    one = STRING.replace("num_cohorts = 32", "num_cohorts = 1")
    assert not any("num_hashes = 1" in message for message in messages("budget = 20\n" + one))
    both = one.replace("num_hashes = 2", "num_hashes = 1")
    assert both != one
    (said,) = (text for text in messages("budget = 20\n" + both) if "num_hashes = 1" in text)
    assert said.startswith("error: homepage: num_cohorts = 1 with num_hashes = 1")


def test_check_warns_where_a_device_could_be_tracked() -> None:
    crowded = messages("budget = 20\n" + STRING, population=10_000_000)
    assert any("distinguish devices" in message for message in crowded)
    few = messages("budget = 20\n" + STRING, population=5_000)
    assert any("narrows the crowd" in message for message in few)
    assert any("links 0.6% of devices" in message for message in few)  # 32 / 5,000
    assert any("use 4 cohorts or fewer" in message for message in few)
    assert messages("budget = 20\n" + BOOLEAN, population=1_000_000) == []


@pytest.mark.parametrize(("population", "cohorts"), [(150, 1), (5_000, 4), (40_000, 32)])
def test_the_cohorts_that_check_advises_pass_it(population, cohorts) -> None:
    text = "budget = 20\n" + edit(STRING, "num_cohorts = 32", f"num_cohorts = {cohorts}")
    assert not any("crowd" in message for message in messages(text, population=population))
    advice = f"use {cohorts} cohort"
    twice = edit(STRING, "num_cohorts = 32", f"num_cohorts = {2 * cohorts}")
    assert any(advice in message for message in messages(twice, population=population))


def test_the_file_adds_up_a_devices_spending(golden) -> None:
    total = math.fsum(metric.lifetime_epsilon for metric in golden.metrics.values())
    assert golden.lifetime_epsilon == pytest.approx(total)
