"""What all reports of a device reveal over time, by mode, against the declared epsilon.

An adversary holds every report of a device over T periods, knows its cohort and the parameters, and
asks which of two values it has: likelihood ratios of the declared mechanism, the best there is. All
modes that promise anything for life promise the same: epsilon_infinity of the paper's parameters
(f = .5, h = 2: 4.39 nats), or as much in one report, or split over the windows of a year.
"""

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
LEVEL = 0.05  # of all lower bounds together
CROWD, MAX_LINKED = 300, 30  # devices and reports of the attack on changes
PAPER = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=1, prob_f=0.5, prob_p=0.5, prob_q=0.75
)


@dataclass(frozen=True)
class AnswerMode:
    """How a device answers. every: periods between reports, 0 for one report for life.

    lasting: whether the parameters bound all reports of a value for life.
    """

    name: str
    params: RapporParams
    every: int = 1
    lasting: bool = True

    def reports(self, periods: int) -> int:
        """Return the number of reports that a device has sent after some periods."""
        return 1 if self.every == 0 else math.ceil(periods / self.every)

    @property
    def life(self) -> float:
        """Nats: declared for all reports of one value in a year and for life; inf where not."""
        if self.lasting and self.every == 1:
            return self.params.epsilon_infinity
        return self.params.epsilon_n(self.reports(YEAR)) if self.lasting else math.inf


@dataclass(frozen=True)
class Row:
    """The result for one mode after some periods.

    declared: epsilon of the reports sent, nats; life: of all that are ever sent.  bound: lower
    bound of epsilon that the attack proves (95 % for all rows together); reached: its estimate.
    advantage: of the best guess between two values, share right less share wrong, with its error;
    most_advantage: what `declared` allows.  posterior_*: belief that the device has the value that
    it has, from a prior of 1 %: median, 99th percentile, largest; posterior_bound: most that
    `declared` allows.  change_auc: how well a change of value is seen, from as many reports
    before and after (30 at most); .5 is a guess, NaN where nothing is sent again.
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
    """At equal epsilon for life, but for the last, which promises none."""
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
    """Attack `devices` devices of each mode after each number of periods."""
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
    """ln P(reports | a) - ln P(reports | b), and which of both a device has (0 is a), (n,) each.

    The values a and b set different bits. The other bits have the same law for both and tell
    nothing: they are not drawn. Symbols are drawn all.
    """
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
    ratio = np.round(ratio, 9)  # equal evidence must tie, whatever the order of its sums
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
