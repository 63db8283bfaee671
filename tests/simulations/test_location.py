"""Drawn counts of places, attacks, and what is warned of."""

from typing import Any

import numpy as np
import pytest

from metric_design.map_forecast import SECOND_DIAL
from privacy_audit.findings import track_findings, trackability_text
from privacy_audit.location_attacks import attack, attack_file, attacks_on, reports_in
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams
from rappor_core.risk import place_groups
from tests.map_moves import Setting, one_series
from tests.metric_texts import declaration

BITS = {"num_bits": 32, "num_cohorts": 64}


def dials(epsilon: float) -> dict[str, float]:
    return {"epsilon_infinity": epsilon, "epsilon_one": SECOND_DIAL * epsilon}


# Ways to spend 4 nats over 30 periods.
MEMO = {"mode": "memo", **dials(2.0)}
FILTER = {**MEMO, **BITS, "mechanism": "l-osue", "max_memoized_values": 2}
SYMBOLS = {**MEMO, "encoding": "symbol", "num_symbols": 2, "num_cohorts": 64}
WINDOW = {**BITS, "mode": "window", "window": 30, "max_reports": 1, "epsilon": 4.0}
ONCE = {**BITS, "mode": "once", "epsilon": 4.0}


def text_of(keys: dict[str, Any], level: int, period: str, name: str = "riders") -> str:
    place = {"grid": "quadkey", "box": [42.0, -72.8, 42.5, -72.4], "levels": [level]}
    return declaration(name, "location", **place, period=period, **keys)


def riders(keys: dict[str, Any], level: int = 12, period: str = "day") -> MetricsFile:
    return parse_metrics(text_of(keys, level, period))


@pytest.mark.statistical
def test_attacks_know_a_guess_from_a_certainty() -> None:
    """Bands of five standard errors of 400 devices."""
    rng = np.random.default_rng(0)
    quiet = TwoRoundMechanism(p1=60_000, q1=5_536, p2=33_000, q2=32_536)
    blind = attack(RapporParams(32, 1, 1, quiet), 5, 400, rng)
    assert blind.change_auc == pytest.approx(0.5, abs=0.1)
    assert blind.relinked < 0.03
    one_hot = RapporParams(100, 1, 1, TwoRoundMechanism.symmetric(2.0, 1.0), "one_hot")
    seen = attack(one_hot, 30, 400, rng)
    assert seen.change_auc > 0.999
    assert seen.relinked > 0.99
    few = attack(
        RapporParams(2, 1, 1, TwoRoundMechanism.symbols(2, 2.0, 1.0), "symbol"), 30, 400, rng
    )
    assert 0.6 < few.change_auc < 0.85
    assert few.relinked < 0.03


@pytest.mark.statistical
def test_places_with_one_symbol_share_one_response() -> None:
    """A change is missed half the time and .21 of the rest; bands of five errors of 1,500."""
    shown = TwoRoundMechanism.symbols(2, 2.0, 1.99)
    found = attack(RapporParams(2, 1, 1, shown, "symbol"), 1, 1_500, np.random.default_rng(0))
    differ = 0.5 * (1 - 2 * (keep := np.e**2 / (1 + np.e**2)) * (1 - keep))
    assert found.change_auc == pytest.approx(0.5 + differ / 2, abs=0.035)


ONE_SLOT = {
    "mode": "memo", "num_bits": 8, "num_cohorts": 64, "mechanism": "l-osue",
    "max_memoized_values": 6, "epsilon_infinity": 1.0, "epsilon_one": 0.75,
}  # fmt: skip
SLOTS = ["night 22-5", "early 5-9", "work 9-17", "eve 17-20", "late 20-22"]


