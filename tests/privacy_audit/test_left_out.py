"""What an audit did not try, it says."""

from privacy_audit.black_box.scenarios import left_out, scenarios
from rappor_core.metrics.file import parse_metrics
from tests.client.location_support import DECLARED, MODES


def test_no_data_of_places_is_not_audited_and_said_so() -> None:
    plain, apart = (
        parse_metrics(DECLARED + MODES["symbols"] + line).declared[0]
        for line in ("", 'no_data = "no_data"\n')
    )
    said = "no_data was not audited: there are no attacks on slots without a fix"
    assert said in list(left_out(apart, upkeep=True))
    assert not any("no_data" in text for text in left_out(plain, upkeep=True))
    names = [[one.name for one in scenarios(metric, upkeep=True)] for metric in (plain, apart)]
    assert names[0] == names[1] != []
