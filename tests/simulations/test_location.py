"""Drawn counts of places, attacks, and what is warned of."""

from dataclasses import dataclass

import numpy as np
import pytest

from decoder.density.predicted_error import SECOND_DIAL
from privacy_audit.findings import track_findings, trackability_text
from privacy_audit.location_attacks import attack, attack_file, attacks_on, reports_in
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams
from rappor_core.risk import place_groups
from tests.map_draws import capped, draw_memo, draw_window

COHORTS = 64
_DECLARATION = """
[metrics.riders]
kind = "location"
description = "The usual place of a month"
owner = "simulation@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [42.0, -72.8, 42.5, -72.4]
levels = [{level}]
period = "{period}"
"""


@dataclass(frozen=True)
class Way:
    """A way to spend a lifetime budget (nats), as a declared metric."""

    name: str
    keys: str

    def metrics(self, level: int, period: str) -> MetricsFile:
        """The metrics file of this way."""
        return parse_metrics(self.text(level, period))

    def text(self, level: int, period: str) -> str:
        """The text of that file."""
        return _DECLARATION.format(level=level, period=period) + self.keys

    def metric(self, level: int, period: str) -> Metric:
        """The location metric that this way declares, for one level."""
        (metric,) = self.metrics(level, period).declared
        return metric


def ways(budget: float, num_periods: int) -> list[Way]:
    """All compared ways to spend a lifetime budget (nats) over some periods. A cap counts
    `other`."""
    return [
        _filters("l-osue", 2, budget),
        _filters("l-osue", 3, budget),
        _filters("l-osue", 4, budget),
        _filters("l-sue", 4, budget),
        _symbols(2, budget),
        _window(num_periods, budget),
        Way("once", f'{_bits()}mode = "once"\nepsilon = {budget}\n'),
    ]


def _filters(mechanism: str, cap: int, budget: float) -> Way:
    keys = f'mode = "memo"\nmechanism = "{mechanism}"\nmax_memoized_values = {cap}\n'
    return Way(f"memo, {mechanism.upper()}, cap {cap}", _bits() + keys + _dials(budget / cap))


def _symbols(number: int, budget: float) -> Way:
    keys = f'mode = "memo"\nencoding = "symbol"\nnum_symbols = {number}\n'
    keys += f"num_cohorts = {COHORTS}\n"
    return Way(f"memo, LOLOHA, {number} symbols", keys + _dials(budget / number))


def _window(num_periods: int, budget: float) -> Way:
    keys = f'mode = "window"\nwindow = {max(num_periods, 2)}\nmax_reports = 1\n'
    return Way("window", f"{_bits()}{keys}epsilon = {budget}\n")


def _bits() -> str:
    return f"num_bits = 32\nnum_cohorts = {COHORTS}\n"


def _dials(epsilon: float) -> str:
    return f"epsilon_infinity = {epsilon}\nepsilon_one = {SECOND_DIAL * epsilon}\n"


SYMBOL = RapporParams(4, 1, 8, TwoRoundMechanism.symbols(4, 3.0, 2.0), "symbol")
BLOOM = RapporParams(8, 1, 8, TwoRoundMechanism.optimized(3.0, 2.0))


@pytest.mark.statistical
@pytest.mark.parametrize("params", [SYMBOL, BLOOM], ids=["symbol", "bloom"])
def test_drawn_counts_are_those_of_devices(params: RapporParams) -> None:
    """Mean within five standard errors; the sum over days varies by the repeated answers.

    40,000 devices that stay, two days: false alarms below 1 in 10,000.
    """
    names = ["a", "b", "c"]
    rng = np.random.default_rng(3)
    homes = np.repeat(rng.integers(3, size=(40_000, 1)), 2, axis=1)
    counts = draw_memo(homes, names, params, rng)
    again = draw_memo(homes, names, params, rng)
    share = counts.bits.sum(axis=1) / 40_000
    assert share[0] == pytest.approx(share[1], abs=0.02)  # the same permanent bits
    total = counts.bits.sum(axis=(0, 2)).sum() / counts.reports.sum()
    ones = 1.0 if params.encoding == "symbol" else params.q_star + 7 * params.p_star
    assert total == pytest.approx(ones, abs=0.02)
    assert not np.array_equal(counts.bits, again.bits)
    once = draw_window(homes, names, params, 2, rng)
    assert once.reports.sum() == 40_000
    assert abs(once.reports[0].sum() - 20_000) < 700


def test_the_cap_admits_what_comes_first() -> None:
    values = np.array([[1, 2, 1, 3, 2], [0, 0, 0, 0, 1]])
    assert capped(values, 2, 0).tolist() == [[1, 0, 1, 0, 0], [0, 0, 0, 0, 1]]


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
    """So of two symbols, shown as they are, a change is missed half the time and .21 of the rest.

    1,500 devices: standard error .007; bands of five.
    """
    shown = TwoRoundMechanism.symbols(2, 2.0, 1.99)
    found = attack(RapporParams(2, 1, 1, shown, "symbol"), 1, 1_500, np.random.default_rng(0))
    differ = 0.5 * (1 - 2 * (keep := np.e**2 / (1 + np.e**2)) * (1 - keep))
    assert found.change_auc == pytest.approx(0.5 + differ / 2, abs=0.035)


