"""What an audit did not try, it says."""

import pytest

from privacy_audit.black_box.scenarios import left_out, scenarios
from privacy_audit.report import DEFAULT_METRICS
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.file import parse_metrics
from tests.privacy_audit.faults import METRICS


@pytest.mark.parametrize("name", ["usual_place", "startup", "commute"])
def test_what_is_reported_later_has_its_encoder_audited(name: str) -> None:
    metric = load_metrics(DEFAULT_METRICS).parts(name)[0]
    assert {one.part for one in scenarios(metric)} == {"encoder"}
    (text,) = left_out(metric)
    assert text == "only its encoder was audited: a device reports it when a period ends"


def test_silent_periods_are_named() -> None:
    plain = METRICS.replace('no_data = "none"\n', "")
    said = "silent periods were not audited: the protocol has none"
    assert said in list(left_out(parse_metrics(METRICS).declared[0]))
    assert list(left_out(parse_metrics(plain).declared[0])) == []


def test_no_value_past_the_cap_keeps_bits() -> None:
    """In a small filter two strings may have the same bits; a claim of 0 was called broken."""
    small = METRICS.replace("num_bits = 128", "num_bits = 16").replace(
        "num_hashes = 2", "num_hashes = 1"
    )
    crowded = small.replace("num_cohorts = 16", "num_cohorts = 128")
    assert "values past the cap" in " ".join(left_out(parse_metrics(crowded).declared[0]))
    for text in (METRICS, small):
        metric = parse_metrics(text).declared[0]
        (one,) = (s for s in scenarios(metric) if s.claim == 0 and s.part == "device")
        recorded = {value for _, value in one.worlds[0]} - {one.values[0]}
        for cohort in range(metric.params.num_cohorts):
            taken = {metric.value_bits(value, cohort) for value in (*recorded, "other", "none")}
            assert not taken & {metric.value_bits(value, cohort) for value in one.values[:2]}
