"""Two-sided noise tests: too little noise breaks privacy, too much breaks accuracy."""

from collections.abc import Iterator

import numpy as np
from scipy import stats

from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import (
    Check,
    Smallest,
    bits_off,
    chance_off,
    correlated,
    one_of,
    shifted,
    test,
)
from privacy_audit.black_box.noise_sums import NoiseSums, chances, largest_product
from privacy_audit.devices import Floats
from rappor_core.params import RapporParams

MIN_EXPECTED = 5.0  # the minimum in a cell of a chi-square test
_CELLS = 1e-9
CERTAIN = 1e-7  # a bound below the level of every test


def noise_checks(metric: str, params: RapporParams, sums: NoiseSums, part: str) -> Iterator[Check]:
    """Yield all noise tests for the sums from single reports, or from series of reports."""
    if "ones" in sums.sums:
        yield _ones(metric, params, sums.sums["ones"], part)
    if sums.reports > 1:
        yield _permanence(metric, sums, part)
        return
    largest = largest_product(params, permanent=False)
    if params.scheme.symbols:
        yield _symbols(metric, params, sums.sums["offsets"], part)
    else:
        if_set, if_clear = chances(params, permanent=False)
        yield _bits(metric, "q* of each bit that the value sets", sums.sums["set"], if_set, part)
        yield _bits(metric, "p* of each bit that is not set", sums.sums["clear"], if_clear, part)
        if params.num_bits > 1:
            yield _pairs(metric, sums, largest, part)
    product, variance = sums.sums["neighbors"]
    z = float(product / np.sqrt(max(variance, _CELLS)))
    yield test(
        metric, "devices draw independent noise", part,
        bounds.bennett_p_value(z, float(variance), largest),
        f"reports of successive devices correlate with z = {z:.2f}",
        correlated(sums.sums["reports"].item() * params.num_bits),
    )  # fmt: skip


def _bits(metric: str, what: str, counts: Floats, chance: float, part: str) -> Check:
    """Check P(1) of all bits together and of the worst bit, corrected for their number."""
    ones, total = counts
    used = total > 0
    each = bounds.two_sided(ones[used], total[used], chance)
    together = bounds.two_sided(ones.sum(), total.sum(), chance)
    p_value = min(float(each.min(initial=1.0)) * max(len(each), 1), float(together)) * 2
    rate = ones.sum() / max(total.sum(), 1)
    worst = int(np.flatnonzero(used)[each.argmin()]) if len(each) else 0
    return test(
        metric, what, part, p_value,
        f"{rate:.5f} over {total.sum():,.0f} bits, declared {chance:.5f}; "
        f"bit {worst} is furthest off: {ones[worst] / max(total[worst], 1):.5f}",
        bits_off(chance, total, 1),
    )  # fmt: skip


def _ones(metric: str, params: RapporParams, counts: Floats, part: str) -> Check:
    """Check the reports with the fewest and most ones, to detect even one bare report in 100,000.

    `counts` are from `NoiseSums`, by the number of bits that the value sets. The bound holds even
    if reports are dependent, such as reports from one device.
    """
    chance, k = chances(params, permanent=False), params.num_bits
    p_value, text = 1.0, "no reports"
    used = np.flatnonzero(counts.sum(axis=1))
    for size in used.tolist():
        ones, others = (np.arange(n + 1) for n in (size, k - size))
        law = np.convolve(
            stats.binom.pmf(ones, size, chance[0]), stats.binom.pmf(others, k - size, chance[1])
        )
        counts_seen = np.flatnonzero(counts[size])
        fewest, most = int(counts_seen[0]), int(counts_seen[-1])
        tail = min(law[: fewest + 1].sum(), law[most:].sum())
        bound = float(2 * len(used) * counts[size].sum() * tail)
        if bound < p_value or text == "no reports":
            p_value = min(p_value, bound)
            text = (
                f"{fewest} to {most} ones in {counts[size].sum():,.0f} reports, "
                f"{(np.arange(k + 1) * law).sum():.1f} expected"
            )
    return test(
        metric, "no report has too few or too many ones", part, p_value, text,
        _smallest_bare(params, counts),
    )  # fmt: skip


def _smallest_bare(params: RapporParams, counts: Floats) -> Smallest:
    size = int(counts.sum(axis=1).argmax())
    p, q = chances(params, permanent=False)
    law = p**size * (1 - q) ** (params.num_bits - size)
    reports = float(counts.sum())
    rare = reports * law < CERTAIN
    return one_of(reports if rare else 0, "reports that leave without noise")


def _pairs(metric: str, sums: NoiseSums, largest: float, part: str) -> Check:
    """Check the two bits with the most dependent noise; `largest` bounds a product of residuals."""
    products, variances = sums.sums["products"], sums.sums["variances"]
    z = products / np.sqrt(np.maximum(variances, _CELLS))
    upper = np.triu_indices(len(z), 1)
    worst = int(np.abs(z[upper]).argmax())
    z_worst = float(z[upper][worst])
    return test(
        metric, "the noise of two bits is independent", part,
        bounds.bennett_p_value(z_worst, float(variances[upper][worst]), largest) * len(upper[0]),
        f"bits {upper[0][worst]} and {upper[1][worst]} correlate most, with z = {z_worst:.2f} "
        f"among {len(upper[0]):,} pairs",
        correlated(sums.sums["reports"].item(), len(upper[0])),
    )  # fmt: skip


def _symbols(metric: str, params: RapporParams, counts: Floats, part: str) -> Check:
    """Check that reports show the device's symbol as often as declared, others equally often."""
    same, other = chances(params, permanent=False)
    expected = np.array([same] + [other] * (params.num_bits - 1))
    p_value = chi_square(counts, expected * counts.sum())
    return test(
        metric, "each symbol has its declared probability", part, p_value,
        f"the true symbol {counts[0] / max(counts.sum(), 1):.5f} of {counts.sum():,.0f}, "
        f"declared {same:.5f}", chance_off(same, float(counts.sum()), "of a symbol's chance"),
    )  # fmt: skip


def _permanence(metric: str, sums: NoiseSums, part: str) -> Check:
    number, total, squares = sums.sums["excess"]
    mean = total / number
    spread = squares / number - mean**2
    if "declared" in sums.sums:  # a few devices may all show the same symbol
        spread = max(spread, float(sums.sums["declared"][0]) / number)
    error = np.sqrt(max(spread, 1e-30) / number)
    t = mean / error
    return test(
        metric,
        f"{sums.reports} reports of a device share one permanent response, and nothing else",
        part, bounds.student_p_value(t, int(number)),
        f"their covariance is off by {mean:+.6f}, {t:.2f} standard errors",
        shifted(float(error), "of covariance"),
    )  # fmt: skip


def chi_square(counts: Floats, expected: Floats) -> float:
    """Return the p-value of Pearson's test, with small neighboring cells joined."""
    joined, expectations = [0.0], [0.0]
    for count, chance in zip(counts, expected, strict=True):
        if expectations[-1] >= MIN_EXPECTED:
            joined.append(0.0)
            expectations.append(0.0)
        joined[-1] += count
        expectations[-1] += chance
    if len(joined) > 1 and expectations[-1] < MIN_EXPECTED:
        joined[-2] += joined.pop()
        expectations[-2] += expectations.pop()
    if len(joined) < 2:
        return 1.0
    statistic = sum((s - w) ** 2 / w for s, w in zip(joined, expectations, strict=True))
    return float(stats.chi2.sf(statistic, len(joined) - 1))