@pytest.mark.statistical
def test_all_slots_and_metrics_answer_to_one_attack() -> None:
    """Five slots of 8 bits give devices away at once; the two metrics of a file more than one."""
    rng = np.random.default_rng(0)
    caps = ({}, {"slots": SLOTS}, {"slots": SLOTS, "max_memoized_values": 3})
    one, five, few = (riders(ONE_SLOT | more, period="month").declared[0] for more in caps)
    people = 500 * 64
    alone, all_slots = (attack_file([m], 1, people, rng, 500).relinked for m in (one, five))
    assert alone < 0.1
    assert all_slots > 0.5
    assert attack_file([five], 7, people, rng, 500).relinked > 0.99
    assert 0.25 < attack_file([few], 1, people, rng, 500).relinked < all_slots
    both = attack_file([one, one], 1, people, rng, 500)
    assert both.groups == 64**2
    assert both.relinked > 5 * both.by_groups > 0.5


def test_a_file_is_attacked_as_a_whole() -> None:
    few = SYMBOLS | {"num_cohorts": 8}
    text = "".join(text_of(few, 12, "month", name) for name in "abcdef")
    found = list(track_findings(parse_metrics(text), 20_000, np.random.default_rng(0)))
    assert [one.metric for one in found] == [""]
    assert "a, b, c, d, e, f together re-link" in found[0].message
    assert "262,144 groups" in found[0].message


def test_metrics_that_can_be_followed_are_warned_of() -> None:
    rng = np.random.default_rng(0)
    (finding,) = track_findings(riders(FILTER), 6_400, rng)
    assert finding.metric == "riders"
    assert "re-link" in finding.message
    assert not list(track_findings(riders(SYMBOLS), 100_000, rng))
    assert not list(track_findings(riders(ONCE), 6_400, rng))
    assert "once in its lifetime" in trackability_text(riders(ONCE).declared[0])
    assert "AUC" in trackability_text(riders(SYMBOLS, period="month").declared[0])


def test_reports_in_a_time() -> None:
    metrics = [riders(way).declared[0] for way in (FILTER, WINDOW, ONCE)]
    assert [reports_in(metric, 30) for metric in metrics] == [30, 1, 1]
    boolean = parse_metrics(declaration("a", "boolean", prob_f=0.5, prob_p=0.25, prob_q=0.75))
    assert not list(track_findings(boolean, 1_000, np.random.default_rng(0)))


def test_when_a_device_answers_tells_it_apart() -> None:
    """Level and turn are public: in many groups of a crowd it is found again more often."""
    (metric,) = riders(WINDOW, 13).declared
    assert place_groups(metric) == 30
    params = metric.params
    found = [attack(params, 1, 600, np.random.default_rng(1), n) for n in (1, 30, 10_000)]
    assert found[0].change_auc == found[1].change_auc
    assert found[0].relinked < 0.02
    assert 0.1 < found[1].relinked < 0.3  # 20 in each group, also distinguished by values
    assert found[2].relinked > 0.9
    (result,) = attacks_on(metric, (1,), 600, np.random.default_rng(1))
    assert result == found[1]


def test_symbols_shown_as_they_are_can_be_attacked() -> None:
    """So near the first dial that the second round never lies: a report is the permanent symbol."""
    shown = TwoRoundMechanism.symbols(200, 8.0, 7.99999)
    assert (shown.p2, shown.q2) == (1 << 16, 0)
    params = RapporParams(200, 1, 1, shown, "symbol")
    found = attack(params, 2, 50, np.random.default_rng(0))
    assert found.change_auc > 0.9
    assert found.relinked > 0.5


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("mode", ["window", "2 symbols"])
def test_heavy_changes_keep_size_and_sign(mode: str) -> None:
    rng = np.random.default_rng(3)
    setting = Setting(mode, 8, 50_000, "district", 0.5)
    found = [one_series(setting, rng) for _ in range(2)]
    assert sum(one.covered for one in found) >= 32 / 20
    assert sum(one.wrong for one in found) == 0
    assert sum(one.right for one in found) * 2 >= sum(one.strong for one in found) > 0


@pytest.mark.long
@pytest.mark.statistical
def test_drifts_have_no_wrong_sign_midway() -> None:
    setting = Setting("window", 13, 100_000, "drift", 0.5)
    found = [one_series(setting, np.random.default_rng([seed, 77])) for seed in range(3)]
    assert sum(one.wrong for one in found) == 0
    assert sum(one.right for one in found) >= 0.9 * sum(one.strong for one in found)
