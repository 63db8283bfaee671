"""The sums over trials for the noise tests, small enough to send from a worker process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privacy_audit.black_box.bounds import bennett_p_value
from privacy_audit.black_box.observations import Observations, shown_counts
from privacy_audit.devices import Floats
from rappor_core.params import RapporParams

MAX_PAIRED_BITS = 256  # the number of bits whose pairs are examined
MIN_BITS = 16  # the minimum size of a report whose number of ones can show a fault

Masks = NDArray[np.uint8]


@dataclass(frozen=True)
class NoiseSums:
    """The sums for the noise tests, by name; `+` adds the sums of two chunks of trials.

    `reports` is the number of reports per device.
    """

    reports: int
    sums: dict[str, Floats]

    def __add__(self, other: NoiseSums) -> NoiseSums:
        return NoiseSums(
            self.reports, {name: value + other.sums[name] for name, value in self.sums.items()}
        )


def noise_sums(params: RapporParams, trials: Observations) -> NoiseSums:
    """Return the sums from a chunk of trials, for single reports or for series from a device."""
    masks = np.where(trials.world[:, None] == 0, trials.masks[0], trials.masks[1])
    reports = trials.reports.shape[1]
    if reports > 1:
        return NoiseSums(reports, _of_series(params, trials, masks))
    single = trials.reports[:, 0]
    return NoiseSums(1, _of_reports(params, single, masks))


def _of_reports(params: RapporParams, single: Masks, masks: Masks) -> dict[str, Floats]:
    """Return counts of each bit, and sums of products of residuals of two bits or two devices.

    `neighbors` are the products over successive devices.
    """
    residual, spread = residuals(params, single, masks, permanent=False)
    neighbors = (residual[1:] * residual[:-1]).sum()
    sums = {
        "reports": np.array([float(len(single))]),
        "neighbors": np.array([neighbors, product_variance(params, spread[1:], spread[:-1])]),
    }
    if params.scheme.symbols:
        alone = single.sum(axis=1) == 1  # by distance (modulo g) from the device's own symbol
        distance = (single[alone].argmax(axis=1) - masks[alone].argmax(axis=1)) % params.num_bits
        return sums | {"offsets": np.bincount(distance, minlength=params.num_bits).astype(float)}
    few = slice(0, MAX_PAIRED_BITS)
    return (
        sums
        | _ones(params, single[:, None], masks)
        | {
            "set": np.stack([(masks * single).sum(0), masks.sum(0)]).astype(float),
            "clear": np.stack([((1 - masks) * single).sum(0), (1 - masks).sum(0)]).astype(float),
            "products": _squared(residual[:, few]),
            "variances": _squared(spread[:, few]),
        }
    )


def _ones(params: RapporParams, reports: Masks, masks: Masks) -> dict[str, Floats]:
    """Count the reports by the number of set bits of B and of ones shown: (h + 1, k + 1)."""
    if params.num_bits < MIN_BITS or params.scheme.symbols:
        return {}
    wide = params.num_bits + 1
    rows = masks.sum(axis=1, dtype=np.int64)[:, None]
    cells = rows * wide + reports.sum(axis=2, dtype=np.int64)
    counts = np.bincount(cells.ravel(), minlength=(params.num_hashes + 1) * wide)
    return {"ones": counts.reshape(-1, wide).astype(float)}


def _squared(table: Floats) -> Floats:
    narrow = table.astype(np.float32)
    return (narrow.T @ narrow).astype(np.float64)


def residuals(
    params: RapporParams, bits: Masks, masks: Masks, *, permanent: bool
) -> tuple[Floats, Floats]:
    """Return shown bits minus their expected values, and the variance of each, both (n, k).

    If `permanent`, `bits` is a permanent response; otherwise it is a report.
    """
    if_set, if_clear = chances(params, permanent=permanent)
    expected = np.where(masks == 1, if_set, if_clear)
    return np.asarray(bits - expected), np.asarray(expected * (1 - expected))


def chances(params: RapporParams, *, permanent: bool) -> tuple[float, float]:
    """Return P(1 in B') if `permanent`, else P(1 in S), for a set and for a clear bit of B."""
    p1, q1, p2, q2 = params.mechanism.rates
    if permanent:
        return p1, q1
    if not params.scheme.symbols:
        return params.q_star, params.p_star
    others = params.num_bits - 1
    return p1 * p2 + others * q1 * q2, p1 * q2 + q1 * p2 + (others - 1) * q1 * q2


def product_test(
    params: RapporParams,
    first: tuple[Floats, Floats],
    second: tuple[Floats, Floats],
    *,
    permanent: bool,
) -> tuple[float, float]:
    """Test whether two sets of residuals are independent; return z and p-value of their products.

    The test uses Bennett's inequality, because a sum over rarely set bits is far from normal.
    """
    variance = product_variance(params, first[1], second[1])
    z = float((first[0] * second[0]).sum() / np.sqrt(max(variance, 1e-12)))
    return z, bennett_p_value(z, variance, largest_product(params, permanent=permanent))


def largest_product(params: RapporParams, *, permanent: bool) -> float:
    """Return the maximum of one independent term of the sum in `product_test`.

    A term is from one bit or, for symbols, one report (residuals of norm below the root of 2).
    `permanent` selects permanent responses; otherwise reports.
    """
    if params.scheme.symbols:
        return 2.0
    return max(max(chance, 1 - chance) for chance in chances(params, permanent=permanent)) ** 2


def product_variance(params: RapporParams, a: Floats, b: Floats) -> float:
    """Return the variance of the sum of products of independent residuals, from both variances.

    The symbols of one report depend on each other: the covariance is diag(e) - e e', with the
    probabilities e of the symbols, and the variance of a product is the sum of the products of the
    two matrices' elements.
    """
    if not params.scheme.symbols:
        return float((a * b).sum())
    k = params.num_bits
    rest = float(np.median(a[0])) if len(a) else 0.0
    lie = (1 - np.sqrt(max(1 - 4 * rest, 0.0))) / 2
    chance = np.full((2, k), lie)
    chance[[0, 1], [0, 1]] = 1 - (k - 1) * lie
    first, second = (np.diag(e) - np.outer(e, e) for e in chance)
    symbols, others = (np.abs(x - rest).argmax(axis=1) for x in (a, b))
    same = int((symbols == others).sum())
    return float(same * (first**2).sum() + (len(a) - same) * (first * second).sum())


def _of_series(params: RapporParams, trials: Observations, masks: Masks) -> dict[str, Floats]:
    """Return sums that measure how much a device's reports are more alike than declared.

    The result is the number, sum and sum of squares of a figure per device: the products of
    residuals of two different reports, over all bits, minus the covariance from a permanent
    response.
    """
    t, k = trials.reports.shape[1:]
    counts = shown_counts(trials.reports).astype(np.int64)
    p1, q1, p2, q2 = params.mechanism.rates
    if params.scheme.symbols:
        alike = (counts * (counts - 1)).sum(axis=1) / (t * (t - 1))
        squares = p2**2 + (k - 1) * q2**2
        excess = alike - squares
        declared = _variance_of_alike(np.array([p2, *[q2] * (k - 1)]), t) * len(excess)
        return {
            "excess": np.array([len(excess), excess.sum(), (excess**2).sum()]),
            "declared": np.array([declared]),
        }
    p_one, p_zero = chances(params, permanent=False)
    expected = np.where(masks == 1, p_one, p_zero)
    total = counts - t * expected
    alone = counts * (1 - expected) ** 2 + (t - counts) * expected**2
    permanent = np.where(masks == 1, p1 * (1 - p1), q1 * (1 - q1)) * (p2 - q2) ** 2
    excess = ((total**2 - alone) / (t * (t - 1)) - permanent).mean(axis=1)
    sums = {"excess": np.array([len(excess), excess.sum(), (excess**2).sum()])}
    return sums | _ones(params, trials.reports, masks)


def _variance_of_alike(chance: Floats, reports: int) -> float:
    """Return the variance of the fraction of equal pairs among a device's symbols (Hoeffding 1948).

    `chance` is each symbol's probability, given the permanent symbol.
    """
    squares = (chance**2).sum()
    of_one, of_two = (chance**3).sum() - squares**2, squares - squares**2
    return float(2 * (2 * (reports - 2) * of_one + of_two) / (reports * (reports - 1)))


def permanent_table(bits: list[int], num_bits: int) -> Masks:
    """Convert integers of k bits into rows of 0 and 1, (n, k)."""
    width = (num_bits + 7) // 8
    raw = b"".join(number.to_bytes(width, "little") for number in bits)
    table = np.frombuffer(raw, dtype=np.uint8).reshape(len(bits), width)
    return np.unpackbits(table, axis=1, bitorder="little", count=num_bits)


def by_bit(
    params: RapporParams, bits: Masks, before: Masks, chances: tuple[float, float]
) -> Iterator[tuple[float, NDArray[np.bool_], int, int]]:
    """Yield how often `bits` are 1 where `before` is 1, and then where `before` is 0.

    Each of the two items has the declared chance, a mask of its positions (n, k), their number, and
    how many are 1 in `bits`. Symbols have only the first item, from which the second follows.
    """
    for bit, chance in zip((1, 0), chances, strict=True):
        if bit or not params.scheme.symbols:
            mask = before == bit
            yield chance, mask, int(mask.sum()), int(bits[mask].sum())
