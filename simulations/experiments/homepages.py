"""The paper's experiment on home pages (arXiv:1407.6981, section 6), at full size.

It has 12 to 14 million reports, k = 128, h = 2, m = 32, f = .75, p = .5, q = .75, and 8,616
candidates. The paper names 31 pages, the smallest with about 14,000 users. The detections of a rule
depend on the distribution of the shares, which the paper does not state, so four distributions are
drawn. A test at Bonferroni's level has power one half at about 91,000 users, so 14,000 need a
different explanation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from decoder import Candidates, DecodeOptions, decode
from decoder.inference.multiple_testing import decide
from decoder.typing import Flags, Floats
from metric_design.detection import (
    PlanSetting,
    by_itself,
    detectable_share,
    detection,
    information,
    interference,
)
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams
from simulations.outcome import Columns
from simulations.populations.draws import draw_listed

COLUMNS: Columns = (
    ("distribution", "distribution", "s"), ("reports each", "reports_each", "d"),
    ("rule", "rule", "s"), ("held", "held", "d"), ("found", "found", ".1f"),
    ("expected", "expected", ".1f"), ("false", "false", ".1f"),
    ("smallest found, users", "smallest", ",.0f"), ("one error, users", "one_error", ",.0f"),
    ("half power, users", "half_power", ",.0f"),
)  # fmt: skip

REPORTS, CANDIDATES, HELD = 14_000_000, 8_616, 1_000
PAPER_FOUND, PAPER_SMALLEST = 31, 14_000
PARAMS = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=32, prob_f=0.75, prob_p=0.5, prob_q=0.75
)
ALPHA, TWO_ERRORS = 0.05, 2.0
RULES = ("Bonferroni, 5 %", "false discovery rate, 5 %", "two standard errors")
DISTRIBUTIONS = ("Zipf 1", "Zipf 1.5", "60 % on one page", "as the paper shows")


@dataclass(frozen=True)
class Row:
    """The result for one distribution and one rule, as means over runs.

    Attributes:
        reports_each: The number of reports per device, which always has the same page.
        held: The number of pages with users.
        found: The number of detected pages with users.
        false: The number of detected pages without users.
        expected: The detections predicted by `rappor plan`; NaN without a prediction.
        smallest: The number of users of the smallest detected page; NaN if none is detected.
        one_error: The stated standard error of a page's share, as a number of users.
        half_power: The number of users with which a page is detected half of the time.
    """

    distribution: str
    reports_each: int
    rule: str
    runs: int
    held: int
    found: float
    false: float
    expected: float
    smallest: float
    one_error: float
    half_power: float


def shares_of(distribution: str) -> Floats:
    """Return the shares of the candidates, (CANDIDATES,), largest first; most are 0."""
    rank = np.arange(1, HELD + 1)
    weights = rank**-1.5 if distribution == "Zipf 1.5" else 1 / rank
    shares = weights / weights.sum()
    if distribution == "60 % on one page":
        shares = np.concatenate([[0.6], 0.4 * weights[:-1] / weights[:-1].sum()])
    elif distribution == "as the paper shows":  # 31 pages down to .1 %, and one more with the rest
        ratio = (PAPER_SMALLEST / REPORTS / 0.03) ** (1 / (PAPER_FOUND - 1))
        named = 0.03 * ratio ** np.arange(PAPER_FOUND)
        shares = np.concatenate([[1 - named.sum()], named])
    return np.asarray(np.concatenate([shares, np.zeros(CANDIDATES - len(shares))]))


def setting(devices: int, reports_each: int, rule: str) -> PlanSetting:
    """Return a rule's level and number of tests, as a setting of the detection theory."""
    if rule == RULES[2]:
        above_2 = 0.02275  # P(score above 2)
        return PlanSetting(PARAMS, devices, reports_each, 1, above_2, "bonferroni")
    return PlanSetting(PARAMS, devices, reports_each, CANDIDATES, ALPHA, "bonferroni")


def half_power(plan: PlanSetting) -> float:
    """Return how many users a page needs to be detected half of the time, if no other has users."""
    return (detectable_share(plan, 0.5, by_itself(plan)) or 1.0) * plan.devices


def first_order_error(devices: int, reports_each: int) -> float:
    """Return a page's standard error in users, to first order, if no other page has users."""
    return devices / float(np.sqrt(information(setting(devices, reports_each, RULES[0]))))


def homepages(
    runs: int,
    devices: int,
    rng: np.random.Generator,
    repeated: int = 30,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Row]:
    """Draw and decode each distribution `runs` times, the last also with repeated reports."""
    listed = Candidates.from_strings(f"page-{i}.example" for i in range(CANDIDATES))
    positions, rows = listed.positions(PARAMS), list[Row]()
    for name, each in [*((name, 1) for name in DISTRIBUTIONS), (DISTRIBUTIONS[-1], repeated)]:
        shares, accepted, errors = shares_of(name), list[dict[str, Flags]](), []
        for _ in range(runs):
            aggregate, _ = draw_listed(positions, shares, devices, PARAMS, rng, each)
            decided, error = _decided(aggregate, listed, each)
            accepted.append(decided)
            errors.append(error * devices)
            advance(1)
        one_error = float(np.mean(errors))
        rows += [
            _row(name, each, rule, [flags[rule] for flags in accepted], shares, devices, one_error)
            for rule in RULES
        ]
    return rows


def _decided(aggregate: Aggregate, listed: Candidates, each: int) -> tuple[dict[str, Flags], float]:
    options = DecodeOptions(correction="bonferroni", repeats=float(each))
    table = decode(aggregate, listed, options).candidates
    p, fdr = table.p_value, table.local_fdr
    rules = decide(p, fdr, "bonferroni", ALPHA), decide(p, fdr, "bh", ALPHA)
    accepted = [rule.detected for rule in rules] + [table.z > TWO_ERRORS]
    return dict(zip(RULES, accepted, strict=True)), float(np.median(table.std_error))


def _row(
    name: str,
    each: int,
    rule: str,
    accepted: Sequence[Flags],
    shares: Floats,
    devices: int,
    one_error: float,
) -> Row:
    real = shares > 0
    smallest = [float(shares[row & real].min()) * devices for row in accepted if (row & real).any()]
    plan = setting(devices, each, rule)
    expected = float("nan")
    if rule != RULES[1]:
        plain = setting(devices, each, RULES[0])
        tau = interference(plain, shares[real])
        expected = float(detection(plan, shares[real], by_itself(plan, tau)).sum())
    return Row(
        distribution=name,
        reports_each=each,
        rule=rule,
        runs=len(accepted),
        held=int(real.sum()),
        found=float(np.mean([(row & real).sum() for row in accepted])),
        false=float(np.mean([(row & ~real).sum() for row in accepted])),
        expected=expected,
        smallest=float(np.mean(smallest)) if smallest else float("nan"),
        one_error=one_error,
        half_power=float("nan") if rule == RULES[1] else half_power(plan),
    )