FIVE = """slots = ["night 22-5", "early 5-9", "work 9-17", "eve 17-20", "late 20-22"]
max_memoized_values = {cap}
mode = "memo"
num_bits = 8
num_cohorts = 64
mechanism = "l-osue"
epsilon_infinity = 1.0
epsilon_one = 0.75
"""


@pytest.mark.statistical
def test_all_slots_and_metrics_answer_to_one_attack() -> None:
    """Five slots of 8 bits give devices away at once; the two metrics of a file more than one."""
    rng = np.random.default_rng(0)
    keys = FIVE.format(cap=6)
    (five,) = Way("five", keys).metrics(12, "month").declared
    (one,) = Way("one", keys[keys.index("\n") + 1 :]).metrics(12, "month").declared
    people = 500 * 64
    alone, all_slots = (attack_file([m], 1, people, rng, 500).relinked for m in (one, five))
    assert alone < 0.1
    assert all_slots > 0.5
    assert attack_file([five], 7, people, rng, 500).relinked > 0.99
    (capped_at_three,) = Way("x", FIVE.format(cap=3)).metrics(12, "month").declared
    assert 0.25 < attack_file([capped_at_three], 1, people, rng, 500).relinked < all_slots
    both = attack_file([one, one], 1, people, rng, 500)
    assert both.groups == 64**2
    assert both.relinked > 5 * both.by_groups > 0.5


def test_a_file_is_attacked_as_a_whole() -> None:
    """Two metrics of which neither gives more than a few devices away link nearly all together."""
    symbols = ways(4.0, 12)[4].keys.replace("num_cohorts = 64", "num_cohorts = 8")
    text = "".join(
        Way("", symbols).text(12, "month").replace("metrics.riders", f"metrics.{name}")
        for name in "abcdef"
    )
    found = list(track_findings(parse_metrics(text), 20_000, np.random.default_rng(0)))
    assert [one.metric for one in found] == [""]
    assert "a, b, c, d, e, f together re-link" in found[0].message
    assert "262,144 groups" in found[0].message


def test_metrics_that_can_be_followed_are_warned_of() -> None:
    table = ways(4.0, 30)
    bloom, symbol, once = table[0], table[4], table[6]
    rng = np.random.default_rng(0)
    (finding,) = track_findings(bloom.metrics(12, "day"), 6_400, rng)
    assert finding.metric == "riders"
    assert "re-linked" in finding.message
    assert not list(track_findings(symbol.metrics(12, "day"), 100_000, rng))
    assert not list(track_findings(once.metrics(12, "day"), 6_400, rng))
    assert "once for life" in trackability_text(once.metrics(12, "day").declared[0])
    assert "AUC" in trackability_text(symbol.metrics(12, "month").declared[0])


def test_reports_in_a_time() -> None:
    memo, window, once = (ways(4.0, 30)[i].metrics(12, "day").declared[0] for i in (0, 5, 6))
    assert [reports_in(metric, 30) for metric in (memo, window, once)] == [30, 1, 1]
    assert not list(track_findings(parse_metrics(STRING), 1_000, np.random.default_rng(0)))


STRING = """
[metrics.a]
kind = "boolean"
description = "x"
owner = "x"
expires = 2099-01-01
prob_f = 0.5
prob_p = 0.25
prob_q = 0.75
"""


def test_when_a_device_answers_tells_it_apart() -> None:
    """Level and turn are public: in many groups of a crowd it is found again more often."""
    metric = ways(4.0, 30)[5].metric(13, "day")
    assert place_groups(metric) == 30
    params = metric.params
    found = [attack(params, 1, 600, np.random.default_rng(1), n) for n in (1, 30, 10_000)]
    assert found[0].change_auc == found[1].change_auc
    assert found[0].relinked < 0.02
    assert 0.1 < found[1].relinked < 0.3  # 20 in each group, told apart by values as well
    assert found[2].relinked > 0.9
    (told,) = attacks_on(metric, (1,), 600, np.random.default_rng(1))
    assert told == found[1]


def test_symbols_shown_as_they_are_can_be_attacked() -> None:
    """So near the first dial that the second round never lies: a report is the permanent symbol."""
    shown = TwoRoundMechanism.symbols(200, 8.0, 7.99999)
    assert (shown.p2, shown.q2) == (1 << 16, 0)
    params = RapporParams(200, 1, 1, shown, "symbol")
    found = attack(params, 2, 50, np.random.default_rng(0))
    assert found.change_auc > 0.9
    assert found.relinked > 0.5
