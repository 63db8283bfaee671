"""The forecast for a planned list metric: the smallest detected share and expected values."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decoder.tables.format import percent
from decoder.typing import Floats
from metric_design.central_privacy import claim_sentences
from metric_design.detection import (
    COUNTED,
    PlanSetting,
    Theory,
    detectable_share,
    detection,
    floor_rank,
    half_width,
    information,
    rough_sentence,
    theory,
)
from metric_design.kind_design import Question
from metric_design.list_design import POWER, merged_periods
from metric_design.population import zipf_population
from rappor_core.metrics.metric import Metric
from rappor_core.text import counted

POWERS = (0.5, 0.8, 0.9)
POOLED = (7, 28)  # Periods that are decoded together
FACTORS = np.logspace(-2, 2, 33)  # Multiples of the number of devices, for a picture
PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}
_FAR = 100.0  # The rank of designs whose p-values are never small enough
_ROUNDS = 4  # Iterations of tau


def setting_of(metric: Metric, question: Question) -> PlanSetting:
    """Return the decoded window; in mode `memo`, the question's periods or those served as one."""
    devices, each = float(question.people), 1
    if metric.max_reports != 1:
        merged = merged_periods(devices, metric.params.num_cohorts)
        each = max(question.together, merged)
    candidates = 2 if metric.params.scheme.single_bit else question.listed
    return PlanSetting(metric.params, devices, each, candidates)


def expected_shares(question: Question, candidates: int) -> Floats:
    """Return the shares of the expected values, largest first, shape (candidates,) or shorter."""
    return (question.expected or zipf_population(1.0))(candidates)


def rank(metric: Metric, question: Question) -> float:
    """Return the log of a share's standard error if the fit removes other values up to errors."""
    setting = setting_of(metric, question)
    shares = expected_shares(question, setting.candidates)
    squares = shares[:COUNTED] ** 2
    tau = rest = float((shares[COUNTED:] ** 2).sum())
    for _ in range(_ROUNDS):
        tau = rest + float(np.minimum(squares, 1 / information(setting, tau)).sum())
    return _FAR * floor_rank(setting) - math.log(information(setting, tau)) / 2


def detected_share(metric: Metric, question: Question) -> float:
    """Return the smallest share that is detected with probability `POWER`; inf if none is."""
    setting = setting_of(metric, question)
    share = detectable_share(setting, POWER, _theory(setting, question))
    return math.inf if share is None else share


def finding(question: Question, share: float) -> str:
    """Describe which expected values are detected, and how often."""
    number = int((expected_shares(question, question.listed) >= share * (1 - 1e-9)).sum())
    often, least = f"{10 * POWER:g} times in 10", f"of {percent(share)} or more"
    if number > 1:
        return f"see the {number:,} values {least}, each {often}"
    if number:
        return f"see the one value {least}, {often}"
    return f"see none of the expected values (only values {least}, {often})"


def limit(metric: Metric, question: Question) -> str:
    """Explain why no share is detected, or return "" if a share is detected."""
    setting = setting_of(metric, question)
    if floor_rank(setting) > 1:
        return (
            f"no p-value is as small as the {setting.first_level:.2g} that this list requires, "
            f"with {counted(setting.params.num_cohorts, 'cohort')} of {setting.params.num_bits} "
            "bits; use more cohorts (more devices) or fewer candidates"
        )
    if math.isfinite(detected_share(metric, question)):
        return ""
    return (
        f"with {question.people:,} devices no share, not even 1, is found with power {POWER:g}: "
        "use more devices, more epsilon, or fewer candidates"
    )


def _theory(setting: PlanSetting, question: Question) -> Theory:
    return theory(setting, expected_shares(question, setting.candidates))


@dataclass(frozen=True)
class ListForecast:
    """The forecast of a list metric, with shares as fractions of 1 and epsilons in nats.

    Attributes:
        setting: The window that is decoded together.
        theory: The effect of the other values on each value.
        detectable: The smallest share detected with each of `POWERS`; None if none is.
        half_width: Half of the width of a 95 % interval of the smallest detected value.
        pooled: Numbers of periods decoded together, each with the smallest detected share; () in
            mode `once`.
        expected: The mean number of detected values in the expected population.
        listed: The number of values in that population.
        unseen_values: The number of these values with less than an even chance of detection.
        unseen_share: The share of these values together.
        rough: How inaccurate predictions may be; None if simulations confirm them.
        epsilon_year: The epsilon of one value over a year.
        published: What readers of published counts learn, in sentences.
    """

    setting: PlanSetting
    theory: Theory
    detectable: tuple[float | None, ...]
    half_width: float
    pooled: tuple[tuple[int, float | None], ...]
    expected: float
    listed: int
    unseen_values: int
    unseen_share: float
    rough: str | None
    epsilon_year: float
    published: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as plain values, for JSON."""
        return {
            "pooled": [{"periods": number, "share": share} for number, share in self.pooled],
            "half_width": self.half_width,
            "detectable_share": dict(zip(map(str, POWERS), self.detectable, strict=True)),
            "expected_found": self.expected,
            "expected_of": self.listed,
            "unseen_values": self.unseen_values,
            "unseen_share": self.unseen_share,
            "rough": self.rough,
            "epsilon_year_of_one_value": self.epsilon_year,
            "published_counts": list(self.published),
        }

    def curve(self) -> list[tuple[float, float | None]]:
        """Return numbers of devices with the smallest share detected at each, for a picture."""
        points = []
        for devices in (self.setting.devices * FACTORS).tolist():
            setting = replace(self.setting, devices=max(devices, 1.0))
            points.append((devices, detectable_share(setting, POWER, self.theory)))
        return points


def forecast(metric: Metric, question: Question, share: float) -> ListForecast:
    """Compute the forecast of a metric.

    Args:
        metric: The planned metric.
        question: The question, with every number.
        share: The smallest detected share.
    """
    setting, memo = setting_of(metric, question), metric.max_reports != 1
    shares, effect = expected_shares(question, setting.candidates), _theory(setting, question)
    chances = detection(setting, shares, effect)
    unseen = chances < 0.5
    year = PERIODS_A_YEAR[metric.period]
    return ListForecast(
        setting=setting,
        theory=effect,
        detectable=tuple(detectable_share(setting, power, effect) for power in POWERS),
        half_width=half_width(setting, share, effect),
        pooled=_pooled(setting, shares) if memo else (),
        expected=float(chances.sum()),
        listed=min(len(shares), setting.candidates),
        unseen_values=int(unseen.sum()),
        unseen_share=float(shares[unseen].sum()),
        rough=rough_sentence(setting),
        epsilon_year=metric.params.epsilon_n(year) if memo else metric.lifetime_epsilon,
        published=tuple(claim_sentences(metric, question.people)),
    )


def _pooled(setting: PlanSetting, shares: Floats) -> tuple[tuple[int, float | None], ...]:
    merged = merged_periods(setting.devices, setting.params.num_cohorts)
    pools = []
    for number in sorted({merged, *(periods for periods in POOLED if periods > merged)}):
        several = replace(setting, reports_each=number)
        pools.append((number, detectable_share(several, POWER, theory(several, shares))))
    return tuple(pools)
