"""What an audit did not try, it says."""

from privacy_audit.black_box.scenarios import left_out, scenarios
from rappor_core.metrics.file import parse_metrics
from tests.client.location_support import DECLARED, MODES
from tests.privacy_audit.faults import METRICS


def test_unaudited_no_data_of_places_is_told() -> None:
    plain, apart = (
        parse_metrics(DECLARED + MODES["symbols"] + line).declared[0]
        for line in ("", 'no_data = "no_data"\n')
    )
    said = "no_data was not audited: there are no attacks on slots without a fix"
    assert said in list(left_out(apart, upkeep=True))
    assert not any("no_data" in text for text in left_out(plain, upkeep=True))
    names = [[one.name for one in scenarios(metric, upkeep=True)] for metric in (plain, apart)]
    assert names[0] == names[1] != []


def test_no_value_past_the_cap_keeps_bits() -> None:
    """In a small filter two strings may have the same bits; a claim of 0 was called broken."""
    small = METRICS.replace("num_bits = 128", "num_bits = 16").replace(
        "num_hashes = 2", "num_hashes = 1"
    )
    crowded = small.replace("num_cohorts = 16", "num_cohorts = 128")
    assert "values past the cap" in " ".join(
        left_out(parse_metrics(crowded).declared[0], upkeep=True)
    )
    for text in (METRICS, small):
        metric = parse_metrics(text).declared[0]
        found = [s for s in scenarios(metric, upkeep=True) if s.claim == 0 and s.box == "device"]
        one, later = found  # the second in the app's next version
        assert later.worlds == one.worlds
        recorded = {value for _, value in one.worlds[0]} - {one.values[0]}
        for cohort in range(metric.params.num_cohorts):
            taken = {metric.value_bits(value, cohort) for value in (*recorded, "other", "none")}
            assert not taken & {metric.value_bits(value, cohort) for value in one.values[:2]}
