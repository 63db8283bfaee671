"""The kind `discover` in `metrics.toml`: what it needs, refuses, and what its id covers."""

from datetime import date

import pytest

from metric_design.code_training import train_code
from metric_design.review import check_metrics
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from tests.discovery_support import SITE, site_metric


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
        ("num_bits = 8", "needs 16 bits or more"),
        ("num_levels = 5", "80 bits; 64 at most"),
        ("bits_per_level = 17", "bits_per_level = 17"),
        ("code = 'names'", "code = 'names' is not one of domains"),
        ("code_table = '{}'", "has the keys"),
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
