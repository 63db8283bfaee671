"""Reports of many days, sorted into devices by their bodies alone."""

import numpy as np
import pytest

from privacy_audit import batch_linkage
from privacy_audit.findings import gathering_findings
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from tests.metric_texts import declaration

PUBLISHED = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=32, prob_f=0.75, prob_p=0.5, prob_q=0.75
)


def gathered(params: RapporParams, reports: int, devices: int, groups: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    return batch_linkage.gathered(params, reports, devices, groups, rng, enough=150)


@pytest.mark.long
def test_a_month_gathers_what_two_days_do_not() -> None:
    """The figures of docs/privacy.md for 150 devices, 41 % and 80 %, within 4 standard errors."""
    assert 0.25 < gathered(PUBLISHED, 2, 150, 32, 1) < 0.57
    assert 0.64 < gathered(PUBLISHED, 30, 150, 32, 1) < 0.96


@pytest.mark.long
def test_a_larger_crowd_is_gathered_less() -> None:
    assert gathered(PUBLISHED, 30, 400, 32, 1) < 0.4


@pytest.mark.long
def test_fewer_bits_are_gathered_less() -> None:
    few = PUBLISHED.replace(num_bits=8)
    assert gathered(few, 30, 150, 32, 1) < 0.6 * gathered(PUBLISHED, 30, 150, 32, 1)


def test_reports_without_noise_are_gathered_whole() -> None:
    """The counterpart: next to no second round."""
    loud = PUBLISHED.replace(mechanism=TwoRoundMechanism(p1=57_344, q1=8_192, p2=65_000, q2=500))
    assert gathered(loud, 30, 20, 1, 2) == 1


def test_silent_reports_are_gathered_by_chance() -> None:
    """Fresh noise with no permanent part that differs: a symbol that is kept hardly ever."""
    dull = RapporParams(2, 1, 1, TwoRoundMechanism.symbols(2, 0.02, 0.01), "symbol")
    assert gathered(dull, 30, 12, 1, 3) < 0.02


SYMBOLS = TwoRoundMechanism.symbols(16, 6.0, 5.0)


def test_symbols_that_differ_are_gathered() -> None:
    assert gathered(RapporParams(16, 1, 1, SYMBOLS, "symbol"), 30, 3, 1, 4) > 0.5


def declared(**keys: object) -> str:
    usual = {"num_bits": 128, "num_hashes": 2, "num_cohorts": 32, "fallback": "other"}
    noise = {"prob_f": 0.75, "prob_p": 0.5, "prob_q": 0.75, "max_memoized_values": 2}
    return declaration("page", "string", **usual | noise | keys)


@pytest.mark.parametrize(
    ("keys", "population", "levels"),
    [
        pytest.param({}, 150, ["warning"], marks=pytest.mark.long),
        ({"max_reports": 1}, 150, []),
        ({}, 1_000_000, []),
        ({"num_bits": 4, "num_hashes": 1, "num_cohorts": 1, "period": "month"}, 90, ["note"]),
    ],
)
def test_a_reviewer_is_told_of_ninety_days(
    keys: dict[str, object], population: int, levels: list[str]
) -> None:
    file = parse_metrics(declared(**keys))
    found = list(gathering_findings(file, population, np.random.default_rng(0)))
    assert [one.level for one in found] == levels
    for one in found:
        for days in (2, 30, 90):
            assert f"after {days} days" in one.message
