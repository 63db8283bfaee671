"""What `rappor plan` predicts, against windows that are drawn and decoded by the real decoder."""

import math

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode
from decoder.numbers.decoding import decode_numbers
from decoder.typing import Floats
from metric_design.detection import PlanSetting, by_itself, detectable_share, detection, theory
from metric_design.number_kind import NUMBER, Z
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor
from tests.number_draws import aggregate_of, metric_of
from tests.number_populations import POPULATIONS, shares_at_or_above

PLACED = 12  # values of one share in a window, each found or not
UNLISTED = 300  # values that share what the listed ones leave
WINDOWS = 60


def bloom(bits: int, hashes: int, cohorts: int, f: float) -> RapporParams:
    return rappor(bits, hashes, cohorts, f, 0.5, 0.75)


def categories(values: int, f: float) -> RapporParams:
    return rappor(values, 1, 1, f, 0.25, 0.75, encoding="one_hot")


def every_share(setting: PlanSetting, shares: Floats) -> tuple[Floats, float]:
    """Shares of all listed values, and the sum of squared shares of those that are not listed."""
    rest = max(0.0, 1 - float(shares.sum()))
    if setting.params.scheme.own_bits:
        others = setting.candidates - len(shares)
        return np.concatenate([shares, np.full(others, rest / others)]), 0.0
    return shares, rest**2 / UNLISTED


def placed(setting: PlanSetting, power: float) -> Floats:
    """Twelve values that are predicted to be found with a probability, and Zipf's background."""
    few = setting.params.scheme.own_bits
    weights = 1 / np.arange(1, (3 if few else min(30, setting.candidates // 4)) + 1)
    background = (0.3 if few else 0.5) * weights / weights.sum()
    given, shares = by_itself(setting), background
    for _ in range(3):  # the placed values are part of what interferes
        share = detectable_share(setting, power, given) or 1.0
        shares = np.concatenate([np.full(PLACED, min(share, 0.45 / PLACED)), background])
        given = theory(setting, *every_share(setting, shares))
    return shares


def window(setting: PlanSetting, shares: Floats, rng: np.random.Generator) -> np.ndarray:
    """Which of the listed values of `shares` (n,) one window finds."""
    params = setting.params
    tag = str(rng.integers(1 << 40)) if params.scheme.hashed else ""
    names = [f"v{tag}-{i}" for i in range(setting.candidates)]
    others = [] if params.scheme.own_bits else [f"u{tag}-{i}" for i in range(UNLISTED)]
    weights = np.zeros(len(names) + len(others))
    listed, _ = every_share(setting, shares)
    weights[: len(listed)] = listed
    if others:
        weights[len(names) :] = max(0.0, 1 - float(shares.sum())) / len(others)
    aggregate, _ = draw_aggregate(
        names + others, weights / weights.sum(), int(setting.devices), params, rng,
        reports_each=setting.reports_each,
    )  # fmt: skip
    options = DecodeOptions(
        correction=setting.correction, repeats=float(setting.reports_each), alpha=setting.alpha
    )
    table = decode(aggregate, Candidates.from_strings(names), options).candidates
    return np.asarray(table.detected[: len(shares)])


@pytest.mark.parametrize(
    ("setting", "power"),
    [
        (PlanSetting(categories(20, 0.25), 1e6, 1, 20), 0.8),
        (PlanSetting(categories(16, 0.5), 1e5, 1, 16), 0.25),
        *(
            pytest.param(PlanSetting(*numbers), power, marks=pytest.mark.long)
            for *numbers, power in (
                (categories(20, 0.0), 1e6, 1, 20, 0.95),
                (bloom(32, 2, 16, 0.25), 1e5, 1, 100, 0.8),
                (bloom(32, 2, 16, 0.5), 2e5, 7, 300, 0.5),
            )
        ),
    ],
)  # fmt: skip
def test_detection_is_predicted(setting: PlanSetting, power: float) -> None:
    """Within .03 and 3.3 errors of the simulation: a false alarm in 200 runs of the five."""
    shares = placed(setting, power)
    chances = detection(setting, shares, theory(setting, *every_share(setting, shares)))
    streams = np.random.default_rng(5).spawn(WINDOWS)
    found = np.array([window(setting, shares, one) for one in streams])
    noise = math.sqrt(chances[0] * (1 - chances[0]) / (WINDOWS * PLACED))
    assert abs(found[:, :PLACED].mean() - chances[0]) <= 0.03 + 3.3 * noise
    assert abs(found.sum(axis=1).mean() - chances.sum()) <= 1


@pytest.mark.long
def test_the_error_of_a_curve_is_predicted() -> None:
    """By 60 windows within 4 standard errors of the seen one: a false alarm in 15,000 runs."""
    population, devices, rng = POPULATIONS[0], 50_000, np.random.default_rng(7)
    metric = metric_of(population, 1.0, mode="once")

    predicted = NUMBER.precision(metric, devices) / Z
    truth = shares_at_or_above(population, np.array(metric.details.asked))
    half = int(np.argmin(np.abs(truth - 0.5)))
    off = [
        decode_numbers(aggregate_of(metric, truth, devices, rng)).curve[half].estimate - truth[half]
        for _ in range(WINDOWS)
    ]
    seen = float(np.sqrt(np.mean(np.square(off))))
    assert abs(seen - predicted) < 4 * seen / math.sqrt(2 * WINDOWS)
