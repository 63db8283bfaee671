"""The bound for readers of published counts: tables, enumeration, simulation, refusals."""

from __future__ import annotations

import itertools
import math
from datetime import date

import numpy as np
import pytest

from metric_design.central_claim import claim, smallest_crowd
from metric_design.central_privacy import central_epsilon
from rappor_core.errors import ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.privacy import epsilon_n

README = TwoRoundMechanism.rappor(0.75, 0.5, 0.75)
PAPER = TwoRoundMechanism.rappor(0.5, 0.5, 0.75)


def rounded(value: float, shown: float) -> bool:
    """Whether `value` is what was printed as `shown`, to half of its last digit."""
    digits = len(str(shown).partition(".")[2])
    return abs(value - shown) <= 0.51 * 10**-digits


@pytest.mark.parametrize(
    ("crowd", "once", "month", "year"),
    [
        (312, 0.069, 0.42, 1.34),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (
                (3_125, 0.018, 0.114, 0.43),
                (31_250, 0.0051, 0.032, 0.123),
                (1_000_000, 0.0007, 0.0048, 0.019),
            )
        ),
    ],
)
def test_table_of_the_readme_metric(crowd: int, once: float, month: float, year: float) -> None:
    """Computed before by another program, with coarser grids: never above it by more than 1 %."""
    for reports, printed in ((1, once), (30, month), (365, year)):
        found = central_epsilon(README, 2, crowd=crowd, reports=reports, delta=1e-6)
        assert rounded(found, printed) or 0.97 * printed < found < 1.01 * printed


@pytest.mark.parametrize(
    ("epsilon_one", "row"),
    [
        (1.0, (0.062, 0.017)),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (
                (0.5, (0.028, 0.0078, 0.0022, 0.0006, 0.0002)),
                (4.0, (0.35, 0.094, 0.027, 0.0076, 0.0021)),
            )
        ),
    ],
)
def test_table_of_one_round(epsilon_one: float, row: tuple[float, ...]) -> None:
    shown = round(PROBABILITY_SCALE / (1 + math.exp(-epsilon_one / 4)))
    mechanism = TwoRoundMechanism(PROBABILITY_SCALE, 0, shown, PROBABILITY_SCALE - shown)
    for crowd, printed in zip((10**3, 10**4, 10**5, 10**6, 10**7), row, strict=False):
        found = central_epsilon(mechanism, 2, crowd=crowd, reports=1, delta=1e-6)
        assert rounded(found, printed)


@pytest.mark.long
def test_small_crowds_several_reports_and_tiny_deltas() -> None:
    """The rows of the table that are far from normal, and reports that share a block."""
    found = [central_epsilon(README, 2, crowd=31, reports=n, delta=1e-6) for n in (1, 30, 365)]
    assert found[0] == pytest.approx(0.3499, abs=6e-4)  # enumerated: 0.34992
    assert found[0] < 0.375
    assert found[1] < 1.75
    assert found[2] == pytest.approx(epsilon_n(README, 2, 365, single_bit=False), abs=1e-4)
    tiny = [central_epsilon(README, 2, crowd=31_250, reports=n, delta=1e-9) for n in (1, 30, 365)]
    assert tiny == pytest.approx([0.008, 0.047, 0.171], rel=0.01)
    paper = [central_epsilon(PAPER, 2, crowd=31_250, reports=n, delta=1e-6) for n in (1, 30, 365)]
    assert paper == pytest.approx([0.0108, 0.068, 0.258], rel=0.01)
    week = central_epsilon(README, 2, crowd=31_250, reports=7, per_block=7, delta=1e-6)
    assert week == pytest.approx(0.0428, rel=0.01)


def _counter_laws(
    mechanism: TwoRoundMechanism, permanent_ones: int, others: int, reports: int
) -> tuple[np.ndarray, np.ndarray]:
    """Law of one bit's counters over all blocks, for B = 1 and B = 0 of the device, by listing."""
    p1, q1, p2, q2 = (
        value / PROBABILITY_SCALE
        for value in (mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2)
    )
    law = np.ones(1)
    for chance in [p2] * permanent_ones + [q2] * (others - permanent_ones):
        law = np.convolve(law, [1 - chance, chance])
    one = np.convolve(law, [1 - p2, p2])
    zero = np.convolve(law, [1 - q2, q2])
    ones = zeros = np.ones(1)
    for _ in range(reports):
        ones, zeros = np.multiply.outer(ones, one).ravel(), np.multiply.outer(zeros, zero).ravel()
    return p1 * ones + (1 - p1) * zeros, q1 * ones + (1 - q1) * zeros


def _delta_at(epsilon: float, first: np.ndarray, second: np.ndarray) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("mechanism", [README, PAPER, TwoRoundMechanism.rappor(0, 0.25, 0.75)])
@pytest.mark.parametrize("crowd", [2, 4, 5])
@pytest.mark.parametrize("reports", [1, 2, 3])
@pytest.mark.parametrize("delta", [1e-4, 0.02])
def test_enumeration_never_exceeds_the_bound(
    mechanism: TwoRoundMechanism, crowd: int, reports: int, delta: float
) -> None:
    """The whole pipeline, one bit up and one down, for all permanent bits of the others."""
    epsilon = central_epsilon(mechanism, 1, crowd=crowd, reports=reports, delta=delta)
    laws = [_counter_laws(mechanism, held, crowd - 1, reports) for held in range(crowd)]
    for (up_one, up_zero), (down_one, down_zero) in itertools.product(laws, laws):
        first = np.multiply.outer(up_one, down_zero)
        second = np.multiply.outer(up_zero, down_one)
        assert _delta_at(epsilon, first, second) <= delta * (1 + 1e-9)
        assert _delta_at(epsilon, second, first) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", [README, PAPER, TwoRoundMechanism.rappor(0.5, 0.75, 0.5)])
