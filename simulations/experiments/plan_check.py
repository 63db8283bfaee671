"""Are the predictions of `rappor plan` true? Detection, and numbers found, against simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from decoder import Candidates, DecodeOptions, decode
from metric_design.detection import (
    PlanSetting,
    by_itself,
    detectable_share,
    detection,
    theory,
)
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

Floats = NDArray[np.float64]
POWERS = (0.25, 0.5, 0.8, 0.95)  # predicted, of the values that are placed: by case, in turn
UNLISTED = 300  # values that share what the listed ones leave
PLACED = 12  # values of one share in a window, each found or not
FEWEST_RUNS = 40
BAR = 0.03  # of the difference of predicted and simulated detection


@dataclass(frozen=True, slots=True)
class Case:
    """One setting: Zipf's background of half of the reports, and values placed near `power`."""

    name: str
    setting: PlanSetting
    power: float


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """Predicted and simulated detection of the placed values in one case, and the numbers found.

    share: of each placed value.  draws: placed values over all runs.  inside: share of runs whose
    number found is in the 95 % range that is predicted.
    """

    name: str
    share: float
    predicted: float
    simulated: float
    draws: int
    expected: float
    found: float
    inside: float

    @property
    def error(self) -> float:
        """Simulated minus predicted detection."""
        return self.simulated - self.predicted

    @property
    def noise(self) -> float:
        """Standard error of the simulated probability, if the prediction is true."""
        return math.sqrt(self.predicted * (1 - self.predicted) / self.draws)


def cases() -> list[Case]:
    """Sixty: bits, hashes, cohorts, noise, devices, candidates and repeated reports vary."""
    settings = [*_strings(), *_categories(), *_repeated()]
    return [_case(setting, POWERS[i % len(POWERS)]) for i, setting in enumerate(settings)]


def drawn_cases(number: int, seed: int) -> list[Case]:
    """Settings drawn at random, on which no formula was chosen; up to 1,024 rows, for time.

    Two thirds are Bloom filters, a third of them with repeated reports; the others have a bit for
    each value.
    """
    rng = np.random.default_rng(seed)
    return [
        _case(_drawn_categories(rng) if i % 3 == 2 else _drawn_strings(rng), POWERS[i % 4])
        for i in range(number)
    ]


def _drawn_noise(rng: np.random.Generator) -> tuple[float, float, float]:
    p = float(rng.uniform(0.2, 0.5))
    return float(rng.uniform(0, 0.8)), p, float(rng.uniform(p + 0.2, 0.8))


