"""The kind `discover` in `metrics.toml`: what it needs, refuses, and what its id covers."""

from datetime import date

import pytest

from metric_design.code_training import train_code
from metric_design.review import check_metrics
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.params import MAX_COHORTS
from rappor_core.risk import cohorts_affordable, linked_by_groups, public_groups
from tests.discovery_support import SITE, site_metric
from tests.metric_texts import declaration


def test_the_usual_report_is_128_bytes() -> None:
    metric = site_metric(4.0)
    assert metric.params.report_bytes == 128
    assert metric.params.num_cohorts == 160
    assert 3.99 < metric.params.epsilon_infinity <= 4.0
    assert metric.lifetime_epsilon == metric.params.epsilon_infinity == metric.epsilon_one
    assert Metric.from_dict(metric.to_dict()) == metric
    assert hash(metric)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("num_cohorts = 161", "num_cohorts = 161 is not a multiple of num_levels \\+ 1 = 5"),
        ("hash = 'md5'", "hash = 'md5' is fixed"),
        ("num_bits = 8", "needs 16 or more bits"),
        ("num_levels = 5", "80 bits; the limit is 64"),
        ("bits_per_level = 17", "bits_per_level = 17"),
        ("code = 'names'", "code = 'names' is not one of domains"),
        ("code_table = '{}'", "needs exactly the keys"),
        ("mechanism = 'l-osue'", "epsilon_one is missing"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(more: str, message: str) -> None:
    with pytest.raises(MetricsFileError, match=message):
        site_metric(4.0, more)


def test_a_repeating_report_is_sent_once() -> None:
    with pytest.raises(MetricsFileError, match="max_reports = 2 is not 1"):
        site_metric().replace(max_reports=2)
    with pytest.raises(MetricsFileError, match="max_reports = None is not 1"):
        site_metric().replace(max_reports=None)


def test_the_id_covers_table_and_code() -> None:
    code = train_code([b"alpha", b"beta"], "letters", order=1)
    own = site_metric(4.0, f"code_table = '''{code.text}'''")
    assert own.details == PrefixGroups(code, packaged=False)
    other = train_code([b"alpha", b"gamma"], "letters", order=1)
    metrics = [
        site_metric(4.0),
        own,
        site_metric(4.0, f"code_table = '''{other.text}'''"),
        site_metric(4.0, "num_levels = 3"),
        site_metric(4.0, "bits_per_level = 12"),
        site_metric(4.0, "num_bits = 512"),
        site_metric(4.0, "num_cohorts = 320"),
        site_metric(3.0),
    ]
    assert len({metric.params_id for metric in metrics}) == len(metrics)
    assert Metric.from_dict(own.to_dict()) == own


def test_a_device_with_another_table_refuses_the_definition() -> None:
    definition = site_metric().to_dict()
    definition["details"]["code_sha256"] = "0" * 64
    with pytest.raises(MetricsFileError, match="code table 'domains' here has SHA-256"):
        Metric.from_dict(definition)
    definition["details"].pop("num_levels")
    with pytest.raises(MetricsFileError, match="details lack or have unknown keys: 'num_levels'"):
        Metric.from_dict(definition)


def test_check_warns_of_linked_series_alone() -> None:
    """A single report is linked to no other."""
    once = "budget = 40.0\n" + SITE + "epsilon_infinity = 4.0"
    several = once.replace("max_reports = 1\n", "mechanism = 'l-osue'\nepsilon_one = 1.0\n")
    for text, warned in ((once, False), (several, True)):
        found = check_metrics(parse_metrics(text), today=date(2026, 11, 22), population=1_000_000)
        assert any("long series of reports" in one.message for one in found) is warned


TODAY = date(2026, 1, 1)
AREA = {"grid": "square", "box": [42.0, -72.8, 42.5, -72.2], "levels": [0], "period": "month"}
SYMBOLS = """mode = "memo"
encoding = "symbol"
num_symbols = 2
num_cohorts = {cohorts}
epsilon_infinity = 1.22
epsilon_one = 1.0986
"""
FILTER = """mode = "memo"
num_bits = 32
num_cohorts = {cohorts}
mechanism = "l-osue"
epsilon_infinity = 1.0
epsilon_one = 0.75
max_memoized_values = 3
"""


def result(text: str, population: int | None) -> list[str]:
    found = check_metrics(parse_metrics("budget = 30\n" + text), today=TODAY, population=population)
    return [one.message for one in found]


def place(side: int, cohorts: int, keys: str = SYMBOLS, name: str = "a") -> str:
    table = declaration(name, "location", **AREA, rows=side, columns=side)
    return table + keys.format(cohorts=cohorts)


@pytest.mark.parametrize(
    ("population", "cohorts", "use"),
    [(20_000, 64, None), (100_000, 64, None), (1_000_000, 64, 512), (1_000_000, 512, None)],
)
def test_cohorts_grow_with_the_population(population: int, cohorts: int, use: int | None) -> None:
    found = [one for one in result(place(31, cohorts), population) if "more devices do not" in one]
    assert len(found) == (use is not None)
    if use:
        assert "64 cohorts of 2 symbols are 64 equations for 961 cells" in found[0]
        assert found[0].endswith(f"use num_cohorts = {use}")


def test_the_cohorts_of_a_file_are_one_fingerprint() -> None:
    two = place(8, 64) + place(8, 64, FILTER, "b")
    (said,) = [one for one in result(two, 10_000) if "turns of 2 metrics" in one]
    assert all(one in said for one in ("4,096 groups", "37.4%", "use 2 cohorts or fewer"))
    assert not any("levels and turns of" in one for one in result(two, 1_000_000))
    assert not any("levels and turns of" in one for one in result(place(8, 64), 10_000))


def test_groups_are_counted_as_they_show() -> None:
    assert public_groups(parse_metrics(place(8, 64)).declared[0]) == 64
    once = place(8, 64, 'mode = "once"\nnum_bits = 32\nnum_cohorts = {cohorts}\nepsilon = 1.0\n')
    assert public_groups(parse_metrics(once).declared[0]) == 1
    assert linked_by_groups(1, 50) == 1 / 50
    assert linked_by_groups(64**4, 100_000) == pytest.approx(0.997, abs=5e-4)
    assert [cohorts_affordable(1_000, n) for n in (10, 5_000, 10**6)] == [1, 4, 512]
    assert cohorts_affordable(1_000, 64_000_000, 2) == 128  # 252.98, to a power of two
    assert cohorts_affordable(1_000, 10**9) == MAX_COHORTS  # more cannot be declared