def test_a_boolean_is_one_bit_in_both_directions(mechanism: TwoRoundMechanism) -> None:
    epsilon = central_epsilon(mechanism, 1, crowd=5, reports=2, delta=0.01, single_bit=True)
    for held in range(5):
        one, zero = _counter_laws(mechanism, held, 4, 2)
        assert max(_delta_at(epsilon, one, zero), _delta_at(epsilon, zero, one)) <= 0.01


@pytest.mark.long
def test_simulated_counts_approach_the_bound_from_below() -> None:
    """1,000 devices, 30 blocks, h = 1, half of the others' permanent bits set: 200,000 runs.

    The mean of a variable in [0, 1] near 1e-3 has an error of 7e-5 at most: 5 errors are allowed.
    The share of runs at 0.75 of the bound shows that it is not loose: the truth here is about 0.85.
    """
    crowd, reports, delta, runs = 1_000, 30, 1e-3, 200_000
    epsilon = central_epsilon(README, 1, crowd=crowd, reports=reports, delta=delta)
    rng = np.random.default_rng(7)
    law = np.ones(1)
    for ones, chance in ((500, 0.75), (499, 0.5)):
        grid = np.arange(ones + 1)
        logs = np.array([math.lgamma(ones + 1) - math.lgamma(x + 1) - math.lgamma(ones - x + 1)
                         for x in grid])  # fmt: skip
        law = np.convolve(
            law, np.exp(logs + grid * math.log(chance) + (ones - grid) * math.log1p(-chance))
        )
    laws = [np.convolve(law, [1 - chance, chance]) for chance in (0.75, 0.5)]
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.nan_to_num(np.log(laws[0]) - np.log(laws[1]))
    p1, q1 = 1 - 0.75 / 2, 0.75 / 2

    def loss(chance_of_one: float, sign: int) -> np.ndarray:
        held = rng.random(runs) < chance_of_one
        total = np.zeros(runs)
        for value, part in ((0, held), (1, ~held)):
            count = int(part.sum())
            draws = rng.choice(
                len(law) + 1, p=laws[value] / laws[value].sum(), size=(count, reports)
            )
            total[part] = losses[draws].sum(axis=1)
        ratio = np.log((p1 * np.exp(total) + 1 - p1) / (q1 * np.exp(total) + 1 - q1))
        return sign * ratio

    total = loss(p1, 1) + loss(q1, -1)
    found = np.maximum(1 - np.exp(epsilon - total), 0).mean()
    assert found <= delta + 3.5e-4
    assert np.maximum(1 - np.exp(0.75 * epsilon - total), 0).mean() > delta


@pytest.mark.long
def test_it_grows_with_reports_and_shrinks_with_crowds() -> None:
    by_reports = [
        central_epsilon(README, 2, crowd=200, reports=n, delta=1e-6) for n in (1, 10, 100)
    ]
    assert by_reports == sorted(by_reports)
    local = epsilon_n(README, 2, 20_000, single_bit=False)
    assert central_epsilon(README, 2, crowd=200, reports=20_000, delta=1e-6) <= local
    assert central_epsilon(README, 2, crowd=1, reports=9, delta=1e-6) == epsilon_n(
        README, 2, 9, single_bit=False
    )
    several = central_epsilon(README, 2, crowd=1_000, reports=30, values=3, delta=1e-6)
    single = central_epsilon(README, 2, crowd=1_000, reports=30, delta=1e-6)
    assert single < several < 3 * single
    huge = [central_epsilon(README, 2, crowd=n, reports=9, delta=1e-6) for n in (10**8, 10**10)]
    assert huge[0] == huge[1] > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"crowd": 0}, "crowd = 0"),
        ({"reports": 0}, "reports = 0"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"delta": float("nan")}, "delta = nan"),
        ({"per_block": -1}, "per_block = -1"),
        ({"values": True}, "values = True"),
        ({"symbol": True}, "symbol"),
    ],
)
def test_refusals_name_the_value(change: dict[str, object], words: str) -> None:
    usual: dict[str, object] = {"crowd": 1_000, "reports": 30, "delta": 1e-6}
    with pytest.raises(ParameterError, match=words):
        central_epsilon(README, 2, **(usual | change))  # type: ignore[arg-type]


def _metric(cohorts: int, min_reports: int, floor: int | None = None) -> Metric:
    params = RapporParams(128, 2, cohorts, README)
    return Metric(
        "homepage", "string", "d", "o", date(2027, 6, 30), params, 3,
        fallback="other", min_reports=min_reports, min_reports_per_cohort=floor,
    )  # fmt: skip


def test_no_claim_for_small_cohorts() -> None:
    with pytest.raises(ParameterError, match=r"use min_reports = 4,160 or more, or 7 cohorts"):
        smallest_crowd(_metric(32, 1_000))
    with pytest.raises(ParameterError, match="min_reports_per_cohort = 20"):
        smallest_crowd(_metric(4, 1_000, 20))
    with pytest.raises(ParameterError, match="min_reports"):
        claim(_metric(32, 4_159), 30, delta=1e-6)
    found = claim(_metric(32, 4_160), 30, delta=1e-6, crowd=31_250, forged=0)
    assert found.crowd == 31_250
    assert rounded(found.epsilon, 0.032)
    assert claim(_metric(32, 4_160), 30, delta=1e-6).crowd == 90