def _drawn_strings(rng: np.random.Generator) -> PlanSetting:
    bits = int(rng.choice([24, 32, 48, 64]))
    cohorts = int(rng.integers(6, 1024 // bits + 1))
    params = _bloom(bits, int(rng.integers(1, 4)), cohorts, _drawn_noise(rng))
    each = int(rng.integers(2, 31)) if rng.random() < 1 / 3 else 1
    candidates = int(10 ** rng.uniform(2, 3))
    return PlanSetting(params, float(round(10 ** rng.uniform(4.7, 6.5))), each, candidates)


def _drawn_categories(rng: np.random.Generator) -> PlanSetting:
    values = int(rng.integers(16, 101))
    f, p, q = _drawn_noise(rng)
    params = RapporParams.rappor(
        num_bits=values, num_hashes=1, num_cohorts=1, prob_f=f, prob_p=p, prob_q=q,
        encoding="one_hot",
    )  # fmt: skip
    return PlanSetting(params, float(round(10 ** rng.uniform(4, 6))), 1, values)


def _strings() -> Iterator[PlanSetting]:
    crowds = ((0.0, 3e4, 8), (0.25, 1e5, 16), (0.5, 1e6, 16), (0.75, 1e6, 32), (0.5, 1e7, 64))
    lists = (
        (100, 2, 32),
        (300, 2, 64),
        (1_000, 2, 64),
        (1_000, 1, 32),
        (500, 3, 64),
        (200, 2, 128),
    )
    for (f, devices, cohorts), (candidates, hashes, bits) in product(crowds, lists):
        for p, q in ((0.5, 0.75),) if hashes != 2 or bits != 64 else ((0.25, 0.75),):
            yield PlanSetting(_bloom(bits, hashes, cohorts, (f, p, q)), devices, 1, candidates)


def _categories() -> Iterator[PlanSetting]:
    lists = ((1e4, 20), (1e5, 50), (1e6, 100), (1e6, 20), (1e5, 16))
    for f, (devices, values) in product((0.0, 0.25, 0.5, 0.75), lists):
        params = RapporParams.rappor(
            num_bits=values, num_hashes=1, num_cohorts=1, prob_f=f, prob_p=0.25, prob_q=0.75,
            encoding="one_hot",
        )  # fmt: skip
        yield PlanSetting(params, devices, 1, values)


def _repeated() -> Iterator[PlanSetting]:
    for f, each in product((0.25, 0.5, 0.75), (2, 7, 30)):
        yield PlanSetting(_bloom(32, 2, 16, (f, 0.5, 0.75)), 2e5, each, 300)
    yield PlanSetting(_bloom(64, 2, 32, (0.5, 0.5, 0.75)), 2e6, 7, 1_000)


def _bloom(bits: int, hashes: int, cohorts: int, noise: tuple[float, float, float]) -> RapporParams:
    f, p, q = noise
    return RapporParams.rappor(
        num_bits=bits, num_hashes=hashes, num_cohorts=cohorts, prob_f=f, prob_p=p, prob_q=q
    )


def _case(setting: PlanSetting, power: float) -> Case:
    params = setting.params
    name = (
        f"{params.encoding} k={params.num_bits} h={params.num_hashes} m={params.num_cohorts} "
        f"f={params.prob_f:.3g} p={params.prob_p:.3g}, {setting.devices:.3g} devices x "
        f"{setting.reports_each}, {setting.candidates} candidates"
    )
    return Case(name, setting, power)


def population(case: Case) -> Floats:
    """Shares of the placed values, which come first, and of the background."""
    few = case.setting.params.scheme.own_bits
    listed = 3 if few else min(30, case.setting.candidates // 4)
    weights = 1 / np.arange(1, listed + 1)
    background = (0.3 if few else 0.5) * weights / weights.sum()
    given, shares = by_itself(case.setting), np.asarray(background)
    for _ in range(3):  # the placed values are part of what interferes
        share = detectable_share(case.setting, case.power, given) or 1.0
        shares = np.concatenate([np.full(PLACED, min(share, 0.45 / PLACED)), background])
        given = theory(case.setting, listed_shares(case, shares), unlisted(case, shares))
    return np.asarray(shares)


def unlisted(case: Case, shares: Floats) -> float:
    """Sum of squared shares of the values that are held, alike, and not on the list."""
    if case.setting.params.scheme.own_bits:
        return 0.0
    return max(0.0, 1 - float(shares.sum())) ** 2 / UNLISTED


def listed_shares(case: Case, shares: Floats) -> Floats:
    """Shares of all listed values: of a category the last, which are not placed, hold the rest."""
    if not case.setting.params.scheme.own_bits:
        return shares
    others = case.setting.candidates - len(shares)
    return np.concatenate([shares, np.full(others, max(0.0, 1 - float(shares.sum())) / others)])


def predicted(case: Case, shares: Floats) -> Floats:
    """The probability of each value to be found, (n,)."""
    given = theory(case.setting, listed_shares(case, shares), unlisted(case, shares))
    return detection(case.setting, shares, given)


def check(case: Case, runs: int, rng: np.random.Generator) -> PlanCheck:
    """Simulate a case: draws are exact, the decoder is the real one.

    Each window has a stream of its own, so that more runs go on where fewer ended.
    """
    shares = population(case)
    return checked(case, shares, np.array([window(case, shares, one) for one in rng.spawn(runs)]))


def checked(case: Case, shares: Floats, found: Floats) -> PlanCheck:
    """Compare what is predicted for a case with what simulated windows found.

    shares: of the listed values, (n,), the placed ones first.
    found: 1 where the decoder found a value in a window, else 0, (runs, n).
    """
    chances = predicted(case, shares)
    expected = float(chances.sum())
    counts = found.sum(axis=1)
    spread = 1.96 * np.sqrt((chances * (1 - chances)).sum()) + 0.5
    return PlanCheck(
        name=case.name,
        share=float(shares[0]),
        predicted=float(chances[0]),
        simulated=float(found[:, :PLACED].mean()),
        draws=len(found) * PLACED,
        expected=expected,
        found=float(counts.mean()),
        inside=float((np.abs(counts - expected) <= spread).mean()),
    )


def runs_for(case: Case, error: float) -> int:
    """Windows after which the standard error of a simulated probability is at most `error`."""
    shares = population(case)
    chance = float(predicted(case, shares)[0])
    return max(FEWEST_RUNS, math.ceil(chance * (1 - chance) / (error**2 * PLACED)))


def summary(checks: Sequence[PlanCheck]) -> dict[str, float]:
    """Sum up all cases: absolute differences, how many are within .03, coverage of the numbers
    found."""
    errors = np.array([abs(one.error) for one in checks])
    noise = np.array([one.noise for one in checks])
    draws = [one.draws for one in checks]
    return {
        "settings": len(checks),
        "mean": float(errors.mean()),
        "worst": float(errors.max()),
        "signed_mean": float(np.mean([one.error for one in checks])),
        "root_mean_square": float(np.sqrt((errors**2).mean())),
        "noise": float(np.sqrt((noise**2).mean())),
        "within": int((errors <= BAR).sum()),
        "within_and_two_errors": int((errors <= BAR + 2 * noise).sum()),
        "coverage": float(np.average([one.inside for one in checks], weights=draws)),
    }


def window(case: Case, shares: Floats, rng: np.random.Generator) -> Floats:
    """Draw and decode one window; return which of the listed values of `shares` (n,) were found, as
    0 and 1, (n,)."""
    setting, rest = case.setting, max(0.0, 1 - float(shares.sum()))
    params, number = setting.params, len(shares)
    tag = str(rng.integers(1 << 40)) if params.scheme.hashed else ""
    names = [f"v{tag}-{i}" for i in range(setting.candidates)]
    others = [] if params.scheme.own_bits else [f"u{tag}-{i}" for i in range(UNLISTED)]
    held = np.zeros(setting.candidates)
    whole = listed_shares(case, shares)
    held[: len(whole)] = whole
    weights = np.concatenate([held, np.full(len(others), rest / max(len(others), 1))])
    aggregate, _ = draw_aggregate(
        names + others, weights / weights.sum(), int(setting.devices), params, rng,
        reports_each=setting.reports_each,
    )  # fmt: skip
    options = DecodeOptions(
        correction=setting.correction, repeats=float(setting.reports_each), alpha=setting.alpha
    )
    table = decode(aggregate, Candidates.from_strings(names), options).candidates
    return np.asarray(table.detected[:number], dtype=float)
