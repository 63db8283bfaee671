"""The information revealed by all reports of a device over time, against the declared epsilon.

An adversary has every report of a device over T periods, knows its cohort and the parameters, and
decides which of two values it has by likelihood ratios of the declared mechanism, the best test.
All modes with a lifetime promise make the same one: epsilon_infinity of the paper's parameters (f =
.5, h = 2: 4.39 nats), spent on memoized values, on one report, or over the windows of a year."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoder.typing import Floats
from privacy_audit.black_box.attacks import attack
from privacy_audit.black_box.observations import log_likelihood_ratio
from privacy_audit.devices import draw_permanent, draw_shown
from privacy_audit.location_attacks import attack as attack_change
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from rappor_core.risk import PRIOR, believed
from simulations.outcome import Columns

COLUMNS: Columns = (
    ("mode", "mode", "s"), ("periods", "periods", "d"), ("reports", "reports", "d"),
    ("declared, nats", "declared", ".2f"), ("proven", "bound", ".2f"),
    ("advantage", "advantage", ".3f"), ("at most", "most_advantage", ".3f"),
    ("belief: median", "posterior_median", ".1%"), ("1 in 100", "posterior_99", ".1%"),
    ("largest", "posterior_largest", ".1%"), ("at most ", "posterior_bound", ".1%"),
    ("change, AUC", "change_auc", ".2f"),
)  # fmt: skip

Integers = NDArray[np.int64]

PERIODS = (1, 2, 4, 7, 14, 30, 60, 120, 180, 365)
YEAR, WINDOW = 365, 30
LEVEL = 0.05  # For all lower bounds together
CROWD, MAX_LINKED = 300, 30  # Devices and reports in the attack on changes
PAPER = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=1, prob_f=0.5, prob_p=0.5, prob_q=0.75
)


@dataclass(frozen=True)
class AnswerMode:
    """A mode in which a device answers."""

    name: str
    params: RapporParams
    every: int = 1  # Periods between reports; 0 means one report per lifetime
    lasting: bool = True  # Whether the parameters bound all lifetime reports

    def reports(self, periods: int) -> int:
        """Return the number of reports that a device has sent after some periods."""
        return 1 if self.every == 0 else math.ceil(periods / self.every)

    @property
    def life(self) -> float:
        """Return the nats declared for the reports of one value, inf if unbounded.

        The nats cover a year of reports, or a lifetime if permanent responses limit them."""
        if self.lasting and self.every == 1:
            return self.params.epsilon_infinity
        return self.params.epsilon_n(self.reports(YEAR)) if self.lasting else math.inf


@dataclass(frozen=True)
class Row:
    """The result for one mode after some periods.

    Attributes:
        declared: The declared epsilon of the reports sent so far, in nats.
        life: The declared epsilon of all reports ever sent, in nats; inf if unbounded.
        bound: The lower bound of epsilon that the attack proves (95 % for all rows together).
        reached: The point estimate of that epsilon.
        advantage: The fraction of right guesses minus the fraction of wrong guesses between two
            values.
        advantage_error: The standard error of `advantage`.
        most_advantage: The maximum advantage that `declared` allows.
        posterior_median: The median belief that the device has its value, from a prior of 1 %.
        posterior_99: The 99th percentile of that belief.
        posterior_largest: The largest such belief.
        posterior_bound: The maximum belief that `declared` allows.
        change_auc: How well a change of value is detected from the same number of reports before
            and after (at most 30). A guess has .5; NaN if nothing is sent again.
    """

    mode: str
    periods: int
    reports: int
    declared: float
    life: float
    bound: float
    reached: float
    advantage: float
    advantage_error: float
    most_advantage: float
    posterior_median: float
    posterior_99: float
    posterior_largest: float
    posterior_bound: float
    change_auc: float


def modes() -> list[AnswerMode]:
    """Return the compared modes, of equal lifetime epsilon; the last has no lifetime bound."""
    life, each = PAPER.epsilon_infinity, PAPER.epsilon_one
    windows = math.ceil(YEAR / WINDOW)

    def bits(mechanism: TwoRoundMechanism) -> RapporParams:
        return RapporParams(32, 1, 1, mechanism)

    symbols = RapporParams(8, 1, 1, TwoRoundMechanism.symbols(8, life, each), "symbol")
    return [
        AnswerMode("memo, RAPPOR (h = 2)", PAPER),
        AnswerMode("memo, L-OSUE (h = 1)", bits(TwoRoundMechanism.optimized(life, each))),
        AnswerMode("memo, 8 symbols", symbols),
        AnswerMode("once for life", bits(TwoRoundMechanism.one_shot(life)), every=0),
        AnswerMode("window of 30", bits(TwoRoundMechanism.one_shot(life / windows)), every=WINDOW),
        AnswerMode("fresh noise each time", bits(TwoRoundMechanism.one_shot(each)), lasting=False),
    ]


def longitudinal(
    devices: int,
    rng: np.random.Generator,
    periods: Sequence[int] = PERIODS,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Row]:
    """Attack `devices` devices per mode and number of periods; return a row for each."""
    rows, tried = [], modes()
    level = LEVEL / (len(tried) * len(periods))
    for mode in tried:
        for number in periods:
            rows.append(_row(mode, number, devices, level, rng))
            advance(1)
    return rows


def draw_ratios(
    params: RapporParams, reports: int, devices: int, rng: np.random.Generator
) -> tuple[Floats, Integers]:
    """Return ln P(reports | a) - ln P(reports | b), and which value each device has (0 is a), (n,).

    The values a and b set different bits. The other bits have the same distribution for both values
    and carry no information, so they are not drawn. All symbols are drawn."""
    h = params.num_hashes
    small = params if params.scheme.symbols else params.replace(num_bits=2 * h)
    world = rng.integers(2, size=devices)
    bits_of = np.arange(h)[:, None] + h * world
    counts = draw_shown(draw_permanent(bits_of, small, rng), reports, small, rng)
    masks = np.zeros((2, devices, small.num_bits), dtype=np.uint8)
    masks[0, :, :h], masks[1, :, h : 2 * h] = 1, 1
    return log_likelihood_ratio(small, reports, counts, masks), world


def _row(
    mode: AnswerMode, periods: int, devices: int, level: float, rng: np.random.Generator
) -> Row:
    reports = mode.reports(periods)
    declared = mode.params.epsilon_n(reports)
    ratio, world = draw_ratios(mode.params, reports, devices, rng)
    ratio = np.round(ratio, 9)  # Equal evidence must tie, regardless of summation order
    table = np.stack([ratio, ratio], axis=1).astype(np.float32)
    proved = attack(table, world, declared, level, 0.5)
    right = np.sign(ratio) * np.where(world == 0, 1, -1)
    for_own = ratio * np.where(world == 0, 1, -1)
    posterior = 1 / (1 + (1 - PRIOR) / PRIOR * np.exp(-np.clip(for_own, -700, 700)))
    return Row(
        mode=mode.name,
        periods=periods,
        reports=reports,
        declared=declared,
        life=mode.life,
        bound=proved.bound,
        reached=proved.reached,
        advantage=float(right.mean()),
        advantage_error=float(right.std()) / math.sqrt(devices),
        most_advantage=math.tanh(declared / 2),
        posterior_median=float(np.median(posterior)),
        posterior_99=float(np.quantile(posterior, 0.99)),
        posterior_largest=float(posterior.max()),
        posterior_bound=believed(declared),
        change_auc=_change(mode, reports, rng),
    )


def _change(mode: AnswerMode, reports: int, rng: np.random.Generator) -> float:
    if mode.every == 0:
        return math.nan
    return attack_change(mode.params, min(reports, MAX_LINKED), CROWD, rng).change_auc
