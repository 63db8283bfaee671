"""What a planned metric of a list will show: the smallest share, and the values expected."""

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
POOLED = (7, 28)  # periods that are decoded together
FACTORS = np.logspace(-2, 2, 33)  # of devices, for a picture
PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}
_FAR = 100.0  # rank of designs that no p-value is small enough for
_ROUNDS = 4  # of the errors that values leave to each other


def setting_of(metric: Metric, question: Question) -> PlanSetting:
    """The window that is decoded: of mode `memo` the periods asked for, or those served as one."""
    devices, each = float(question.people), 1
    if metric.max_reports != 1:
        merged = merged_periods(devices, metric.params.num_cohorts)
        each = max(question.together, merged)
    candidates = 2 if metric.params.scheme.single_bit else question.listed
    return PlanSetting(metric.params, devices, each, candidates)


def expected_shares(question: Question, candidates: int) -> Floats:
    """Return the shares of the values that are expected, largest first, (candidates,) or fewer."""
    return (question.expected or zipf_population(1.0))(candidates)


def rank(metric: Metric, question: Question) -> float:
    """The logarithm of a standard error next to values that are each removed to within it."""
    setting = setting_of(metric, question)
    shares = expected_shares(question, setting.candidates)
    squares = shares[:COUNTED] ** 2
    tau = rest = float((shares[COUNTED:] ** 2).sum())
    for _ in range(_ROUNDS):
        tau = rest + float(np.minimum(squares, 1 / information(setting, tau)).sum())
    return _FAR * floor_rank(setting) - math.log(information(setting, tau)) / 2


def detected_share(metric: Metric, question: Question) -> float:
    """Return the smallest share that is found with probability `POWER`; infinite if none is."""
    setting = setting_of(metric, question)
    share = detectable_share(setting, POWER, _theory(setting, question))
    return math.inf if share is None else share


def finding(question: Question, share: float) -> str:
    """Say which of the values expected are seen, and how often."""
    number = int((expected_shares(question, question.listed) >= share * (1 - 1e-9)).sum())
    often, least = f"{10 * POWER:g} times in 10", f"of {percent(share)} or more"
    if number > 1:
        return f"see the {number:,} values {least}, each {often}"
    if number:
        return f"see the one value {least}, {often}"
    return f"see none of the values expected, but would see one {least}, {often}"


def limit(metric: Metric, question: Question) -> str:
    """Say why no share is found; "" if some is."""
    setting = setting_of(metric, question)
    if floor_rank(setting) > 1:
        return (
            f"no p-value can reach the {setting.first_level:.2g} that the list asks for in "
            f"{counted(setting.params.num_cohorts, 'cohort')} of {setting.params.num_bits} bits; "
            "use more cohorts (more devices) or fewer candidates"
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
    """What a list will show. Shares are fractions of 1, epsilons in nats.

    setting: what is decoded at once.  theory: what the other values do to each.
    detectable: smallest share found with each of `POWERS`; None: none is.
    half_width: of a 95 % interval of the smallest value seen.
    pooled: numbers of periods decoded together, with the smallest share found; () in mode `once`.
    expected, listed, unseen_values, unseen_share: of the population expected: how many are found
    on average, of how many, how many have less than an even chance, and their share together.
    rough: how far predictions may be off; None where simulations bear them out.
    epsilon_year: of one value.  published: what readers of published counts learn, in sentences.
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
        """Numbers of devices with the smallest share seen at each, for a picture."""
        points = []
        for devices in (self.setting.devices * FACTORS).tolist():
            setting = replace(self.setting, devices=max(devices, 1.0))
            points.append((devices, detectable_share(setting, POWER, self.theory)))
        return points


def forecast(metric: Metric, question: Question, share: float) -> ListForecast:
    """Work out what a metric will show.

    Args:
        metric: as planned.
        question: with every number.
        share: the smallest that is found.
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
    """What one block shows, and what several of them together."""
    merged = merged_periods(setting.devices, setting.params.num_cohorts)
    pools = []
    for number in sorted({merged, *(periods for periods in POOLED if periods > merged)}):
        several = replace(setting, reports_each=number)
        pools.append((number, detectable_share(several, POWER, theory(several, shares))))
    return tuple(pools)
