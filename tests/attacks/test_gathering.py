"""Reports of many days sorted into devices, by their bodies, and by times behind a relay."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privacy_audit import batch_linkage
from privacy_audit.batch_linkage import (
    ADDRESS_CHANGES_A_DAY,
    Arrivals,
    followed_by_address,
    joined_by_time,
)
from privacy_audit.findings import gathering_findings, relay_findings
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
def test_a_reviewer_is_told_of_ninety_days(keys, population, levels) -> None:
    file = parse_metrics(declared(**keys))
    found = list(gathering_findings(file, population, np.random.default_rng(0)))
    assert [one.level for one in found] == levels
    for one in found:
        for days in (2, 30, 90):
            assert f"after {days} days" in one.message


SMALL = {"num_bits": 8, "num_hashes": 1}


def gathered_by_time(arrivals: Arrivals | None, devices: int = 150, reports: int = 2) -> float:
    rng = np.random.default_rng(1)
    return batch_linkage.gathered(PUBLISHED, reports, devices, 32, rng, 200, arrivals)


def test_times_of_arrival_gather_what_bodies_do_not() -> None:
    """.40 by bodies and .92 by both, standard errors .035 and .02."""
    assert gathered_by_time(None) < 0.55
    assert gathered_by_time(Arrivals()) > 0.8


def test_times_that_follow_no_habit_tell_nothing() -> None:
    """The counterpart: bodies decide; two shares with standard errors of .035."""
    assert abs(gathered_by_time(Arrivals(habit=1e8)) - gathered_by_time(None)) < 0.15


def test_a_longer_delay_hides_the_time() -> None:
    """A week on average, against ten minutes."""
    assert gathered_by_time(Arrivals(mean_delay=7 * 86_400)) < gathered_by_time(Arrivals()) - 0.3


def test_a_denser_day_hides_more() -> None:
    assert gathered_by_time(replace(Arrivals(), length=3_600)) < gathered_by_time(Arrivals()) - 0.2


@pytest.mark.parametrize("devices", [30, 1_000])
def test_two_simultaneous_metrics_are_joined_by_time(devices: int) -> None:
    """Nearest guesses on a drawn circle: within four standard errors of the formula, 600 s."""
    rng = np.random.default_rng(3)
    right, days = 0, 6_000 // devices
    for _ in range(days):
        used = rng.uniform(0, 86_400, devices)
        first, second = (used + rng.exponential(600, devices) for _ in range(2))
        away = np.abs((first[:, None] - second + 43_200) % 86_400 - 43_200)
        right += int((away.argmin(axis=1) == np.arange(devices)).sum())
    share = joined_by_time(devices)
    error = math.sqrt(share * (1 - share) / (days * devices))
    assert abs(right / (days * devices) - share) < 4 * error
    assert abs(right / (days * devices) - joined_by_time(devices, 900)) > 4 * error


def test_an_address_is_kept_by_its_law() -> None:
    """27 of 30 days with one address, by all ways in which it can change; standard error .003."""
    keep = math.exp(-ADDRESS_CHANGES_A_DAY)
    p, q = 1 - keep, keep
    exact = q**29 + 2 * p * q**28 + (2 * p + p * p) * q**27 + (2 * p + 2 * p * p) * q**26
    two, month = followed_by_address((2, 30), np.random.default_rng(0))
    assert abs(two - q) < 0.003
    assert abs(month - exact) < 0.015


@pytest.mark.long
def test_a_reviewer_reads_who_hides_from_whom() -> None:
    file = parse_metrics(
        declared(**SMALL) + declaration("theme", "boolean", prob_f=0.5, prob_p=0.5, prob_q=0.75)
    )
    found = list(relay_findings(file, 640, np.random.default_rng(0)))[:3]
    assert [one.metric for one in found] == ["page", "theme", ""]
    for words in ("behind a relay", "without a relay", "about 20 devices", "together see both"):
        assert words in found[0].message
    assert "(100 are simulated)" in found[1].message
    assert "two metrics" in found[2].message


def test_published_counts_have_bounds_or_reasons() -> None:
    """No claim below its floor: 130 reports for each cohort of what is published."""
    once = SMALL | {"max_reports": 1}
    below = parse_metrics(declared(**once, min_reports=130 * 32 - 1))
    above = parse_metrics(declared(**once, min_reports=130 * 32))
    rng = np.random.default_rng(0)
    (refused,) = relay_findings(below, 100_000, rng)
    assert "no claim" in refused.message
    assert "min_reports = 4,160" in refused.message
    bound, local = relay_findings(above, 100_000, rng)
    assert "honest reports in the smallest cohort" in bound.message
    assert "against the collector itself" in local.message
